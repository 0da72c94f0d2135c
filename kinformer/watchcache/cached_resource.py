"""A cached resource: the objects of a watch cache with their history, and the proofs that they are current."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from kinformer._runtime.tasks import wait_for_end
from kinformer.apiserver.line_queue import Watcher
from kinformer.apiserver.options import Options
from kinformer.apiserver.pages import WAIT
from kinformer.apiserver.selecting.filters import Selector
from kinformer.apiserver.storage import EventView, Limits, Storage, Stored
from kinformer.client.client import Client
from kinformer.connection.discovery import served_kind
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.objects.meta import GroupVersionResource
from kinformer.reflector.errors import RETRIED
from kinformer.watchcache.feed import Feed

if TYPE_CHECKING:
    from kinformer.informer.informer_core import InformerCore

__all__ = ["CachedResource"]

T = TypeVar("T")

_NONE = Stored("", "", "", "", 0, {}, b"")
_PROOF = 0.1  # seconds in which the cache must prove that it is current, or the server answers the request
_PROOF_OF_STREAM = 30.0  # ... for the mark after the initial events of a watch, which has begun meanwhile


class CachedResource:
    """What the answers of a watch cache are made from.

    Args:
        core: The core of the informer.
        client: Looks up the kind of an empty resource, or None.
        limits: The limits of the history.

    Attributes:
        resource: The resource.
        kind: The kind of its objects, or "" while unknown.
        feed: Receives the changes.
    """

    def __init__(self, core: InformerCore, client: Client | None, limits: Limits) -> None:
        self.resource: GroupVersionResource = core.face.resource
        self.kind = ""
        self.feed = Feed(core, limits)
        self._core = core
        self._client = client

    @property
    def storage(self) -> Storage:
        """The objects with their history."""
        return self.feed.storage

    @property
    def namespace(self) -> str:
        """The namespace of the objects, or "" for all."""
        return self._core.source.namespace or ""

    @property
    def is_namespaced(self) -> bool:
        """True if the objects are known to have namespaces."""
        return bool(self.namespace or next(iter(self.feed.objects.objects.values()), _NONE).namespace)

    async def ready(self) -> bool:
        """Wait until the objects are complete.

        Return False if they will not be soon, their kind is unknown, or their versions are not numbers.
        """
        try:
            async with asyncio.timeout(WAIT):
                await self.complete()
        except RETRIED:  # also a TimeoutError, or the end of the informer
            return False
        return bool(self.kind)

    async def complete(self) -> None:
        """Wait until the objects are complete.

        Raises:
            ConfigError: The server's versions are not numbers, so the cache cannot order them.
            StoppedError: The informer has ended.
            KinformerError: The error by which the informer has ended.
        """
        if (error := self.feed.error) is not None:
            raise StoppedError(f"the watch cache of {self._core.name} has ended: {error}") from error
        await self._core.publisher.synced.wait()
        await self.feed.settled()
        if not (version := self._core.parts.processor.applied.current[None]).isdecimal():
            message = (
                f"{self._core.name}: a watch cache needs versions that are numbers, and the server has {version!r}"
            )
            raise ConfigError(message)
        if not self.kind:
            objects = self._core.publisher.cache
            first = next(iter(self.feed.objects.objects), None)
            obj = None if first is None else objects.get_by_key(first)
            if obj is not None:
                self.kind = obj.kind
            elif self._client is not None:
                self.kind = await self._served_kind(self._client)

    async def _served_kind(self, client: Client) -> str:
        """Ask discovery for the kind, once for all requests that wait for it."""
        resource = self.resource
        return await client._shared(("served kind", resource), lambda: served_kind(client, resource, is_last=True))

    def needs_proof(self, options: Options) -> bool:
        """Return True if a request asks for newer objects than these are known to be.

        Its version may be one that the server has given, which counts the changes of all resources.
        """
        if options.token:
            return False
        if options.revision is None:
            return options.initial_events is not False and not _proves_later(options)
        reads_state = bool(options.initial_events) or not options.watch
        return reads_state and options.revision > self.storage.revision

    async def proved(self, revision: int = 0) -> bool:
        """Return True once the objects are proved to be as new as the server, or False after 0.1 s.

        Also False if they are older than `revision` then: the server does not have it either.
        """
        try:
            async with asyncio.timeout(_PROOF):
                await self.prove()
        except RETRIED:  # also a TimeoutError, or the end of the informer
            return False
        return self.storage.revision >= revision

    async def prove(self) -> None:
        """Return once the objects are as new as the server was at the call. Raises the errors of the requests."""
        await self._core.prove()
        await self.feed.settled()

    def watcher(self, view: EventView[T], selected: Selector, options: Options) -> Watcher[T]:
        """Return a watcher that has not been opened."""
        return Watcher(self.feed.storage, self.feed.objects, view, selected, options)

    @asynccontextmanager
    async def opened(self, watcher: Watcher[T], options: Options) -> AsyncIterator[None]:
        """Open a watcher, and close it at exit.

        Initial events without a version begin at once. Only the bookmark after them waits until the cache is proved to
        be as new as the server, as an API server does it. If that fails, the watch ends without the bookmark.
        """
        proving: asyncio.Task[None] | None = None
        try:
            if _proves_later(options):
                watcher.hold_mark()
                proving = asyncio.create_task(self._prove_mark(watcher), name="kinformer proof of a watch")
            await watcher.open()
            yield
        finally:
            watcher.close()
            if proving is not None:
                proving.cancel()
                await wait_for_end((proving,))

    async def _prove_mark(self, watcher: Watcher[T]) -> None:
        try:
            async with asyncio.timeout(_PROOF_OF_STREAM):
                await self.prove()
        except RETRIED:  # also a TimeoutError, or the end of the informer
            watcher.end()
        else:
            watcher.release_mark()


def _proves_later(options: Options) -> bool:
    """Return True if a watch has initial events with a bookmark after them, and no version."""
    return bool(options.watch and options.initial_events and options.bookmarks and not options.revision)
