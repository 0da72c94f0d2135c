"""The classic queue between a source and a cache: the changes of each key, in the order of arrival.

It is for programs that build their own informer: a `Reflector` writes to it, and `pop` passes each key to one function
(client-go, tools/cache/delta_fifo.go). The informers of this package have a simpler queue, `AtomicDeltaFIFO`. This one
groups changes by key, and determines itself which objects are missing from a full list.

It differs from upstream on purpose in two ways. `has_synced` becomes True once the last initial item has been
*processed*, not when it has been taken. And only a first `replace` makes the queue synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from inspect import isawaitable
from typing import Any

from kinformer._runtime.signatures import check_callback
from kinformer._runtime.waiters import WaiterQueue
from kinformer.cache.store import KeyFunc, KnownObjects, object_key
from kinformer.exceptions import StoppedError
from kinformer.objects.accessors import is_another
from kinformer.objects.meta import DeletedFinalStateUnknown
from kinformer.queue.delta import Delta, DeltaType

__all__ = ["DeltaFIFO"]


Item = tuple[str, list[Delta], bool]
"""A key, its deltas with the oldest first, and True if it belongs to the initial list."""

Process = Callable[[list[Delta], bool], object]
BatchProcess = Callable[[list[Item]], object]

ADDED, UPDATED, DELETED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED


class DeltaFIFO:
    """A queue that keeps the deltas of each key in order, and the keys in the order of their oldest delta.

    The methods that write are plain functions that never block. Call them on the event loop that pops. Deltas of one
    key are kept separate, as upstream: an update is not merged into the add before it. Only two deletes in a row become
    one. So the number of queued deltas grows with the consumer's lag, and the number of keys does not limit it.

    Only one `process` runs at a time, even if several tasks pop, so two tasks never process the same key. If it raises,
    that pop raises the exception, and the item counts as processed: it is not put back.

    Args:
        key_func: Returns the key of an object.
        known_objects: The cache that receives the deltas. With it, a delete of an object that is neither in the cache
            nor in the queue is dropped, `replace` detects removed objects, and `resync` delivers the cached objects.
        emit_replaced: True, the default, delivers the items of `replace` as `REPLACED`, because `SYNC` hides that they
            were listed. False delivers them as `SYNC`, which older client-go programs expect.
        transform: Applied to objects as they are queued, but not to tombstones, and not on `resync`, because cached
            objects have been transformed. It may receive an object twice, and must return its own result unchanged.

    Raises:
        TypeError: `key_func` or `transform` cannot be called with an object.
    """

    def __init__(
        self,
        key_func: KeyFunc,
        *,
        known_objects: KnownObjects | None = None,
        emit_replaced: bool = True,
        transform: Callable[[Any], Any] | None = None,
    ) -> None:
        check_callback(key_func, "key_func", "obj", "DeltaFIFO", plain=True)
        if transform is not None:
            check_callback(transform, "transform", "obj", "DeltaFIFO", plain=True)
        self._key_func = key_func
        self._known_objects = known_objects
        self._listed = DeltaType.REPLACED if emit_replaced else DeltaType.SYNC
        self._transform = transform
        self._waiting: dict[str, list[Delta]] = {}  # key -> deltas, oldest first
        self._front: deque[str] = deque()  # the next keys of single pops
        self._closed = False  # True for good after `close`
        self._busy = False  # a `process` is running
        self._waiters = WaiterQueue()
        self._replaced = False  # set by the first `replace`, and never reset
        self._initial_waiting = 0  # keys at the head of the queue that are initial, after the first `replace`
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
        """Queue an `UPDATED`. Raises as `add`."""
        self._put(UPDATED, obj)

    def delete(self, obj: object) -> None:
        """Queue a `DELETED` for an object or a tombstone. Raises as `add`.

        A delete of an unknown object is dropped. So is a late delete of an earlier object, which has another uid than
        the newest object with this key, and no newer version. Of two deletes in a row, the one with an object is kept,
        not the one with a tombstone. If both have objects, the older one is kept.
        """
        key = object_key(self._key_func, obj)
        waiting = self._waiting.get(key)
        newest = self.known(key) if waiting is None else waiting[-1].object
        if newest is not None and not is_another(newest, obj):
            self._put(DELETED, obj)

    def replace(self, items: Iterable[object], resource_version: str = "") -> None:
        """Queue a full list: a delta for each item, in order, and then a `DELETED` for each removed object.

        A removed object is a queued or known key that is not in the list. Its delta has a tombstone.

        Raises:
            KeyFuncError: There is no key for an item. Nothing was queued.
            Exception: `transform` raised. Nothing was queued.
        """
        listed = [(key := object_key(self._key_func, obj), self._transformed(key, obj)) for obj in items]
        keys = {key for key, _ in listed}
        left = {key: deltas[-1].object for key, deltas in self._waiting.items() if key not in keys}
        # A tombstone within a tombstone would hide the object (kubernetes/kubernetes #115658).
        gone = [
            obj if isinstance(obj, DeletedFinalStateUnknown) else DeletedFinalStateUnknown(key, obj)
            for key, obj in left.items()
        ]
        if self._known_objects is not None:
            unlisted = (key for key in self._known_objects.list_keys() if key not in keys and key not in self._waiting)
            gone += [DeletedFinalStateUnknown(key, self._known_objects.get_by_key(key)) for key in unlisted]
        for key, obj in listed:
            self._queue(key, self._listed, obj)
        for tombstone in gone:
            self._queue(tombstone.key, DELETED, tombstone)
        if not self._replaced:
            self._replaced = True
            self._initial_waiting = len(self)
            # An item in process was queued before the list, so the sync waits for it too.
            self._initial_running = int(self._busy)

    def resync(self) -> None:
        """Deliver all objects again: a `SYNC` for each known key without waiting deltas.

        A key with waiting deltas is delivered anyway, and must not go back to its known state. Without `known_objects`
        this does nothing.
        """
        if self._known_objects is not None:
            for key in self._known_objects.list_keys():
                if key not in self._waiting and (obj := self._known_objects.get_by_key(key)) is not None:
                    self._queue(key, DeltaType.SYNC, obj)

    def known(self, key: str) -> object | None:
        """Return the known object under `key`, or None.

        Reflectors call it, so that a relist holds no second copy of an object.
        """
        return None if self._known_objects is None else self._known_objects.get_by_key(key)

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
        """True if all deltas queued before and by the first `replace` have been processed."""
        return self._replaced and not self._initial_waiting and not self._initial_running

    def __len__(self) -> int:
        """Return the number of keys that wait."""
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # an empty queue is truthy

    # --- popping -------------------------------------------------------------------------------

    async def pop(self, process: Process) -> Any:
        """Wait for a key, take the one that has waited longest, and process it.

        `process(deltas, is_in_initial_list)` is a plain function or a coroutine function. Its result is returned. It
        must not pop itself. A pop that is cancelled while waiting takes nothing. If it is cancelled while `process`
        runs, the item is lost.

        Raises:
            StoppedError: The queue is closed and empty.
            Exception: `process` raised it.
        """
        await self._turn()
        initial = self._is_initial(0)
        return await self._run(process, (self._take_one(), initial), 1)

    async def pop_batch(self, process: BatchProcess) -> Any:
        """Wait for a key, take all waiting keys in one step, and process them.

        `process([(key, deltas, is_in_initial_list), ...])` receives the keys in order. Otherwise this is like `pop`.

        Raises:
            StoppedError: The queue is closed and empty.
            Exception: `process` raised it.
        """
        await self._turn()
        taken, self._waiting = self._waiting, {}
        self._front.clear()
        batch = [(key, deltas, self._is_initial(place)) for place, (key, deltas) in enumerate(taken.items())]
        del taken
        return await self._run(process, (batch,), len(batch))

    async def _turn(self) -> None:
        """Wait until there is a key to take and no `process` runs."""
        while self._busy or not self._waiting:
            if self._closed and not self._waiting:
                raise StoppedError("DeltaFIFO: the queue is closed and empty, so there is nothing to pop")
            await self._waiters.wait()

    def _wake(self) -> None:
        # No task may take a key while `process` runs. When it ends, the next task is woken.
        if self._waiters and not self._busy:
            self._waiters.wake()

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
            if self._waiting:
                self._wake()
            elif self._closed:
                self._waiters.wake_all()

    def _is_initial(self, place: int) -> bool:
        return not self._replaced or place < self._initial_waiting

    def _take_one(self) -> list[Delta]:
        if not self._front:
            # Finding the first key of a dict skips the gaps of all keys that were taken before. A copy has no gaps, and
            # is made once for all keys that wait now.
            self._front.extend(self._waiting)
            self._waiting = dict(self._waiting)
        return self._waiting.pop(self._front.popleft())

    # --- internals -----------------------------------------------------------------------------

    def _put(self, kind: DeltaType, obj: object) -> None:
        key = object_key(self._key_func, obj)
        self._queue(key, kind, self._transformed(key, obj))

    def _queue(self, key: str, kind: DeltaType, obj: object) -> None:
        delta = Delta(kind, obj)
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [delta]
        elif kind is DELETED and waiting[-1].type is DELETED:
            # Keep a last state rather than a tombstone.
            waiting[-1] = delta if isinstance(waiting[-1].object, DeletedFinalStateUnknown) else waiting[-1]
        else:
            waiting.append(delta)
        self._wake()

    def _transformed(self, key: str, obj: object) -> object:
        if self._transform is None or isinstance(obj, DeletedFinalStateUnknown):
            return obj
        if self.known(key) is obj:
            return obj  # a reflector replaced an equal item by the known object, which has been transformed
        result = self._transform(obj)
        if result is None:
            raise TypeError(f"the transform returned None for {key}; it must return an object")
        return result
