"""The values of a derived collection: its cache, the calls that its handlers get, and its first complete state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer.cache.index import IndexFunc
from kinformer.cache.indexer import Indexer
from kinformer.cache.store import new_partitions
from kinformer.derived.entries import Entry, entry_of, is_same, value_of
from kinformer.objects.object import KubeObject
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Notification, Receiver
from kinformer.processor.publisher import Publisher
from kinformer.processor.resync_schedule import ResyncSchedule

__all__ = ["KeyQueue", "ValueIndexers", "Values", "over_values"]

ValueIndexers = dict[str, IndexFunc[Any] | str]


class KeyQueue:
    """A queue of keys to compute, each once, in the order in which they were added."""

    __slots__ = ("_keys", "_order")

    def __init__(self) -> None:
        self._keys: dict[str, None] = {}
        self._order: deque[str] = deque()  # taking the first key of a dict gets slow

    def add(self, key: str) -> None:
        """Add a key, unless it is already waiting."""
        if key not in self._keys:
            self._keys[key] = None
            self._order.append(key)

    def take(self) -> str:
        """Take the key that has waited longest."""
        key = self._order.popleft()
        del self._keys[key]
        return key

    def drain(self, compute: Callable[[str], None], budget: YieldBudget) -> bool:
        """Call `compute` with each key, until none is left or the budget is exhausted. Return True if none is left.

        Args:
            compute: The function to call, which may add keys.
            budget: The time that this may take.
        """
        while self._keys:
            compute(self.take())
            if budget.exhausted():
                break
        return not self._keys

    def __len__(self) -> int:
        return len(self._keys)


class OfValue:
    """An index function over entries that calls one over values. Equal if the functions over values are equal."""

    __slots__ = ("func",)

    def __init__(self, func: Callable[[Any], Iterable[str]]) -> None:
        self.func = func

    def __call__(self, entry: Entry) -> Iterable[str]:
        return self.func(value_of(entry))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfValue) and self.func == other.func

    def __hash__(self) -> int:
        return hash(self.func)

    def __repr__(self) -> str:
        return repr(self.func)


class Values(Publisher):
    """The cache of a derived collection, and the calls that its changes cause.

    The first values are collected beside the cache, and appear in it in one step. Until then readers see nothing, and
    from then on everything. `set` and `remove` change the values, before that step and after it.

    Attributes:
        is_live: True once the first values are in the cache.
        wake: Schedules the work of the engine, which sets it.
    """

    def __init__(self) -> None:
        self.schedule = ResyncSchedule(self._resync)
        indexer: Indexer[Entry] = Indexer(attrgetter("key"))
        super().__init__(indexer, self.schedule)
        self.indexer = indexer
        self.is_live = False
        self.wake: Callable[[], None] = _nothing
        self._first: list[dict[str, Entry]] = new_partitions()
        self._publishing: Iterator[None] | None = None
        self._resyncing: Iterator[str] = iter(())
        self._resynced: Sequence[Receiver] = ()

    def add_indexers(self, indexers: ValueIndexers) -> None:
        """Add indexes over the values. See `Indexer.add_indexers`."""
        self.indexer.add_indexers(over_values(indexers))

    # --- the writer's side ------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """Return the entry of a key, in the cache or still beside it, or None."""
        return self.indexer.get_by_key(key) if self.is_live else self._first[hash(key) & 63].get(key)

    def tables(self) -> Iterable[dict[str, Entry]]:
        """Return all entries by key, in the cache or still beside it, in tables that are read when reached."""
        return self.indexer.tables() if self.is_live else map(dict.copy, self._first)

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key. Does nothing if it has the same one (`is_same`)."""
        old = self.get(key)
        if old is not None and is_same(value_of(old), value):
            return
        entry = entry_of(key, value)
        if not self.is_live:
            self._first[hash(key) & 63][key] = entry
            return
        self.indexer.put(key, entry)
        if old is None:
            self._tell((ADD, key, None, entry, False))
        elif type(old) is KubeObject and type(entry) is KubeObject and old.uid != entry.uid:
            self._tell((DELETE, key, old, old, True))  # as in an informer: another object has its name
            self._tell((ADD, key, None, entry, False))
        else:
            self._tell((UPDATE, key, old, entry, False))

    def remove(self, key: str) -> None:
        """Remove the value of a key, if it has one."""
        if not self.is_live:
            self._first[hash(key) & 63].pop(key, None)
            return
        old = self.indexer.pop(key)
        if old is not None:
            self._tell((DELETE, key, old, old, False))

    def _tell(self, call: Notification) -> None:
        self._calls.append(call)
        if len(self._calls) >= self._slice:
            self.hand_out()

    @property
    def is_publishing(self) -> bool:
        """True while the first values are being moved into the cache, and may not change."""
        return self._publishing is not None and not self.is_live

    def publish(self, budget: YieldBudget) -> bool:
        """Move the first values into the cache, in slices and a final single step. Return True once they are in it."""
        if self._publishing is None:
            self._publishing = self._steps()
        return all(not budget.exhausted() for _ in self._publishing)

    def _steps(self) -> Iterator[None]:
        rebuild = self.indexer.rebuild()
        entries: ChunkedList[Entry] = ChunkedList()
        for part in self._first:
            for key, entry in part.items():
                rebuild.put(key, entry)
                entries.append(entry)
                yield
        rebuild.commit()  # the cache was empty before, so nothing must be freed in steps
        self._first = []
        self.is_live = True
        self._start(tuple(self._receivers), entries)
        self._open()

    # --- resyncs ----------------------------------------------------------------------------------

    def _resync(self) -> None:
        self._resynced = (*self._resynced, *self.schedule.take_due())
        self._resyncing = iter(self.indexer.list_keys())
        self.wake()

    def replay(self, budget: YieldBudget) -> bool:
        """Deliver the cached objects to the handlers that are due for a resync. Return True when this is done.

        Each object is read when its turn comes, so no handler gets an older state after a newer one.
        """
        self.hand_out()
        while keys := list(islice(self._resyncing, self._slice)):
            entries = ((key, self.indexer.get_by_key(key)) for key in keys)
            self._calls = [(SYNC, key, entry, entry, False) for key, entry in entries if entry is not None]
            self.hand_out(self._resynced)
            if budget.exhausted():
                return False
        self._resynced = ()
        return True


def over_values(indexers: ValueIndexers) -> ValueIndexers:
    """Convert indexers over values to indexers over entries. A path is kept, because it reads both."""
    return {name: func if isinstance(func, str) else OfValue(func) for name, func in indexers.items()}


def _nothing() -> None:
    """Stand in for `wake` until the collection is entered."""
