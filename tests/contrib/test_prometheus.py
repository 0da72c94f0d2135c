"""The metrics of informers and queues for Prometheus, at no cost while events come in."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from kinformer import Backoff, SharedInformer, SharedInformerFactory
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.exceptions import APIError, ConnectError, ForbiddenError
from kinformer.metrics import MetricFamily, Metrics
from kinformer.testing import APIServer, faults
from kinformer.workqueue import RateLimitingQueue, WorkQueue
from tests.support.kube import config_map
from tests.support.log_records import Said, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

CONFIG_MAPS = {"resource": "v1/configmaps"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map(f"map-{number}") for number in range(3)]


async def test_an_informers_cache_events_and_health_are_exported(
    server: APIServer, registry: CollectorRegistry
) -> None:
    value = registry.get_sample_value
    async with (
        server.client() as client,
        SharedInformerFactory(client, metrics=PrometheusMetrics(registry)) as factory,
    ):
        maps = factory.for_resource("v1/configmaps")
        assert value("kinformer_live", CONFIG_MAPS) == 0
        assert value("kinformer_synced", CONFIG_MAPS) == 0
        assert value("kinformer_state", CONFIG_MAPS | {"state": "starting"}) == 1
        await factory.wait_for_cache_sync(timeout=10)
        made = server.create(config_map("late"))
        server.update(made | {"data": {"a": "b"}})
        server.delete("v1/configmaps", "default", "map-0")
        await until(lambda: maps.statistics().events.get("DELETED") == 1)
        assert value("kinformer_objects", CONFIG_MAPS) == 3
        assert value("kinformer_events_total", CONFIG_MAPS | {"type": "ADDED"}) == 4
        assert value("kinformer_events_total", CONFIG_MAPS | {"type": "UPDATED"}) == 1
        assert value("kinformer_events_total", CONFIG_MAPS | {"type": "DELETED"}) == 1
        assert value("kinformer_live", CONFIG_MAPS) == 1
        assert value("kinformer_synced", CONFIG_MAPS) == 1
        assert value("kinformer_state", CONFIG_MAPS | {"state": "watching"}) == 1
        assert value("kinformer_state", CONFIG_MAPS | {"state": "forbidden"}) == 0
        assert value("kinformer_watches_total", CONFIG_MAPS) == 1
        assert value("kinformer_queue_depth", CONFIG_MAPS) == 0
        assert value("kinformer_received_bytes_total", CONFIG_MAPS) > 500
        assert 0 <= value("kinformer_last_event_age_seconds", CONFIG_MAPS) < 10
        stored = sum(len(obj.raw) for obj in maps.lister)
        assert stored < value("kinformer_cache_bytes", CONFIG_MAPS) < stored + 3 * 1000
    assert value("kinformer_objects", CONFIG_MAPS) is None, "what has been left is exported no more"


async def test_why_it_listed_anew_and_why_a_watch_ended_are_told_apart(
    server: APIServer, registry: CollectorRegistry
) -> None:
    value = registry.get_sample_value
    metrics = PrometheusMetrics(registry)
    async with (
        server.client() as client,
        SharedInformerFactory(client, metrics=metrics, backoff=Backoff(initial=0.01, maximum=0.02)) as factory,
    ):
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        await until(lambda: maps.health().state == "watching")
        with_fault = server.faults.add(faults.expired(), verb="watch", times=1)
        await server.restart()
        await until(lambda: with_fault.hits and maps.health().live)
        assert value("kinformer_relists_total", CONFIG_MAPS | {"cause": "expired"}) == 1
        assert value("kinformer_failures_total", CONFIG_MAPS | {"cause": "expired"}) >= 1
        ends = maps.statistics().watch_restarts
        assert sum(ends.values()) >= 1
        for cause, count in ends.items():
            assert value("kinformer_watch_restarts_total", CONFIG_MAPS | {"cause": cause}) == count


async def test_a_permission_that_is_revoked_shows_at_once(registry: CollectorRegistry) -> None:
    value = registry.get_sample_value
    users, rules = {"t": "reader"}, [("reader", "*", "v1/configmaps")]
    async with (
        APIServer(users=users, rules=rules) as server,
        server.client("reader") as client,
        SharedInformerFactory(
            client, metrics=PrometheusMetrics(registry), backoff=Backoff(initial=0.01, maximum=0.02)
        ) as factory,
    ):
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        server.faults.add(faults.status(403))
        await server.restart()
        await until(lambda: maps.health().state == "forbidden")
        assert value("kinformer_live", CONFIG_MAPS) == 0
        assert value("kinformer_synced", CONFIG_MAPS) == 1
        assert value("kinformer_state", CONFIG_MAPS | {"state": "forbidden"}) == 1
        assert value("kinformer_failures_total", CONFIG_MAPS | {"cause": "forbidden"}) >= 1
        assert value("kinformer_consecutive_failures", CONFIG_MAPS) >= 1


async def test_handlers_show_what_waits_for_them_and_how_long_they_take(registry: CollectorRegistry) -> None:
    source = MemorySource()
    for number in range(5):
        source.set(f"map-{number}")
    may_go_on = asyncio.Event()
    informer = SharedInformer(source, metrics=PrometheusMetrics(registry))

    async def slow(obj: object) -> None:
        await may_go_on.wait()

    informer.add_event_handler(on_add=slow, name="slow")
    labels = CONFIG_MAPS | {"handler": "slow"}
    async with informer:
        await informer.wait_synced(5)
        await until(lambda: registry.get_sample_value("kinformer_handler_pending", labels) == 4)
        may_go_on.set()
        await informer.wait_handlers_synced()
        assert registry.get_sample_value("kinformer_handler_pending", labels) == 0
        assert registry.get_sample_value("kinformer_handler_duration_seconds_count", labels) == 5
        first = registry.get_sample_value("kinformer_handler_duration_seconds_sum", labels)
        assert first is not None
        assert first > 0
        whole = registry.get_sample_value("kinformer_handler_duration_seconds_bucket", labels | {"le": "+Inf"})
        assert whole == 5


async def test_two_informers_of_one_resource_are_two_series(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    async with SharedInformer(MemorySource(), metrics=metrics) as one:
        other_source = MemorySource()
        other_source.set("a")
        async with SharedInformer(other_source, metrics=metrics) as other:
            await one.wait_synced(5)
            await other.wait_synced(5)
            assert registry.get_sample_value("kinformer_objects", CONFIG_MAPS) == 0
            assert registry.get_sample_value("kinformer_objects", {"resource": "v1/configmaps#2"}) == 1
        assert registry.get_sample_value("kinformer_objects", {"resource": "v1/configmaps#2"}) is None
        assert registry.get_sample_value("kinformer_objects", CONFIG_MAPS) == 0


async def test_what_handlers_take_is_of_their_own_informer_and_ends_with_it(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    calls = "kinformer_handler_duration_seconds_count"
    first, second = {**CONFIG_MAPS, "handler": "count"}, {"resource": "v1/configmaps#2", "handler": "count"}
    source = MemorySource()
    source.set("a")
    source.set("b")
    one, other = SharedInformer(MemorySource(), metrics=metrics), SharedInformer(source, metrics=metrics)
    for informer in (one, other):
        informer.add_event_handler(on_add=lambda obj: None, name="count")
    async with one:
        async with other:
            await other.wait_handlers_synced()  # nothing has been exported so far
            assert registry.get_sample_value(calls, first) is None
            assert registry.get_sample_value(calls, second) == 2
        assert registry.get_sample_value(calls, second) is None
        async with SharedInformer(source, metrics=metrics) as again:
            registration = again.add_event_handler(on_add=lambda obj: None, name="count")
            await registration.wait_synced()
            assert registry.get_sample_value(calls, second) == 2
            await again.remove_event_handler(registration)
    assert b"handler_duration_seconds_count{" not in generate_latest(registry)


async def test_queues_keep_the_fields_names(registry: CollectorRegistry) -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(name="pods", metrics=PrometheusMetrics(registry))
    queue.add("a")
    queue.add("b")
    value, labels = registry.get_sample_value, {"name": "pods"}
    assert value("workqueue_adds_total", labels) == 2
    assert value("workqueue_depth", labels) == 2
    key = await queue.get()
    assert value("workqueue_queue_duration_seconds_count", labels) == 1
    queue.done(key)
    assert value("workqueue_work_duration_seconds_count", labels) == 1
    assert value("workqueue_depth", labels) == 1
    assert value("workqueue_retries_total", labels) == 0
    queue.done(await queue.get())
    queue.shut_down()
    assert value("workqueue_depth", labels) is None, "the gauges of a queue that has ended are gone"
    assert value("workqueue_adds_total", labels) == 2, "its counters stay"


async def test_what_is_exported_parses_strictly(server: APIServer, registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    WorkQueue(name="q", metrics=metrics)
    async with server.client() as client, SharedInformerFactory(client, metrics=metrics) as factory:
        informer = factory.for_resource("v1/configmaps")
        informer.add_event_handler(on_add=lambda obj: None, name="h")
        await factory.wait_for_cache_sync(timeout=10, handlers=True)
        families = list(parse_openmetrics(generate_openmetrics(registry).decode()))  # raises where a name is twice
        names = {family.name for family in families}
        assert {
            "kinformer_objects",
            "kinformer_events",
            "workqueue_adds",
            "kinformer_handler_duration_seconds",
        } <= names
        for family in families:
            assert family.documentation, family.name
        assert b"kinformer_objects{" in generate_latest(registry)


async def test_an_export_may_come_from_a_thread_while_events_come_in(registry: CollectorRegistry) -> None:
    source = MemorySource()
    stop = threading.Event()
    exports: list[bytes] = []

    def scrape() -> None:
        while not stop.is_set():
            exports.append(generate_latest(registry))

    async with SharedInformer(source, metrics=PrometheusMetrics(registry)) as informer:
        informer.add_event_handler(on_add=lambda obj: None)
        await informer.wait_synced(5)
        thread = threading.Thread(target=scrape)
        thread.start()
        try:
            for number in range(2000):
                source.set(f"map-{number}")
                if number % 100 == 0:
                    await asyncio.sleep(0.005)
            await until(lambda: len(informer.lister) == 2000)
        finally:
            stop.set()
            await asyncio.to_thread(thread.join)
    assert exports
    assert registry.get_sample_value("kinformer_metrics_errors_total") == 0


def test_one_owner_that_cannot_be_read_hides_no_other(
    registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    metrics = PrometheusMetrics(registry)

    def broken() -> float:
        raise RuntimeError("no figures today")

    def good(label: str) -> list[MetricFamily]:
        return [MetricFamily(name="kinformer_x", text="x", kind="gauge", labels=("resource",), values=[((label,), 7)])]

    metrics.gauge("kinformer_broken", "broken", {}, broken)
    metrics.collector("v1/pods", good)
    assert b'kinformer_x{resource="v1/pods"} 7.0' in generate_latest(registry)
    assert said(caplog, "unreadable")[0] == Said("ERROR", "kinformer.metrics", "kinformer_broken")
    assert "no figures today" in caplog.text  # in the traceback
    assert registry.get_sample_value("kinformer_metrics_errors_total") >= 1


def test_a_sink_is_registered_once_and_can_be_taken_back(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    assert isinstance(metrics, Metrics)
    with pytest.raises(ValueError, match="kinformer_objects"):
        PrometheusMetrics(registry)
    metrics.close()
    PrometheusMetrics(registry)


def test_the_labels_of_a_name_do_not_change(registry: CollectorRegistry) -> None:
    metrics = PrometheusMetrics(registry)
    metrics.counter("things_total", "things", {"name": "a"})(2)
    metrics.counter("things_total", "things", {"name": "a"})(3)
    assert registry.get_sample_value("things_total", {"name": "a"}) == 5
    with pytest.raises(ValueError, match="things_total has the labels name, not other"):
        metrics.counter("things_total", "things", {"other": "a"})


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ForbiddenError(403, "Forbidden"), "forbidden"),
        (APIError(418), "http_418"),
        (ConnectError("no"), "connect"),
        (TimeoutError(), "timeout"),
        (OSError(), "os"),
    ],
)
async def test_a_cause_is_one_word(error: BaseException, cause: str, registry: CollectorRegistry) -> None:
    source = MemorySource()
    source.fail_with = error
    async with SharedInformer(source, metrics=PrometheusMetrics(registry)) as informer:
        await until(lambda: informer.health().last_error is error)
        assert registry.get_sample_value("kinformer_failures_total", CONFIG_MAPS | {"cause": cause}) == 1
