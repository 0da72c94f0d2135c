"""The metrics of a replica that shares a resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kinformer.metrics import MetricFamily, Metrics
from kinformer.sharding.membership import ShardMembershipHealth

__all__ = ["ShardFigures", "ShardMetrics"]


class ShardFigures(NamedTuple):
    """The figures of a replica at one moment.

    Attributes:
        health: The state of its membership.
        dropped: Objects and events that it received, but that are not in its share.
        ledger: Objects of the whole resource that it knows.
        doubts: Keys that another replica may still be working on.
    """

    health: ShardMembershipHealth
    dropped: int
    ledger: int
    doubts: int


class ShardMetrics:
    """Exports the figures of a replica, from `open` to `close`. Without a sink it does nothing.

    Args:
        sink: Receives the figures.
        name: The name of the controller.
        figures: Returns the current figures.
    """

    def __init__(self, sink: Metrics | None, name: str, figures: Callable[[], ShardFigures]) -> None:
        self._sink = sink
        self._name = name
        self._figures = figures
        self._close_collector: Callable[[], None] | None = None

    def open(self) -> None:
        """Export the figures from now on."""
        if self._sink is not None:
            self._close_collector = self._sink.collector(self._name, self._readings)

    def close(self) -> None:
        """Stop exporting the figures."""
        if self._close_collector is not None:
            self._close_collector()
            self._close_collector = None

    def _readings(self, name: str) -> Iterator[MetricFamily]:
        health, dropped, ledger, doubts = self._figures()
        for metric, description, value in (
            ("live", "1 while the replica is a member and its right to its slots has not lapsed", health.live),
            ("balanced", "1 while all replicas know the same replicas, and every slot is held", health.balanced),
            ("slots", "Slots that the replica holds, of 256", health.slots),
            ("pending_slots", "Slots assigned to the replica that it does not hold yet", health.pending),
            ("members", "Living replicas, including this one", health.members),
            ("ledger_objects", "Objects of all replicas whose uid it knows", ledger),
            ("doubts", "Keys that another replica may still be working on", doubts),
            ("dropped_total", "Objects and events received for other replicas", dropped),
        ):
            yield MetricFamily(
                name=f"kinformer_shard_{metric}",
                text=description,
                kind="counter" if metric.endswith("_total") else "gauge",
                labels=("controller",),
                values=[((name,), float(value))],
            )
