"""The latest changes of all resources as they come, and those of one object, for the page."""

from __future__ import annotations

import json
from typing import Any

from kinformer.contrib.changes import ABSENT, Change, Changes

__all__ = ["change_of", "changes_of", "timeline_of"]

_TYPES = {"created": "ADDED", "changed": "UPDATED", "deleted": "DELETED"}


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
