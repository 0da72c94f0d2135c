"""The one task that applies deltas to the cache and tells the handlers.

Cache first, then the notifications: when a handler hears of a change, the listers have it. Nothing is
awaited between the two, so that whoever takes a snapshot of the cache takes it at a delta boundary.
(client-go, tools/cache/controller.go: `processDeltas`; here the cache decides what is an add, an update
or a delete, and equal versions cause no call.)
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer.cache.indexer import Indexer
from kinformer.exceptions import StoppedError
from kinformer.list_watcher import WatchEvent
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.packed import as_entry
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Mailbox, Notification
from kinformer.queue.delta_fifo import Delta, DeltaFIFO, DeltaType, Replacement, Waiting, deltas_of

__all__ = ["Processor"]

DELETED, BOOKMARK = DeltaType.DELETED, DeltaType.BOOKMARK  # a member of an enum takes 70 ns
REPLACED_ALL = DeltaType.REPLACED_ALL

_SLICE = 256  # changes between two looks at the clock where each costs about a microsecond
_ITEMS = 16  # items of a list between two looks: an index function may take its time


class Processor:
    """Applies what is in `fifo` to `indexer`, and hands each applied change to the mailboxes.

    Args:
        fifo: The queue, with `atomic=True`.
        indexer: The cache; nobody else writes to it.
        scopes: The namespaces whose first list makes the cache complete; `(None,)` for a single source.
        replaced: Called with scope and version of a full list, in the step in which the cache has it.
        applied: Called after each batch, when the cache has everything that the batch held. What it gives to be
            awaited finds a cache that nothing changes.
        resync_due: Which mailboxes a resync is meant for.
    """

    def __init__(
        self,
        fifo: DeltaFIFO,
        indexer: Indexer,
        *,
        scopes: Sequence[str | None] = (None,),
        taken: Callable[[], Any] = lambda: None,
        replaced: Callable[[str | None, str], None] = lambda _, __: None,
        applied: Callable[[Any], Awaitable[None] | None] = lambda _: None,
        resync_due: Callable[[], Sequence[Mailbox]] = lambda: (),
    ) -> None:
        self.events: Counter[str] = Counter()
        self.synced = False
        self._fifo = fifo
        self._indexer = indexer
        self._missing = set(scopes)
        self._mailboxes: list[Mailbox] = []
        self._taken = taken
        self._replaced = replaced
        self._applied = applied
        self._resync_due = resync_due
        self._sync_waiters: list[asyncio.Future[None]] = []
        self._failure: BaseException | None = None

    # --- handlers ---------------------------------------------------------------------------------

    def attach(self, mailbox: Mailbox) -> None:
        """Hand this and every later change to `mailbox`, after what the cache holds now as adds.

        Called between two deltas, as everything on the loop is: no gap, nothing twice.
        """
        mailbox.replay(ChunkedList(self._indexer.tables()))
        if self.synced:
            mailbox.upstream_synced()
        self._mailboxes.append(mailbox)

    def detach(self, mailbox: Mailbox) -> None:
        """Hand nothing more to `mailbox`."""
        if mailbox in self._mailboxes:
            self._mailboxes.remove(mailbox)

    # --- the sync -----------------------------------------------------------------------------------

    async def wait_synced(self) -> None:
        """Until the first full list of every source is in the cache; raises what `fail` was given."""
        if self.synced:
            return
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sync_waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._sync_waiters:
                self._sync_waiters.remove(waiter)

    def fail(self, error: BaseException) -> None:
        """No list will come any more: whoever waits for one gets `error`, and so does who comes later."""
        self._failure = error
        for waiter in self._sync_waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._sync_waiters.clear()
        for mailbox in self._mailboxes:
            mailbox.fail(error)

    def scope_synced(self, scope: str | None) -> None:
        """The first list of one source is in the cache (or will never be, and need not be)."""
        self._missing.discard(scope)
        if self._missing or self.synced:
            return
        self.synced = True
        for waiter in self._sync_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._sync_waiters.clear()
        for mailbox in self._mailboxes:
            mailbox.upstream_synced()

    # --- the task -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the queue is closed and empty. Cancelling it between two deltas leaves the cache whole."""
        try:
            while True:
                await self._fifo.pop_all(self._process)
        except StoppedError:
            return

    async def _process(self, segments: Sequence[Waiting]) -> None:
        # The queue was emptied in this very step: what the sources have sent so far is all in the segments.
        position = self._taken()
        budget = YieldBudget()
        calls: list[Notification] = []
        advance, left = self._indexer.advance, _SLICE
        for segment in segments:
            for key, waiting in segment.items():
                if not key:
                    calls = await self._apply_to_all(waiting, calls, budget)
                    continue
                if type(waiting) is WatchEvent and waiting[0] == "MODIFIED":
                    # By far the most, so what they bring about stands here too.
                    obj = waiting[1]
                    old = advance(key, obj, _is_news)
                    if old is not None and old is not obj and old.uid == obj.uid:
                        calls.append((UPDATE, key, old, obj, False))
                    else:
                        self._tell(key, old, obj, calls)
                else:
                    for kind, obj in deltas_of(waiting):
                        if kind is DELETED:
                            self._delete(key, obj, calls)
                        else:
                            self._tell(key, advance(key, obj, _is_news), obj, calls)
                left -= 1
                if not left:
                    left = _SLICE
                    if budget.exhausted():
                        calls = self._notified(calls)
                        await budget.pause()
        self._notified(calls)
        settled = self._applied(position)
        if settled is not None:
            await settled

    async def _apply_to_all(
        self, waiting: Delta | list[Delta], calls: list[Notification], budget: YieldBudget
    ) -> list[Notification]:
        """Apply what concerns no single object, after those calls; returns the list for the next ones."""
        for kind, obj in deltas_of(waiting):
            if kind is not BOOKMARK:
                calls = self._notified(calls)
                await (self._replace(obj, budget) if kind is REPLACED_ALL else self._sync(budget))
        return calls

    def _notified(self, calls: list[Notification]) -> list[Notification]:
        """Hand out calls; returns the list for the next ones."""
        if not calls:
            return calls
        self._count(calls)
        initial = 0 if self.synced else sum(1 for call in calls if call[0] == ADD)
        for mailbox in self._mailboxes:
            mailbox.put(calls, initial)
        return []

    def _count(self, calls: Sequence[Notification]) -> None:
        kinds = [call[0] for call in calls]
        for kind in (ADD, UPDATE, DELETE):
            if number := kinds.count(kind):
                self.events[kind] += number

    # --- single changes ---------------------------------------------------------------------------------

    def _tell(self, key: str, old: KubeObject | None, obj: KubeObject, calls: list[Notification]) -> None:
        """What the cache made of a newer state: `old` is what it gave up for it, or `obj` if it has not taken it."""
        if old is obj:
            return
        if old is not None and old.uid == obj.uid:
            calls.append((UPDATE, key, old, obj, False))
            return
        if old is not None:
            # The same name, another object. The delete was missed, so its last state is not known.
            calls.append((DELETE, key, old, old, True))
        calls.append((ADD, key, None, obj, not self.synced))

    def _delete(self, key: str, obj: KubeObject, calls: list[Notification]) -> None:
        old: KubeObject | None = self._indexer.get_by_key(key)
        if old is None:
            return  # a delete of what was never seen is nobody's news
        self._indexer.pop(key)
        unknown = type(obj) is UndecodableObject  # gone from here, and its last state cannot be read
        calls.append((DELETE, key, old, old if unknown else obj, unknown))

    # --- everything at once --------------------------------------------------------------------------------

    async def _replace(self, replacement: Replacement, budget: YieldBudget) -> None:
        """Build the new cache beside the old one in slices, swap it in in one step, then tell.

        Readers see the old state, whole, until they see the new one, whole.
        """
        scope = replacement.namespace
        first = scope in self._missing
        rebuild = self._indexer.rebuild(scope)
        fresh: ChunkedList[KubeObject] = ChunkedList()
        changes: ChunkedList[tuple[KubeObject | None, KubeObject]] = ChunkedList()
        gone: ChunkedList[KubeObject] = ChunkedList()
        items = replacement.items
        try:
            for number, item in enumerate(items.drain() if isinstance(items, ChunkedList) else items):
                obj = item if type(item) is KubeObject else as_entry(item)
                old: KubeObject | None = rebuild.add(obj)
                if old is None and first:
                    fresh.append(obj)
                elif old is None or (old is not obj and old != obj):
                    changes.append((old, obj))
                if number % _ITEMS == 0 and budget.exhausted():
                    await budget.pause()
            for left in rebuild.sweep():
                gone.add(left)
                if budget.exhausted():
                    await budget.pause()
        except BaseException:
            rebuild.discard()
            raise
        # From here to the hand-out nothing is awaited: the swap is a delta boundary.
        was = rebuild.commit()
        mailboxes = tuple(self._mailboxes)
        self._replaced(scope, replacement.resource_version)
        if first:
            self._start(mailboxes, fresh)
            self.scope_synced(scope)
        await self._tell_replaced(mailboxes, gone, changes, budget)
        while was:  # piece by piece: freeing 100,000 objects at once is a stall too
            was.pop()
            if budget.exhausted():
                await budget.pause()

    def _start(self, mailboxes: Sequence[Mailbox], objects: ChunkedList[KubeObject]) -> None:
        self.events[ADD] += len(objects)
        for mailbox in mailboxes:
            mailbox.replay(objects)

    async def _tell_replaced(
        self,
        mailboxes: Sequence[Mailbox],
        gone: ChunkedList[KubeObject],
        changes: ChunkedList[tuple[KubeObject | None, KubeObject]],
        budget: YieldBudget,
    ) -> None:
        """What a relist found, in slices; who joins meanwhile has it in the snapshot already."""
        calls: list[Notification] = []

        async def hand_out() -> None:
            nonlocal calls
            self._count(calls)
            for mailbox in mailboxes:
                mailbox.put(calls)
            calls = []
            if budget.exhausted():
                await budget.pause()

        for old in gone.drain():
            calls.append((DELETE, old.key, old, old, True))
            if len(calls) >= _SLICE:
                await hand_out()
        for before, obj in changes.drain():
            if before is None:
                calls.append((ADD, obj.key, None, obj, False))
            elif before.uid != obj.uid:
                calls.append((DELETE, obj.key, before, before, True))
                calls.append((ADD, obj.key, None, obj, False))
            else:
                calls.append((UPDATE, obj.key, before, obj, False))
            if len(calls) >= _SLICE:
                await hand_out()
        await hand_out()

    async def _sync(self, budget: YieldBudget) -> None:
        """Replay the cache to the handlers that asked for it (client-go: `SyncAll`)."""
        mailboxes = self._resync_due()
        if not mailboxes:
            return
        # Nobody writes to the cache meanwhile, so a table is as good when it is reached.
        objects: Iterator[KubeObject] = chain.from_iterable(map(dict.values, self._indexer.tables()))
        while calls := [(SYNC, obj.key, obj, obj, False) for obj in islice(objects, _SLICE)]:
            self.events[SYNC] += len(calls)
            for mailbox in mailboxes:
                mailbox.put(calls)
            if budget.exhausted():
                await budget.pause()


def _is_news(obj: KubeObject, old: KubeObject) -> bool:
    """Whether a watch tells something new: a replayed event must not take the cache back in time.

    Another object under the same name is. Versions compare as numbers of any length (KEP-5504); where one is no number,
    any other state is news.
    """
    new_version, old_version = obj.resource_version, old.resource_version
    if len(new_version) == len(old_version) and new_version > old_version:
        return True  # newer, or no numbers: nearly always
    if obj.uid != old.uid:
        return True
    if new_version == old_version:
        return not new_version and obj.raw != old.raw
    if new_version.isdigit() and old_version.isdigit():
        return len(new_version) > len(old_version)
    return True
