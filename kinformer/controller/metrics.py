"""The statistics and metrics of a controller, with controller-runtime's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kinformer.metrics import Metrics
from kinformer.workqueue.work_queue import QueueStatistics

__all__ = ["OUTCOMES", "ControllerMetrics", "ControllerStatistics"]

# The four results of a reconcile (controller-runtime, pkg/internal/controller/metrics/metrics.go).
OUTCOMES = ("success", "error", "requeue", "requeue_after")

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatistics:
    """The figures of a controller at one moment. The counts include earlier runs.

    Attributes:
        running: True while `run()` is running.
        synced: True if reconciles have begun.
        active: Reconciles that are running.
        reconciles: Finished reconciles by outcome: success, error, requeue_after, requeue (at once).
        terminal_errors: Errors that were a TerminalError.
        timeouts: Errors of reconciles that took longer than `timeout`.
        source_errors: Events for which a predicate or mapper raised, and which triggered nothing.
        own_write_waits: Times that a key waited for the caches to see its own writes, or for derived collections.
        own_write_timeouts: Waits in which the caches did not see the writes in time.
        stale_waits: Times that a key waited because a cache was older than `max_staleness`.
        caught_up_waits: Calls of `Request.caught_up` that had to wait for writes.
        caught_up_timeouts: Calls of `Request.caught_up` that timed out.
        queue: The figures of the queue, or None while the controller is not running.
    """

    running: bool
    synced: bool
    active: int
    reconciles: Mapping[str, int] = field(default_factory=dict)
    terminal_errors: int = 0
    timeouts: int = 0
    source_errors: int = 0
    own_write_waits: int = 0
    own_write_timeouts: int = 0
    stale_waits: int = 0
    caught_up_waits: int = 0
    caught_up_timeouts: int = 0
    queue: QueueStatistics | None = None


_COUNTERS = {
    "errors": ("controller_runtime_reconcile_errors_total", "Reconciles that raised"),
    "terminal_errors": ("controller_runtime_terminal_reconcile_errors_total", "Reconciles that raised TerminalError"),
    "timeouts": ("controller_runtime_reconcile_timeouts_total", "Reconciles that took longer than their timeout"),
    "source_errors": ("kinformer_controller_source_errors_total", "Events for which a predicate or mapper raised"),
    "own_write_waits": (
        "kinformer_controller_own_write_waits_total",
        "Waits of keys for their own writes or derived collections",
    ),
    "own_write_timeouts": ("kinformer_controller_own_write_timeouts_total", "Waits for own writes that timed out"),
    "stale_waits": ("kinformer_controller_stale_waits_total", "Waits of keys for caches older than max_staleness"),
    "caught_up_waits": ("kinformer_controller_caught_up_waits_total", "Calls of caught_up that had to wait"),
    "caught_up_timeouts": ("kinformer_controller_caught_up_timeouts_total", "Calls of caught_up that timed out"),
}


class ControllerMetrics:
    """The counters for `statistics()` and, if there is one, for a sink.

    Args:
        name: The name of the controller, used as the label `controller`.
        metrics: The sink, or None.

    Attributes:
        outcomes: Finished reconciles by outcome.
        counts: The other counts, by field name of `ControllerStatistics`.
    """

    def __init__(self, name: str, metrics: Metrics | None) -> None:
        self.outcomes: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._close_gauges: list[Callable[[], None]] = []
        self._counters: dict[str, Callable[[float], None]] = {}
        self._observe_seconds: Callable[[float], None] | None = None
        self._metrics = metrics
        self._label = label = {"controller": name}
        if metrics is None:
            return
        for outcome in OUTCOMES:
            self._counters[outcome] = metrics.counter(
                "controller_runtime_reconcile_total", "Reconciles by result", {**label, "result": outcome}
            )
        for counted, (counter, description) in _COUNTERS.items():
            self._counters[counted] = metrics.counter(counter, description, label)
        self._observe_seconds = metrics.histogram(
            "controller_runtime_reconcile_time_seconds", "Seconds that a reconcile takes", label, _BUCKETS
        )

    def open(self, workers: int, active: Callable[[], int]) -> None:
        """Export the gauges of a run: the number of running reconciles, and the maximum."""
        if self._metrics is None:
            return
        for name, description, read in (
            ("active_workers", "Reconciles in progress", lambda: float(active())),
            ("max_concurrent_reconciles", "The most reconciles that may run at the same time", lambda: float(workers)),
        ):
            self._close_gauges.append(self._metrics.gauge(f"controller_runtime_{name}", description, self._label, read))

    def close(self) -> None:
        """Stop exporting the gauges, when the run has ended."""
        for close in self._close_gauges:
            close()
        self._close_gauges.clear()

    def counted(self) -> dict[str, int]:
        """Return the counts that `ControllerStatistics` has besides the outcomes, by its field names."""
        return {name: count for name, count in self.counts.items() if name != "errors"}

    def count(self, name: str) -> None:
        """Add one to the field `name` of `ControllerStatistics`, or to "errors"."""
        self.counts[name] += 1
        if name in self._counters:
            self._counters[name](1)

    def reconcile_ended(self, outcome: str, seconds: float, error: str = "") -> None:
        """Count a finished reconcile. `error` is "terminal_errors" or "timeouts" if it failed in that way."""
        self.outcomes[outcome] += 1
        if self._observe_seconds is not None:
            self._observe_seconds(seconds)
            self._counters[outcome](1)
        if outcome == "error":
            self.count("errors")
        if error:
            self.count(error)
