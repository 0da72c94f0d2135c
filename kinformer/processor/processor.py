"""Applies queued changes to the cache, and hands each applied change to the mailboxes of the handlers.

Cache first, then the notifications: when a handler hears of a change, the listers have it. Nothing is awaited between
the two, so a snapshot of the cache is always taken between two changes. (client-go, tools/cache/controller.go:
`processDeltas`; here the cache decides what is an add, an update or a delete, and equal versions cause no call.)
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
_ITEMS = 16  # items of a list between two looks: an index function may take its time


class Processor:
    """Writes the cache, and tells the mailboxes; the only writer of both.

    Args:
        indexer: The cache.
        scopes: The namespaces whose first list makes the cache complete; `(None,)` for a single source.
        resyncs: Which mailboxes a replay of the cache is for; None if there are none.

    Attributes:
        events: Changes that were applied, by type.
        applied: How far the cache is.
        synced: Set once the first full list of every source is in the cache.
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
        """Hand this and every later change to `mailbox`, after what the cache holds now as adds.

        Called between two deltas, as everything on the loop is: no gap, nothing twice.
        """
        mailbox.replay(ChunkedList(self._indexer.tables()))
        if self.synced.is_open:
            mailbox.upstream_synced()
        self._mailboxes.append(mailbox)

    def detach(self, mailbox: Mailbox) -> None:
        """Hand nothing more to `mailbox`."""
        if mailbox in self._mailboxes:
            self._mailboxes.remove(mailbox)

    def fail(self, error: BaseException) -> None:
        """No list will come any more: each task that waits for one gets `error`, and so does one that comes later."""
        self.synced.fail(error)
        self.applied.fail(error)
        for mailbox in self._mailboxes:
            mailbox.fail(error)

    def scope_synced(self, scope: str | None) -> None:
        """The first list of one source is in the cache (or will never be, and need not be)."""
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
        for event in changes.events:
            self._apply_event(event, calls)
        self._hand_out(calls)
        self._advance(changes)

    async def apply(self, entries: Iterable[Entry]) -> None:
        """Apply what was taken from the queue, in slices. Cancelled between two of them, the cache is whole."""
        budget = YieldBudget()
        calls: list[Notification] = []
        left = _SLICE
        for entry in entries:
            if isinstance(entry, Changes):
                for event in entry.events:
                    self._apply_event(event, calls)
                    left -= 1
                    if not left:
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
        else:  # nearly always
            applied.current[changes.scope] = changes.resource_version

    def _apply_event(self, event: WatchEvent, calls: list[Notification]) -> None:
        """Apply one event to the cache, and append the calls that come of it.

        Of a new uid under a known name the delete was missed, so the last state of the old object is not known.
        """
        kind, obj = event
        if kind == "BOOKMARK":
            return
        if type(obj) is not KubeObject:
            obj = as_entry(obj)
        key = obj.key
        if kind == "DELETED":
            self._delete(key, obj, calls)
            return
        old: KubeObject | None = self._indexer.advance(key, obj, _is_news)
        if old is obj:
            return  # it tells nothing new
        if old is None:
            calls.append((ADD, key, None, obj, bool(self._missing)))
        elif old.uid == obj.uid:
            calls.append((UPDATE, key, old, obj, False))
        else:
            calls.append((DELETE, key, old, old, True))
            calls.append((ADD, key, None, obj, bool(self._missing)))

    def _delete(self, key: str, obj: KubeObject, calls: list[Notification]) -> None:
        old: KubeObject | None = self._indexer.pop(key)
        if old is not None:  # else it was never seen, so there is nothing to tell
            unknown = type(obj) is UndecodableObject
            calls.append((DELETE, key, old, old if unknown else obj, unknown))

    def _hand_out(self, calls: list[Notification]) -> list[Notification]:
        """Hand calls to the mailboxes; returns the list for the next ones."""
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
        self.applied.lists += 1
        self.applied.advance(scope, replacement.resource_version)
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

    async def _replay_due(self, budget: YieldBudget) -> None:
        """Replay the cache to the handlers that are due for it (client-go: `SyncAll`)."""
        mailboxes = self._resyncs.take_due() if self._resyncs is not None else ()
        if not mailboxes:
            return
        # Nothing else writes to the cache, so a table is as good when it is reached.
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
