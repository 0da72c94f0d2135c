"""Collections whose values a change reaches in many ways: the work grows with the reads, not with the ways.

Each level has two collections that read the level below, and one that reads both. So 16 levels have 65,536 ways from an
object to its last value, over 64 reads. Work is counted in calls of functions of kinformer, not in seconds.

Internals: the yield budget, since work is counted and must not depend on pauses.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import FrameType
from typing import Any

import pytest

from kinformer import (
    ConfigError,
    Controller,
    NotSyncedError,
    Request,
    SharedInformer,
    SharedInformerFactory,
    derive,
    union,
)
from kinformer._runtime.clock import YieldBudget
from kinformer.derived import DerivedCollection, mapped
from tests.support.memory_source import MemorySource
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time

FEW, MANY = 8, 16
GROWTH = 3.0  # of the work from 8 levels to 16, which is about 2; with the square of the levels it would be 4


class Patient(YieldBudget):
    """A budget that is never exhausted, so that the number of steps depends on no clock."""

    def exhausted(self) -> bool:
        return False


@pytest.fixture(autouse=True)
def one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinformer.derived.propagation.YieldBudget", Patient)


class Steps:
    """The number of calls of functions of kinformer."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/kinformer/" in frame.f_code.co_filename:
            self.count += 1


@contextmanager
def counted() -> Iterator[Steps]:
    steps, before = Steps(), sys.getprofile()
    sys.setprofile(steps)
    try:
        yield steps
    finally:
        sys.setprofile(before)


class Diamonds:
    """Levels over an informer with one object."""

    def __init__(self, levels: int, **options: Any) -> None:
        self.source = MemorySource()
        self.source.set("a", data={"v": "0"})
        self.pods: SharedInformer[Any] = SharedInformer(self.source, name="pods", **options)
        self.collections: list[DerivedCollection[Any]] = []
        self.runs = 0
        self.last: Any = mapped(self.pods, lambda pod: pod["data"]["v"], name="values")
        self.collections.append(self.last)
        for level in range(levels):
            self._add_level(level)

    def _add_level(self, level: int) -> None:
        left = mapped(self.last, lambda value: value, name=f"left {level}")
        right = mapped(self.last, lambda value: value, name=f"right {level}")

        def both(value: str, fetch: Any) -> str:
            self.runs += 1
            assert fetch(right, key="default/a") == value
            return value

        self.last = derive(left, both, name=f"both {level}")
        self.collections += [left, right, self.last]

    @asynccontextmanager
    async def entered(self, *, backwards: bool = False) -> AsyncIterator[None]:
        async with self.pods, AsyncExitStack() as stack:
            for one in reversed(self.collections) if backwards else self.collections:
                await stack.enter_async_context(one)
            yield

    async def change(self, to: str) -> None:
        self.source.set("a", data={"v": to})
        await until(lambda: self.last.by_key["default/a"] == to)


@pytest.mark.parametrize("backwards", [False, True], ids=["lowest first", "highest first"])
async def test_a_change_costs_as_much_as_there_are_reads(backwards: bool) -> None:
    steps: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        async with diamonds.entered(backwards=backwards):
            await diamonds.last.wait_synced(60)
            runs = diamonds.runs
            with counted() as counts:
                await diamonds.change("1")
            assert diamonds.runs - runs == levels
            steps[levels] = counts.count
    assert steps[MANY] < GROWTH * steps[FEW], steps


async def test_the_first_sync_costs_as_much_as_there_are_reads() -> None:
    steps: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        with counted() as counts:
            async with diamonds.entered():
                await diamonds.last.wait_synced(60)
                steps[levels] = counts.count
        assert diamonds.runs <= 2 * levels  # once before the right side is complete, and once after it
    assert steps[MANY] < 2 * GROWTH * steps[FEW], steps


async def test_a_relist_holds_back_every_level_and_costs_as_much_as_there_are_reads() -> None:
    steps: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        async with diamonds.entered():
            await diamonds.last.wait_synced(60)
            diamonds.source.set("a", data={"v": "1"})
            diamonds.source.expire()
            with counted() as counts:
                await until(lambda one=diamonds: one.pods.health().relists and one.last.by_key["default/a"] == "1")
            steps[levels] = counts.count
    assert steps[MANY] < GROWTH * steps[FEW], steps


