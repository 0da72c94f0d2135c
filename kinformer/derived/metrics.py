"""The statistics of a derived collection, and the metrics that are read from them when the sink exports.

``docs/metrics.md`` lists the metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kinformer.informer.metrics import CollectionMetrics
from kinformer.metrics import MetricFamily, Metrics
from kinformer.reflector.health import InformerHealth

__all__ = ["DerivedMetrics", "DerivedStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedStatistics:
    """Counts since the collection was entered, except for the fields that are described as current.

    Attributes:
        objects: Current number of values.
        reads: Current names of the collections that it reads.
        runs: Calls of its function.
        failures: Calls of its function that raised.
        dependencies: Current number of pairs of a value and a read that it was computed from.
        waiting: Current number of objects whose values must be computed again.
        events: Changes of values, by type.
        pending: Current number of waiting calls, by the name of the handler.
        coalesced: Calls that were folded into another because a handler was too slow for its `queue_size`.
        handler_errors: Calls of handlers and filters that raised.
        index_errors: Values left out of an index because its function raised.
    """

    objects: int = 0
    reads: tuple[str, ...] = ()
    runs: int = 0
    failures: int = 0
    dependencies: int = 0
    waiting: int = 0
    events: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    coalesced: int = 0
    handler_errors: int = 0
    index_errors: int = 0


class DerivedMetrics(CollectionMetrics):
    """The metrics of one derived collection.

    Args:
        name: The name of the collection.
        sink: Returns the sink of the informers behind the collection. A union may get one while it is running.
        health, statistics: Return the collection's health and statistics, in any thread.
    """

    def __init__(
        self,
        name: str,
        sink: Callable[[], Metrics | None],
        health: Callable[[], InformerHealth],
        statistics: Callable[[], DerivedStatistics],
    ) -> None:
        super().__init__(name, sink, "kinformer_derived_")
        self._health = health
        self._statistics = statistics

    def _read(self) -> Iterator[MetricFamily]:
        health, figures = self._health(), self._statistics()
        plain = self._one
        yield plain("objects", "Values in the cache", figures.objects)
        yield plain("synced", "1 once all its sources are complete and every value has been computed", health.synced)
        yield plain("live", "1 while all its sources follow their server", health.live)
        yield plain("dependencies", "Pairs of a value and something that it was computed from", figures.dependencies)
        yield plain("waiting", "Objects whose values must be computed again", figures.waiting)
        yield plain("runs_total", "Calls of its function", figures.runs)
        yield plain("failures_total", "Calls of its function that raised", figures.failures)
        yield plain("coalesced_total", "Calls folded into others because a handler was slow", figures.coalesced)
        yield plain("handler_errors_total", "Calls of handlers and filters that raised", figures.handler_errors)
        yield plain("index_errors_total", "Values left out of an index whose function raised", figures.index_errors)
        several = self._several
        yield several("reads", "1 for each collection that it reads", "source", dict.fromkeys(figures.reads, 1))
        yield several("events_total", "Changes of values", "type", figures.events)
        yield several("handler_pending", "Calls that are waiting for a handler", "handler", figures.pending)
