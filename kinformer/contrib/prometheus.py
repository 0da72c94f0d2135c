"""Metrics for Prometheus: ``pip install 'kinformer[prometheus]'``.

::

    metrics = PrometheusMetrics()                              # in prometheus_client's own registry
    async with SharedInformerFactory(client, metrics=metrics) as factory: ...

The metrics are described in ``docs/metrics.md``.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar, get_args

from kinformer._lazy import needs_extra
from kinformer.exceptions import ConfigError
from kinformer.metrics import MetricFamily, upstream_labels

with needs_extra("prometheus", "prometheus_client"):
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.metrics_core import Metric

__all__ = ["PrometheusMetrics"]

log = logging.getLogger("kinformer.metrics")

T = TypeVar("T")
_V = TypeVar("_V")
Labels = tuple[str, ...]
Names = Literal["kinformer", "upstream", "both"]

_UPSTREAM = {
    "kinformer_queue_depth": "informer_queued_items",
    "kinformer_resource_version": "informer_store_resource_version",
}


class _Family:
    """All instruments with one name. Each is written to or read separately."""

    def __init__(self, text: str, labels: Labels) -> None:
        self.text = text
        self.labels = labels


class _Counters(_Family):
    def __init__(self, text: str, labels: Labels) -> None:
        super().__init__(text, labels)
        self.series: dict[Labels, list[float]] = {}

    def series_of(self, values: Labels) -> Callable[[float], None]:
        cell = self.series.setdefault(values, [0.0])

        def add(amount: float) -> None:
            cell[0] += amount

        return add


class _Histograms(_Family):
    def __init__(self, text: str, labels: Labels, buckets: Sequence[float]) -> None:
        super().__init__(text, labels)
        self.bounds = tuple(buckets)
        self.series: dict[Labels, list[float]] = {}  # counts of the buckets, the count above them, and the sum

    def series_of(self, values: Labels) -> Callable[[float], None]:
        bounds, cells = self.bounds, self.series.setdefault(values, [0.0] * (len(self.bounds) + 2))

        def observe(amount: float) -> None:
            cells[bisect_left(bounds, amount)] += 1
            cells[-1] += amount

        return observe

    def end_of(self, resource: str) -> None:
        """Remove the series of an owner that has ended."""
        if "resource" in self.labels:
            place = self.labels.index("resource")
            for values in [values for values in self.series if values[place] == resource]:
                del self.series[values]


class _Gauges(_Family):
    def __init__(self, text: str, labels: Labels) -> None:
        super().__init__(text, labels)
        self.series: dict[Labels, Callable[[], float]] = {}


class PrometheusMetrics:
    """A sink for `metrics=` of factories, informers, queues and controllers. See `kinformer.Metrics`.

    It is a collector of the registry: values are read when Prometheus scrapes. Only one thread at a time may write to
    an instrument. This holds for kinformer's instruments, because each belongs to one event loop.

    With several processes, export from each one, because prometheus_client's multiprocess mode does not support
    collectors.

    Args:
        registry: The registry to export from. By default, prometheus_client's `REGISTRY`.
        names: "kinformer", the default, exports what ``docs/metrics.md`` lists. "upstream" exports only the names of
            client-go, component-base and controller-runtime, with client-go's `informer_*` in the place of
            `kinformer_*`, for dashboards that exist. "both" exports all of them.

    Raises:
        ConfigError: `names` is none of these.
        ValueError: The registry already has such a sink, because it refuses metrics that are registered twice.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, names: Names = "kinformer") -> None:
        if names not in get_args(Names):
            raise ConfigError(f"invalid names={names!r}: expected one of {', '.join(get_args(Names))}")
        self._names = names
        self._counters: dict[str, _Counters] = {}
        self._histograms: dict[str, _Histograms] = {}
        self._gauges: dict[str, _Gauges] = {}
        self._owners: dict[str, Callable[[str], Iterable[MetricFamily]]] = {}
        self._broken = 0.0  # the reads that have failed
        self._registry = registry
        registry.register(self)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the content of the registry in the format requested by an `Accept` header, and its Content-Type."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def close(self) -> None:
        """Remove this collector from the registry."""
        self._registry.unregister(self)

    def exports(self, name: str) -> bool:
        """Return True if a metric with this name is exported."""
        if name.startswith("informer_"):
            return self._names != "kinformer"
        return self._names != "upstream" or not name.startswith("kinformer_")

    # --- the sink (kinformer.Metrics) ----------------------------------------------------------------------

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """See `kinformer.Metrics`."""
        family = self._counters.get(name) or self._counters.setdefault(name, _Counters(text, tuple(labels)))
        return family.series_of(_values(name, family, labels))

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """See `kinformer.Metrics`."""
        family = self._histograms.get(name)
        if family is None:
            family = self._histograms[name] = _Histograms(text, tuple(labels), buckets)
        return family.series_of(_values(name, family, labels))

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """See `kinformer.Metrics`."""
        family = self._gauges.get(name) or self._gauges.setdefault(name, _Gauges(text, tuple(labels)))
        values = _values(name, family, labels)
        family.series[values] = read

        def end() -> None:
            if family.series.get(values) is read:
                del family.series[values]

        return end

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        """See `kinformer.Metrics`."""
        name, number = owner, 2
        while name in self._owners:
            name, number = f"{owner}#{number}", number + 1
        self._owners[name] = read
        self._guarded(name, partial(_all, read, name))

        def end() -> None:
            self._owners.pop(name, None)
            for family in self._histograms.values():
                family.end_of(name)

        return end

    # --- the collector (prometheus_client) ------------------------------------------------------------------

    def describe(self) -> Iterable[Metric]:
        """Return the names by which a registry detects a second collector of this kind."""
        return [GaugeMetricFamily("kinformer_objects", "Objects in the cache"), self._broken_reads()]

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        return (metric for metric in self._collect() if self.exports(metric.name))

    def _collect(self) -> Iterator[Metric]:
        for name, counters in _snapshot(self._counters):
            counted = CounterMetricFamily(name, counters.text, labels=counters.labels)
            for values, cell in _snapshot(counters.series):
                counted.add_metric(values, cell[0])
            yield counted
        for name, histograms in _snapshot(self._histograms):
            yield _histogram(name, histograms)
        for name, gauges in _snapshot(self._gauges):
            metric = GaugeMetricFamily(name, gauges.text, labels=gauges.labels)
            for values, read in _snapshot(gauges.series):
                value = self._guarded(name, read)
                if value is not None:
                    metric.add_metric(values, value)
            yield metric
        yield from self._readings()
        yield self._broken_reads()

    def _readings(self) -> Iterable[Metric]:
        """Return the readings of all owners, one family for each name."""
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for owner, read in _snapshot(self._owners):
            own = self._guarded(owner, partial(_all, read, owner)) or []
            for reading in (*own, *_upstream(own)):
                family = families.get(reading.name)
                if family is None:
                    kind = CounterMetricFamily if reading.kind == "counter" else GaugeMetricFamily
                    family = families[reading.name] = kind(reading.name, reading.text, labels=reading.labels)
                for values, figure in reading.values:
                    family.add_metric(values, figure)
        return families.values()

    def _guarded(self, owner: str, read: Callable[[], T]) -> T | None:
        """Call `read`. If it fails, log and count the failure and return None, so that other metrics are exported."""
        try:
            return read()
        except Exception:
            log.exception(
                "the metrics of %s cannot be read", owner, extra={"resource": owner, "key": "", "reason": "unreadable"}
            )
            self._broken += 1
            return None

    def _broken_reads(self) -> Metric:
        message = "Parts left out of an export because reading them failed"
        return CounterMetricFamily("kinformer_metrics_errors", message, value=self._broken)


