"""The engine of `derive`: calls a function for each object of a collection, and again when its reads change."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kinformer._runtime.clock import UserFunction, YieldBudget
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.derived.engine import Engine
from kinformer.derived.entries import EntryChange, Joined, value_of
from kinformer.derived.fetch import Fetch, NotReady
from kinformer.derived.many import ManyValues
from kinformer.derived.reads import ReadRecord
from kinformer.derived.tap import Tap
from kinformer.derived.values import KeyQueue
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.core import CollectionCore

__all__ = ["FunctionEngine"]

log = get_logger("kinformer.derived")

_MARKS = 256  # keys that are marked between two checks of the clock

Function = Callable[..., Any]


class FunctionEngine(Engine):
    """Computes the values that a function returns for the objects of the primary collection.

    Args:
        name: The name of the collection.
        primary: The collection whose objects the function gets.
        function: `function(obj, fetch)`, or `function(obj)` for a mapping or filter.
        fetches: False if the function takes no `fetch`.
        many: True if the function returns a mapping, or pairs, of keys and values.

    Attributes:
        runs: The number of calls of the function.
        failures: The number of calls that raised.
    """

    def __init__(self, name: str, primary: Collection, function: Function, *, fetches: bool, many: bool) -> None:
        super().__init__(name, (primary,))
        self.runs = 0
        self.failures = 0
        source = self._sources[0]
        self._entry: Callable[[str], Any] = source.publisher.cache.get_by_key
        self._view = source.view
        self.has_members = source.core.has_members and not many
        self._function = function
        self._fetches = fetches
        self._many = ManyValues(name, self.values) if many else None
        self._dirty = KeyQueue()
        self._marking: deque[Iterator[str | None]] = deque()  # keys affected by changes, if there are many
        self._blocked: dict[Tap, dict[str, None]] = {}  # the keys that wait for a collection to be complete
        self._fetched: dict[int, tuple[Tap, Collection]] = {}  # by the id of a collection, which is not reused
        self._numbered: dict[int, Tap] = {}  # the taps of fetched collections, by the number in `reads`
        self.reads = ReadRecord(self._values_of)
        self._fetch = Fetch(self.reads, self._tap_of)
        self._logged = LogOnce()
        self._user_function = UserFunction(f"the function of derived collection {name}", log, name)

    # --- sources ----------------------------------------------------------------------------------

    def _tap_of(self, collection: Collection) -> Tap | None:
        """Return the tap of a collection that the function fetches, or None if its cluster has left a fleet."""
        fetched = self._fetched.get(id(collection))
        if fetched is not None:
            return fetched[0]
        core = core_of(collection)
        if isinstance(core, CollectionCore) and core.has_departed:
            return None
        source = self.source_of(collection)
        taps = (tap for tap in self.taps if tap.source.reads_as(source))  # the primary's
        tap = next(taps, None) or self._tap(source, with_state=False)
        self._fetched[id(collection)] = (tap, collection)
        self._numbered[tap.number] = tap
        return tap

    def _untap(self, tap: Tap) -> None:
        super()._untap(tap)
        del self._numbered[tap.number]
        self._blocked.pop(tap, None)
        self._fetched = {number: fetched for number, fetched in self._fetched.items() if fetched[0] is not tap}

    def _input_ended(self, tap: Tap, error: BaseException) -> None:
        # Whether a value still depends on a fetched collection is known when all changes are in the values.
        if tap is self.taps[0]:
            super()._input_ended(tap, error)
        else:
            self.wake()

    def _let_departed_go(self) -> None:
        """Compute the values again that were computed from a collection whose cluster has left a fleet."""
        for tap in self.taps[1:]:
            if tap.error is not None and tap.source.core.has_departed:
                self._marking.append(self.reads.of_source(tap.number))
                self._untap(tap)

    def _let_unread_go(self) -> None:
        """Cease to read collections that no value depends on. End if another one has ended."""
        for number in self.reads.take_unread():
            tap = self._numbered.get(number)
            if tap is not None and tap is not self.taps[0]:
                self._untap(tap)
        for tap in self.taps:
            if tap.error is not None:
                self.values.hand_out()  # before streams end
                super()._input_ended(tap, tap.error)
                return

    def _values_of(self, number: int, index: str, entry: Any) -> Iterable[str]:
        return self._numbered[number].source.publisher.cache.values_of(index, entry)

    def _figures(self) -> dict[str, int]:
        return {
            "runs": self.runs,
            "failures": self.failures,
            "dependencies": len(self.reads),
            "waiting": len(self._dirty) + sum(map(len, list(self._blocked.values()))),  # a copy, for any thread
        }

    # --- work -------------------------------------------------------------------------------------

    @property
    def _is_behind(self) -> bool:
        return len(self._dirty) > 0 or any(tap.is_synced and not tap.is_building for tap in self._blocked)

    @property
    def _is_waiting(self) -> bool:
        return bool(self._blocked)

    def _absorb(self, tap: Tap, change: EntryChange) -> None:
        if tap is self.taps[0]:
            self._dirty.add(change[0])
        if self.reads.has(tap.number):
            concerned = self.reads.concerned(tap.number, change)
            for number, key in enumerate(concerned, 1):
                self._dirty.add(key)
                if number == _MARKS:
                    self._marking.append(concerned)
                    break

    def _compute(self, budget: YieldBudget) -> bool:
        if not self._mark(budget):
            return False
        self._let_departed_go()
        if not self._mark(budget):
            return False
        for tap in [tap for tap in self._blocked if tap.is_ready]:
            for key in self._blocked.pop(tap):
                self._dirty.add(key)
        if not self._dirty.drain(self._run, budget):
            return False
        self._let_unread_go()
        # A complete source that keys still wait for has work itself. It works first, and this engine again after it.
        return not self._is_behind

    def _mark(self, budget: YieldBudget) -> bool:
        """Mark all affected keys, before computing, so that the recorded reads do not change. Return True if done."""
        while self._marking:
            for number, key in enumerate(self._marking[0], 1):
                if key is not None:
                    self._dirty.add(key)
                if number % _MARKS == 0 and budget.exhausted():
                    return False
            self._marking.popleft()
        return True

    def _run(self, key: str) -> None:
        entry = self._entry(key)
        if entry is None:
            self.reads.forget(key)
            self._logged.forget(key)
            self._set(key, None)
            return
        obj = self._view(entry)
        fetch = self._fetch
        fetch.read = []
        self.runs += 1
        try:
            value = self._function(obj, fetch) if self._fetches else self._function(obj)
            # The view holds everything that the function has decoded, so a value keeps the cached object instead.
            if value is obj:
                value = value_of(entry)
            elif type(value) is Joined and value.left is obj:
                value = Joined(value_of(entry), value.right)
            self._set(key, value)
        except NotReady as wait:
            self._blocked.setdefault(wait.tap, {})[key] = None
        except Exception as error:  # noqa: BLE001 - counted and logged, without affecting other values
            if self.circle is not None:
                raise self.circle from None
            self._failed(key, error)
            self._set(key, None)
        finally:
            self._user_function.returned(key)
            if self._fetches:
                self.reads.record(key, fetch.read)
            fetch.read = None

    def _set(self, key: str, value: Any) -> None:
        if self._many is not None:
            self._many.set(key, value)
        elif value is None:
            self.values.remove(key)
        else:
            self.values.set(key, value)

    def _failed(self, key: str, error: Exception) -> None:
        self.failures += 1
        if self._logged.is_news(key, type(error).__name__):
            line = "derived collection %s: its function failed on %s, which has no value until it changes: %s"
            log.error(line, self.name, key, error, exc_info=error, resource=self.name, key=key, reason="derive_failed")
