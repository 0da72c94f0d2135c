"""The rule of others' fields: no write from an outdated state undoes a change that another client has made.

A write that undoes a change may be meant: many operators put a field back. So a write is only suspected at first. At
the end of the history the change is made again, and what the program does with it, now that it sees it, decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kinformer.testing.explore.rules.finding import Object, ObjectKey, Violation
from kinformer.testing.explore.rules.sent import SentRequest
from kinformer.testing.explore.server import ExploredServer

__all__ = ["Fields", "UndoneChange"]

_SERVERS = ("resourceVersion", "managedFields", "generation")  # fields that the server sets at each write
_MOST = 3  # suspected writes in a history that are looked into


@dataclass(frozen=True)
class _Foreign:
    revision: int
    before: Object
    after: Object


@dataclass(frozen=True)
class UndoneChange:
    """A change of others that a write has undone."""

    finding: Violation
    key: ObjectKey
    uid: str
    path: tuple[str, ...]
    value: Any

    def make_again(self, server: ExploredServer) -> bool:
        """Make the change again. Returns False if the object is gone, or has the change."""
        obj = self._object(server)
        if obj is None or _at(obj, self.path) == self.value:
            return False
        *way, last = self.path
        place: Any = obj
        for name in way:
            inner = place.get(name)
            place[name] = inner = dict(inner) if isinstance(inner, dict) else {}
            place = inner
        if self.value is None:
            place.pop(last, None)
        else:
            place[last] = self.value
        server.update(obj)
        return True

    def stays(self, server: ExploredServer) -> bool:
        """Return True if the object has the change."""
        obj = self._object(server)
        return obj is not None and _at(obj, self.path) == self.value

    def _object(self, server: ExploredServer) -> Object | None:
        namespace, _, name = self.key[1].rpartition("/")
        try:
            obj = server.get(self.key[0], namespace, name)
        except LookupError:  # no longer served
            return None
        return obj if obj is not None and obj["metadata"]["uid"] == self.uid else None


class Fields:
    """The last change of each object by others, and the suspected writes of one history."""

    def __init__(self) -> None:
        self._foreign: dict[ObjectKey, _Foreign] = {}
        self.suspected: list[UndoneChange] = []

    def note_foreign(self, key: ObjectKey, old: Object, new: Object) -> None:
        """Note a change by others."""
        self._foreign[key] = _Foreign(int(new["metadata"]["resourceVersion"]), old, new)

    def forget(self, key: ObjectKey) -> None:
        """Forget an object that is gone."""
        self._foreign.pop(key, None)

    def note(self, key: ObjectKey, old: Object, new: Object, sent: SentRequest) -> None:
        """Note a write by a replica."""
        foreign = self._foreign.get(key)
        if foreign is None or len(self.suspected) >= _MOST or sent.is_checked or sent.is_apply:
            return
        if not sent.reads.have(key) or sent.reads.newest(key) >= foreign.revision:
            return  # it does not write what it has read, or it knew of the change
        for path in _changed(foreign.before, foreign.after):
            if _at(old, path) == _at(foreign.after, path) and _at(new, path) == _at(foreign.before, path):
                self._suspect(key, path, foreign, sent)
                return

    def _suspect(self, key: ObjectKey, path: tuple[str, ...], foreign: _Foreign, sent: SentRequest) -> None:
        message = (
            f"{sent.replica} wrote {key[0]} {key[1]} from a state before {foreign.revision}, and so undid the change"
            f" of {'.'.join(path)} that another client had made"
        )
        uid, value = foreign.after["metadata"]["uid"], _at(foreign.after, path)
        self.suspected.append(UndoneChange(Violation("fields", message, (" ".join(key),)), key, uid, path, value))


def _changed(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in {**before, **after}:
            if not (path == ("metadata",) and name in _SERVERS):
                yield from _changed(before.get(name), after.get(name), (*path, name))
    elif before != after:
        yield path


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj
