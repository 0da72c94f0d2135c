"""What a leader election tells a metrics library, under client-go's names (tools/leaderelection/metrics.go)."""

from __future__ import annotations

from collections.abc import Callable

from kinformer.metrics import Metrics

__all__ = ["LeaderElectionMetrics"]

# Seconds that the server takes for a renewal: a healthy one 5 ms, and beyond 5 s the lead is in danger.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class LeaderElectionMetrics:
    """The instruments of one Lease; without a sink they do nothing.

    Args:
        metrics: The sink, or None.
        name: The Lease's `"namespace/name"`, which is the label `name`.
        is_leader: Read at each export.
    """

    def __init__(self, metrics: Metrics | None, name: str, is_leader: Callable[[], bool]) -> None:
        self._metrics = metrics
        self._labels = {"name": name}
        self._is_leader = is_leader
        self._end: Callable[[], None] | None = None
        self._failures: Callable[[float], None] = _nothing
        self._lost: Callable[[float], None] = _nothing
        self._renewals: Callable[[float], None] = _nothing
        if metrics is not None:
            self._failures = metrics.counter(
                "leader_election_slowpath_total", "Renewals of a lease that did not go through at once", self._labels
            )
            self._lost = metrics.counter(
                "kinformer_leader_election_lost_total",
                "Times that this process led and lost the lead before it gave it back",
                self._labels,
            )
            self._renewals = metrics.histogram(
                "kinformer_leader_election_renewal_seconds",
                "How long the server took to take or renew a lease",
                self._labels,
                _BUCKETS,
            )

    def begin(self) -> None:
        """It is a candidate: from here on `leader_election_master_status` is exported, 1 while it leads."""
        if self._metrics is not None:
            self._end = self._metrics.gauge(
                "leader_election_master_status",
                "Whether this process leads (1) or not (0)",
                self._labels,
                lambda: float(self._is_leader()),
            )

    def end(self) -> None:
        """It is no candidate any more."""
        if self._end is not None:
            self._end()
            self._end = None

    def renewed(self, seconds: float) -> None:
        """The server took so long to take the Lease, or to renew it."""
        self._renewals(seconds)

    def failed(self) -> None:
        """A request about the Lease failed, or met a Lease that had changed."""
        self._failures(1.0)

    def lost(self) -> None:
        """The lead was lost: not renewed in time, or taken by another."""
        self._lost(1.0)


def _nothing(_: float) -> None:
    return
