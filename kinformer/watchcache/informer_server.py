"""The watch cache: an informer's objects with a ring of their last changes, as readers of the API see them."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Self

from kinformer.apiserver.accept import is_pretty
from kinformer.apiserver.options import query_of
from kinformer.apiserver.storage import Limits, Storage
from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.list_watcher import ListerWatcher
from kinformer.watchcache.cached_resource import CachedResource
from kinformer.watchcache.source import CacheSource

if TYPE_CHECKING:
    from aiohttp import web

    from kinformer.watchcache.asgi import Scope, Send

__all__ = ["WatchCache"]


class WatchCache:
    """Answers the LIST, GET and WATCH requests of other readers from an informer, as an API server does.

    ``async with`` starts and stops it, and its informer if that has not been entered. resourceVersions are the
    server's own, so a reader may go on from any of them at the server, and come back. Objects are sent as the informer
    keeps them: without managedFields, unless it was created with `keep_managed_fields`.

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
        informer: SharedInformer,
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
        self._cached = CachedResource(self._core, client, Limits(max_events, 100, max_age, max_bytes))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            if not self._core.life.has_begun:
                await stack.enter_async_context(self._informer)
            self._cached.feed.start()
            stack.callback(self._cached.feed.stop)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def respond(self, request: web.Request, *, namespace: str = "", name: str = "") -> web.StreamResponse | None:
        """Answer a request for this resource, or return None if only the server can.

        Errors are responses with the server's Status. None is returned for Tables of custom resources, YAML, protobuf,
        CBOR, selectors of unknown fields, other namespaces, unknown parameters, requests for the newest state if the
        cache is not proved to be current within 0.1 s, and all requests if the server's versions are not numbers.
        Clients that prefer protobuf, and accept the same form as JSON, get JSON.

        Args:
            request: The request. Only its method, headers and query are read.
            namespace: The namespace in its path, or "" for all.
            name: The name in its path, or "" for a list or watch.
        """
        # the only modules here that need aiohttp's server
        from kinformer.apiserver.response import ResponseWriter
        from kinformer.watchcache.backend import respond_from

        params = query_of(request.rel_url.raw_query_string)
        response = ResponseWriter(request, pretty=is_pretty(request.headers, params))
        return response.stream if await respond_from(self._cached, response, params, namespace, name) else None

    async def respond_asgi(self, scope: Scope, send: Send, *, namespace: str = "", name: str = "") -> bool:
        """Answer a request for this resource over ASGI, as `respond` does, or return False if only the server can.

        The caller ends an open watch by cancelling this, when the client disconnects or the application stops.
        `kinformer.contrib.fastapi.cache_response` does so.

        Args:
            scope: The request. Only its method, headers and query are read.
            send: Sends the messages of the response.
            namespace: The namespace in its path, or "" for all.
            name: The name in its path, or "" for a list or watch.
        """
        from kinformer.watchcache.asgi import respond_asgi

        return await respond_asgi(self._cached, scope, send, namespace, name)

    def source(self, *, label_selector: str = "", field_selector: str = "", namespace: str = "") -> ListerWatcher:
        """Return a source for informers in this process, which get the same objects, not copies.

        ::

            async with SharedInformer(cache.source(label_selector="app=web")) as web:
                await web.wait_synced()

        Args:
            label_selector, field_selector: The objects that it has. Fields are those that `respond` knows.
            namespace: The namespace of its objects, or "" for all.
        """
        return CacheSource(self._cached, label_selector, field_selector, namespace)

    @property
    def storage(self) -> Storage:
        """The objects with their history.

        :meta private:
        """
        return self._cached.storage
