"""What waits for one handler: a queue that folds per key when its reader falls behind.

The processor puts, one reader takes. Below `queue_size` waiting calls nothing is looked at: a batch
costs one `deque.extend`. From there on calls of one key are folded, so that a reader which is slow for
ever costs at most two calls a key, and what it sees is still a true history with steps left out:

====================  ==========================================================
waiting + new         becomes
====================  ==========================================================
ADD + UPDATE          ADD of the newest object, with the flag of the first
ADD + DELETE          nothing (an initial add counts as finished)
UPDATE + UPDATE       UPDATE from the first old to the last new
UPDATE + DELETE       DELETE
DELETE + ADD          both stay; later calls fold into the second
SYNC + X, X + SYNC    X
====================  ==========================================================

The objects that a handler starts with (its *replay*) are no calls yet: they wait as one shared list
and are handed out, one by one, before anything else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.waiters import Latch
from kinformer.objects.object import KubeObject

__all__ = ["ADD", "DELETE", "SYNC", "UPDATE", "Mailbox", "Notification"]

ADD, UPDATE, DELETE, SYNC = "ADDED", "UPDATED", "DELETED", "SYNC"

# (type, key, old, new, flag): flag is `is_in_initial_list` of an ADD, `final_state_unknown` of a DELETE.
# A plain tuple, shared by the mailboxes of all handlers: a class would cost three times as much a change.
Notification = tuple[str, str, KubeObject | None, KubeObject, bool]

Filter = Callable[[KubeObject], object]

# A filter that hides nearly all of a long replay must not hold up the loop while it looks for the next.
_HIDDEN_AT_ONCE = 64


class Mailbox:
    """The queue of one handler.

    Args:
        name: The handler's name, for `statistics()` and the log.
        queue_size: Waiting calls above which calls of one key are folded.
        filter: Tells of an object whether this handler sees it; runs before anything is queued, so that
            folding happens in the handler's own view. One that raises hides the object, counted by
            `on_filter_error`.
    """

    def __init__(
        self,
        name: str,
        *,
        queue_size: int = 1024,
        filter: Filter | None = None,  # noqa: A002 - the contract's name
        on_filter_error: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.name = name
        self.coalesced = 0
        self.closed = False  # takes nothing more and hands out nothing more
        self.draining = False  # takes nothing more, hands out what it has
        self._queue_size = queue_size
        self._filter = filter
        self._on_filter_error = on_filter_error
        self._entries: deque[Any] = deque()  # of Notification, and of _Slot while folding
        self.plain: deque[Notification] = self._entries
        """What waits. Where `folds` is False its reader may take from here what `take` would give, for less."""
        self.folds = False  # or replays
        self._slots: dict[str, _Slot] | None = None  # the newest waiting call a key, while folding
        self._replays: deque[Iterator[KubeObject]] = deque()
        self._replay_left = 0
        self._dead = 0  # slots that were folded away
        self._initial_left = 0  # initial adds that have been put or replayed and not finished
        self._upstream_synced = False
        self._waiter: asyncio.Future[None] | None = None
        self._synced = Latch()

    # --- the processor's side -----------------------------------------------------------------

    def put(self, batch: Sequence[Notification], initial: int = 0) -> None:
        """Queue calls in their order; `initial` says how many of them are initial adds."""
        if self.closed or self.draining:
            return
        if self._filter is not None:
            batch = [seen for call in batch if (seen := self._through_filter(call)) is not None]
            initial = sum(1 for call in batch if call[0] == ADD and call[4])
        if not batch:
            return
        self._initial_left += initial
        if self._slots is None and len(self._entries) + len(batch) <= self._queue_size:
            self._entries.extend(batch)
        else:
            self._fold(batch)
        self._wake()

    def replay(self, objects: Sequence[KubeObject] | ChunkedList[KubeObject]) -> None:
        """Hand out `objects` as initial adds, before anything that is or will be queued.

        They stand in for a past that the reader has not seen, so no queued call may concern one of
        their keys. The list is read lazily and never changed.
        """
        if self.closed or self.draining or not len(objects):
            return
        self.folds = True
        self._replays.append(iter(objects))
        self._replay_left += len(objects)
        self._initial_left += len(objects)
        self._wake()

    def upstream_synced(self) -> None:
        """The cache has its first full list; what is initial has been put or replayed."""
        self._upstream_synced = True
        self._announce_synced()

    def close(self, *, drain: bool = False) -> None:
        """Take nothing more; hand out what waits (`drain`) or forget it."""
        self.draining = True
        if not drain:
            self.closed = True
            self._entries.clear()
            self._replays.clear()
            self._slots = None
            self._replay_left = self._dead = 0
        self._wake()

    # --- the reader's side ----------------------------------------------------------------------

    def take(self) -> Notification | None:
        """The next call, or None where the reader should `wait`. Every call taken must be `finished`."""
        hidden = 0
        while self._replays:
            for obj in self._replays[0]:
                self._replay_left -= 1
                if self._filter is None or self._passes(obj):
                    return (ADD, obj.key, None, obj, True)
                self._initial_finished()
                hidden += 1
                if hidden == _HIDDEN_AT_ONCE:
                    return None
            self._replays.popleft()
        while self._entries:
            entry: Notification | _Slot = self._entries.popleft()
            if isinstance(entry, tuple):
                return entry
            entry.waiting = False
            call = entry.call
            if call is None:
                self._dead -= 1
                continue
            if self._slots is not None and self._slots.get(call[1]) is entry:
                del self._slots[call[1]]
            return call
        self._slots = None
        self.folds = False
        return None

    def finished(self, call: Notification) -> None:
        """The reader is done with `call`, whatever came of it."""
        if call[4] and call[0] == ADD:
            self._initial_finished()

    async def wait(self) -> None:
        """Wait for a call or the end of the mailbox. One reader at a time; cancelling it loses nothing."""
        if self._entries or self._replays:
            await asyncio.sleep(0)
            return
        if self.closed or self.draining:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def __len__(self) -> int:
        return len(self._entries) - self._dead + self._replay_left

    @property
    def has_synced(self) -> bool:
        """The reader has finished every initial add, and no more will come."""
        return self._upstream_synced and self._initial_left == 0

    async def wait_synced(self) -> None:
        """Wait until `has_synced`; raises what `fail` was given."""
        await self._synced.wait()

    def fail(self, error: BaseException) -> None:
        """It will never have synced: raise `error` in each task that waits for that."""
        self._synced.fail(error)

    # --- inside ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _initial_finished(self) -> None:
        self._initial_left -= 1
        if self._initial_left == 0:
            self._announce_synced()

    def _announce_synced(self) -> None:
        if self.has_synced:
            self._synced.open()

    def _passes(self, obj: KubeObject) -> bool:
        assert self._filter is not None
        try:
            return bool(self._filter(obj))
        except Exception as error:  # noqa: BLE001 - one object that a filter cannot take hides no other
            if self._on_filter_error is not None:
                self._on_filter_error(obj.key, error)
            return False

    def _through_filter(self, call: Notification) -> Notification | None:
        """The call as this handler sees it: entering or leaving the filter is an add or a delete."""
        kind, key, old, new, _ = call
        if kind == DELETE:
            # The handler knows what the cache had; the last state before a deletion may be another.
            return call if self._passes(old or new) else None
        if kind != UPDATE:
            return call if self._passes(new) else None
        assert old is not None
        was, is_now = self._passes(old), self._passes(new)
        if was and is_now:
            return call
        if is_now:
            return (ADD, key, None, new, False)
        if was:
            return (DELETE, key, old, old, False)
        return None

    def _fold(self, batch: Sequence[Notification]) -> None:
        slots = self._slots
        if slots is None:
            # The first call above the bound: what waits gets its index. Twice a key at the most from here on.
            waiting = list(self._entries)
            self._entries.clear()
            self.folds = True
            slots = self._slots = {}
            for entry in waiting:
                assert isinstance(entry, tuple)
                self._fold_one(slots, entry)
        for call in batch:
            self._fold_one(slots, call)

    def _fold_one(self, slots: dict[str, _Slot], call: Notification) -> None:
        key = call[1]
        slot = slots.get(key)
        before = slot.call if slot is not None else None
        if slot is None or before is None or (before[0] == DELETE and call[0] == ADD):
            slots[key] = newest = _Slot(call, slot)
            self._entries.append(newest)
            return
        self.coalesced += 1
        slot.call = _folded(before, call)
        if slot.call is None:
            # An add and its delete: as if neither had been. A delete that waits before them is the newest again.
            self._dead += 1
            if slot.before is not None and slot.before.waiting:
                slots[key] = slot.before
            else:
                del slots[key]
            self._forget_initial(before)
            if self._dead > max(self._queue_size, len(self._entries) // 2):
                self._bury()

    def _bury(self) -> None:
        """Drop the slots that were folded away: a reader that does not come would leave them there for ever."""
        # In place, for the reader may hold on to the deque.
        for _ in range(len(self._entries)):
            entry = self._entries.popleft()
            if entry.call is not None:
                self._entries.append(entry)
        self._dead = 0

    def _forget_initial(self, call: Notification) -> None:
        if call[0] == ADD and call[4]:
            self._initial_finished()


class _Slot:
    """A place in the queue whose call may still change; `before` is a delete of the same key that waits too."""

    __slots__ = ("before", "call", "waiting")

    def __init__(self, call: Notification, before: _Slot | None) -> None:
        self.call: Notification | None = call
        self.before = before
        self.waiting = True


def _folded(waiting: Notification, call: Notification) -> Notification | None:
    """One call in place of two of the same key; None where they cancel out."""
    first, key, old, obj, flag = waiting
    kind, _, _, new, call_flag = call
    if kind == SYNC:
        return waiting
    if first == SYNC:
        return call
    if first == ADD:
        return None if kind == DELETE else (ADD, key, None, new, flag)
    if first == UPDATE and kind == UPDATE:
        return (UPDATE, key, old, new, False)
    if kind == DELETE:
        return (DELETE, key, old if first == UPDATE else obj, new, call_flag)
    return call
