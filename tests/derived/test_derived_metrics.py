"""The metrics of derived collections: exported by the sink of what they are made of."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kinformer import SharedInformer, StoppedError, derive, group_by, union
from kinformer.contrib.prometheus import PrometheusMetrics
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle

pytestmark = pytest.mark.virtual_time


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def informer(source: MemorySource, registry: CollectorRegistry | None, name: str = "pods") -> SharedInformer[Any]:
    return SharedInformer(source, name=name, metrics=None if registry is None else PrometheusMetrics(registry))


async def test_what_a_collection_reads_and_does_is_exported_while_it_is_entered(registry: CollectorRegistry) -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    source.set("b", data={"v": "2"})
    place = {"resource": "numbers"}

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kinformer_derived_{name}", place | labels)

    async with informer(source, registry) as pods, informer(source, None, "others") as others:

        def number(pod: Any, fetch: Any) -> int:
            fetch(others, key="default/a")
            return int(pod["data"]["v"])

        async with derive(pods, number, name="numbers") as numbers:
            numbers.add_event_handler(on_add=lambda _: None, on_delete=lambda _: None, name="mine")
            assert value("synced") == 0
            await numbers.wait_synced(10)
            source.set("b", data={"v": "two"})
            await settle()
            assert value("synced") == value("live") == value("objects") == 1
            assert value("reads", source="pods") == value("reads", source="others") == 1
            assert value("dependencies") == 2
            assert value("runs_total") == numbers.statistics().runs >= 3
            assert value("failures_total") == 1
            assert value("waiting") == 0
            assert value("events_total", type="DELETED") == 1
            assert value("handler_pending", handler="mine") == 0
            calls = {"resource": "numbers", "handler": "mine"}
            assert registry.get_sample_value("kinformer_handler_duration_seconds_count", calls) == 3
        assert value("objects") is None, "it has been left"
        assert registry.get_sample_value("kinformer_objects", {"resource": "pods"}) == 2


async def test_the_first_member_of_a_union_may_bring_the_sink(registry: CollectorRegistry) -> None:
    source = MemorySource()
    source.set("a")
    members: dict[str, SharedInformer[Any]] = {}
    async with informer(source, registry) as pods, union(members, name="everywhere") as everywhere:
        assert registry.get_sample_value("kinformer_derived_objects", {"resource": "everywhere"}) is None
        everywhere.add("east", pods)
        await settle()
        assert registry.get_sample_value("kinformer_derived_objects", {"resource": "everywhere"}) == 1


async def test_a_collection_that_could_not_be_entered_is_not_exported(registry: CollectorRegistry) -> None:
    gone, there = informer(MemorySource(), registry, "gone"), informer(MemorySource(), None, "there")
    async with gone:
        await gone.wait_synced(10)
    async with there:
        with pytest.raises(StoppedError):
            async with union(there, gone, name="both"):
                raise AssertionError("it was entered")
    assert registry.get_sample_value("kinformer_derived_objects", {"resource": "both"}) is None


async def test_two_collections_of_one_name_are_told_apart(registry: CollectorRegistry) -> None:
    source = MemorySource()
    source.set("a", data={"v": "1"})
    async with (
        informer(source, registry) as pods,
        group_by(pods, "data.v", name="by v") as first,
        group_by(pods, "data.v", name="by v") as second,
    ):
        await first.wait_synced(10)
        await second.wait_synced(10)
        for name in ("by v", "by v#2"):
            assert registry.get_sample_value("kinformer_derived_objects", {"resource": name}) == 1
