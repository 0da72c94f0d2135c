"""Groups: the objects of a collection by a key that the program chooses."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Any

from kinformer._runtime.clock import UserFunction, YieldBudget
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.derived.engine import Engine
from kinformer.derived.entries import Entry, EntryChange, value_of
from kinformer.derived.tap import Tap
from kinformer.derived.values import KeyQueue
from kinformer.informer.collection import Collection

__all__ = ["GroupEngine"]

log = get_logger("kinformer.derived")

Names = str | Iterable[str] | None


class _Group:
    """The members of one group, ordered by key, so that a group does not depend on the order of events."""

    __slots__ = ("keys", "members")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.members: dict[str, Any] = {}

    def put(self, key: str, entry: Entry) -> None:
        if key not in self.members:
            insort(self.keys, key)
        self.members[key] = entry

    def remove(self, key: str) -> None:
        del self.members[key]
        del self.keys[bisect_left(self.keys, key)]


class GroupEngine(Engine):
    """Keeps the members of each group, whose tuple is the value of the group.

    Args:
        name: The name of the collection.
        source: The collection whose objects are grouped.
        function: Returns the groups of an object: one, several, or none.
    """

    def __init__(self, name: str, source: Collection, function: Callable[[Any], Names]) -> None:
        super().__init__(name, (source,))
        self._view = self._sources[0].view
        self._function = function
        self._failures = 0
        self._filed: dict[str, tuple[str, ...]] = {}  # the groups of each object
        self._groups: dict[str, _Group] = {}  # those that have members
        self._dirty = KeyQueue()
        self._logged = LogOnce()
        self._user_function = UserFunction(f"the function of derived collection {name}", log, name)

    def _figures(self) -> dict[str, int]:
        return {"failures": self._failures, "waiting": len(self._dirty)}

    @property
    def _is_behind(self) -> bool:
        return bool(self._dirty)

    def _absorb(self, tap: Tap, change: EntryChange) -> None:
        key, _, entry = change
        before = self._filed.get(key, ())
        names = () if entry is None else self._names(key, entry)
        for name in before:
            if name not in names:
                group = self._groups[name]
                group.remove(key)
                if not group.keys:
                    del self._groups[name]
                self._dirty.add(name)
        for name in names:
            self._groups.setdefault(name, _Group()).put(key, entry)
            self._dirty.add(name)
        if names:
            self._filed[key] = names
        else:
            self._filed.pop(key, None)

    def _names(self, key: str, entry: Entry) -> tuple[str, ...]:
        try:
            result = self._function(self._view(entry))
            names = () if result is None else (result,) if isinstance(result, str) else tuple(dict.fromkeys(result))
            for name in names:
                if not isinstance(name, str) or not name:
                    raise TypeError(f"group_by: expected a non-empty string as the name of a group, got {name!r}")
        except Exception as error:
            self._failures += 1
            if self._logged.is_news(key, type(error).__name__):
                message = "derived collection %s: no group for %s, which is left out until it changes: %s"
                log.error(
                    message, self.name, key, error, exc_info=error, resource=self.name, key=key, reason="derive_failed"
                )
            return ()
        finally:
            self._user_function.returned(key)
        return names

    def _compute(self, budget: YieldBudget) -> bool:
        return self._dirty.drain(self._set, budget)

    def _set(self, name: str) -> None:
        group = self._groups.get(name)
        if group is None:
            self.values.remove(name)
        else:
            members = group.members
            self.values.set(name, tuple([value_of(members[key]) for key in group.keys]))
