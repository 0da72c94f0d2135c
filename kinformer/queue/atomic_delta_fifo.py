"""The queue of an informer: changes that its reflectors have written and that the processor has not applied yet.

Unlike `DeltaFIFO`, it does not group changes by key. When a change is applied, the cache decides whether it is an add,
an update or a delete. So the queue is a deque of batches, in the order in which the server sent them, and a full list
is one entry (client-go, tools/cache/the_real_fifo.go, with its atomic events).
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import MOST_AT_ONCE
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import Known
from kinformer.objects.object import KubeObject

__all__ = ["AtomicDeltaFIFO", "Entry", "EventBatch", "FullList", "Marker", "QueueWriter", "ScopeChange", "ScopeStep"]

_new_tuple = tuple.__new__


class EventBatch(NamedTuple):
    """A batch of events from one watch.

    Attributes:
        scope: The namespace of the reflector that wrote them, or None if the informer has one reflector for all.
        resource_version: The version that the reflector has reached with the last event.
        events: The events, in order. Their types are ADDED, MODIFIED, DELETED and BOOKMARK.
    """

    scope: str | None
    resource_version: str
    events: Sequence[WatchEvent]


class FullList(NamedTuple):
    """A full list: all objects of one namespace, or of all (None). The consumer is the first to read `items`."""

    items: list[object] | ChunkedList[object]
    resource_version: str
    scope: str | None = None


class Marker(enum.Enum):
    """An entry that changes no object."""

    RESYNC = "replay the cache to the handlers that are due"
    CHECKPOINT = "wake the consumer"


class ScopeStep(enum.Enum):
    """The step of a `ScopeChange`."""

    JOINED = "its first list has not arrived"
    COMPLETE = "the cache is complete without its first list"
    LEFT = "its objects are removed from the cache"


class ScopeChange(NamedTuple):
    """A scope that joins or leaves, in order with the changes before and after it."""

    scope: str
    step: ScopeStep


Entry = EventBatch | FullList | Marker | ScopeChange


class AtomicDeltaFIFO:
    """A queue of entries in the order in which they were written. Its only consumer takes all of them at once.

    A `QueueWriter` writes to it with plain calls that never block, on the consumer's event loop. While the consumer
    waits and nothing is queued, a batch of events skips the queue: `direct` is called with it in the same step.
    This keeps the order, and saves the wake-up of a task for a single event.

    The writers append entries, and the consumer takes them. All of it happens on one event loop, so nothing is locked.

    Args:
        known: Returns the cached object with a key, or None. Reflectors call it, so that a relist holds no second copy
            of an object.

    Attributes:
        direct: Applies a batch at once, or a part of it, and returns the rest, if any. None if no consumer can.
        lists: The number of full lists that have been written.
    """

    def __init__(self, known: Callable[[str], KubeObject | None]) -> None:
        self.known = known
        self.direct: Callable[[EventBatch], EventBatch | None] | None = None
        self.lists = 0
        self._entries: deque[Entry] = deque()
        self._waiter: asyncio.Future[None] | None = None  # set while the consumer waits and has not been woken
        self._closed = False

    # --- writes --------------------------------------------------------------------------------

    def writer(self, scope: str | None = None) -> QueueWriter:
        """Return the store for the reflector that follows `scope`."""
        return QueueWriter(self, scope)

    def append(self, entry: Entry) -> None:
        """Queue an entry."""
        self._entries.append(entry)
        self._wake()

    def resync(self) -> None:
        """Queue a replay of the cache."""
        self.append(Marker.RESYNC)

    def checkpoint(self) -> None:
        """Wake the consumer without anything to apply."""
        self.append(Marker.CHECKPOINT)

    def change_scope(self, scope: str, step: ScopeStep) -> None:
        """Queue a `ScopeChange`."""
        if step is ScopeStep.LEFT:
            self.lists += 1  # leaving counts as a last, empty list
        self.append(ScopeChange(scope, step))

    def close(self) -> None:
        """End the queue: after the entries that are queued, `take` returns None. Closing it again does nothing."""
        self._closed = True
        self._wake()

    # --- reads ---------------------------------------------------------------------------------

    async def take(self) -> Sequence[Entry] | None:
        """Wait for entries, and take all of them. Return None once the queue is closed and empty.

        Only one consumer may call this at a time. If it is cancelled, it takes nothing.
        """
        while not self._entries:
            if self._closed:
                return None
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            finally:
                self._waiter = None
        taken, self._entries = self._entries, deque()
        return taken

    def __len__(self) -> int:
        """Return the number of changes that wait. A full list counts as one."""
        return sum(len(entry.events) if isinstance(entry, EventBatch) else 1 for entry in self._entries)

    def __bool__(self) -> bool:
        return True  # an empty queue is truthy

    # --- internals -----------------------------------------------------------------------------

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class QueueWriter:
    """The store of one reflector, which puts all writes into the queue (see the reflector's `EventStore`).

    Attributes:
        is_closed: True once the scope has left. Further writes of its reflector are dropped.
        lists: The number of full lists that were written.
    """

    __slots__ = ("_queue", "_scope", "is_closed", "lists")

    at_once = MOST_AT_ONCE

    def __init__(self, queue: AtomicDeltaFIFO, scope: str | None) -> None:
        self._queue = queue
        self._scope = scope
        self.is_closed = False
        self.lists = 0

    @property
    def known(self) -> Known | None:
        """A function that returns the cached object with a key. None before the first list: the cache is empty."""
        return self._queue.known if self._queue.lists else None

    def write(self, events: Sequence[WatchEvent], resource_version: str) -> None:
        """Queue events of a watch, or apply them at once. `resource_version` is reached with the last one."""
        if self.is_closed:
            return
        queue = self._queue
        # EventBatch(...) would be a Python call.
        changes = _new_tuple(EventBatch, (self._scope, resource_version, events))
        is_empty_and_awaited = queue._waiter is not None
        left = queue.direct(changes) if is_empty_and_awaited and queue.direct is not None else changes
        if left is not None:
            queue.append(left)

    def replace(self, items: list[object] | ChunkedList[object], resource_version: str) -> None:
        """Queue a full list. The queue owns `items` from then on."""
        if not self.is_closed:
            self._queue.lists += 1
            self.lists += 1
            self._queue.append(FullList(items, resource_version, self._scope))

    def resync(self) -> None:
        """Queue a replay of the cache."""
        self._queue.resync()
