"""The metrics of a derived collection, read from it when the sink exports; ``docs/metrics.md`` lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from kinformer.derived.engine import DerivedStatistics
from kinformer.informer.metrics import CollectionMetrics
from kinformer.metrics import Metrics, Reading
from kinformer.reflector.health import InformerHealth

__all__ = ["DerivedMetrics"]


class _Measured(Protocol):
    """The parts of a derived collection that metrics read, from any thread."""

    name: str

    def health(self) -> InformerHealth: ...
    def statistics(self) -> DerivedStatistics: ...


class DerivedMetrics(CollectionMetrics):
    """The metrics of one derived collection.

    Args:
        sink: Returns the sink, that of the informers behind the collection. A union may get it while it runs.
        collection: The collection to measure.
    """

    def __init__(self, sink: Callable[[], Metrics | None], collection: _Measured) -> None:
        super().__init__(collection.name, sink, "kinformer_derived_")
        self._collection = collection

    def _read(self) -> Iterator[Reading]:
        health, figures = self._collection.health(), self._collection.statistics()
        one = self._one
        yield one("objects", "Values in the cache", figures.objects)
        yield one("synced", "1 once all that it reads is complete and every value has been computed", health.synced)
        yield one("live", "1 while all that it reads follows its server", health.live)
        yield one("dependencies", "Pairs of a value and something that it was computed from", figures.dependencies)
        yield one("waiting", "Objects whose values have to be computed anew", figures.waiting)
        yield one("runs_total", "Calls of its function", figures.runs)
        yield one("failures_total", "Calls of its function that raised", figures.failures)
        yield one("coalesced_total", "Calls folded into others because a handler was slow", figures.coalesced)
        yield one("handler_errors_total", "Calls of handlers and filters that raised", figures.handler_errors)
        yield one("index_errors_total", "Values left out of an index whose function raised", figures.index_errors)
        several = self._several
        yield several("reads", "1 for each collection that it reads", "source", dict.fromkeys(figures.reads, 1))
        yield several("events_total", "Changes of values", "type", figures.events)
        yield several("handler_pending", "Calls that wait for a handler", "handler", figures.pending)
