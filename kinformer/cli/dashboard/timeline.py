"""The latest changes of all resources as they come, and those of one object, for the page."""

from __future__ import annotations

import json
from typing import Any

from kinformer.contrib.changes import ABSENT, Change, Changes
from kinformer.contrib.changes.causes import grouped

__all__ = ["change_of", "changes_of", "timeline_of"]

_BYTES = 2_000_000  # of the lines of one answer
_TYPES = {"created": "ADDED", "changed": "UPDATED", "deleted": "DELETED"}


def timeline_of(changes: Changes, *, after: int, noise: bool) -> dict[str, Any]:
    """Return the changes after a number, oldest first, without their differences.

    If there are too many, the oldest are left out.
    Without noise, each has the number of its cause, and `outcomes` has what has come of each cause, by its number.
    """
    last = changes.last  # read before the list, so that no change is skipped that comes in between
    listed = changes.list(after=after, noise=noise)
    items = _within(_BYTES, [_line(change, with_cause=not noise) for change in listed])
    causes = {item["cause"] for item in items} - {0}
    members = [change for change in changes.list() if (change.cause or change.number) in causes] if causes else []
    return {
        "since": changes.since.timestamp(),
        "last": max(last, listed[-1].number if listed else 0),
        "items": items,
        "outcomes": {head.number: head.summary for head in grouped(members) if not head.cause},
    }


def _within(size: int, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return as many of the last lines as fit."""
    for number, line in enumerate(reversed(lines)):
        size -= len(json.dumps(line))
        if size < 0:
            return lines[len(lines) - number :]
    return lines


def change_of(changes: Changes, number: int) -> dict[str, Any] | None:
    """Return one change with its differences, or None if it is no longer kept."""
    kept = changes.list(after=number - 1, noise=True)
    return kept[0].as_dict() if kept and kept[0].number == number else None


def changes_of(changes: Changes, resource: str, key: str) -> list[dict[str, Any]]:
    """Return the changes of one object with their differences as JSON, newest first. May be called from any thread."""
    namespace, _, name = key.rpartition("/")
    kept = changes.list(resource=resource, namespace=namespace, name=name, noise=True)
    return [
        {
            "at": change.time.timestamp(),
            "type": _TYPES[change.type],
            "version": change.version,
            "differences": [
                {"path": path, "old": _json(old), "new": _json(new)}
                for path, old, new in (*change.differences, *change.noise)
            ],
        }
        for change in reversed(kept)
    ]


def _json(value: Any) -> str | None:
    return None if value is ABSENT else json.dumps(value, ensure_ascii=False)


def _line(change: Change, *, with_cause: bool) -> dict[str, Any]:
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
        "cause": change.cause if with_cause else 0,
        **({"noise": True} if change.is_noise else {}),
    }
