"""What changed lately in each object, as a list of differences."""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinformer.cli.dashboard.secrets import hide, is_secret
from kinformer.cli.output.differences import ABSENT
from kinformer.cli.output.differences import differences as changes
from kinformer.exceptions import DecodeError
from kinformer.informer.informer import SharedInformer
from kinformer.objects.object import KubeObject

__all__ = ["Difference", "History", "differences"]

_AN_OBJECT = 20  # changes of one object that are kept
_BYTES = 32 * 1024 * 1024  # of states that all of them may hold on to
_LONGEST = 2000  # characters of a value that are shown


@dataclass(frozen=True, slots=True)
class _Change:
    at: float
    type: str
    old: KubeObject | None
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Difference:
    """One place that differs; `old` is None for what was added, `new` for what was removed; both are JSON."""

    path: str
    old: str | None
    new: str | None


class History:
    """The last changes of the objects of some informers, from when it began to listen.

    It keeps references to the states, which cost what the bytes of the old ones do, and compares them when asked.
    """

    def __init__(self, informers: Mapping[str, SharedInformer]) -> None:
        self._changes: OrderedDict[tuple[str, str], deque[_Change]] = OrderedDict()
        self._bytes = 0
        for name, informer in informers.items():
            self._listen(name, informer)

    def _listen(self, source: str, informer: SharedInformer) -> None:
        def on_add(obj: KubeObject, *, is_in_initial_list: bool) -> None:
            if not is_in_initial_list:
                self._note(source, _Change(time.time(), "ADDED", None, obj))

        def on_update(old: KubeObject, new: KubeObject) -> None:
            if old.resource_version != new.resource_version:  # a resync is no change
                self._note(source, _Change(time.time(), "UPDATED", old, new))

        def on_delete(obj: KubeObject) -> None:
            self._note(source, _Change(time.time(), "DELETED", None, obj))

        informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete, name="dashboard history")

    def _note(self, source: str, change: _Change) -> None:
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

    def of(self, source: str, key: str) -> list[dict[str, Any]]:
        """The changes of one object, newest first, each with what differs."""
        found = self._changes.get((source, key), ())
        return [
            {
                "at": change.at,
                "type": change.type,
                "version": change.new.resource_version,
                "differences": [{"path": one.path, "old": one.old, "new": one.new} for one in _differences(change)],
            }
            for change in reversed(found)
        ]


def _held(changes: Sequence[_Change]) -> int:
    """Bytes of the states of one object: the old one of a change is the new one of the change before."""
    first = changes[0].old if changes else None
    return sum(len(change.new._data) for change in changes) + (len(first._data) if first is not None else 0)


def _differences(change: _Change) -> list[Difference]:
    if change.old is None:
        return []
    try:
        return list(differences(_shown(change.old), _shown(change.new)))
    except (DecodeError, RecursionError):  # it is nested too deeply to be compared
        return [Difference("<unreadable>", None, None)]


def _shown(obj: KubeObject) -> dict[str, Any]:
    return hide(obj.to_dict()) if is_secret(obj) else obj.to_dict()


def differences(old: Any, new: Any) -> Iterator[Difference]:
    """Where two JSON values differ, deepest place by deepest place; items of a list are known by name or type."""
    for path, was, is_now in changes(old, new):
        yield Difference(path, None if was is ABSENT else _text(was), None if is_now is ABSENT else _text(is_now))


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
