"""The change: what became of one object, as differences."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from kinformer.contrib.changes.differences import ABSENT, Difference

__all__ = ["Change", "ChangeType", "bounded", "size_of"]

ChangeType = Literal["created", "changed", "deleted"]

_LONGEST = 500  # characters of a value to keep
_LONG = 5000  # characters to keep of the first conditions of an object, because their statuses are read later
_MOST = 100  # differences of a change to keep
_BASE = 700  # bytes of a change without differences


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one object.

    Attributes:
        number: Its position in the log, counted from 1.
        time: The time at which the program got it.
        type: `"created"`, `"changed"` or `"deleted"`.
        resource: The resource, such as `"v1/pods"`.
        kind: The kind, such as `"Pod"`.
        namespace: The namespace, or "" for a cluster-scoped object.
        name: The name.
        version: The resourceVersion of the state after it, or of the last state.
        summary: The change in one line, such as `"ready true to false"`.
        differences: The places that differ, without noise. Long values are cut, and become strings.
        noise: The places that are noise, if the log keeps these.
        by: The manager that made the change, or "" if managedFields are not kept.
        cause: The number of the first change with the same cause, or 0 if it is this one.
        replicas: The replicas that the object is to have after it, or 0.
        members: The further changes with the same cause, oldest first, if they are grouped.
    """

    number: int
    time: datetime
    type: ChangeType
    resource: str
    kind: str
    namespace: str
    name: str
    summary: str
    version: str = ""
    differences: tuple[Difference, ...] = ()
    noise: tuple[Difference, ...] = ()
    by: str = ""
    cause: int = 0
    replicas: int = 0
    members: tuple[Change, ...] = ()

    @property
    def key(self) -> str:
        """The key of the object, as in the caches."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_noise(self) -> bool:
        """True if the object has changed, but nothing except noise has, or if it is an Event."""
        return self.kind == "Event" or (self.type == "changed" and not self.differences)

    def as_dict(self) -> dict[str, Any]:
        """Return the change as JSON values. A difference has `old`, `new` or both. `cause` is there if it is not 0."""
        document = {
            "time": self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "type": self.type,
            "resource": self.resource,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "change": self.summary,
            "by": self.by,
            "number": self.number,
            **({"cause": self.cause} if self.cause else {}),
            "differences": _as_json(self.differences),
        }
        return {**document, "noise": _as_json(self.noise)} if self.noise else document


def _as_json(differences: Iterable[Difference]) -> list[dict[str, Any]]:
    return [
        {"path": path, **{side: value for side, value in (("old", old), ("new", new)) if value is not ABSENT}}
        for path, old, new in differences
    ]


def bounded(differences: Iterable[Difference]) -> tuple[Difference, ...]:
    """Return differences with values of bounded size, and of bounded number."""
    kept = [
        Difference(path, *(_bounded(value, _LONG if path == "status.conditions" else _LONGEST) for value in values))
        for path, *values in differences
    ]
    more = len(kept) - _MOST
    return (*kept[:_MOST], Difference(f"<{more:,} more>", ABSENT, ABSENT)) if more > 0 else tuple(kept)


def _bounded(value: Any, longest: int) -> Any:
    if value is ABSENT or value is None or isinstance(value, (bool, int, float)):
        return value
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(words) <= longest else f"{words[:longest]}… ({len(words):,} characters)"


def size_of(change: Change) -> int:
    """Return the approximate bytes of a change in memory."""
    parts = (*change.differences, *change.noise)
    return _BASE + sum(200 + 2 * len(path) + _bytes(old) + _bytes(new) for path, old, new in parts)


def _bytes(value: Any) -> int:
    if isinstance(value, str):
        return 60 + 2 * len(value)
    if isinstance(value, (dict, list)):
        return 400 + 4 * len(json.dumps(value))
    return 32
