"""A source whose watch events come late: for code that must not mistake an old cache for the truth."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kinformer import ListerWatcher, ListOptions, ListPage, WatchEvent
from kinformer.list_watcher import MetadataLister


class LaggingSource:
    """Passes another source on; each batch of a watch waits until `gate` is open, and then for `lag` seconds."""

    def __init__(self, source: ListerWatcher, *, lag: float = 0.0) -> None:
        self.name = getattr(source, "name", "source")
        self.namespace = getattr(source, "namespace", None)
        self.resource = getattr(source, "resource", None)
        self.selects_all = getattr(source, "selects_all", False)
        self.client = getattr(source, "client", None)
        self.gate = asyncio.Event()
        self.gate.set()
        self.lag = lag
        self.inner = source
        if isinstance(source, MetadataLister):
            self.list_metadata = source.list_metadata

    async def list(self, options: ListOptions) -> ListPage:
        return await self.inner.list(options)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        async with self.inner.watch(options) as events:
            yield self._late(events)

    async def _late(self, events: AsyncIterator[builtins.list[WatchEvent]]) -> AsyncIterator[builtins.list[WatchEvent]]:
        async for batch in events:
            await self.gate.wait()
            await asyncio.sleep(self.lag)
            yield batch
