"""The watch cache: an informer's objects with a ring of their last changes, as readers of the API see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from kinformer._runtime.tasks import wait_for_end
from kinformer.client.client import Client
from kinformer.client.discovery import served_kind
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.list_watcher import ListerWatcher
from kinformer.reflector.errors import RETRIED
from kinformer.serving.filters import Filter
from kinformer.serving.options import Options
from kinformer.serving.pages import WAIT
from kinformer.serving.storage import Limits, Storage
from kinformer.serving.view import EventView
from kinformer.serving.watcher import Watcher
from kinformer.watchcache.feed import Feed
from kinformer.watchcache.source import CacheSource

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["WatchCache"]

T = TypeVar("T")

_FAILURES = (TimeoutError, StoppedError, *RETRIED)

_PROOF = 0.1  # seconds in which the cache must prove that it is current, or the server answers the request
_PROOF_OF_STREAM = 30.0  # ... for the mark after the initial events of a watch, which has begun meanwhile


class WatchCache:
    """Answers the LIST, GET and WATCH requests of other readers from an informer, as an API server does.

    ``async with`` starts and stops it, and its informer if that has not been entered. resourceVersions are the
    server's own, so a reader may go on from any of them at the server, and come back. Objects are sent as the informer
    keeps them: without managedFields, unless it was created with `keep_managed_fields`, and with kind and apiVersion
    also in lists.

    A list that the informer makes after an interruption has no events. Its differences have no versions at which a
    reader could resume at the server without missing a delete. So open watches end then, and older versions get a 410,
    as when an API server rebuilds its own cache.

    Args:
        informer: An informer of all objects of a resource or a namespace, without a transform.
        client: Looks up the kind of an empty resource. Without it, such a resource is not answered.
        max_events, max_bytes: The most changes that are kept, and the most bytes of JSON in them.
        max_age: Seconds for which changes are kept while there are more than 100.

    Raises:
        ConfigError: The informer has a selector, a transform or several namespaces.
    """

    def __init__(
        self,
        informer: SharedInformer[Any],
        *,
        client: Client | None = None,
        max_events: int = 102_400,
        max_bytes: int = 256 << 20,
        max_age: float = 75.0,
    ) -> None:
        self._informer = informer
        self._core = core_of(informer)
        parts = self._core.parts
        if self._core.options.transform is not None or not parts.selects_all or set(parts.proofs) != {None}:
            raise ConfigError(
                f"{informer.name}: a watch cache needs whole objects of one source, without selectors and a transform"
            )
        self.resource = informer.resource
        self.kind = ""
        self._client = client
        self._feed = Feed(self._core, Limits(max_events, 100, max_age, max_bytes))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if not self._core.life.has_begun:
                await stack.enter_async_context(self._informer)
            self._feed.start()
            stack.callback(self._feed.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def respond(self, request: web.Request, *, namespace: str = "", name: str = "") -> web.StreamResponse | None:
        """Answer a request for this resource, or return None if only the server can.

        Errors are responses with the server's Status. None is returned for Tables, protobuf, CBOR, field selectors
        other than name and namespace, unknown parameters, and requests for the newest state if the cache is not proved
        to be current within 0.1 s.

        Args:
            request: The request. Only its method, headers and query are read.
            namespace: The namespace in its path, or "" for all.
            name: The name in its path, or "" for a list or watch.
        """
        from kinformer.watchcache.http import respond  # the only module here that needs aiohttp's server

        return await respond(self, request, namespace, name)

    def source(self, *, label_selector: str = "", field_selector: str = "", namespace: str = "") -> ListerWatcher:
        """Return a source for informers in this process, which get the same objects, not copies.

        ::

            async with SharedInformer(cache.source(label_selector="app=web")) as web:
                await web.wait_synced()

        Args:
            label_selector, field_selector: The objects that it has. Fields are those that `respond` knows.
            namespace: The namespace of its objects, or "" for all.
        """
        return CacheSource(self, label_selector, field_selector, namespace)

    # --- for the modules of this package ------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """The objects with their history.

        :meta private:
        """
        return self._feed.storage

    @property
    def namespace(self) -> str:
        """The namespace of the objects, or "" for all.

        :meta private:
        """
        return self._core.source.namespace or ""

    async def ready(self) -> bool:
        """Wait until the objects are complete. Return False if they will not be soon, or their kind is unknown.

        :meta private:
        """
        try:
            async with asyncio.timeout(WAIT):
                await self.complete()
        except _FAILURES:
            return False
        return bool(self.kind)

    async def complete(self) -> None:
        """Wait until the objects are complete. Raises StoppedError, or the error by which the informer has ended.

        :meta private:
        """
        if (error := self._feed.error) is not None:
            raise StoppedError(f"the watch cache of {self._informer.name} has ended: {error}") from error
        await self._core.publisher.synced.wait()
        await self._feed.settled()
        if not self.kind:
            objects = self._core.publisher.cache
            first = next(iter(self._feed.objects.objects), None)
            found = None if first is None else objects.get_by_key(first)
            if found is not None:
                self.kind = found.kind
            elif self._client is not None:
                self.kind = await served_kind(self._client, self.resource)

    async def proved(self) -> bool:
        """Return True once the objects are proved to be as new as the server, or False after 0.1 s.

        :meta private:
        """
        try:
            async with asyncio.timeout(_PROOF):
                await self.prove()
        except _FAILURES:
            return False
        return True

    async def prove(self) -> None:
        """Return once the objects are as new as the server was at the call. Raises the errors of the requests.

        :meta private:
        """
        await self._core.prove()
        await self._feed.settled()

    def watcher(self, view: EventView[T], selected: Filter, options: Options) -> Watcher[T]:
        """Return a watcher that has not been opened.

        :meta private:
        """
        return Watcher(self._feed.storage, self._feed.objects, view, selected, options)

    @asynccontextmanager
    async def opened(self, watcher: Watcher[T], options: Options) -> AsyncIterator[None]:
        """Open a watcher, and close it at exit.

        Initial events without a version begin at once. Only the bookmark after them waits until the cache is proved to
        be as new as the server, as an API server does it. If that fails, the watch ends without the bookmark.

        :meta private:
        """
        proving: asyncio.Task[None] | None = None
        try:
            if proves_later(options):
                watcher.hold_mark()
                proving = asyncio.create_task(self._prove_mark(watcher), name="kinformer proof of a watch")
            await watcher.open()
            yield
        finally:
            watcher.close()
            if proving is not None:
                proving.cancel()
                await wait_for_end((proving,))

    async def _prove_mark(self, watcher: Watcher[Any]) -> None:
        try:
            async with asyncio.timeout(_PROOF_OF_STREAM):
                await self.prove()
        except _FAILURES:
            watcher.end()
        else:
            watcher.release_mark()


def proves_later(options: Options) -> bool:
    """Return True if a watch has initial events with a bookmark after them, and no version."""
    return bool(options.watch and options.initial_events and options.bookmarks and not options.revision)
