"""The latest changes of each object, as lists of differences."""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kinformer import KubeObject, SharedInformer
from kinformer.contrib.changes.differences import ABSENT, object_differences
from kinformer.contrib.changes.differences import differences as changes
from kinformer.exceptions import DecodeError

__all__ = ["Difference", "History", "differences"]

_AN_OBJECT = 20  # changes kept for each object
_BYTES = 32 * 1024 * 1024  # maximum bytes of object states kept alive by all changes
_LONGEST = 2000  # maximum characters of a value to show
_MOST = 1000  # maximum places of a change to list


@dataclass(frozen=True, slots=True)
class _StateChange:
    at: float
    type: str
    old: KubeObject | None
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Difference:
    """One place that differs. `old` is None if it was added, and `new` is None if it was removed. Both are JSON."""

    path: str
    old: str | None
    new: str | None


class History:
    """The latest changes of the objects of some informers.

    It keeps references to their states and compares them on request. It costs the memory of the old states.
    """

    def __init__(self, informers: Mapping[str, SharedInformer]) -> None:
        self._changes: OrderedDict[tuple[str, str], deque[_StateChange]] = OrderedDict()
        self._bytes = 0
        for name, informer in informers.items():
            self.listen(name, informer)

    def listen(self, source: str, informer: SharedInformer) -> None:
        """Record the changes of an informer under the name `source`."""

        def on_add(obj: KubeObject, *, is_in_initial_list: bool) -> None:
            if not is_in_initial_list:
                self._note(source, _StateChange(time.time(), "ADDED", None, obj))

        def on_update(old: KubeObject, new: KubeObject) -> None:
            if old.resource_version != new.resource_version:  # a resync is not a change
                self._note(source, _StateChange(time.time(), "UPDATED", old, new))

        def on_delete(obj: KubeObject) -> None:
            self._note(source, _StateChange(time.time(), "DELETED", None, obj))

        informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete, name="dashboard history")

    def _note(self, source: str, change: _StateChange) -> None:
        place = (source, change.new.key)
        changes = self._changes.get(place)
        if changes is None:
            changes = self._changes[place] = deque()
        self._changes.move_to_end(place)
        self._bytes -= _held(changes)
        changes.append(change)
        if len(changes) > _AN_OBJECT:
            changes.popleft()
        self._bytes += _held(changes)
        while self._bytes > _BYTES and len(self._changes) > 1:
            _, forgotten = self._changes.popitem(last=False)
            self._bytes -= _held(forgotten)

    def last(self, source: str, key: str) -> KubeObject | None:
        """Return the last state of one object, even if it has been deleted, or None if it has no changes."""
        changes = self._changes.get((source, key))
        return changes[-1].new if changes else None

    def of(self, source: str, key: str) -> list[dict[str, Any]]:
        """Return the changes of one object with their differences, newest first. Can be called from any thread."""
        changes = self._changes.get((source, key))
        found = () if changes is None else changes.copy()  # in one step, so that no change intervenes
        return [
            {
                "at": change.at,
                "type": change.type,
                "version": change.new.resource_version,
                "differences": [{"path": one.path, "old": one.old, "new": one.new} for one in _differences(change)],
            }
            for change in reversed(found)
        ]


def _held(changes: Sequence[_StateChange]) -> int:
    """Return the bytes of the states of one object. The old state of a change is the new state of the previous one."""
    first = changes[0].old if changes else None
    return sum(len(change.new._data) for change in changes) + (len(first._data) if first is not None else 0)


def _differences(change: _StateChange) -> list[Difference]:
    if change.old is None:
        return []
    try:
        found = iter(object_differences(change.old, change.new))
        named = [_named(one) for one in islice(found, _MOST)]
        more = sum(1 for _ in found)
        return [*named, Difference(f"<{more:,} more>", None, None)] if more else named
    except (DecodeError, RecursionError):  # nested too deeply to be compared
        return [Difference("<unreadable>", None, None)]


def differences(old: Any, new: Any) -> Iterator[Difference]:
    """Yield the deepest places in which two JSON values differ. List items are matched by name or type."""
    return map(_named, changes(old, new))


def _named(place: tuple[str, Any, Any]) -> Difference:
    path, was, is_now = place
    return Difference(path, None if was is ABSENT else _text(was), None if is_now is ABSENT else _text(is_now))


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
