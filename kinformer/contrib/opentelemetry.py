"""Metrics and spans for OpenTelemetry: ``pip install 'kinformer[opentelemetry]'``.

::

    async with SharedInformerFactory(client, metrics=OpenTelemetryMetrics()) as factory:
        factory.for_resource("v1/pods").add_event_handler(traced(Handler(), resource="v1/pods"))

The metrics are described in ``docs/metrics.md``. Their names have no suffix `_total`, which exporters add.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, TypeVar, cast
from urllib.parse import urlencode, urlsplit

from kinformer import APIError, GroupVersionResource, KubeObject
from kinformer._lazy import needs_extra
from kinformer.metrics import MetricFamily
from kinformer.objects.requests.path import RequestPath

with needs_extra("opentelemetry", "opentelemetry"):
    from opentelemetry import metrics, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from opentelemetry.trace import NonRecordingSpan, SpanKind, StatusCode, Tracer

__all__ = ["OpenTelemetryMetrics", "traced", "traced_reconcile", "traced_requests"]

R = TypeVar("R")
Read = Callable[[str], Iterable[MetricFamily]]

_NAME = "kinformer"
_SHOWN = ("fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch", "watch")
_VERBS = {"POST": "create", "PUT": "update"}
_ONE_COLLECTION = 0.05  # seconds. The SDK reads metrics one by one, but informers return all at once


class OpenTelemetryMetrics:
    """A sink for `metrics=` of factories, informers, queues and controllers. See `kinformer.Metrics`.

    Values are read when the SDK collects. An instrument exists as long as its meter, because OpenTelemetry cannot
    remove one. After its informer has ended, it yields no more observations.

    Args:
        meter: The meter for the instruments. By default, the global provider's meter named "kinformer".
    """

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter or metrics.get_meter(_NAME)
        self._made: dict[str, Any] = {}
        self._gauges: dict[str, dict[tuple[tuple[str, str], ...], Callable[[], float]]] = {}
        self._owners: dict[str, Read] = {}
        self._read_at = 0.0  # when an instrument was the first of a collection, and read all owners
        self._readings: dict[str, list[MetricFamily]] = {}  # of that collection, by metric

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """See `kinformer.Metrics`."""
        if name not in self._made:
            self._made[name] = self._meter.create_counter(_bare(name), description=text)
        attributes, made = dict(labels), self._made[name]
        made.add(0, attributes)  # exported from 0, not only from the first event
        return lambda amount: made.add(amount, attributes)

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """See `kinformer.Metrics`."""
        if name not in self._made:
            self._made[name] = self._meter.create_histogram(
                name, unit=_unit(name), description=text, explicit_bucket_boundaries_advisory=list(buckets)
            )
        attributes, made = dict(labels), self._made[name]
        return lambda amount: made.record(amount, attributes)

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """See `kinformer.Metrics`."""
        if name not in self._gauges:
            self._gauges[name] = {}
            callback = partial(self._observe_gauge, name)
            self._made[name] = self._meter.create_observable_gauge(name, [callback], unit=_unit(name), description=text)
        series, place = self._gauges[name], tuple(sorted(labels.items()))
        series[place] = read

        def end() -> None:
            if series.get(place) is read:
                del series[place]

        return end

    def collector(self, owner: str, read: Read) -> Callable[[], None]:
        """See `kinformer.Metrics`."""
        name, number = owner, 2
        while name in self._owners:
            name, number = f"{owner}#{number}", number + 1
        self._owners[name] = read
        self._read_at = 0.0
        for reading in read(name):
            self._make(reading)

        def end() -> None:
            self._owners.pop(name, None)
            self._read_at = 0.0

        return end

    # --- the callbacks of each collection ----------------------------------------------------------------

    def _make(self, reading: MetricFamily) -> None:
        if reading.name not in self._made:
            callback = partial(self._observe, reading.name)
            counts = reading.kind == "counter"
            make = self._meter.create_observable_counter if counts else self._meter.create_observable_gauge
            name, unit = _bare(reading.name), _unit(reading.name)
            self._made[reading.name] = make(name, [callback], unit=unit, description=reading.text)

    def _observe_gauge(self, name: str, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(read(), dict(place)) for place, read in list(self._gauges[name].items())]

    def _observe(self, name: str, _: CallbackOptions) -> Iterable[Observation]:
        if time.monotonic() - self._read_at > _ONE_COLLECTION:
            self._readings = {}
            for owner, read in list(self._owners.items()):
                for reading in read(owner):
                    self._readings.setdefault(reading.name, []).append(reading)
            self._read_at = time.monotonic()
        return [
            Observation(figure, dict(zip(reading.labels, values, strict=True)))
            for reading in self._readings.get(name, ())
            for values, figure in reading.values
        ]


def _bare(name: str) -> str:
    return name.removesuffix("_total")


def _unit(name: str) -> str:
    return "s" if name.endswith("_seconds") else "By" if "_bytes" in name else ""


# --- spans --------------------------------------------------------------------------------------------------------


def traced(handler: R, *, resource: str, tracer: Tracer | None = None) -> R:
    """Return a handler whose calls are spans: ``v1/pods UPDATED``, with the object's namespace, name, uid and version.

    An exception of the handler is recorded in the span and propagates to the informer, which counts and logs it.

    Args:
        handler: An object with some of `on_add`, `on_update` and `on_delete`, as plain or coroutine functions.
        resource: The name of the informer's resource in the spans.
        tracer: By default, the global provider's tracer named "kinformer".
    """
    # The informer sees the same handler methods with the same signatures.
    return cast("R", _Traced(handler, resource, tracer or trace.get_tracer(_NAME)))


class _Traced:
    def __init__(self, handler: Any, resource: str, tracer: Tracer) -> None:
        self._resource = resource
        self._tracer = tracer
        for method, kind in (("on_add", "ADDED"), ("on_update", "UPDATED"), ("on_delete", "DELETED")):
            function = getattr(handler, method, None)
            if function is not None:
                setattr(self, method, self._wrap(function, kind))
        self.__qualname__ = getattr(handler, "__qualname__", type(handler).__qualname__)

    def _wrap(self, function: Callable[..., Any], kind: str) -> Callable[..., Awaitable[None]]:
        @functools.wraps(function)  # the informer inspects the signature for the flags that the handler accepts
        async def call(*objects: KubeObject, **flags: Any) -> None:
            attributes = _attributes(self._resource, objects[-1])
            with self._tracer.start_as_current_span(f"{self._resource} {kind}", attributes=attributes):
                result = function(*objects, **flags)
                if inspect.isawaitable(result):
                    await result

        return call


def _attributes(resource: str, obj: KubeObject) -> dict[str, str]:
    named = _named(resource, obj.namespace, obj.name)
    return {**named, "k8s.object.uid": obj.uid, "k8s.object.resource_version": obj.resource_version}


def _named(resource: str, namespace: str, name: str) -> dict[str, str]:
    named = {"kinformer.resource": resource, "k8s.namespace.name": namespace, "k8s.object.name": name}
    return {attribute: value for attribute, value in named.items() if value}


Measure = Callable[[str, str, str, Mapping[str, str]], AbstractContextManager[Callable[[int], None]]]


def traced_requests(tracer: Tracer | None = None) -> Measure:
    """Return a value for `trace=` of a client, by which its requests are spans: ``Client(trace=traced_requests())``.

    ::

        client = Client(trace=traced_requests())

    Lists and watches of informers are among them. The names have the verbs of the API: ``list v1/pods``, ``watch
    v1/pods``, ``patch apps/v1/deployments/status``. A span ends with the body, so that of a watch lasts as long as the
    watch. A retried request has a span for each attempt. The attributes are OpenTelemetry's for HTTP clients, and those
    of `traced`. In `url.full`, the values of all parameters but those of a list are REDACTED. A span is a child of the
    current one, such as that of a reconcile, unless that has ended.

    Args:
        tracer: By default, the global provider's tracer named "kinformer".
    """
    return partial(_request, tracer or trace.get_tracer(_NAME))


@contextmanager
def _request(
    tracer: Tracer, method: str, server: str, path: str, params: Mapping[str, str]
) -> Iterator[Callable[[int], None]]:
    url, target, name = urlsplit(server), RequestPath.of(path), method
    query = urlencode([(option, value if option in _SHOWN else "REDACTED") for option, value in params.items()])
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "url.full": f"{server}{path}?{query}".removesuffix("?"),
        "server.address": url.hostname or "",
        "server.port": url.port or (443 if url.scheme == "https" else 80),
    }
    if target is not None:
        verb = _VERBS.get(method, method.lower())
        if method == "GET" and not target.name:
            verb = "watch" if "watch" in params else "list"
        resource = str(GroupVersionResource(target.group, target.version, target.resource))
        name = f"{verb} {resource}/{target.subresource}".removesuffix("/")
        attributes |= _named(resource, target.namespace, target.name)
    current = trace.get_current_span()
    is_over = not current.is_recording() and not isinstance(current, NonRecordingSpan)
    context = Context() if is_over else None  # an informer outlives the request that asked for it
    span = tracer.start_span(name, context, SpanKind.CLIENT, attributes)
    try:
        yield partial(span.set_attribute, "http.response.status_code")
    except Exception as error:
        span.set_attribute("error.type", str(error.status) if isinstance(error, APIError) else type(error).__name__)
        span.set_status(StatusCode.ERROR, str(error))
        raise
    finally:
        span.end()


def traced_reconcile(
    reconcile: Callable[[Any], Awaitable[R]], *, name: str = "reconcile", tracer: Tracer | None = None
) -> Callable[[Any], Awaitable[R]]:
    """Return a reconcile whose runs are spans, with the request's namespace and name.

    Args:
        reconcile: As for `Controller`.
        name: The name of the spans.
        tracer: By default, the global provider's tracer named "kinformer".
    """
    used = tracer or trace.get_tracer(_NAME)

    @functools.wraps(reconcile)
    async def run(request: Any) -> R:
        attributes = {"k8s.namespace.name": request.namespace, "k8s.object.name": request.name}
        with used.start_as_current_span(name, attributes=attributes):
            return await reconcile(request)

    return run
