"""The classic queue between a source and a cache: the changes of each key, in the order in which they came.

It is for programs that build their own informer: a `Reflector` writes to it, and `pop` passes each key to one function
(client-go, tools/cache/delta_fifo.go). `SharedInformer` has a simpler queue, `AtomicDeltaFIFO`. This one groups changes
by key, in `atomic` mode too, and finds out itself which objects are missing from a full list.

Two things differ from upstream on purpose: `has_synced` becomes True once the last initial item has been *processed*,
not when it has been taken; and only a first `replace` makes it synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.signatures import check_callback
from kinformer._runtime.waiters import WaiterQueue
from kinformer.cache.store import KeyFunc, KnownObjects, object_key
from kinformer.exceptions import StoppedError
from kinformer.objects.meta import DeletedFinalStateUnknown
from kinformer.queue.delta import Bookmark, Delta, DeltaType, Replacement

__all__ = ["Bookmark", "Delta", "DeltaFIFO", "DeltaType", "Replacement"]


Item = tuple[str, list[Delta], bool]
"""A key, its deltas with the oldest first, and True if it belongs to the initial list."""

Process = Callable[[list[Delta], bool], object]
BatchProcess = Callable[[list[Item]], object]

Segment = dict[str, list[Delta]]
"""The deltas that wait between two barriers, by key; oldest first."""

ADDED, UPDATED, DELETED, REPLACED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED, DeltaType.REPLACED
_ALL = ""  # the key of deltas that are not about a single object


class DeltaFIFO:
    """A queue that keeps the deltas of each key in order, and the keys in the order in which their oldest delta came.

    The methods that write are plain functions that never block; call them on the event loop that pops. Deltas of one
    key are kept apart, as upstream: an update is not folded into the add before it. Only two deletes in a row become
    one. So the length of the queue is bounded by how far the consumer is behind, not by the number of keys.

    Only one `process` runs at a time, even if several tasks pop, so the deltas of a key are never processed by two. If
    it raises, the exception comes out of that pop, and the item counts as processed: it is not put back.

    Args:
        key_func: Returns the key of an object.
        known_objects: The cache that the deltas end up in. With it, a delete of an object that is neither in the cache
            nor in the queue is dropped, `replace` finds the objects that are gone, and `resync` delivers the cached
            ones.
        emit_replaced: True, the default, delivers the items of `replace` as `REPLACED`, because `SYNC` hides that they
            were listed. False delivers them as `SYNC`, which older client-go programs expect.
        atomic: Makes `replace` one `REPLACED_ALL` and `resync` one `SYNC_ALL`, under the key `""`. Deltas that were
            queued before it are popped before it, later ones after it. The consumer then finds out which objects are
            gone, and gets deletes of unknown objects too.
        transform: Applied to objects as they are queued, but not to tombstones, nor on `resync`, because those objects
            have been transformed. It may see an object twice, and must return its own result unchanged.
        known: Answers `known(key)` if there is no `known_objects`.

    Raises:
        ValueError: `atomic` with `known_objects`, which would not be used.
        TypeError: `key_func` or `transform` cannot be called with an object.
    """

    def __init__(
        self,
        key_func: KeyFunc,
        *,
        known_objects: KnownObjects | None = None,
        emit_replaced: bool = True,
        atomic: bool = False,
        transform: Callable[[Any], Any] | None = None,
        known: Callable[[str], object | None] | None = None,
    ) -> None:
        if atomic and known_objects is not None:
            raise ValueError(
                "DeltaFIFO: known_objects cannot be combined with atomic=True, whose consumer compares lists with the "
                "cache; pass one of them"
            )
        check_callback(key_func, "key_func", "obj", "DeltaFIFO", plain=True)
        if transform is not None:
            check_callback(transform, "transform", "obj", "DeltaFIFO", plain=True)
        self._key_func = key_func
        self._known_objects = known_objects
        self._listed = DeltaType.REPLACED if emit_replaced else DeltaType.SYNC
        self._atomic = atomic
        self._transform = transform
        self._known = known_objects.get_by_key if known is None and known_objects is not None else known
        self._sealed: deque[Segment] = deque()  # the segments before the last barrier, and the barriers
        self._open: Segment = {}  # the segment after it
        self._front: deque[str] = deque()  # the next keys of the oldest segment, while single pops go through it
        self._closed = False
        self._busy = False  # a `process` is running
        self._waiters = WaiterQueue()
        self._replaced = False
        self._initial_waiting = 0  # keys at the head of the queue that are initial, once there was a `replace`
        self._initial_running = 0

    # --- writes --------------------------------------------------------------------------------

    def add(self, obj: object) -> None:
        """Queue an `ADDED`.

        Raises:
            KeyFuncError: There is no key for the object. Nothing was queued.
            Exception: `transform` raised. Nothing was queued.
        """
        self._put(ADDED, obj)

    def update(self, obj: object) -> None:
        """Queue an `UPDATED`; raises as `add`."""
        self._put(UPDATED, obj)

    def delete(self, obj: object) -> None:
        """Queue a `DELETED`, of an object or a tombstone; raises as `add`.

        A delete of an unknown object is dropped, except with `atomic`. Of two deletes in a row, the one whose object is
        not a tombstone stays; if both are objects, the older one.
        """
        key = object_key(self._key_func, obj)
        if not self._atomic and key not in self._open:
            known = self._known_objects
            if known is None or known.get_by_key(key) is None:
                return
        if self._transform is not None and not isinstance(obj, DeletedFinalStateUnknown):
            obj = self._transformed(key, obj)
        self.put(key, DELETED, obj)

    def put(self, key: str, kind: DeltaType, obj: object) -> None:
        """Queue a delta of one object under a key that the caller knows already, without `transform`."""
        delta = Delta(kind, obj)
        waiting = self._open.get(key)
        if waiting is None:
            self._open[key] = [delta]
        elif kind is DELETED and waiting[-1].type is DELETED:
            waiting[-1] = _one_delete(waiting[-1], delta)
        else:
            waiting.append(delta)
        self._wake()

    def replace(
        self, items: Iterable[object], resource_version: str = "", *, namespace: str | None = None, copy: bool = True
    ) -> None:
        """Queue a full list.

        Without `atomic`, it becomes one delta for each item, in order, and then a `DELETED` with a tombstone for each
        key that is queued or known and not in the list. With `atomic`, it becomes one delta.

        Args:
            items: All objects that exist (with `namespace`: in that namespace).
            resource_version: The version of the list.
            namespace: With `atomic`, the namespace of the list, if it is a list of one among several.
            copy: False, with `atomic`, makes the queue the owner of a list (or `ChunkedList`): the caller must not use
                it afterwards. Copying 100,000 objects that are not in the CPU's caches stalls the loop for 5 ms.

        Raises:
            KeyFuncError: There is no key for an item. Nothing was queued.
            Exception: `transform` raised. Nothing was queued.
            ValueError: A namespace without `atomic`.
        """
        if self._atomic:
            listed: list[object] | ChunkedList[object]
            if self._transform is not None:
                listed = [self._transformed(None, obj) for obj in items]
            else:
                listed = items if isinstance(items, (list, ChunkedList)) and not copy else list(items)
            self._barrier(Delta(DeltaType.REPLACED_ALL, Replacement(listed, resource_version, namespace)))
        elif namespace is not None:
            raise ValueError(f"replace: namespace={namespace!r} needs a queue with atomic=True")
        else:
            self._replace_each(items)
        if not self._replaced:
            self._replaced = True
            self._initial_waiting = len(self)
            # An item that is being processed now came before the list, so the sync waits for it too.
            self._initial_running = int(self._busy)

    def resync(self) -> None:
        """Deliver all objects again: a `SYNC` for each known key without waiting deltas, or one `SYNC_ALL` if `atomic`.

        A key with waiting deltas will be delivered anyway, and must not go back to its known state. Without
        `known_objects`, and without `atomic`, this does nothing.
        """
        if self._atomic:
            self._barrier(Delta(DeltaType.SYNC_ALL, None))
        elif self._known_objects is not None:
            for key in self._known_objects.list_keys():
                if key not in self._open:
                    obj = self._known_objects.get_by_key(key)
                    if obj is not None:
                        self.put(key, DeltaType.SYNC, obj)

    def bookmark(self, resource_version: str, *, namespace: str | None = None) -> None:
        """Record that the source has nothing newer up to `resource_version`; without `atomic` this does nothing.

        With `atomic`, a `BOOKMARK` under the key `""` is popped, and nothing that was queued before it is popped after
        it. It is not a barrier: later deltas may be popped with it or, for a key that waits already, before it. Of
        several bookmarks that wait, the newest of each namespace stays.
        """
        if not self._atomic:
            return
        mark = Delta(DeltaType.BOOKMARK, Bookmark(resource_version, namespace))
        marks: list[Delta] = self._open.pop(_ALL, [])
        if marks and not self._sealed and self._front:
            # Single pops are going through this segment: the bookmark moves to the end of their list too.
            self._front = deque(key for key in self._front if key != _ALL)
        self._open[_ALL] = [other for other in marks if other.object.namespace != namespace] + [mark]
        self._wake()

    def known(self, key: str) -> object | None:
        """Return the known object under `key`, or None.

        Reflectors call it, so that a relist holds no second copy of an object.
        """
        return None if self._known is None else self._known(key)

    def close(self) -> None:
        """End the queue: after the waiting items, `pop` raises `StoppedError`. Closing it again does nothing."""
        self._closed = True
        self._waiters.wake_all()

    # --- reads ---------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """True if `close` was called."""
        return self._closed

    @property
    def has_synced(self) -> bool:
        """True if everything that came before and with the first `replace` has been processed."""
        return self._replaced and not self._initial_waiting and not self._initial_running

    def __len__(self) -> int:
        """Return the number of keys that wait; a barrier counts as one."""
        if not self._sealed:
            return len(self._open)
        return len(self._open) + sum(map(len, self._sealed))

    def __bool__(self) -> bool:
        return True  # although an empty queue has the length 0

    # --- popping -------------------------------------------------------------------------------

    async def pop(self, process: Process) -> Any:
        """Wait for a key, take the one that has waited longest, and process it.

        `process(deltas, is_in_initial_list)` is a plain function or a coroutine function; its result is returned. It
        must not pop itself. A pop that is cancelled while it waits takes nothing; if it is cancelled while `process`
        runs, the item is gone.

        Raises:
            StoppedError: The queue is closed and empty.
            Exception: `process` raised it.
        """
        await self._turn()
        initial = self._is_initial(0)
        _, deltas = self._take_one()
        return await self._run(process, (deltas, initial), 1)

    async def pop_batch(self, process: BatchProcess) -> Any:
        """Wait for a key, take all waiting keys in one step, and process them.

        `process([(key, deltas, is_in_initial_list), ...])` gets the keys in order; otherwise this is like `pop`.

        Raises:
            StoppedError: The queue is closed and empty.
            Exception: `process` raised it.
        """
        await self._turn()
        segments = self._take_all()
        if self._replaced and not self._initial_waiting:
            batch: list[Item] = [(key, deltas, False) for segment in segments for key, deltas in segment.items()]
        else:
            batch = [
                (key, deltas, self._is_initial(place))
                for place, (key, deltas) in enumerate(item for segment in segments for item in segment.items())
            ]
        del segments
        return await self._run(process, (batch,), len(batch))

    async def _turn(self) -> None:
        """Wait until there is a key to take and no `process` runs."""
        while self._busy or not (self._open or self._sealed):
            if self._closed and not (self._open or self._sealed):
                raise StoppedError("DeltaFIFO: the queue is closed and empty, so there is nothing to pop")
            await self._waiters.wait()

    def _wake(self) -> None:
        # No task may take a key while `process` runs; its end wakes the next.
        if self._waiters and not self._busy:
            self._waiters.wake()

    def _take_all(self) -> tuple[Segment, ...]:
        segments = (*self._sealed, self._open) if self._open else tuple(self._sealed)
        self._sealed.clear()
        self._front.clear()
        self._open = {}
        return segments

    async def _run(self, process: Callable[..., object], arguments: tuple[object, ...], count: int) -> object:
        taken = min(count, self._initial_waiting)
        self._initial_waiting -= taken
        self._initial_running = taken
        self._busy = True
        try:
            result = process(*arguments)
            if result is not None and isawaitable(result):
                result = await result
            return result
        finally:
            self._busy = False
            self._initial_running = 0
            if self._open or self._sealed:
                self._wake()
            elif self._closed:
                self._waiters.wake_all()

    def _is_initial(self, place: int) -> bool:
        return not self._replaced or place < self._initial_waiting

    def _take_one(self) -> tuple[str, list[Delta]]:
        head = self._sealed[0] if self._sealed else self._open
        if not self._front:
            # Finding the first key of a dict walks over the gaps of all keys that were taken before. A copy has no such
            # gaps; it is made once for all keys that wait now.
            self._front.extend(head)
            if head is self._open:
                self._open = head = dict(head)
        key = self._front.popleft()
        deltas = head.pop(key)
        if not head:
            if self._sealed:
                self._sealed.popleft()
            else:
                self._open = {}
        return key, deltas

    # --- internals -----------------------------------------------------------------------------

    def _put(self, kind: DeltaType, obj: object) -> None:
        key = object_key(self._key_func, obj)
        if self._transform is not None and not isinstance(obj, DeletedFinalStateUnknown):
            obj = self._transformed(key, obj)
        self.put(key, kind, obj)

    def _replace_each(self, items: Iterable[object]) -> None:
        listed: list[tuple[str, object]] = []
        for obj in items:
            key = object_key(self._key_func, obj)
            listed.append((key, obj if self._transform is None else self._transformed(key, obj)))
        keys = {key for key, _ in listed}
        gone: list[DeletedFinalStateUnknown] = []
        for key, deltas in self._open.items():
            if key not in keys:
                newest = deltas[-1].object
                # A tombstone within a tombstone would hide the object (kubernetes/kubernetes #115658).
                gone.append(
                    newest if isinstance(newest, DeletedFinalStateUnknown) else DeletedFinalStateUnknown(key, newest)
                )
        if self._known_objects is not None:
            for key in self._known_objects.list_keys():
                if key not in keys and key not in self._open:
                    gone.append(DeletedFinalStateUnknown(key, self._known_objects.get_by_key(key)))
        for key, obj in listed:
            self.put(key, self._listed, obj)
        for tombstone in gone:
            self.put(tombstone.key, DELETED, tombstone)

    def _barrier(self, delta: Delta) -> None:
        if self._open:
            self._sealed.append(self._open)
            self._open = {}
        self._sealed.append({_ALL: [delta]})
        self._wake()

    def _transformed(self, key: str | None, obj: object) -> object:
        assert self._transform is not None
        if self._known is not None:
            key = object_key(self._key_func, obj) if key is None else key
            if self._known(key) is obj:
                return obj  # a reflector replaced an equal item by the known object, which has been transformed
        result = self._transform(obj)
        if result is None:
            raise TypeError(f"the transform returned None for {key or type(obj).__name__}; it must return an object")
        return result


def _one_delete(older: Delta, newer: Delta) -> Delta:
    # A last known state is worth more than a tombstone.
    return newer if isinstance(older.object, DeletedFinalStateUnknown) else older
