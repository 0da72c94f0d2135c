"""The metrics of a fleet, read when the sink exports. ``docs/metrics.md`` lists them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from kinformer.fleet.keeper import ClusterHealth
from kinformer.informer.collection import FollowedClusters
from kinformer.informer.metrics import CollectionMetrics
from kinformer.metrics import MetricFamily, Metrics

__all__ = ["FleetMetrics"]

_STATES = ("live", "away", "connecting", "failed")


class FleetMetrics(CollectionMetrics):
    """The metrics of one fleet.

    Args:
        sink: Returns the sink, if there is one.
        fleet: The fleet to measure.
    """

    def __init__(self, sink: Callable[[], Metrics | None], fleet: FollowedClusters) -> None:
        super().__init__(fleet.name, sink, "kinformer_fleet_", label="fleet")
        self._fleet = fleet

    def _read(self) -> Iterator[MetricFamily]:
        fleet = self._fleet
        health, figures = fleet.health(), fleet.statistics()
        counts = Counter(map(_state, health.values()))
        one, several = self._one, self._several
        yield one("synced", "1 once the first clusters are known and each union has synced", fleet.has_synced)
        yield one("source_failed", "1 while the clusters cannot be read", fleet.source_error is not None)
        yield one("broken_configurations", "Configurations of clusters that cannot be used", figures.broken)
        yield one("joins_total", "Clusters that were connected", figures.joined)
        yield one("replacements_total", "Clusters reconnected with another configuration", figures.replaced)
        yield one("leaves_total", "Clusters that were disconnected", figures.left)
        yield one("refusals_total", "Configurations that could not be used", figures.refused)
        yield one("connection_failures_total", "Attempts to connect that failed", figures.unconnected)
        yield several("clusters", "Clusters by state", "state", {state: counts[state] for state in _STATES})
        live = {name: _state(cluster) == "live" for name, cluster in health.items()}
        yield several("live", "1 while a cluster is connected and its informers follow it", "cluster", live)


def _state(health: ClusterHealth) -> str:
    """Return the state in one word. A connected cluster is `"live"` or `"away"`."""
    if health.state == "running":
        return "live" if health.live else "away"
    return health.state
