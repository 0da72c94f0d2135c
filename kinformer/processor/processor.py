"""The processor: applies queued changes to the cache, and puts each of them into the mailboxes of the handlers.

The cache comes first, then the mailboxes, so a handler that is called for a change finds it in the listers. Nothing is
awaited between the two, so a snapshot of the cache is always taken between two changes. (client-go,
tools/cache/controller.go: `processDeltas`. Here the cache decides whether a change is an add, an update or a delete,
and equal versions cause no call.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YieldBudget
from kinformer.cache.indexer import Indexer
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import is_gone
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.packed import as_entry
from kinformer.processor.applied_versions import AppliedVersions
from kinformer.processor.event_stream import Position
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Notification, Receiver, deliver
from kinformer.processor.publisher import Publisher
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.atomic_delta_fifo import Entry, EventBatch, FullList, Marker, ScopeChange, ScopeStep

__all__ = ["UNKNOWN_SCOPES", "Processor"]

UNKNOWN_SCOPES = ""
"""The scope that is missing until the first namespaces are known: no namespace has this name."""

_QUICK = 64  # changes between two looks at the clock if no function of the program is called. Each takes a microsecond
_ITEMS = 16  # items of a list between two looks, as `_QUICK`. A path that is not read yet takes 20 microseconds


class Processor(Publisher):
    """The only writer of an informer's cache and of its mailboxes.

    Its state changes in the informer's processor task, and in `apply_now`, which the queue calls only while that task
    waits.

    Args:
        indexer: The cache.
        scopes: The namespaces whose first lists complete the cache, or `(None,)` for a single source.
        scopes_follow: True if namespaces join and leave. The cache is then incomplete until `scope_synced` is called
            with `UNKNOWN_SCOPES`, when the first namespaces are known.
        resyncs: The schedule that returns the mailboxes of a resync, or None if no handler gets one.

    Attributes:
        applied: The versions that the cache has reached.
    """

    def __init__(
        self,
        indexer: Indexer,
        *,
        scopes: Sequence[str | None] = (None,),
        scopes_follow: bool = False,
        resyncs: ResyncSchedule | None = None,
    ) -> None:
        super().__init__(indexer, resyncs)
        self.applied = AppliedVersions(scopes)
        self._missing = {*scopes, *([UNKNOWN_SCOPES] if scopes_follow else [])}
        self._left: set[str] = set()  # scopes that have left before the cache was complete
        self._budget: YieldBudget | None = None

    @property
    def missing(self) -> frozenset[str | None]:
        """The scopes whose first list is not in the cache."""
        return frozenset(self._missing)

    def position(self) -> Position | None:
        """Return the place of the cache in the history of one server, or None if that is not known now."""
        version = "" if self.is_settling or len(self.applied.current) > 1 else self.applied.lowest()
        return Position(self.applied.lists, int(version)) if version.isdecimal() else None

    def scope_synced(self, scope: str | None) -> None:
        """Record that the first list of a scope is in the cache, or that the cache is complete without it."""
        self._missing.discard(scope)
        if not self._missing and not self.synced.is_open:
            self._open()

    def fail(self, error: BaseException) -> None:
        """Raise `error` in tasks that wait for a version, or (now or later) for the first list: none will come."""
        self.applied.fail(error)
        super().fail(error)

    # --- changes --------------------------------------------------------------------------------------

    def apply_now(self, changes: EventBatch) -> EventBatch | None:
        """Apply a batch in one step, as far as the budget allows. Return the changes that are left, or None."""
        events = changes.events
        if len(events) == 1 and not self._calls_functions:
            calls: list[Notification] = []
            self._apply_events(events, calls)
            if calls:
                deliver(calls, self._receivers, self.events, initial=bool(self._missing))
        else:
            budget = self._begun()
            done = self._apply_some(events, budget)
            self.hand_out()
            budget.blame()
            if done < len(events):
                return changes._replace(events=events[done:])
        self._advance(changes)
        return None

    async def apply(self, entries: Iterable[Entry]) -> None:
        """Apply entries of the queue, in slices. The cache is consistent if this is cancelled between two of them."""
        budget = self._begun()
        for entry in entries:
            if budget.exhausted():
                await self._hand_out_and_pause(budget)
            if isinstance(entry, EventBatch):
                events = entry.events
                while (done := self._apply_some(events, budget)) < len(events):
                    events = events[done:]
                    await self._hand_out_and_pause(budget)
                self._advance(entry)
                continue
            self.hand_out()
            if isinstance(entry, FullList):
                await self._replace(entry, budget)
            elif isinstance(entry, ScopeChange):
                await self._change_scope(entry, budget)
            elif entry is Marker.RESYNC:
                await self._replay_due(budget)
        self.hand_out()
        budget.blame()

    def _begun(self) -> YieldBudget:
        """Return the budget, whose run begins now."""
        if self._budget is None:
            self._budget = YieldBudget()
        else:
            self._budget.enter()
        return self._budget

    async def _hand_out_and_pause(self, budget: YieldBudget) -> None:
        self.hand_out()
        await budget.pause()

    def _advance(self, changes: EventBatch) -> None:
        applied = self.applied
        if applied.waiters:
            applied.advance(changes.scope, changes.resource_version)
        else:  # inlined, because nearly always no task waits
            applied.current[changes.scope] = changes.resource_version

    @property
    def _calls_functions(self) -> bool:
        """True if functions of the program are called with each change."""
        return self._slice == 1 or self._indexer.calls_functions

    def _apply_some(self, events: Sequence[WatchEvent], budget: YieldBudget) -> int:
        """Apply events, until the budget is exhausted. Return how many."""
        size = 1 if self._calls_functions else _QUICK
        for start in range(0, len(events), size):
            if start and budget.exhausted():
                return start
            self._apply_events(events[start : start + size], self._calls)
            if self._slice == 1:
                self.hand_out()
        return len(events)

    def _apply_events(self, events: Sequence[WatchEvent], calls: list[Notification]) -> None:
        """Apply events to the cache, and append the resulting calls.

        A new uid under a known name means that a delete was missed, so the last state of the old object is unknown.
        The calls are plain tuples, as here and in the other loops each is built once per change: see `Notification`.
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
                continue  # the cache has this state or a newer one
            if old is None:
                calls.append((ADD, key, None, obj, bool(self._missing)))
            elif old.uid == obj.uid:
                calls.append((UPDATE, key, old, obj, False))
            else:
                calls.append((DELETE, key, old, old, True))
                calls.append((ADD, key, None, obj, bool(self._missing)))

    def _delete(self, key: str, obj: KubeObject, calls: list[Notification]) -> None:
        old: KubeObject | None = self._indexer.get_by_key(key)
        if old is None:  # handlers have never seen an object that was not in the cache
            return
        uid, unknown = obj.uid, False
        if uid != old.uid or not uid:
            if not is_gone(old.uid, old.resource_version, uid, obj.resource_version):
                return  # a doubled or late event about an earlier object
            unknown = bool(uid and old.uid) or type(obj) is UndecodableObject
        self._indexer.pop(key)
        calls.append((DELETE, key, old, old if unknown else obj, unknown))

    async def _change_scope(self, change: ScopeChange, budget: YieldBudget) -> None:
        scope, step = change
        if step is ScopeStep.JOINED:
            self.applied.current[scope] = ""
            if not self.synced.is_open:
                self._missing.add(scope)
        elif step is ScopeStep.COMPLETE:
            self.scope_synced(scope)
        else:
            if not self.synced.is_open:
                self._left.add(scope)
            await self._replace(FullList([], "", scope), budget)
            self.applied.leave(scope)

    # --- everything at once --------------------------------------------------------------------------------

    async def _replace(self, replacement: FullList, budget: YieldBudget) -> None:
        """Build the next cache state beside the present one, in slices, swap them in one step, and notify handlers.

        Readers see the complete old state until they see the complete new one.
        """
        scope = replacement.scope
        first = scope in self._missing
        # A replay comes before all waiting calls. If this scope has left before, its deletes may be among these.
        replays = first and scope not in self._left
        rebuild = self._indexer.rebuild(scope)
        fresh: ChunkedList[KubeObject] = ChunkedList()
        changes: ChunkedList[tuple[KubeObject | None, KubeObject]] = ChunkedList()
        gone: ChunkedList[KubeObject] = ChunkedList()
        items, size = replacement.items, 1 if self._indexer.calls_functions else _ITEMS
        try:
            for number, item in enumerate(items.drain() if isinstance(items, ChunkedList) else items):
                obj = item if type(item) is KubeObject else as_entry(item)
                old: KubeObject | None = rebuild.put(obj.key, obj)
                if old is None and replays:
                    fresh.append(obj)
                elif old is None or (old is not obj and old != obj):
                    changes.append((old, obj))
                if number % size == 0 and budget.exhausted():
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
        self.is_settling = True
        receivers = tuple(self._receivers)
        self.applied.listed(scope, replacement.resource_version)
        if replays:
            self._start(receivers, fresh)
            self.scope_synced(scope)
        try:
            await self._tell_replaced(receivers, gone, changes, budget, initial=first and not replays)
        finally:
            self._settled()
        if first and not replays:  # not before, or a handler would count as synced without these objects
            self.scope_synced(scope)
        for _ in was:  # in parts, because freeing 100,000 objects at once stalls the loop
            if budget.exhausted():
                await budget.pause()

    async def _tell_replaced(
        self,
        receivers: Sequence[Receiver],
        gone: ChunkedList[KubeObject],
        changes: ChunkedList[tuple[KubeObject | None, KubeObject]],
        budget: YieldBudget,
        *,
        initial: bool,
    ) -> None:
        """Deliver the differences that a relist found to receivers, in slices.

        These are the receivers at the time of the swap. One that is attached later gets the new state as its replay.
        With `initial`, adds are initial adds.
        """
        for call in _calls_of(gone, changes, initial=initial):
            self._calls.append(call)
            if len(self._calls) >= self._slice:
                self.hand_out(receivers)
                if budget.exhausted():
                    await budget.pause()
        self.hand_out(receivers)

    async def _replay_due(self, budget: YieldBudget) -> None:
        """Replay the cache to the receivers that are due for a resync (client-go: `SyncAll`)."""
        receivers = self._resyncs.take_due() if self._resyncs is not None else ()
        if not receivers:
            return
        # The partitions are read one by one, which is safe because only this task writes to the cache.
        objects: Iterator[KubeObject] = chain.from_iterable(map(dict.values, self._indexer.tables()))
        while calls := [_sync_of(obj) for obj in islice(objects, self._slice)]:
            self._calls = calls
            self.hand_out(receivers)
            if budget.exhausted():
                await budget.pause()


def _calls_of(
    gone: ChunkedList[KubeObject], changes: ChunkedList[tuple[KubeObject | None, KubeObject]], *, initial: bool
) -> Iterator[Notification]:
    for old in gone.drain():
        yield DELETE, old.key, old, old, True
    for before, obj in changes.drain():
        if before is not None and before.uid == obj.uid:
            yield UPDATE, obj.key, before, obj, False
            continue
        if before is not None:
            yield DELETE, obj.key, before, before, True
        yield ADD, obj.key, None, obj, initial and before is None


def _sync_of(obj: KubeObject) -> Notification:
    return SYNC, obj.key, obj, obj, False
