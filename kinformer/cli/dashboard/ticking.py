"""Cells that contain an age, as text around a timestamp, so that the page can update the age itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kinformer.cli.output.cells import value_at
from kinformer.objects import PodState

__all__ = ["Ticking", "moment", "ticking_cell"]

Object = Mapping[str, Any]

Ticking = tuple[str, float, str]
"""The text before an age, the start of the age in seconds since 1970, and the text after it."""


def ticking_cell(group: str, kind: str, column: str, document: Object) -> Ticking | None:
    """Return the cell of a column with an age, or None if it has no age and can be shown unchanged."""
    cell = _CELLS.get((group, kind, column))
    return cell(document) if cell is not None else None


def _restarts(pod: Object) -> Ticking | None:
    found = PodState.of(pod)
    last = moment(found.last_restart)
    return (f"{found.restarts} (", last, " ago)") if found.restarts and last is not None else None


def _since(*paths: str) -> Callable[[Object], Ticking | None]:
    def cell(document: Object) -> Ticking | None:
        moments = (moment(value_at(document, path)) for path in paths)
        first = next((one for one in moments if one is not None), None)
        return ("", first, "") if first is not None else None

    return cell


def _running_job(job: Object) -> Ticking | None:
    return None if value_at(job, "status.completionTime") else _since("status.startTime")(job)


def moment(time: Any) -> float | None:
    """Return a timestamp of the API as seconds since 1970, or None if it is not one."""
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            return None
    if not isinstance(time, datetime):
        return None
    return (time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp()


_LAST_SEEN = _since("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "metadata.creationTimestamp")
_CELLS: Mapping[tuple[str, str, str], Callable[[Object], Ticking | None]] = {
    ("", "Pod", "RESTARTS"): _restarts,
    ("", "Event", "LAST SEEN"): _LAST_SEEN,
    ("events.k8s.io", "Event", "LAST SEEN"): _LAST_SEEN,
    ("batch", "CronJob", "LAST SCHEDULE"): _since("status.lastScheduleTime"),
    ("batch", "Job", "DURATION"): _running_job,
}