async def test_reports_cost_as_much_as_there_are_reads_and_count_each_informer_once() -> None:
    steps: dict[int, list[int]] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels, metrics=MemoryMetrics())
        async with diamonds.entered():
            await diamonds.last.wait_synced(60)
            diamonds.source.expire()
            await until(lambda one=diamonds: one.pods.health().relists)
            with counted() as counts:
                health = diamonds.last.health()
            assert (health.live, health.relists) == (True, 1)
            steps[levels] = [counts.count]
            with counted() as counts:
                async with mapped(diamonds.last, str) as one_more:
                    await one_more.wait_synced(10)
            steps[levels].append(counts.count)
    for few, many in zip(steps[FEW], steps[MANY], strict=True):
        assert many < GROWTH * few, steps


async def test_the_reason_of_a_long_wait_names_each_collection_once() -> None:
    sizes: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        diamonds.source.hang = True
        async with diamonds.entered():
            with counted() as counts, pytest.raises(NotSyncedError) as caught:
                await diamonds.last.wait_synced(1)
            text = str(caught.value)
            assert f"left {levels - 1}: " in text
            assert "pods: " in text
            assert len(text) < 100 * levels
            sizes[levels] = counts.count
    assert sizes[MANY] < GROWTH * sizes[FEW], sizes


async def test_a_circle_is_found_without_going_every_way() -> None:
    steps: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        everything = union({}, name="everything")
        async with diamonds.entered(), everything:
            everything.add("pods", diamonds.pods)
            with counted() as counts:
                everything.add("last", diamonds.last)
            steps[levels] = counts.count
            assert everything.members == ("pods", "last")
            async with mapped(everything, str, name="above") as above:
                with pytest.raises(ConfigError, match="would read itself: everything reads above reads everything"):
                    everything.add("above", above)
    assert steps[MANY] < GROWTH * steps[FEW], steps


async def test_a_reconcile_waits_for_all_levels_and_costs_as_much_as_there_are_reads() -> None:
    steps: dict[int, int] = {}
    for levels in (FEW, MANY):
        diamonds = Diamonds(levels)
        seen: list[tuple[str, str]] = []

        async def reconcile(request: Request, of: Diamonds = diamonds, into: list[Any] = seen) -> None:
            into.append((of.pods.by_key[request.key]["data"]["v"], of.last.by_key[request.key]))

        async with diamonds.entered():
            running = asyncio.create_task(
                Controller(reconcile).for_(diamonds.pods).watches(diamonds.last, nothing).run()
            )
            await until(lambda into=seen: into)
            diamonds.source.set("a", data={"v": "1"})
            with counted() as counts:
                await until(lambda into=seen: len(into) == 2)
            steps[levels] = counts.count
            running.cancel()
            await asyncio.wait({running})
        assert seen == [("0", "0"), ("1", "1")]
    assert steps[MANY] < GROWTH * steps[FEW], steps


def nothing(_: Any) -> list[str]:
    return []


async def test_a_long_chain_is_no_deeper_than_the_stack() -> None:
    source = MemorySource()
    source.set("a", data={"v": "0"})
    pods: SharedInformer[Any] = SharedInformer(source, name="pods")
    last: Any = pods
    async with pods, AsyncExitStack() as stack:
        for number in range(400):
            last = await stack.enter_async_context(mapped(last, lambda value: value, name=f"link {number}"))
        await last.wait_synced(60)
        source.set("a", data={"v": "1"})
        await until(lambda: last.by_key["default/a"]["data"] == {"v": "1"})
        assert last.health().live
        await settle()


async def test_a_factory_reports_its_diamonds_in_time(caplog: pytest.LogCaptureFixture) -> None:
    diamonds = Diamonds(MANY)
    diamonds.source.hang = True
    factory = SharedInformerFactory(None)  # type: ignore[arg-type]
    async with diamonds.pods, factory:
        for one in diamonds.collections:
            factory.add(one)
        with counted() as counts, pytest.raises(NotSyncedError):
            await factory.wait_for_cache_sync(1)
    assert counts.count < 100_000
