"""The classic queue between a source and a cache: for each key its changes, in order.

For programs that build their own informer: a `Reflector` writes to it, and `pop` hands each key to one function
(client-go, tools/cache/delta_fifo.go). `SharedInformer` has a simpler queue, `AtomicDeltaFIFO`. This one groups by key,
in the mode `atomic` too, and finds out itself which objects a full list lacks.

Two things differ from upstream on purpose: `has_synced` turns true once the last initial item has been *processed*, not
when it has been taken; and only a first `replace` makes it synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.waiters import WaiterQueue
from kinformer.cache.store import KeyFunc, KnownObjects, object_key
from kinformer.exceptions import StoppedError
from kinformer.objects.meta import DeletedFinalStateUnknown
from kinformer.queue.delta import Bookmark, Delta, DeltaType, Replacement

__all__ = ["Bookmark", "Delta", "DeltaFIFO", "DeltaType", "Replacement"]


Item = tuple[str, list[Delta], bool]
"""A key, its deltas with the oldest first, and whether it is of the initial list."""

Process = Callable[[list[Delta], bool], Awaitable[Any] | Any]
BatchProcess = Callable[[list[Item]], Awaitable[Any] | Any]

Segment = dict[str, list[Delta]]
"""What waits between two barriers: key -> its deltas, oldest first."""

ADDED, UPDATED, DELETED, REPLACED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED, DeltaType.REPLACED
_ALL = ""  # the key of what concerns no single object


class DeltaFIFO:
    """For each key its deltas in order; keys in the order in which their oldest delta came.

    The writing methods are plain functions and never block; they belong to the loop that pops. Deltas of one key
    are kept apart (an update is not folded into the add before it, as upstream), but for a delete after a delete:
    so what waits is bounded by how far the consumer is behind, not by the number of keys.

    Only one `process` runs at a time, whoever pops, so the deltas of a key are never in two hands. What it raises
    comes out of that pop, and the item counts as processed: it is not put back.

    Args:
        key_func: object -> key.
        known_objects: The cache that the deltas end up in. With it a delete of what is neither there nor in the
            queue is dropped, `replace` finds what has gone, and `resync` what there is.
        emit_replaced: Items of `replace` come as `REPLACED`, the default, since `SYNC` hides that they were listed;
            False: as `SYNC`, which is how older client-go programs expect them.
        atomic: `replace` is one `REPLACED_ALL` and `resync` one `SYNC_ALL`, under the key `""`. What was queued before
            is popped before it, what came later is popped later. Finding out what has gone is left to the
            consumer, and so is a delete of what is not known.
        transform: object -> object, applied as objects are queued (to tombstones and on `resync` it was before). It may
            see an object twice and has to leave its own result as it is.
        known: What `known(key)` answers with where there is no `known_objects`.

    Raises:
        ValueError: `atomic` with `known_objects`, which it would not ask.
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
            raise ValueError("with atomic=True the consumer compares lists with what it knows: give no known_objects")
        self._key_func = key_func
        self._known_objects = known_objects
        self._listed = DeltaType.REPLACED if emit_replaced else DeltaType.SYNC
        self._atomic = atomic
        self._transform = transform
        self._known = known_objects.get_by_key if known is None and known_objects is not None else known
        self._sealed: deque[Segment] = deque()  # what is before the last barrier, and the barriers
        self._open: Segment = {}  # what came after it
        self._front: deque[str] = deque()  # the next keys of the oldest dict, while single pops go through it
        self._closed = False
        self._busy = False  # a process is running
        self._waiters = WaiterQueue()
        self._replaced = False
        self._initial_waiting = 0  # entries at the head of the queue that are initial, once there was a replace
        self._initial_running = 0

    # --- writes --------------------------------------------------------------------------------

    def add(self, obj: object) -> None:
        """Queue an `ADDED`.

        Raises:
            KeyFuncError: there is no key for the object; nothing was queued. The same goes for what `transform` raises.
        """
        self._put(ADDED, obj)

    def update(self, obj: object) -> None:
        """Queue an `UPDATED`; raises as `add`."""
        self._put(UPDATED, obj)

    def delete(self, obj: object) -> None:
        """Queue a `DELETED`, of an object or a tombstone; raises as `add`.

        One of an object that nobody knows is dropped (not with `atomic`). Of two deletes in a row the one stays
        whose object is no tombstone, the older one where both are objects.
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
        """Queue a delta of one object under a key that the caller knows already; as it is, without `transform`."""
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
        """Queue a full list: `items` are all that there are (with `atomic`: in `namespace`, or in all).

        Without `atomic`: one delta for each item, in their order, then a `DELETED` with a tombstone for each key
        that is in the queue or known, and not among them. With `atomic`: one delta for all.

        Args:
            items: All that there are.
            resource_version: What the list is of.
            namespace: With `atomic`, the part of the whole that the list is.
            copy: False, with `atomic`, gives a list (or `ChunkedList`) away: the caller must leave it alone afterwards.
                Copying 100,000 objects that are in no CPU's cache stalls the loop for 5 ms.

        Raises:
            KeyFuncError: there is no key for an item. Nothing was queued; the same for what `transform` raises.
            ValueError: a namespace without `atomic`.
        """
        if self._atomic:
            listed: list[object] | ChunkedList[object]
            if self._transform is not None:
                listed = [self._transformed(None, obj) for obj in items]
            else:
                listed = items if isinstance(items, (list, ChunkedList)) and not copy else list(items)
            self._barrier(Delta(DeltaType.REPLACED_ALL, Replacement(listed, resource_version, namespace)))
        elif namespace is not None:
            raise ValueError("a list of one namespace among several needs atomic=True")
        else:
            self._replace_each(items)
        if not self._replaced:
            self._replaced = True
            self._initial_waiting = len(self)
            # What is being processed came before the list, and has to be done with as well.
            self._initial_running = int(self._busy)

    def resync(self) -> None:
        """Tell everything again: a `SYNC` for each known key that has nothing waiting (with `atomic`: one `SYNC_ALL`).

        A key that has something waiting will be heard of anyway, and must not be taken back to what is known of it.
        Without `known_objects` there is nothing to tell.
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
        """Note that the source has nothing newer up to `resource_version`; without `atomic` nothing comes of it.

        With it, a `BOOKMARK` under the key `""` is popped not before anything that was queued before it. It is no
        barrier: what comes later may come with it or, for a key that waits already, before it. Of several that
        wait the newest of each namespace stays.
        """
        if not self._atomic:
            return
        mark = Delta(DeltaType.BOOKMARK, Bookmark(resource_version, namespace))
        marks: list[Delta] = self._open.pop(_ALL, [])
        if marks and not self._sealed and self._front:
            # Single pops are on their way through this dict: it goes to the end of their list, too.
            self._front = deque(key for key in self._front if key != _ALL)
        self._open[_ALL] = [other for other in marks if other.object.namespace != namespace] + [mark]
        self._wake()

    def known(self, key: str) -> object | None:
        """What is known under `key`, or None: a reflector asks, so that a relist holds no second copy of it."""
        return None if self._known is None else self._known(key)

    def close(self) -> None:
        """End it: what waits can still be popped, then `pop` raises `StoppedError`. Again: nothing."""
        self._closed = True
        self._waiters.wake_all()

    # --- reads ---------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def has_synced(self) -> bool:
        """Whether all that came before and with the first `replace` has been processed."""
        return self._replaced and not self._initial_waiting and not self._initial_running

    def __len__(self) -> int:
        """How many keys wait; a barrier is one."""
        if not self._sealed:
            return len(self._open)
        return len(self._open) + sum(map(len, self._sealed))

    def __bool__(self) -> bool:
        return True  # an empty queue is a queue

    # --- popping -------------------------------------------------------------------------------

    async def pop(self, process: Process) -> Any:
        """Wait for a key, take the one that has waited longest, and have it processed.

        `process(deltas, is_in_initial_list)` is a plain function or a coroutine function; what it returns is returned.
        It must not pop itself. Cancelled while it waits, a pop takes nothing; while it processes, the item is gone.

        Raises:
            StoppedError: the queue is closed and empty.
            Exception: what `process` raised.
        """
        await self._turn()
        initial = self._is_initial(0)
        _, deltas = self._take_one()
        return await self._run(process, (deltas, initial), 1)

    async def pop_batch(self, process: BatchProcess) -> Any:
        """Wait for a key, take all that waits in one step, and have it processed.

        `process([(key, deltas, is_in_initial_list), ...])` gets the keys in their order; the rest is as with `pop`.

        Raises:
            StoppedError: the queue is closed and empty.
            Exception: what `process` raised.
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
        """Until something waits and nobody processes anything."""
        while self._busy or not (self._open or self._sealed):
            if self._closed and not (self._open or self._sealed):
                raise StoppedError("the queue is closed and empty")
            await self._waiters.wait()

    def _wake(self) -> None:
        # While something is processed nobody can take anything; its end wakes the next.
        if self._waiters and not self._busy:
            self._waiters.wake()

    def _take_all(self) -> tuple[Segment, ...]:
        segments = (*self._sealed, self._open) if self._open else tuple(self._sealed)
        self._sealed.clear()
        self._front.clear()
        self._open = {}
        return segments

    async def _run(self, process: Callable[..., Any], arguments: tuple[object, ...], count: int) -> Any:
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
            # Taking the first key out of a dict again and again would walk over those that were taken: a new dict has
            # none of these gaps, and it is made once for all that wait now.
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

    # --- inside --------------------------------------------------------------------------------

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
                return obj  # a reflector put it in the place of an equal item: it has been transformed
        result = self._transform(obj)
        if result is None:
            raise TypeError(f"the transform gave None for {key or type(obj).__name__}, no object")
        return result


def _one_delete(older: Delta, newer: Delta) -> Delta:
    # The last known state says more than a tombstone.
    return newer if isinstance(older.object, DeletedFinalStateUnknown) else older
