"""A source whose versions are not numbers, for code that may compare them for equality only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec

from kinformer import KubeObject, ListOptions, ListPage, WatchEvent
from kinformer.list_watcher import MetadataList
from tests.support.memory_source import MemorySource


class OpaqueVersions:
    """Follows a `MemorySource`, with version 5 as `v5`. Events of a watch wait while `gate` is closed."""

    name = MemorySource.name

    def __init__(self, inner: MemorySource) -> None:
        self.inner = inner
        self.gate = asyncio.Event()
        self.gate.set()

    async def list(self, options: ListOptions) -> ListPage:
        page = await self.inner.list(_numeric(options))
        assert isinstance(page.items, list)
        return ListPage([_opaque(obj) for obj in page.items], f"v{page.resource_version}")

    async def list_metadata(self, namespace: str = "", *, name: str = "", label_selector: str = "") -> MetadataList:
        found = [_opaque(obj) for obj in self.inner.objects.values() if name in ("", obj.name)]
        return MetadataList(found, f"v{self.inner.version}")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[Any]]:
        async with self.inner.watch(_numeric(options)) as events:
            yield self._opened(events)

    async def _opened(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for batch in events:
            await self.gate.wait()
            yield [WatchEvent(event.type, _opaque(event.object)) for event in batch]


def _numeric(options: ListOptions) -> ListOptions:
    return replace(options, resource_version=(options.resource_version or "").removeprefix("v") or None)


def _opaque(obj: Any) -> Any:
    document = msgspec.json.decode(obj.raw) if isinstance(obj, KubeObject) else obj
    metadata = document["metadata"]
    changed = {**document, "metadata": {**metadata, "resourceVersion": f"v{metadata['resourceVersion']}"}}
    return KubeObject.from_dict(changed) if isinstance(obj, KubeObject) else changed
