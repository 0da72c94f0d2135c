"""What changed lately in each object, as a list of differences."""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kinformer.cli.dashboard.secrets import hide, is_secret
from kinformer.informer import SharedInformer
from kinformer.object import KubeObject

__all__ = ["Difference", "History", "differences"]

_AN_OBJECT = 20  # changes of one object that are kept
_BYTES = 32 * 1024 * 1024  # of old states that all of them may hold on to
_LONGEST = 2000  # characters of a value that are shown
_NOISE = {"metadata.resourceVersion", "metadata.managedFields", "metadata.generation"}


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
        changes.append(change)
        self._bytes += len(change.new.raw)
        if len(changes) > _AN_OBJECT:
            self._bytes -= len(changes.popleft().new.raw)
        while self._bytes > _BYTES and len(self._changes) > 1:
            _, forgotten = self._changes.popitem(last=False)
            self._bytes -= sum(len(change.new.raw) for change in forgotten)

    def of(self, source: str, key: str) -> list[dict[str, Any]]:
        """The changes of one object, newest first, each with what differs."""
        found = self._changes.get((source, key), ())
        return [
            {
                "at": change.at,
                "type": change.type,
                "version": change.new.resource_version,
                "differences": [
                    {"path": one.path, "old": one.old, "new": one.new}
                    for one in (differences(_shown(change.old), _shown(change.new)) if change.old is not None else ())
                ],
            }
            for change in reversed(found)
        ]


def _shown(obj: KubeObject) -> dict[str, Any]:
    return hide(obj.to_dict()) if is_secret(obj) else obj.to_dict()


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Where two JSON values differ, deepest place by deepest place; items of a list are known by name or type."""
    if path in _NOISE:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            place = f"{path}.{key}" if path else key
            if "." in key or "/" in key:
                place = f"{path}[{key}]"
            yield from _member(old, new, key, place)
        return
    by_name = _by_name(old), _by_name(new)
    if by_name[0] is not None and by_name[1] is not None:
        for key in [*by_name[0], *(key for key in by_name[1] if key not in by_name[0])]:
            yield from _member(by_name[0], by_name[1], key, f"{path}[{key}]")
        return
    was, is_now = _text(old), _text(new)
    if was != is_now or old != new:  # 1 equals True in Python, not in JSON; and a text may have been cut
        yield Difference(path, was, is_now)


def _member(old: Mapping[str, Any], new: Mapping[str, Any], key: str, place: str) -> Iterator[Difference]:
    if place in _NOISE:
        return
    if key not in new:
        yield Difference(place, _text(old[key]), None)
    elif key not in old:
        yield Difference(place, None, _text(new[key]))
    else:
        yield from differences(old[key], new[key], place)


def _by_name(value: Any) -> dict[str, Any] | None:
    """A list of objects by what the API knows them by; None where they have no such field, or share one."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    for field in ("name", "type"):
        names = [item.get(field) for item in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return dict(zip(names, value, strict=True))
    return None


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"
