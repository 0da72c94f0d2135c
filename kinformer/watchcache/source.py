"""A source over a watch cache, for informers in the same process."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from kinformer.apiserver.line_queue import Watcher
from kinformer.apiserver.options import Options, read_options
from kinformer.apiserver.pages import read_page
from kinformer.apiserver.status import StatusError
from kinformer.list_watcher import ListOptions, ListPage, WatchEvent
from kinformer.watchcache.requests import select
from kinformer.watchcache.views import CachedView, held

if TYPE_CHECKING:
    from kinformer.watchcache.cached_resource import CachedResource

__all__ = ["CacheSource"]

Events = builtins.list[WatchEvent]


class CacheSource:
    """A `ListerWatcher` that reads from a cache, and hands on its objects.

    Args:
        cache: The cache.
        label_selector, field_selector: Its selectors, or "".
        namespace: Its namespace, or "" for all.
    """

    decodes = True

    def __init__(self, cache: CachedResource, label_selector: str, field_selector: str, namespace: str) -> None:
        self.resource = cache.resource
        self.namespace = namespace or cache.namespace or None
        self.name = f"{cache.resource} of a watch cache"
        self.selects_all = not (label_selector or field_selector)
        self._cache = cache
        self._label_selector = label_selector
        self._field_selector = field_selector

    async def list(self, options: ListOptions) -> ListPage:
        """List one page. Without a version, or with a newer one, the cache is proved to be as new as the server."""
        cache = self._cache
        await cache.complete()
        read = self._options(options)
        if cache.needs_proof(read):
            await cache.prove()
        try:
            selected = select(cache.resource, self.namespace or "", read)
            page = await read_page(cache.storage, cache.storage.collection("objects"), selected, read)
        except StatusError as error:
            raise error.to_api_error() from error
        return ListPage([held(stored) for stored in page.items], str(page.revision), page.token)

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        """Open a stream of the changes after a version, or of all objects and then the changes."""
        return self._watch(options)

    @asynccontextmanager
    async def _watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[Events]]:
        cache = self._cache
        await cache.complete()
        read = self._options(options, watch=True)
        if read.revision and cache.needs_proof(read):
            await cache.prove()
        try:
            selected = select(cache.resource, self.namespace or "", read)
        except StatusError as error:
            raise error.to_api_error() from error
        watcher = cache.watcher(CachedView(cache.resource.api_version, cache.kind), selected, read)
        async with cache.opened(watcher, read):
            yield _events(watcher)

    def _options(self, options: ListOptions, *, watch: bool = False) -> Options:
        given = {"labelSelector": self._label_selector, "fieldSelector": self._field_selector}
        params = options.params() | {name: value for name, value in given.items() if value}
        try:
            return read_options(params, forced_watch=watch)
        except StatusError as error:
            raise error.to_api_error() from error


async def _events(watcher: Watcher[WatchEvent | StatusError]) -> AsyncIterator[Events]:
    while (batch := await watcher.next_batch()) is not None:
        events: Events = []
        for line in batch:
            if isinstance(line.data, StatusError):
                if events:
                    yield events
                raise line.data.to_api_error()
            events.append(line.data)
        yield events
