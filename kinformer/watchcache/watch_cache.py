"""The watch cache: an informer's objects with a ring of their last changes, as readers of the API see them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.waiters import WaiterQueue
from kinformer.client.client import Client
from kinformer.client.discovery import served_kind
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.objects.object import KubeObject
from kinformer.processor.mailbox import DELETE, SYNC, Notification
from kinformer.reflector.errors import RETRIED
from kinformer.serving.filters import Filter
from kinformer.serving.options import Options
from kinformer.serving.storage import Limits, Storage, Stored
from kinformer.serving.watcher import Watcher
from kinformer.watchcache.views import JSONView

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["WatchCache"]

_PROOF = 0.1  # seconds in which the cache must prove that it is current, or the server answers the request


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
        self._feed = _Feed(self._core, Limits(max_events, 100, max_age, max_bytes))
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

    # --- for the modules of this package ------------------------------------------------------------------

    @property
    def storage(self) -> Storage:
        """The objects with their history.

        :meta private:
        """
        return self._feed.storage

    async def ready(self) -> bool:
        """Wait until the objects are complete. Return False if their kind is unknown.

        :meta private:
        """
        await self._core.publisher.synced.wait()
        await self._feed.settled()
        if not self.kind:
            objects = self._feed.objects.objects
            first = next(iter(objects), None)
            found = None if first is None else self._core.publisher.cache.get_by_key(first)
            if found is not None:
                self.kind = found.kind
            elif self._client is not None:
                self.kind = await served_kind(self._client, self.resource)
        return bool(self.kind)

    async def proved(self) -> bool:
        """Return True once the objects are proved to be as new as the server, or False after 0.1 s.

        :meta private:
        """
        try:
            async with asyncio.timeout(_PROOF):
                await self._core.prove()
        except (TimeoutError, *RETRIED):
            return False
        await self._feed.settled()
        return True

    def watcher(self, view: JSONView, selected: Filter, options: Options) -> Watcher:
        """Return a watcher that has not been opened.

        :meta private:
        """
        return Watcher(self._feed.storage, self._feed.objects, view, selected, options)


class _Storage(Storage):
    """The storage of one resource, whose revision also advances by bookmarks and proofs."""

    def __init__(self, core: Any, limits: Limits) -> None:
        self._applied = core.parts.processor.applied
        self._last = 0
        super().__init__(limits)

    @property
    def revision(self) -> int:  # type: ignore[override]
        """The newest version that the cache has reached."""
        return max(self._last, _number(self._applied.current[None]), self._applied.proved.get(None, 0))

    @revision.setter
    def revision(self, value: int) -> None:
        self._last = value


class _Feed:
    """Receives the changes of an informer in the step that applies them."""

    def __init__(self, core: Any, limits: Limits) -> None:
        self._core = core
        self._publisher = core.publisher
        self.storage = _Storage(core, limits)
        self.objects = self.storage.collection("objects")
        self._stale = True  # the objects differ from the informer's
        self._settled = WaiterQueue()

    def start(self) -> None:
        self._publisher.on_settled.append(self._relisted)
        self._publisher.attach(self)

    def stop(self) -> None:
        self._publisher.detach(self)
        self._publisher.on_settled.remove(self._relisted)
        self.objects.end_watches()

    async def settled(self) -> None:
        while self._stale:
            await self._settled.wait()

    def put(self, batch: Sequence[Notification], initial: int = 0) -> None:
        if self._stale:
            return
        if self._publisher.is_settling:
            self._stale = True
            return
        for kind, _, _, obj, flag in batch:
            if kind == SYNC:
                continue
            revision = _number(obj.resource_version)
            if (kind == DELETE and flag) or revision <= self.objects.revision:
                self._rebuild(max(_number(call[3].resource_version) for call in batch))
                return
            stored = _stored(obj, revision)
            if kind == DELETE:
                self.objects.remove(stored)
            else:
                self.objects.put(stored)

    def replay(self, objects: ChunkedList[KubeObject]) -> None:
        pass  # the objects are read from the cache when they are complete

    def upstream_synced(self) -> None:
        if not self._publisher.is_settling:
            self._rebuild(0)

    def fail(self, error: BaseException) -> None:
        self._settled.fail(error)
        self.objects.end_watches()

    def _relisted(self) -> None:
        if not self._publisher.synced.is_open:
            return
        if self._stale or _number(self._core.parts.processor.applied.current[None]) < self.objects.revision:
            self._rebuild(0)

    def _rebuild(self, least: int) -> None:
        """Take the objects of the informer without the events that lead to them."""
        revision = max(least, _number(self._core.parts.processor.applied.current[None]))
        found = [obj for table in self._publisher.cache.tables() for obj in table.values()]
        self.objects.restart((_stored(obj, _number(obj.resource_version)) for obj in found), revision)
        self._stale = False
        self._settled.wake_all()


def _number(version: str) -> int:
    return int(version) if version.isdigit() else 0


def _stored(obj: KubeObject, revision: int) -> Stored:
    return Stored(obj.key, obj.namespace, obj.name, obj.uid, revision, obj._labels, obj.raw)
