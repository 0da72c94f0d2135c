"""The figures of a proxy for a sink: requests by source, open watches, and how far back its caches go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from kinformer.metrics import Metrics
from kinformer.watchcache.informer_server import WatchCache

__all__ = ["ProxyFigures"]


class ProxyFigures:
    """Counts what a proxy does, and exports it while it runs.

    Args:
        metrics: The sink, or None.
    """

    def __init__(self, metrics: Metrics | None) -> None:
        self._metrics = metrics
        self._ends: list[Callable[[], None]] = []

    def start(self, caches: Mapping[str, WatchCache]) -> None:
        """Export the gauges of the caches, by the name of their resource."""
        if self._metrics is None:
            return
        for name, cache in caches.items():
            labels = {"resource": name}
            self._gauge("kinformer_proxy_watches", "Open watches that a cache answers", labels, _watches_of(cache))
            age = "Seconds from the oldest change that a watch can resume from until now"
            self._gauge("kinformer_proxy_history_seconds", age, labels, _age_of(cache))

    def stop(self) -> None:
        """End the export."""
        while self._ends:
            self._ends.pop()()

    def count(self, source: str, method: str) -> None:
        """Count a request by what answered it: "cache", "server", or "proxy" for a refusal or failure of its own."""
        if self._metrics is not None:
            labels = {"source": source, "method": method if method.isalpha() and len(method) < 8 else "other"}
            self._metrics.counter("kinformer_proxy_requests_total", "Requests by what answered them", labels)(1)

    def _gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> None:
        assert self._metrics is not None
        self._ends.append(self._metrics.gauge(name, text, labels, read))


def _watches_of(cache: WatchCache) -> Callable[[], float]:
    return lambda: len(cache.storage.collection("objects").watchers)


def _age_of(cache: WatchCache) -> Callable[[], float]:
    def age() -> float:
        history = cache.storage.collection("objects").history
        try:
            return time.monotonic() - history[0].moment
        except IndexError:  # a sink may read in another thread
            return 0.0

    return age
