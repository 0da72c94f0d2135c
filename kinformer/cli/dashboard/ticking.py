"""Cells that contain an age, as text around a timestamp, so that the page can update the age itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinformer.objects import PodState
from kinformer.objects.accessors import moment_at, value_at

__all__ = ["Ticking", "ticking_cell"]

Object = Mapping[str, Any]

Ticking = tuple[str, float, str]
"""The text before an age, the start of the age in seconds since 1970, and the text after it."""


def ticking_cell(group: str, kind: str, column: str, document: Object) -> Ticking | None:
    """Return the cell of a column with an age, or None if it has no age and can be shown unchanged."""
    cell = _CELLS.get((group, kind, column))
    return cell(document) if cell is not None else None


def _restarts(pod: Object) -> Ticking | None:
    state = PodState.of(pod)
    ended = state.last_restart
    return (f"{state.restarts} (", ended.timestamp(), " ago)") if state.restarts and ended is not None else None


def _since(*paths: str) -> Callable[[Object], Ticking | None]:
    def cell(document: Object) -> Ticking | None:
        moments = (moment_at(document, *path.split(".")) for path in paths)
        first = next((moment for moment in moments if moment is not None), None)
        return ("", first, "") if first is not None else None

    return cell


def _running_job(job: Object) -> Ticking | None:
    return None if value_at(job, "status", "completionTime") else _since("status.startTime")(job)


_LAST_SEEN = _since(
    *("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "firstTimestamp"),
    *("deprecatedFirstTimestamp", "eventTime", "metadata.creationTimestamp"),
)
_CELLS: Mapping[tuple[str, str, str], Callable[[Object], Ticking | None]] = {
    ("", "Pod", "RESTARTS"): _restarts,
    ("", "Event", "LAST SEEN"): _LAST_SEEN,
    ("events.k8s.io", "Event", "LAST SEEN"): _LAST_SEEN,
    ("batch", "CronJob", "LAST SCHEDULE"): _since("status.lastScheduleTime"),
    ("batch", "Job", "DURATION"): _running_job,
}
