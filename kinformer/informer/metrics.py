"""The statistics and metrics of an informer, and the base class for the metrics of derived collections and fleets.

Nearly all of them are read when the sink exports, from counts that the informer keeps anyway, so a metric costs nothing
while events arrive. The exception is the duration of handler calls. It is measured around each call, but only if there
is a sink. ``docs/metrics.md`` lists the metrics and their use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from kinformer.exceptions import cause_of
from kinformer.metrics import MetricFamily, Metrics, exports, upstream_labels
from kinformer.reflector.health import InformerHealth, State

__all__ = ["HANDLER_BUCKETS", "CollectionMetrics", "InformerMetrics", "InformerStatistics"]

# Seconds. A handler that only fills a queue takes microseconds, one that writes to a server up to a request's timeout.
HANDLER_BUCKETS = (0.00001, 0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)

_PROCESSING_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # as in client-go

Series = Sequence[tuple[tuple[str, ...], float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerStatistics:
    """Counts since the informer started, except that `objects`, `memory`, `queued` and `pending` are current values.

    Attributes:
        objects: Objects in the cache.
        memory: Bytes that the objects in the cache take, estimated from a sample. Not compared.
        queued: Changes that were received and are not in the cache yet. A full list counts as one.
        events: Changes that were applied, by type.
        bytes: Bytes received, before decoding.
        pending: Waiting calls, by the name of the handler.
        coalesced: Calls that were folded into others because a handler was too slow for its `queue_size`.
        handler_errors: Calls of handlers and filters that raised.
        index_errors: Objects left out of an index because its function raised.
        decode_errors: Objects left out because they could not be read.
        transform_errors: Objects left out because the transform failed on them.
        relists: Full lists after the first, by cause (`Reflector.relists`).
        watch_restarts: Watches that ended, by cause (`Reflector.watch_restarts`).
        snapshots: Snapshots by outcome. `saved`, `failed` and `refused` count writes. The one read at the start counts
            as `loaded`, or as the reason why not (docs/snapshots.md has the reasons).
    """

    objects: int = 0
    memory: int = field(default=0, compare=False)
    queued: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    bytes: int = 0
    pending: Mapping[str, int] = field(default_factory=dict)
    coalesced: int = 0
    handler_errors: int = 0
    index_errors: int = 0
    decode_errors: int = 0
    transform_errors: int = 0
    relists: Mapping[str, int] = field(default_factory=dict)
    watch_restarts: Mapping[str, int] = field(default_factory=dict)
    snapshots: Mapping[str, int] = field(default_factory=dict)


class CollectionMetrics(ABC):
    """The metrics of a running informer, derived collection or fleet. Without a sink, nothing is exported.

    Args:
        name: The name of the measured object.
        sink: Returns the sink. It is called until there is one.
        prefix: The prefix of all metric names.
        label: The label that has the name of the measured object.
    """

    def __init__(self, name: str, sink: Callable[[], Metrics | None], prefix: str, *, label: str = "resource") -> None:
        self._sink = sink
        self._name = self._label = name
        self._prefix = prefix
        self._label_name = label
        self._close: Callable[[], None] | None = None

    def start(self) -> None:
        """Export from now on, if there is a sink and the export has not started."""
        if self._close is None and (sink := self._sink()) is not None:
            self._close = sink.collector(self._name, self._labelled)

    def close(self) -> None:
        """Stop exporting."""
        if self._close is not None:
            self._close()
            self._close = None

    def handler(self, name: str) -> Callable[[float], None] | None:
        """Return a function that takes the seconds of each call of a handler, or None without a sink."""
        sink = self._sink()
        if sink is None:
            return None
        made: Callable[[float], None] | None = None

        def observe(seconds: float) -> None:
            nonlocal made
            if made is None:  # not before the start, which determines the label
                labels = {"resource": self._label, "handler": name}
                description = "Seconds that calls of a handler take"
                made = sink.histogram("kinformer_handler_duration_seconds", description, labels, HANDLER_BUCKETS)
            made(seconds)

        return observe

    # --- readings at each export ---------------------------------------------------------------------------

    def _labelled(self, label: str) -> Iterator[MetricFamily]:
        self._label = label
        return self._read()

    @abstractmethod
    def _read(self) -> Iterator[MetricFamily]:
        """Read all metrics."""

    def _one(self, name: str, text: str, value: float | None) -> MetricFamily:
        # Without a value, the metric is exported without a series.
        return self._reading(name, text, (), [] if value is None else [((), value)])

    def _several(self, name: str, text: str, label: str, of: Mapping[str, float]) -> MetricFamily:
        return self._reading(name, text, (label,), [((value,), figure) for value, figure in of.items()])

    def _reading(self, name: str, text: str, labels: tuple[str, ...], values: Series) -> MetricFamily:
        return MetricFamily(
            name=f"{self._prefix}{name}",
            text=text,
            kind="counter" if name.endswith("_total") else "gauge",
            labels=(self._label_name, *labels),
            values=[((self._label, *more), float(figure)) for more, figure in values],
        )


class InformerMetrics(CollectionMetrics):
    """The metrics of one informer.

    Args:
        name: The name of the informer.
        sink: The sink, or None to export nothing.
        health, statistics: Return the informer's health and statistics, in any thread. They are called only between
            `start` and `close`.
    """

    def __init__(
        self,
        name: str,
        sink: Metrics | None,
        health: Callable[[], InformerHealth],
        statistics: Callable[[], InformerStatistics],
    ) -> None:
        super().__init__(name, lambda: sink, "kinformer_")
        self._health = health
        self._statistics = statistics
        self._failures: Counter[str] = Counter()

    def processing(self) -> Callable[[float], None] | None:
        """Return a function that takes the seconds in which a batch of changes is applied, or None if none wants it.

        Most sinks do not, because it is measured for each event.
        """
        sink = self._sink()
        name = "informer_processing_latency_seconds"
        if sink is None or not exports(sink, name):
            return None
        message = "Seconds from taking changes from the queue until they are applied and handed to the handlers"
        return sink.histogram(name, message, upstream_labels(self._label), _PROCESSING_BUCKETS)

    def failed(self, error: BaseException) -> None:
        """Count a failed request or stream."""
        self._failures[cause_of(error)] += 1

    def _read(self) -> Iterator[MetricFamily]:
        health, figures = self._health(), self._statistics()
        plain = self._one
        yield plain("objects", "Objects in the cache", figures.objects)
        yield plain("cache_bytes", "Memory of the objects, estimated from a sample", figures.memory)
        yield plain("synced", "1 once the first full list is in the cache", health.synced)
        yield plain("live", "1 while the cache follows the server", health.live)
        yield plain("shared_cache_holder", "Process id of the holder of the shared cache", health.holder)
        yield plain("consecutive_failures", "Failures since the last success", health.consecutive_failures)
        yield plain("queue_depth", "Keys with received changes that are not in the cache yet", figures.queued)
        yield plain("last_event_age_seconds", "Seconds since the last event or bookmark", health.last_event_age)
        yield plain("last_sync_age_seconds", "Seconds since the last full list", health.last_sync_age)
        yield plain("staleness_seconds", "Seconds since the cache was last proved to be current", health.staleness)
        yield plain(
            "resource_version", "The last 15 digits of the version of the cache", _digits(health.resource_version)
        )
        yield plain("received_bytes_total", "Bytes received, before decoding", figures.bytes)
        yield plain("watches_total", "Watches that were opened", health.watches)
        yield plain("coalesced_total", "Calls folded into others because a handler was slow", figures.coalesced)
        yield plain("handler_errors_total", "Calls of handlers and filters that raised", figures.handler_errors)
        yield plain("index_errors_total", "Objects left out of an index whose function raised", figures.index_errors)
        yield plain("decode_errors_total", "Objects left out because they cannot be read", figures.decode_errors)
        yield plain("transform_errors_total", "Objects left out because the transform failed", figures.transform_errors)
        several = self._several
        yield several("events_total", "Changes that were applied to the cache", "type", figures.events)
        yield several("relists_total", "Full lists after the first", "cause", figures.relists)
        yield several("watch_restarts_total", "Watches that ended", "cause", figures.watch_restarts)
        yield several("failures_total", "Requests and streams that failed", "cause", dict(self._failures))
        yield several("snapshots_total", "Snapshots by outcome", "outcome", figures.snapshots)
        yield several("handler_pending", "Calls that are waiting for a handler", "handler", figures.pending)
        states = {state: int(state == health.state) for state in get_args(State)}
        yield several("state", "1 for the state that the informer is in", "state", states)


def _digits(resource_version: str) -> float | None:
    """Return what a float can hold of a version, as client-go does."""
    return float(resource_version[-15:]) if resource_version.isdecimal() else None
