"""The same metrics for OpenTelemetry, and spans around what handlers and reconciles do."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry
from yarl import URL

from kinformer import Client, ConnectError, KubeObject, NotFoundError, SharedInformer, SharedInformerFactory
from kinformer.contrib.opentelemetry import OpenTelemetryMetrics, traced, traced_reconcile, traced_requests
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.metrics import Metrics
from kinformer.testing import APIServer, faults
from kinformer.workqueue import RateLimitingQueue
from tests.support.kube import config_map
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


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_requests_are_spans_with_the_verbs_of_the_api(
    server: APIServer, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans
    tracer = provider.get_tracer("test")
    async with Client.from_url(server.url, trace=traced_requests(tracer)) as client:
        with tracer.start_as_current_span("the program") as own:
            await client.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")})
            await client.patch("v1/configmaps", "default/a", {"data": {"x": "1"}}, dry_run=True)
            with pytest.raises(NotFoundError):
                await client.get("v1/configmaps", "default/b")
            assert [obj.name async for obj in client.list("v1/configmaps", label_selector="!a,!b")] == ["a"]
            await client.text("/readyz")
        await client.delete("v1/configmaps", "default/a")
    by_name = {span.name: span for span in exporter.get_finished_spans()}
    created, deleted = by_name["create v1/configmaps"], by_name["delete v1/configmaps"]
    assert created.kind is SpanKind.CLIENT
    assert created.parent is not None
    assert created.parent.span_id == own.get_span_context().span_id
    assert deleted.parent is None
    place = {"server.address": "127.0.0.1", "server.port": URL(server.url).port}
    named = {"kinformer.resource": "v1/configmaps", "k8s.namespace.name": "default"}
    assert attributes_of(created) == {
        **place,
        **named,
        "http.request.method": "POST",
        "http.response.status_code": 201,
        "url.full": f"{server.url}/api/v1/namespaces/default/configmaps",
    }
    patched = attributes_of(by_name["patch v1/configmaps"])
    assert patched["url.full"].endswith("/configmaps/a?dryRun=REDACTED")
    assert patched["k8s.object.name"] == "a"
    missing = by_name["get v1/configmaps"]
    assert (attributes_of(missing)["error.type"], missing.status.is_ok) == ("404", False)
    listed = attributes_of(by_name["list v1/configmaps"])
    assert listed["url.full"] == f"{server.url}/api/v1/configmaps?labelSelector=%21a%2C%21b&limit=500"
    assert attributes_of(by_name["GET"])["url.full"] == f"{server.url}/readyz"


async def test_lists_and_watches_of_an_informer_are_spans_until_their_end(
    server: APIServer, spans: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    provider, exporter = spans

    def ended(name: str) -> list[ReadableSpan]:
        return [span for span in exporter.get_finished_spans() if span.name == name]

    tracer = provider.get_tracer("test")
    async with Client.from_url(server.url, trace=traced_requests(tracer)) as client:
        async with SharedInformerFactory(client) as factory:
            with tracer.start_as_current_span("a request") as request:
                secrets = factory.for_resource("v1/secrets", watch_list=False)
                await secrets.wait_synced(10)
            await until(lambda: secrets.health().live)
            server.faults.add(faults.expired(), verb="watch", resource="v1/secrets", after_events=1, times=1)
            assert len(ended("list v1/secrets")) == 1
            assert ended("watch v1/secrets") == []
            server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}})
            await until(lambda: len(ended("watch v1/secrets")) == 1)
            await until(lambda: secrets.health().live)
        assert len(ended("watch v1/secrets")) == 2
    (listed, _), (expired, left) = ended("list v1/secrets"), ended("watch v1/secrets")
    assert listed.parent is not None
    assert listed.parent.span_id == request.get_span_context().span_id
    assert left.parent is None, "the span that was current when the informer started has ended"
    assert attributes_of(expired)["error.type"] == "410"
    assert left.status.status_code is StatusCode.UNSET, "leaving is no error"
    assert attributes_of(left)["http.response.status_code"] == 200
    assert "watch=true" in attributes_of(left)["url.full"]
    assert "error.type" not in attributes_of(left)


async def test_a_span_shows_no_token_and_a_server_that_is_not_there_is_an_error(
    spans: tuple[TracerProvider, InMemorySpanExporter],
) -> None:
    provider, exporter = spans
    client = Client.from_url(
        "https://127.0.0.1:1/prefix", token="very-secret", trace=traced_requests(provider.get_tracer("test"))
    )
    async with client:
        with pytest.raises(ConnectError):
            await client.request("PUT", "/api/v1/pods?token=very-secret", params={"continue": "very-secret"}, retries=0)
    (span,) = exporter.get_finished_spans()
    assert span.name == "update v1/pods"
    assert attributes_of(span)["url.full"] == "https://127.0.0.1:1/prefix/api/v1/pods?continue=REDACTED"
    assert attributes_of(span)["error.type"] == "ConnectError"
    assert "very-secret" not in span.to_json()