def _upstream(readings: Iterable[MetricFamily]) -> Iterator[MetricFamily]:
    """Yield the readings of an informer that client-go has too, by its names and labels."""
    for reading in readings:
        if (name := _UPSTREAM.get(reading.name)) is not None:
            for (owner, *_), value in reading.values:
                labels = upstream_labels(owner)
                values = [(tuple(labels.values()), value)]
                yield replace(reading, name=name, labels=tuple(labels), values=values)


def _all(read: Callable[[str], Iterable[MetricFamily]], owner: str) -> list[MetricFamily]:
    return list(read(owner))


def _snapshot(of: Mapping[T, _V]) -> list[tuple[T, _V]]:
    # Exports run in other threads. A dict is copied in one step, under its lock if there is no GIL.
    return list(dict(of).items())


def _values(name: str, family: _Family, labels: Mapping[str, str]) -> Labels:
    if set(labels) != set(family.labels):
        raise ValueError(f"{name} has the labels {', '.join(family.labels)}, not {', '.join(labels)}")
    return tuple(labels[label] for label in family.labels)


def _histogram(name: str, family: _Histograms) -> Metric:
    metric = HistogramMetricFamily(name, family.text, labels=family.labels)
    for values, cells in _snapshot(family.series):
        *counts, total = list(cells)
        buckets, so_far = [], 0.0
        for bound, count in zip((*family.bounds, float("inf")), counts, strict=True):
            so_far += count
            buckets.append(("+Inf" if bound == float("inf") else repr(float(bound)), so_far))
        metric.add_metric(values, buckets, total)
    return metric
