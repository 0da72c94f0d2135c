"""The processor: applies queued changes to the cache, and puts each of them into the mailboxes of the handlers.

The cache comes first, then the mailboxes, so a handler that is called for a change finds it in the listers. Nothing is
awaited between the two, so a snapshot of the cache is always taken between two changes. (client-go,
tools/cache/controller.go: `processDeltas`. Here the cache decides what is an add, an update or a delete, and equal
versions cause no call.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.waiters import Latch
from kinformer.cache.indexer import Indexer
from kinformer.list_watcher import WatchEvent
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.packed import as_entry
from kinformer.processor.applied_versions import AppliedVersions
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Mailbox, Notification
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.atomic_delta_fifo import Changes, Entry, Marker
from kinformer.queue.delta import Replacement

__all__ = ["Processor"]

_SLICE = 256  # changes between two looks at the clock: each costs about a microsecond
_ITEMS = 16  # items of a list between two looks: an index function may be slow


class Processor:
    """The only writer of the cache and of the mailboxes.

    Args:
        indexer: The cache.
        scopes: The namespaces that make the cache complete once the first list of each is in it; `(None,)` for a single
            source.
        resyncs: Tells which mailboxes a resync is for; None if no handler gets one.

    Attributes:
        events: The number of changes that were applied, by type.
        applied: The versions that the cache has reached.
        synced: Open once the first full list of every source is in the cache.
    """

    def __init__(
        self,
        indexer: Indexer,
        *,
        scopes: Sequence[str | None] = (None,),
        resyncs: ResyncSchedule | None = None,
    ) -> None:
        self.events: Counter[str] = Counter()
        self.applied = AppliedVersions(scopes)
        self.synced = Latch()
        self._indexer = indexer
        self._resyncs = resyncs
        self._missing = set(scopes)
        self._mailboxes: list[Mailbox] = []

    # --- handlers ---------------------------------------------------------------------------------

    def attach(self, mailbox: Mailbox) -> None:
        """Replay the cache to `mailbox` as initial adds, and put every later change into it.

        It runs between two changes, like everything else on the loop, so no change is missed or delivered twice.
        """
        mailbox.replay(ChunkedList(self._indexer.tables()))
        if self.synced.is_open:
            mailbox.upstream_synced()
        self._mailboxes.append(mailbox)

    def detach(self, mailbox: Mailbox) -> None:
        """Put nothing more into `mailbox`."""
        if mailbox in self._mailboxes:
            self._mailboxes.remove(mailbox)

    def fail(self, error: BaseException) -> None:
        """Raise `error` in each task that waits for a list, now or later, because none will come any more."""
        self.synced.fail(error)
        self.applied.fail(error)
        for mailbox in self._mailboxes:
            mailbox.fail(error)

    @property
    def missing(self) -> frozenset[str | None]:
        """The scopes whose first list is not in the cache."""
        return frozenset(self._missing)

    def scope_synced(self, scope: str | None) -> None:
        """Record that the first list of a scope is in the cache, or that the cache is complete without it."""
        self._missing.discard(scope)
        if self._missing or self.synced.is_open:
            return
        self.synced.open()
        for mailbox in self._mailboxes:
            mailbox.upstream_synced()

    # --- changes --------------------------------------------------------------------------------------

    def apply_now(self, changes: Changes) -> None:
        """Apply a small batch in one step."""
        calls: list[Notification] = []
        self._apply_events(changes.events, calls)
        self._hand_out(calls)
        self._advance(changes)

    async def apply(self, entries: Iterable[Entry]) -> None:
        """Apply entries of the queue, in slices. The cache is consistent if this is cancelled between two of them."""
        budget = YieldBudget()
        calls: list[Notification] = []
        left = _SLICE
        for entry in entries:
            if isinstance(entry, Changes):
                events = entry.events
                for start in range(0, len(events), _SLICE):
                    self._apply_events(events[start : start + _SLICE], calls)
                    left -= len(events)
                    if left <= 0:
                        left = _SLICE
                        if budget.exhausted():
                            calls = self._hand_out(calls)
                            await budget.pause()
                self._advance(entry)
                continue
            calls = self._hand_out(calls)
            if isinstance(entry, Replacement):
                await self._replace(entry, budget)
            elif entry is Marker.RESYNC:
                await self._replay_due(budget)
        self._hand_out(calls)

    def _advance(self, changes: Changes) -> None:
        applied = self.applied
        if applied.waiters:
            applied.advance(changes.scope, changes.resource_version)
        else:  # inlined, because this is nearly always so
            applied.current[changes.scope] = changes.resource_version

    def _apply_events(self, events: Sequence[WatchEvent], calls: list[Notification]) -> None:
        """Apply events to the cache, and append the calls that they cause.

        A new uid under a known name means that a delete was missed, so the last state of the old object is unknown.
        """
        advance = self._indexer.advance
        for kind, obj in events:
            if kind == "BOOKMARK":
                continue
            if type(obj) is not KubeObject:
                obj = as_entry(obj)
            key = obj.key
            if kind == "DELETED":
                self._delete(key, obj, calls)
                continue
            old: KubeObject | None = advance(key, obj)
            if old is obj:
                continue  # nothing new
            if old is None:
                calls.append((ADD, key, None, obj, bool(self._missing)))
            elif old.uid == obj.uid:
                calls.append((UPDATE, key, old, obj, False))
            else:
                calls.append((DELETE, key, old, old, True))
                calls.append((ADD, key, None, obj, bool(self._missing)))

    def _delete(self, key: str, obj: KubeObject, calls: list[Notification]) -> None:
        old: KubeObject | None = self._indexer.pop(key)
        if old is not None:  # handlers do not know of an object that was not in the cache
            unknown = type(obj) is UndecodableObject
            calls.append((DELETE, key, old, old if unknown else obj, unknown))

    def _hand_out(self, calls: list[Notification]) -> list[Notification]:
        """Put calls into the mailboxes; return the list for the next calls."""
        if not calls:
            return calls
        self._count(calls)
        initial = sum(1 for call in calls if call[0] == ADD) if self._missing else 0
        for mailbox in self._mailboxes:
            mailbox.put(calls, initial)
        return []

    def _count(self, calls: Sequence[Notification]) -> None:
        if len(calls) == 1:
            self.events[calls[0][0]] += 1
            return
        kinds = [call[0] for call in calls]
        for kind in (ADD, UPDATE, DELETE):
            if number := kinds.count(kind):
                self.events[kind] += number

    # --- everything at once --------------------------------------------------------------------------------

    async def _replace(self, replacement: Replacement, budget: YieldBudget) -> None:
        """Build the next state of the cache beside the present one, in slices; swap them in one step; notify handlers.

        Readers see the complete old state until they see the complete new one.
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
                old: KubeObject | None = rebuild.put(obj.key, obj)
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
        # Nothing is awaited from here until the initial adds are handed out, so the swap is one step.
        was = rebuild.commit()
        mailboxes = tuple(self._mailboxes)
        self.applied.lists += 1
        self.applied.advance(scope, replacement.resource_version)
        if first:
            self._start(mailboxes, fresh)
            self.scope_synced(scope)
        await self._tell_replaced(mailboxes, gone, changes, budget)
        for _ in was:  # in parts, because freeing 100,000 objects at once stalls the loop
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
        """Put the differences that a relist found into mailboxes, in slices.

        They are the mailboxes at the time of the swap: one that is attached later got the new state as its replay.
        """
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

    async def _replay_due(self, budget: YieldBudget) -> None:
        """Replay the cache to the handlers that are due for a resync (client-go: `SyncAll`)."""
        mailboxes = self._resyncs.take_due() if self._resyncs is not None else ()
        if not mailboxes:
            return
        # The partitions are read one by one as they are reached, which is safe: only this task writes to the cache.
        objects: Iterator[KubeObject] = chain.from_iterable(map(dict.values, self._indexer.tables()))
        while calls := [_sync_of(obj) for obj in islice(objects, _SLICE)]:
            self.events[SYNC] += len(calls)
            for mailbox in mailboxes:
                mailbox.put(calls)
            if budget.exhausted():
                await budget.pause()


def _sync_of(obj: KubeObject) -> Notification:
    return SYNC, obj.key, obj, obj, False
