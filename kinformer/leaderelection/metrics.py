"""The metrics of a leader election, under client-go's names (tools/leaderelection/metrics.go)."""

from __future__ import annotations

from collections.abc import Callable

from kinformer.metrics import Metrics

__all__ = ["LeaderElectionMetrics"]

# Seconds that the server takes for a renewal: 5 ms if it is healthy. Beyond 5 s, the lead is at risk.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LeaderElectionMetrics:
    """The metric instruments of one Lease. Without a sink they do nothing.

    Args:
        metrics: The sink, or None.
        name: The Lease's `"namespace/name"`, the value of the label `name`.
        is_leader: Called at each export.

    Attributes:
        count_failure: Counts Lease requests that failed or conflicted with a change.
        count_loss: Counts leads that were not renewed in time or were taken by another process.
        observe_renewal: Records the seconds that the server took to grant or renew the Lease.
    """

    def __init__(self, metrics: Metrics | None, name: str, is_leader: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._labels = {"name": name}
        self._is_leader = is_leader
        self._close_gauge: Callable[[], None] | None = None
        self.count_failure: Callable[[float], None] = _ignore
        self.count_loss: Callable[[float], None] = _ignore
        self.observe_renewal: Callable[[float], None] = _ignore
        if metrics is not None:
            self.count_failure = metrics.counter(
                "leader_election_slowpath_total", "Requests to acquire or renew a lease that failed", self._labels
            )
            self.count_loss = metrics.counter(
                "kinformer_leader_election_lost_total",
                "Times that this process lost the lead without releasing it",
                self._labels,
            )
            self.observe_renewal = metrics.histogram(
                "kinformer_leader_election_renewal_seconds",
                "Seconds that the server took to grant or renew a lease",
                self._labels,
                _BUCKETS,
            )

    def candidacy_began(self) -> None:
        """Export `leader_election_master_status` from now on: 1 while this process leads, and otherwise 0."""
        if self._metrics is not None:
            self._close_gauge = self._metrics.gauge(
                "leader_election_master_status",
                "1 while this process leads, else 0",
                self._labels,
                lambda: float(self._is_leader()),
            )

    def candidacy_ended(self) -> None:
        """Stop exporting `leader_election_master_status`."""
        if self._close_gauge is not None:
            self._close_gauge()
            self._close_gauge = None


def _ignore(_: float) -> None:
    return
