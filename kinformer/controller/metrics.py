"""The figures of a controller, under the names that controller-runtime gave them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kinformer.metrics import Metrics
from kinformer.workqueue.work_queue import QueueStatistics

__all__ = ["OUTCOMES", "ControllerMetrics", "ControllerStatistics"]

# controller-runtime, pkg/internal/controller/metrics/metrics.go: the four results, and what else may come of a run.
OUTCOMES = ("success", "error", "requeue", "requeue_after")
_ERRORS = ("terminal", "timeout")

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatistics:
    """A moment of a controller; the counts are of all its runs.

    Attributes:
        running: `run()` is under way.
        synced: The workers have started.
        active: Reconciles at this moment.
        reconciles: Ended reconciles by outcome: success, error, requeue_after, requeue (at once).
        terminal_errors: Those among the errors that were a TerminalError.
        timeouts: Those among the errors that took longer than `timeout`.
        source_errors: Events that a predicate or a mapper raised on; they triggered nothing.
        own_write_waits: Times that a key waited until the cache had seen what it wrote.
        own_write_timeouts: Those of them that waited in vain.
        queue: The figures of the queue; None while it does not run.
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
    queue: QueueStatistics | None = None


class ControllerMetrics:
    """Counts for `statistics()`, and for a sink where there is one."""

    def __init__(self, name: str, metrics: Metrics | None) -> None:
        self.outcomes: Counter[str] = Counter()
        self.terminal = 0
        self.timeouts = 0
        self.source_errors = 0
        self._close: list[Callable[[], None]] = []
        self._count: dict[str, Callable[[float], None]] = {}
        self._seconds: Callable[[float], None] | None = None
        self._metrics = metrics
        self._label = {"controller": name}
        if metrics is not None:
            self._instrument(metrics, self._label)

    def _instrument(self, metrics: Metrics, label: dict[str, str]) -> None:
        prefix = "controller_runtime"
        for outcome in OUTCOMES:
            self._count[outcome] = metrics.counter(
                f"{prefix}_reconcile_total", "Reconciles by result", {**label, "result": outcome}
            )
        for name, counter, text in (
            ("errors", f"{prefix}_reconcile_errors_total", "Reconciles that raised"),
            ("terminal", f"{prefix}_terminal_reconcile_errors_total", "Reconciles that raised a TerminalError"),
            ("timeout", f"{prefix}_reconcile_timeouts_total", "Reconciles that took longer than their timeout"),
            ("source", "kinformer_controller_source_errors_total", "Events that a predicate or mapper raised on"),
            ("waits", "kinformer_controller_own_write_waits_total", "Keys that waited to see their own writes"),
            ("waited_in_vain", "kinformer_controller_own_write_timeouts_total", "Of these, those that never saw them"),
        ):
            self._count[name] = metrics.counter(counter, text, label)
        self._seconds = metrics.histogram(
            f"{prefix}_reconcile_time_seconds", "Seconds that a reconcile takes", label, _BUCKETS
        )

    def open(self, workers: int, active: Callable[[], int]) -> None:
        """The controller runs: show how busy it is."""
        if self._metrics is None:
            return
        for name, text, read in (
            ("active_workers", "Reconciles under way", lambda: float(active())),
            ("max_concurrent_reconciles", "Reconciles that may run at once", lambda: float(workers)),
        ):
            self._close.append(self._metrics.gauge(f"controller_runtime_{name}", text, self._label, read))

    def close(self) -> None:
        """The controller runs no longer."""
        for close in self._close:
            close()
        self._close.clear()

    def ended(self, outcome: str, seconds: float, kind: str = "") -> None:
        """A reconcile has ended; `kind` is "terminal" or "timeout" for errors that were one."""
        self.outcomes[outcome] += 1
        self.terminal += kind == "terminal"
        self.timeouts += kind == "timeout"
        if self._seconds is not None:
            self._seconds(seconds)
            self._count[outcome](1)
            if outcome == "error":
                self._count["errors"](1)
            if kind:
                self._count[kind](1)

    def source_failed(self) -> None:
        """A predicate or a mapper raised."""
        self.source_errors += 1
        self._tick("source")

    def waits(self) -> None:
        """A key waits to see its own writes."""
        self._tick("waits")

    def waited_in_vain(self) -> None:
        """It did not see them in time."""
        self._tick("waited_in_vain")

    def _tick(self, name: str) -> None:
        if name in self._count:
            self._count[name](1)
