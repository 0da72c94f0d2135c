"""The mailbox: the queue of the calls that wait for one handler, folded by key when the handler falls behind.

The processor puts calls in, and one reader takes them. While at most `queue_size` calls wait, they are not examined: a
batch costs one `deque.extend`. Above that, calls for the same key are folded (`folded_calls`).

The initial objects of a handler (its *replay*) are not calls yet: they wait as one shared list, and are handed out one
by one before anything else.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Protocol

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import UserFunction, YieldBudget
from kinformer._runtime.waiters import Latch
from kinformer.objects.object import KubeObject
from kinformer.processor.folded_calls import ADD, DELETE, SYNC, UPDATE, Delivery, EventType, FoldedCalls, Notification

__all__ = ["ADD", "DELETE", "SYNC", "UPDATE", "Delivery", "EventType", "Mailbox", "Notification", "Receiver", "deliver"]

Filter = Callable[[KubeObject], object]


class Receiver(Protocol):
    """A receiver of the changes of a cache: the mailbox of a handler, or the input of a derived collection.

    Attributes:
        filters: True if it calls a function of the program with each change.
    """

    @property
    def filters(self) -> bool: ...
    def put(self, batch: Sequence[Notification], initial: int = 0, /) -> None: ...
    def replay(self, objects: ChunkedList[KubeObject], /) -> None: ...
    def upstream_synced(self) -> None: ...
    def fail(self, error: BaseException, /) -> None: ...


def deliver(
    calls: Sequence[Notification], receivers: Iterable[Receiver], counts: Counter[str], *, initial: bool
) -> None:
    """Count calls by their type, and put them into receivers. There may be initial adds among them if `initial`."""
    if len(calls) == 1:
        counts[calls[0][0]] += 1
    else:
        kinds = [call[0] for call in calls]
        for kind in (ADD, UPDATE, DELETE, SYNC):
            if number := kinds.count(kind):
                counts[kind] += number
    adds = sum(1 for call in calls if call[0] == ADD and call[4]) if initial else 0
    for receiver in receivers:
        receiver.put(calls, adds)


class Mailbox:
    """The queue of one handler.

    Args:
        name: The handler's name, for `statistics()` and the log.
        queue_size: The number of waiting calls above which calls for the same key are folded, or None to fold none.
        filter: Returns True for an object that this handler sees. It runs before anything is queued, so folding happens
            in the handler's own view. If it raises, the object is hidden, and `on_filter_error` is called with its key
            and the error.

    Attributes:
        queue_size: The argument, or `sys.maxsize` for None.
        closed: True if it accepts no more calls and hands out none.
        draining: True if it accepts no more calls, also once it is `closed`. Until then it hands out the waiting ones.
        plain: The waiting calls that are not folded. While `folds` is False, the reader may take calls from here
            directly: the result is the same as from `take`, without a function call.
        folds: True while it folds or replays, until `take` has returned None.
        held: The number of calls that the reader has taken and not begun yet. They count as waiting.
        budget: The reader's, for its own work and for the filter, which hides objects of a replay while it reads.
        filtering: The filter's name in the log, or None without a filter.
    """

    def __init__(
        self,
        name: str,
        *,
        queue_size: int | None = 1024,
        filter: Filter | None = None,  # noqa: A002 - the contract's name
        on_filter_error: Callable[[str, BaseException], None] | None = None,
    ) -> None:
        self.name = name
        self.queue_size = sys.maxsize if queue_size is None else queue_size
        self.closed = False
        self.draining = False
        self._filter = filter
        self._on_filter_error = on_filter_error
        self.plain: deque[Notification] = deque()
        self.folds = False
        self.held = 0
        self.budget = YieldBudget()
        self.filtering: UserFunction | None = None
        # The processor's side adds to what follows, and the reader's side takes from it. Both are on one event loop.
        self._folded = FoldedCalls(self.queue_size)
        self._replays: deque[Iterator[KubeObject]] = deque()
        self._replay_left = 0  # objects of replays that have not been handed out
        self._initial_left = 0  # initial adds that have been put or replayed, and are not finished
        self._upstream_synced = False
        self._waiter: asyncio.Future[None] | None = None  # of the reader, which may be done
        self._synced = Latch()

    # --- the processor's side -----------------------------------------------------------------

    @property
    def filters(self) -> bool:
        """True if it calls a filter with each change."""
        return self._filter is not None

    def put(self, batch: Sequence[Notification], initial: int = 0) -> None:
        """Queue calls in order. `initial` is the number of initial adds among them."""
        if self.draining:
            return
        if self._filter is not None:
            batch = [seen for call in batch if (seen := self._through_filter(call)) is not None]
            initial = sum(1 for call in batch if call[0] == ADD and call[4])
        if not batch:
            return
        self._initial_left += initial
        if not self._folded.active and len(self.plain) + len(batch) <= self.queue_size:
            self.plain.extend(batch)
        else:
            self._fold(batch)
        self._wake()

    def replay(self, objects: Sequence[KubeObject] | ChunkedList[KubeObject]) -> None:
        """Hand out `objects` as initial adds, before all calls that are or will be queued.

        They replace a past that the reader has not seen, so no queued call may be for one of their keys. The list is
        read lazily, and is never changed.
        """
        if self.draining or not len(objects):
            return
        self.folds = True
        self._replays.append(iter(objects))
        self._replay_left += len(objects)
        self._initial_left += len(objects)
        self._wake()

    def upstream_synced(self) -> None:
        """Record that the cache has its first full list, so that all initial adds have been put or replayed."""
        self._upstream_synced = True
        self._announce_synced()

    def close(self, *, drain: bool = False) -> None:
        """Accept no more calls. Hand out the waiting ones if `drain`, or else drop them."""
        self.draining = True
        if not drain:
            self.closed = True
            self.plain.clear()
            self._folded.clear()
            self._replays.clear()
            self._replay_left = 0
        self._wake()

    # --- the reader's side ----------------------------------------------------------------------

    def take(self) -> Notification | None:
        """Take the next call, or return None if the reader must `wait`. Call `finished` for each initial add taken."""
        while self._replays:
            for obj in self._replays[0]:
                self._replay_left -= 1
                if self._filter is None or self._passes(obj):
                    return (ADD, obj.key, None, obj, True)  # plain: see `Notification`
                self._initial_finished()
                if self.budget.exhausted():
                    return None
            self._replays.popleft()
        if self.plain:
            return self.plain.popleft()
        if self._folded.active and (call := self._folded.take()) is not None:
            return call
        self.folds = False
        return None

    def finished(self, call: Notification) -> None:
        """Record that the reader is done with `call`, whether or not it succeeded."""
        kind, _, _, _, is_initial = call
        if is_initial and kind == ADD:
            self._initial_finished()

    def wait(self) -> Awaitable[None]:
        """Wait for a call or the end of the mailbox, or for one turn of the loop if there is either already.

        The result must be awaited at once, by one task at a time. Cancelling it loses nothing.
        """
        if self.plain or self.folds or self.draining:
            return self.budget.pause()
        self._waiter = asyncio.get_running_loop().create_future()  # without a coroutine, for a call that comes alone
        return self._waiter

    def __len__(self) -> int:
        return len(self.plain) + len(self._folded) + self._replay_left + self.held

    @property
    def coalesced(self) -> int:
        """The number of calls that were folded into others."""
        return self._folded.coalesced

    @property
    def has_synced(self) -> bool:
        """True if the reader has finished every initial add, and no more will come."""
        return self._upstream_synced and self._initial_left == 0

    async def wait_synced(self) -> None:
        """Wait until `has_synced`. Raises the error that was passed to `fail`."""
        await self._synced.wait()

    def fail(self, error: BaseException) -> None:
        """Raise `error` in each task that waits for the sync, because it will not happen."""
        self._synced.fail(error)

    # --- inside ----------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _initial_finished(self, count: int = 1) -> None:
        self._initial_left -= count
        if self._initial_left == 0:
            self._announce_synced()

    def _announce_synced(self) -> None:
        if self.has_synced:
            self._synced.open()

    def _passes(self, obj: KubeObject) -> bool:
        assert self._filter is not None
        try:
            return bool(self._filter(obj))
        except Exception as error:  # noqa: BLE001 - an object on which the filter fails must not hide others
            if self._on_filter_error is not None:
                self._on_filter_error(obj.key, error)
            return False
        finally:
            if self.filtering is not None:
                self.filtering.returned(obj.key)

    def _through_filter(self, call: Notification) -> Notification | None:
        """Return the call in this handler's view, or None. Entering the filter is an add, leaving it is a delete."""
        kind, key, old, new, _ = call
        if kind == DELETE:
            # The handler knows the state that the cache had, which may differ from the last state before the deletion.
            return call if self._passes(old or new) else None
        if kind != UPDATE:
            return call if self._passes(new) else None
        assert old is not None
        was, is_now = self._passes(old), self._passes(new)
        if was and is_now:
            return call
        if is_now:
            return Delivery(ADD, key, None, new, False)
        if was:
            return Delivery(DELETE, key, old, old, False)
        return None

    def _fold(self, batch: Sequence[Notification]) -> None:
        initial = 0
        if not self._folded.active:
            # The first call above the limit: index the waiting calls by key. From now on, at most two wait per key.
            self.folds = True
            initial = self._folded.put(self.plain)
            self.plain.clear()
        initial += self._folded.put(batch)
        if initial:
            self._initial_finished(initial)
