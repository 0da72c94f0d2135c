"""The union of collections of one kind, or of several clusters by their names."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.derived.engine import Engine
from kinformer.derived.entries import EntryChange, value_of
from kinformer.derived.tap import CollectionSource, Tap
from kinformer.derived.values import KeyQueue
from kinformer.exceptions import ConfigError, StoppedError, describe
from kinformer.informer.collection import Collection
from kinformer.informer.core import CollectionCore
from kinformer.reflector.health import InformerHealth

__all__ = ["AWAY_AFTER", "UnionEngine", "check_member"]

log = get_logger("kinformer.derived")

AWAY_AFTER = 10.0  # seconds
_NEXT_LOOK = 1.0  # seconds between two checks of members that have neither synced nor failed


def check_member(name: str) -> str:
    """Check and return the name of a member of a union.

    Raises:
        ConfigError: The name is empty or has a slash, so that the keys of its objects would be ambiguous.
    """
    if not isinstance(name, str) or not name or "/" in name:
        raise ConfigError(f"union: invalid member name {name!r}: expected a non-empty string without '/'")
    return name


def _key_behind(name: str, key: str) -> str:
    """Return the union's key for the key of a member's object: `"east/default/web-1"`, or `"east//node-1"`.

    A key that begins with a slash, which a program may choose, gets another one. So no two keys become the same.
    """
    return f"{name}//{key}" if key.startswith("/") or "/" not in key else f"{name}/{key}"


def _name_and_key(key: str) -> tuple[str, str]:
    """Return the name of the member and the key of its object, which `_key_behind` has put together."""
    name, _, own = key.partition("/")
    return name, own.removeprefix("/")


class _Member:
    """A named member of a union.

    Attributes:
        name: The name, with which the keys of its objects begin.
        tap: The input from its collection.
        since: The time when it was added, on the loop's clock.
        follows_another: True while the values still come from the collection that this one replaces.
        has_crashed: True once its collection has ended with an error. Its values stay.

    The engine sets the last three.
    """

    __slots__ = ("follows_another", "has_crashed", "name", "since", "tap")

    def __init__(self, name: str, tap: Tap, since: float) -> None:
        self.name = name
        self.tap = tap
        self.since = since
        self.follows_another = False
        self.has_crashed = False

    def health(self) -> InformerHealth:
        health: InformerHealth = self.tap.source.core.health()
        return health


class UnionEngine(Engine):
    """Puts the objects of several collections into one.

    Args:
        name: The name of the collection.
        members: The collections, by the name that their keys begin with. Or in the order of precedence: of two objects
            with one key, the earlier collection's object is the value.
        away_after: Seconds after which a named member whose requests fail no longer delays the first sync.

    Attributes:
        expects: Returns the reason why the union waits for more members to be added. None if it does not wait.
    """

    def __init__(
        self, name: str, members: Mapping[str, Collection] | tuple[Collection, ...], *, away_after: float = AWAY_AFTER
    ) -> None:
        super().__init__(name, members if isinstance(members, tuple) else tuple(members.values()))
        self.has_members = isinstance(members, Mapping)
        self.expects: Callable[[], str] | None = None
        self._names = tuple(map(check_member, members)) if isinstance(members, Mapping) else ()
        self._away_after = away_after
        self._members: dict[str, _Member] = {}
        self._name_of: dict[Tap, str] = {}
        self._dirty = KeyQueue()
        self._sweeps: deque[Iterator[None]] = deque()
        self._next_look: asyncio.TimerHandle | None = None

    # --- members ----------------------------------------------------------------------------------

    def _start(self) -> None:
        super()._start()
        for name, tap in zip(self._names, self.taps, strict=False):
            self._file(name, tap)
        if self.has_members:
            self._look_later(self._away_after)

    def _stop(self, error: BaseException) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
        super()._stop(error)

    def add(self, name: str, member: Collection) -> None:
        """Add a member while the union is running. Its objects are added when it is complete.

        Raises:
            ConfigError: The name is taken or invalid, or the member is derived from this union.
            RuntimeError: The union has not been entered.
        """
        if not self.life.has_begun:
            raise RuntimeError(f"{self.name} has not been entered; add members while it is running")
        if check_member(name) in self._members:
            raise ConfigError(f"union: {self.name} already has a member {name!r}")
        self._file(name, self._tap(self.source_of(member), with_state=True))

    def replace(self, name: str, member: Collection) -> None:
        """Replace a member with another collection. The values change when the new one is complete.

        Raises:
            KeyError: There is no member with this name.
        """
        before = self._members[name]
        tap = self._tap(self.source_of(member), with_state=True)
        self._let_go(name)
        after = self._file(name, tap)
        after.since = before.since
        after.follows_another = True
        self.wake()

    def remove(self, name: str) -> None:
        """Remove a member. Its objects are delivered as deletes.

        Raises:
            KeyError: There is no member with this name.
        """
        self._let_go(name)
        self._sweeps.append(self._sweep(name))
        self.wake()

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self._members)

    def _file(self, name: str, tap: Tap) -> _Member:
        member = self._members[name] = _Member(name, tap, asyncio.get_running_loop().time())
        self._name_of[tap] = name
        return member

    def _let_go(self, name: str) -> _Member:
        member = self._members.pop(name)
        del self._name_of[member.tap]
        self._untap(member.tap)
        return member

    def _input_ended(self, tap: Tap, error: BaseException) -> None:
        if not self.has_members:
            if tap.source.core.has_departed:
                self._untap(tap)
                self._sweeps.append(self._sweep(""))
                self.wake()
            else:
                super()._input_ended(tap, error)
            return
        # The objects of a cluster that was exited are removed. A crashed cluster keeps them. Neither delays another.
        name = self._name_of[tap]
        member = self._members[name]
        if isinstance(error, StoppedError):
            self.remove(name)
        elif not member.has_crashed:
            member.has_crashed = True
            message = "derived collection %s: %s no longer changes, because %s ended: %s"
            log.error(message, self.name, name, tap.source.name, describe(error), resource=self.name, reason=error)
            self.wake()

    def inputs(self, member: str = "") -> Sequence[CollectionSource]:
        """Return the current sources, or the source of one member, or the first ones before it has been entered."""
        if not member or not self.has_members or not self.life.has_begun:
            return super().inputs()
        match = self._members.get(member)
        return [] if match is None else [match.tap.source]

    # --- the first sync, and health ---------------------------------------------------------------

    @property
    def _is_complete(self) -> bool:
        if not self.has_members:
            return super()._is_complete
        return not self._is_behind and self.expects is None and not any(map(self._holds_up, self._unsynced()))

    def _unsynced(self) -> list[_Member]:
        return [member for member in self._members.values() if not member.tap.is_synced]

    def _holds_up(self, member: _Member) -> bool:
        """Return True if the first sync waits for an unsynced member, because it has not crashed and is not away."""
        if member.has_crashed:
            return False
        age = asyncio.get_running_loop().time() - member.since
        return age < self._away_after or member.health().last_error is None

    def _look_later(self, delay: float) -> None:
        self._next_look = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        # A failed request causes no event, so the members are checked regularly until the first sync.
        self._next_look = None
        if not self.values.is_live:
            self.wake()
            self._look_later(_NEXT_LOOK)

    def unsynced_errors(self) -> dict[str, BaseException | None]:
        """Return the last error of each member that has not synced, by name."""
        if not self.has_members:
            return super().unsynced_errors()
        return {name: member.health().last_error for name, member in self._members.items() if not member.tap.is_synced}

    def waits_for(self) -> tuple[list[str], list[tuple[str, CollectionCore]]]:
        """Return why its values are not complete: its own reasons, and the names and cores of incomplete members."""
        own, missing = super().waits_for()
        if self.expects is None or self.values.synced.is_open:
            return own, missing
        return [self.expects()], missing

    def blocked_by(self, strict: bool) -> list[CollectionCore]:
        """Return the sources that its first sync waits for. A member with a name is away after a while instead."""
        return super().blocked_by(strict) if strict or not self.has_members else []

    def _missing(self) -> list[tuple[str, CollectionCore]]:
        if not self.has_members:
            return super()._missing()
        return [(name, member.tap.source.core) for name, member in self._members.items() if not member.tap.is_synced]

    def _health_of_inputs(self, healths: Mapping[CollectionCore, InformerHealth]) -> list[InformerHealth]:
        parts = super()._health_of_inputs(healths)
        if not self.has_members:
            return parts
        # A member that has crashed counts as away, because the union continues.
        return [replace(part, state="backing_off") if part.state == "stopped" else part for part in parts]

    def member_health(self) -> dict[str, InformerHealth]:
        """Return the health of each member, by name."""
        return {name: member.health() for name, member in self._members.items()}

    # --- work -------------------------------------------------------------------------------------

    @property
    def _is_behind(self) -> bool:
        is_due = any(member.follows_another and member.tap.is_synced for member in self._members.values())
        return bool(self._dirty or self._sweeps) or is_due

    def _absorb(self, tap: Tap, change: EntryChange) -> None:
        if self.has_members:
            member = self._members[self._name_of[tap]]
            if not member.follows_another:  # otherwise all of its keys are marked once it is complete
                self._dirty.add(_key_behind(member.name, change[0]))
        else:
            self._dirty.add(change[0])

    def _sweep(self, name: str) -> Iterator[None]:
        """Mark the keys of the values of a member, or of all without a name, in steps."""
        prefix = f"{name}/" if name else ""
        for table in self.values.tables():
            for key in table:
                if key.startswith(prefix):
                    self._dirty.add(key)
            yield

    def _take_over(self, member: _Member) -> Iterator[None]:
        """Mark the keys of a member that replaces another one, and the keys of the other one, in steps."""
        for table in member.tap.source.publisher.cache.tables():
            for key in table:
                self._dirty.add(_key_behind(member.name, key))
            yield
        yield from self._sweep(member.name)

    def _compute(self, budget: YieldBudget) -> bool:
        for member in self._members.values():
            if member.follows_another and member.tap.is_synced:
                member.follows_another = False
                self._sweeps.append(self._take_over(member))
        while self._sweeps:
            for _ in self._sweeps[0]:
                if budget.exhausted():
                    return False
            self._sweeps.popleft()
        return self._dirty.drain(self._set, budget)

    def _set(self, key: str) -> None:
        entry: Any = None
        if self.has_members:
            name, own = _name_and_key(key)
            member = self._members.get(name)
            if member is not None and member.follows_another:
                return  # it keeps its value for now
            if member is not None:
                entry = member.tap.source.publisher.cache.get_by_key(own)
        else:
            entries = (tap.source.publisher.cache.get_by_key(key) for tap in self.taps)
            entry = next((candidate for candidate in entries if candidate is not None), None)
        if entry is None:
            self.values.remove(key)
        else:
            self.values.set(key, value_of(entry))
