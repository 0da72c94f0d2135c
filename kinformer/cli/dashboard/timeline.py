"""The latest changes of all resources, for the page that shows them as they come."""

from __future__ import annotations

from typing import Any

from kinformer.contrib.changes import Change, Changes

__all__ = ["change_of", "timeline_of"]


def timeline_of(changes: Changes, *, after: int, noise: bool) -> dict[str, Any]:
    """Return the changes after a number, oldest first, without their differences."""
    last = changes.last  # read before the list, so that no change is skipped that comes in between
    found = changes.list(after=after, noise=noise)
    return {
        "since": changes.since.timestamp(),
        "last": max(last, found[-1].number if found else 0),
        "items": [_line(one) for one in found],
    }


def change_of(changes: Changes, number: int) -> dict[str, Any] | None:
    """Return one change with its differences, or None if it is no longer kept."""
    found = changes.list(after=number - 1, noise=True)
    return found[0].as_dict() if found and found[0].number == number else None


def _line(change: Change) -> dict[str, Any]:
    return {
        "number": change.number,
        "time": round(change.time.timestamp(), 3),
        "type": change.type,
        "resource": change.resource,
        "kind": change.kind,
        "namespace": change.namespace,
        "name": change.name,
        "change": change.summary,
        "by": change.by,
        **({"noise": True} if change.is_noise else {}),
    }
