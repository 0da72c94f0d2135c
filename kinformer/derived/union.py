"""The union of collections: of one kind, or of several clusters under the names of these."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer.derived.engine import Engine
from kinformer.derived.entries import value_of
from kinformer.derived.tap import Change, Tap
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.processor.publisher import Readable

__all__ = ["UnionEngine", "check_member"]

_LOOK = 32  # values between two looks at the clock


def check_member(name: str) -> str:
    """Return the name of a member of a union.

    Raises:
        ConfigError: It is empty or has a slash, so that the keys of its objects would be ambiguous.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise ConfigError(f"union: invalid name {name!r} of a member: expected a text that is not empty and has no '/'")
    return name


def _in_three(key: str) -> str:
    """Return a key with a namespace, an empty one if it has none: so the parts of a union's key can be told apart."""
    return key if "/" in key else f"/{key}"


class UnionEngine(Engine):
    """Puts the objects of several collections into one.

    Args:
        name: Of the collection.
        members: The collections, by the name that their keys begin with; or in the order in which they count: of two
            objects with one key that of the earlier collection is the value.
    """

    def __init__(self, name: str, members: Mapping[str, Readable] | tuple[Readable, ...]) -> None:
        sources = members if isinstance(members, tuple) else tuple(members.values())
        super().__init__(name, sources)
        self.has_members = isinstance(members, Mapping)
        self._names = tuple(map(check_member, members)) if isinstance(members, Mapping) else ()
        self._prefix: dict[Tap, str] = {}
        self._taps_by_name: dict[str, Tap] = {}
        self._dirty: dict[str, None] = {}
        self._order: deque[str] = deque()

    def start(self) -> None:
        """Begin to follow the members."""
        super().start()
        for name, tap in zip(self._names, self.taps, strict=False):
            self._prefix[tap] = f"{name}/"
            self._taps_by_name[name] = tap

    def add(self, name: str, member: Readable) -> None:
        """Add a member while it runs; its objects come as adds when it is complete.

        Raises:
            ConfigError: The name is taken.
            RuntimeError: The union has not been entered.
        """
        if self._propagation is None:
            raise RuntimeError(f"{self.name} has not been entered; members are added while it runs")
        if check_member(name) in self._taps_by_name:
            raise ConfigError(f"union: {self.name} has a member {name!r} already")
        tap = self._tap(member, with_state=True)
        self._prefix[tap] = f"{name}/"
        self._taps_by_name[name] = tap

    def remove(self, name: str) -> None:
        """Remove a member and its objects, which are told as deletes.

        Raises:
            KeyError: There is none of this name.
        """
        tap = self._taps_by_name.pop(name)
        prefix = self._prefix.pop(tap)
        tap.detach()
        self.taps.remove(tap)
        if tap.source.engine is not None:
            tap.source.engine.left_by(self)
        for key in self.values.all_keys():
            if key.startswith(prefix):
                self._mark(key)
        self.wake()

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self._taps_by_name)

    def _input_ended(self, source: Readable, error: BaseException) -> None:
        if not self.has_members or not isinstance(error, StoppedError):
            super()._input_ended(source, error)
            return
        # A cluster that has left takes its objects along, and holds up no other.
        for name, tap in list(self._taps_by_name.items()):
            if tap.source is source:
                self.remove(name)

    @property
    def _is_behind(self) -> bool:
        return bool(self._dirty)

    def _absorb(self, tap: Tap, change: Change) -> None:
        self._mark(self._prefix[tap] + _in_three(change[0]) if self.has_members else change[0])

    def _mark(self, key: str) -> None:
        if key not in self._dirty:
            self._dirty[key] = None
            self._order.append(key)

    def _compute(self, budget: YieldBudget) -> bool:
        left = _LOOK
        while self._order:
            key = self._order.popleft()
            del self._dirty[key]
            entry = self._entry(key)
            if entry is None:
                self.values.remove(key)
            else:
                self.values.set(key, value_of(entry))
            left -= 1
            if not left:
                left = _LOOK
                if budget.exhausted():
                    break
        return not self._order

    def _entry(self, key: str) -> Any:
        if self.has_members:
            name, _, own = key.partition("/")
            tap = self._taps_by_name.get(name)
            return None if tap is None else tap.source.publisher.cache.get_by_key(own.removeprefix("/"))
        for tap in self.taps:
            entry = tap.source.publisher.cache.get_by_key(key)
            if entry is not None:
                return entry
        return None
