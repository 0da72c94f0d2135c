"""A metrics sink in memory, for tests that read what was exported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kinformer.metrics import MetricFamily

Series = tuple[str, tuple[tuple[str, str], ...]]


class MemoryMetrics:
    """Counters are numbers, histograms the list of their observations, gauges are read when they are looked at."""

    def __init__(self) -> None:
        self._counters: dict[Series, float] = {}
        self._histograms: dict[Series, list[float]] = {}
        self._gauges: dict[Series, Callable[[], float]] = {}
        self.collected: dict[str, Callable[[str], Iterable[MetricFamily]]] = {}

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        series = _series(name, labels)
        self._counters.setdefault(series, 0)

        def add(amount: float) -> None:
            self._counters[series] += amount

        return add

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        assert list(buckets) == sorted(buckets)
        return self._histograms.setdefault(_series(name, labels), []).append

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        series = _series(name, labels)
        self._gauges[series] = read

        def close() -> None:
            if self._gauges.get(series) is read:
                del self._gauges[series]

        return close

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        self.collected[owner] = read
        return lambda: self.collected.pop(owner, None) and None

    @property
    def names(self) -> set[str]:
        """All names that there are."""
        return {name for series in (self._counters, self._histograms, self._gauges) for name, _ in series}

    def values(self, **labels: str) -> dict[str, Any]:
        """Return the values of the series with exactly these labels, by name."""
        wanted = tuple(sorted(labels.items()))
        found: dict[str, Any] = {
            name: value
            for series in (self._counters, self._histograms)
            for (name, has), value in series.items()
            if has == wanted
        }
        return found | {name: read() for (name, has), read in self._gauges.items() if has == wanted}


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, tuple(sorted(labels.items()))
