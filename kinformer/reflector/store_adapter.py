"""The stores that a reflector writes to: an informer's queue, or a custom store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import UserFunction, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.cache.store import Store
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import Known, is_another, resource_version_of, uid_of

__all__ = ["EventStore", "ListSink", "ReflectorStore", "StreamingStore", "event_store", "streaming_store"]

log = get_logger("kinformer.reflector")


@runtime_checkable
class ReflectorStore(Protocol):
    """A store with synchronous methods, such as a `Store`, an `Indexer`, a `DeltaFIFO`, or a custom store.

    If a method raises, `Reflector.run` ends and raises the exception. A store may also have the methods of
    `BookmarkStore` and `KnowingStore`.
    """

    def add(self, obj: Any, /) -> object:
        """Write an object that is new to the source."""
        ...

    def update(self, obj: Any, /) -> object:
        """Write a newer state of an object."""
        ...

    def delete(self, obj: Any, /) -> object:
        """Write the last state of a deleted object."""
        ...

    def replace(self, items: list[Any], resource_version: str, /) -> object:
        """Write all objects of the source. The store owns the list."""
        ...

    def resync(self) -> object:
        """Replay the objects in the store to its listeners."""
        ...


@runtime_checkable
class BookmarkStore(Protocol):
    """A store that accepts versions that a server reports without an event."""

    def bookmark(self, resource_version: str, /) -> object: ...


@runtime_checkable
class KnowingStore(Protocol):
    """A store that returns the object with a key, or None, so that a relist needs no second copy of it."""

    def known(self, key: str, /) -> object: ...


class EventStore(Protocol):
    """A store that accepts whole batches, such as an informer's queue."""

    @property
    def at_once(self) -> int:
        """The number of events to write before a look at the clock. 1 if they go to functions of the program."""
        ...

    @property
    def known(self) -> Known | None:
        """A function that returns the object with a key, or None. None if the store has no such function."""
        ...

    def write(self, events: Sequence[WatchEvent], resource_version: str, /) -> None:
        """Write events of a watch, all with known types. `resource_version` is reached with the last one."""
        ...

    def replace(self, items: ChunkedList[object], resource_version: str, /) -> None:
        """Write all objects of the source. The store owns the list."""
        ...

    def resync(self) -> None:
        """Replay the objects in the store."""
        ...


class ListSink(Protocol):
    """Takes the objects of one list or initial stream as they arrive. A repeated list uses another sink."""

    def put(self, obj: Any, /) -> None:
        """Take an object of the list, or a newer state of one."""
        ...

    def is_newer(self, obj: object, /) -> bool:
        """Return False if this state of the object, or a newer one, has been taken from the same list."""
        ...

    def discard(self, key: str, obj: Any, /) -> None:
        """Record that an object of the list is gone. `obj` is its last state, or None if unknown."""
        ...

    def result(self) -> ChunkedList[object]:
        """Return the objects for the store's `replace`, when the list is complete."""
        ...


@runtime_checkable
class StreamingStore(Protocol):
    """A store that takes the objects of a list as they arrive, and makes the reflector wait while it is full."""

    @property
    def has_part(self) -> bool:
        """True if objects of a first list that failed have been passed on. The next list must not be older."""
        ...

    def sink(self) -> ListSink:
        """Return the sink for a new list."""
        ...

    def is_full(self) -> bool:
        """True if the reflector should wait for `room` before reading or requesting more."""
        ...

    async def room(self) -> None:
        """Wait until the store is not full."""
        ...


def streaming_store(store: object) -> StreamingStore | None:
    """Return the store if it is a `StreamingStore`."""
    return store if isinstance(store, StreamingStore) else None


def event_store(store: ReflectorStore | EventStore) -> EventStore:
    """Return the store itself if it accepts batches, or else an adapter around it."""
    return _StoreAdapter(store) if isinstance(store, ReflectorStore) else store


def _known_of(store: ReflectorStore) -> Known | None:
    if isinstance(store, KnowingStore):
        return store.known
    return store.get_by_key if isinstance(store, Store) else None


class _StoreAdapter:
    """Writes batches to a store that takes objects one by one."""

    at_once = 1

    def __init__(self, store: ReflectorStore) -> None:
        self._store = store
        self._budget = YieldBudget(UserFunction(f"the store {type(store).__name__}", log))
        self._bookmark: Callable[[str], object] | None = store.bookmark if isinstance(store, BookmarkStore) else None
        self.known = _known_of(store)

    def write(self, events: Sequence[WatchEvent], resource_version: str) -> None:
        store = self._store
        self._budget.enter()
        for kind, obj in events:
            if kind == "MODIFIED":
                store.update(obj)
            elif kind == "ADDED":
                store.add(obj)
            elif kind == "DELETED":
                if not self._is_late(obj):
                    store.delete(obj)
            elif self._bookmark is not None:
                self._bookmark(resource_version_of(obj))
            self._budget.key = str(getattr(obj, "key", ""))
        self._budget.blame()

    def _is_late(self, deleted: object) -> bool:
        """True for the doubled or late DELETED of an object whose name belongs to another one now."""
        # Only a `Store` has applied every earlier event. A queue compares with the events that wait in it.
        held = self._store.get(deleted) if isinstance(self._store, Store) and uid_of(deleted) else None
        return held is not None and is_another(held, deleted)

    def replace(self, items: ChunkedList[object], resource_version: str) -> None:
        self._store.replace(list(items.drain()), resource_version)

    def resync(self) -> None:
        self._store.resync()
