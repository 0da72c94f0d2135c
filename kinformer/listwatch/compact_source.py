"""A source around another, which hands its objects on in their compact form."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, WatchEvent
from kinformer.listwatch.compaction import Compaction
from kinformer.listwatch.wrapper import SourceAround, map_page
from kinformer.objects.object import KubeObject
from kinformer.reflector.relist import known_or_new

__all__ = ["CompactingListerWatcher"]


class CompactingListerWatcher(SourceAround):
    """A `ListerWatcher` around another, which compresses each object that is going to be kept, once.

    Last states (DELETED) and bookmarks pass as they are, and an object that the cache has already is not compressed
    again. Everything else that the inner source offers (`tip`, `presence`, `stats`) is offered here too. Order, errors
    and cancellation are those of the inner source. It works in slices of 1 ms, and once, when there is enough to train
    a dictionary on, waits for that, while others have the loop.

    Args:
        inner: The source, transform and all.
        compaction: What compresses; shared by all sources of one cache.
        known: key -> the object in the cache, or None.
    """

    def __init__(self, inner: ListerWatcher, compaction: Compaction, *, known: Callable[[str], Any]) -> None:
        super().__init__(inner)
        self._compaction = compaction
        self._known = known

    async def list(self, options: ListOptions) -> ListPage:
        """One page; `items` is an async iterable of lists."""
        return map_page(await self._inner.list(options), self.compacted)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        """A stream of lists of events."""
        async with self._inner.watch(options) as inner, aclosing(self._events(inner)) as events:
            yield events

    async def compacted(self, objects: Iterable[Any]) -> builtins.list[KubeObject]:
        """The objects in their compact form, or as the cache has them; the list is the caller's."""
        budget = YieldBudget()
        kept: builtins.list[KubeObject] = []
        for obj in objects:
            kept.append(self._compacted(obj))
            await self._take_turns(budget)
        return kept

    async def _events(
        self, inner: AsyncIterator[builtins.list[WatchEvent]]
    ) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        budget = YieldBudget()
        async for events in inner:
            budget.restart()
            compacted: builtins.list[WatchEvent] = []
            for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    compacted.append(WatchEvent(event.type, self._compacted(event.object)))
                    await self._take_turns(budget)
                else:
                    compacted.append(event)
            yield compacted

    async def _take_turns(self, budget: YieldBudget) -> None:
        if self._compaction.due:
            await self._compaction.train()
            budget.restart()
        elif budget.exhausted():
            await budget.pause()

    def _compacted(self, obj: Any) -> KubeObject:
        entry = obj if isinstance(obj, KubeObject) else KubeObject.from_dict(obj)
        known: KubeObject = known_or_new(self._known, entry)
        return known if known is not entry else self._compaction.compact(entry)
