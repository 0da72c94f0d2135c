"""The same metrics for OpenTelemetry, and spans around what handlers and reconciles do."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from kinformer import KubeObject, SharedInformer
from kinformer.contrib.opentelemetry import OpenTelemetryMetrics, traced, traced_reconcile
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.metrics import Metrics
from kinformer.workqueue import RateLimitingQueue
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

CONFIG_MAPS = {"resource": "v1/configmaps"}


class Exported:
    """What an SDK collects."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)
        self.metrics = OpenTelemetryMetrics(self.provider.get_meter("test"))

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        return {
            metric.name: list(metric.data.data_points)
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def value(self, name: str, labels: dict[str, str]) -> float | None:
        return next((p.value for p in self.points().get(name, ()) if dict(p.attributes) == labels), None)


@pytest.fixture
def exported() -> Any:
    found = Exported()
    yield found
    found.provider.shutdown()


async def test_an_informer_is_exported_while_it_lives(exported: Exported) -> None:
    source = MemorySource()
    source.set("a")
    informer = SharedInformer(source, metrics=exported.metrics)
    informer.add_event_handler(on_add=lambda obj: None, name="h")
    async with informer:
        await informer.wait_synced(5)
        await informer.wait_handlers_synced()
        source.set("b")
        await until(lambda: len(informer.lister) == 2)
        await until(lambda: exported.value("kinformer_objects", CONFIG_MAPS) == 2)
        assert exported.value("kinformer_live", CONFIG_MAPS) == 1
        assert exported.value("kinformer_events", CONFIG_MAPS | {"type": "ADDED"}) == 2
        assert exported.value("kinformer_last_event_age_seconds", CONFIG_MAPS) is not None
        (duration,) = exported.points()["kinformer_handler_duration_seconds"]
        assert dict(duration.attributes) == CONFIG_MAPS | {"handler": "h"}
        assert duration.count == 2
    assert exported.value("kinformer_objects", CONFIG_MAPS) is None


async def test_a_queue_is_exported(exported: Exported) -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(name="q", metrics=exported.metrics)
    assert exported.value("workqueue_retries", {"name": "q"}) == 0
    queue.add("a")
    assert exported.value("workqueue_depth", {"name": "q"}) == 1
    queue.done(await queue.get())
    assert exported.value("workqueue_adds", {"name": "q"}) == 1
    queue.shut_down()
    assert exported.value("workqueue_depth", {"name": "q"}) is None


async def test_both_sinks_export_the_same_metrics(exported: Exported) -> None:
    assert isinstance(exported.metrics, Metrics)
    registry = CollectorRegistry()
    names = []
    for metrics in (exported.metrics, PrometheusMetrics(registry)):
        source = MemorySource()
        source.set("a")
        async with SharedInformer(source, metrics=metrics) as informer:
            await informer.wait_synced(5)
            await until(partial(getattr, source, "watches"))
            names.append(set(exported.points()) if not names else {f.name for f in registry.collect() if f.samples})
    assert len(names[0]) > 15
    assert names[0] == names[1] - {"kinformer_metrics_errors"}


@pytest.fixture
def spans() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


async def test_calls_of_a_handler_are_spans(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans
    flags: list[bool] = []

    class Handler:
        async def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
            flags.append(is_in_initial_list)

        def on_delete(self, obj: KubeObject) -> None:
            raise ValueError("no")

    source = MemorySource()
    first = source.set("a")
    informer = SharedInformer(source)
    informer.add_event_handler(traced(Handler(), resource="v1/configmaps", tracer=provider.get_tracer("test")))
    async with informer:
        await informer.wait_synced(5)
        await informer.wait_handlers_synced()
        source.delete("a")
        await until(lambda: informer.statistics().handler_errors == 1)
    added, deleted = exporter.get_finished_spans()
    assert added.name == "v1/configmaps ADDED"
    assert dict(added.attributes or {}) == {
        "kinformer.resource": "v1/configmaps",
        "k8s.namespace.name": "default",
        "k8s.object.name": "a",
        "k8s.object.uid": first.uid,
        "k8s.object.resource_version": first.resource_version,
    }
    assert flags == [True], "the handler still gets the flags that it takes"
    assert deleted.name == "v1/configmaps DELETED"
    assert not deleted.status.is_ok
    assert deleted.events[0].name == "exception"


async def test_runs_of_a_reconcile_are_spans(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans

    class Request(NamedTuple):
        namespace: str
        name: str

    async def reconcile(request: Request) -> str:
        return request.name.upper()

    run = traced_reconcile(reconcile, name="reconcile foo", tracer=provider.get_tracer("test"))
    assert await run(Request("default", "a")) == "A"
    (span,) = exporter.get_finished_spans()
    assert span.name == "reconcile foo"
    assert dict(span.attributes or {}) == {"k8s.namespace.name": "default", "k8s.object.name": "a"}
