"""The way of a request: refused, answered by a cache, or passed on to the server."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import NamedTuple

from aiohttp import web
from aiohttp.typedefs import Handler

from kinformer.apiserver.options import boolean_of, query_of
from kinformer.apiserver.status import StatusError, failure
from kinformer.connection.discovery import APIResource
from kinformer.informer.informer import SharedInformer
from kinformer.listening.aiohttp_server import refusal_of
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.objects.paths.printing import go_json
from kinformer.objects.requests.path import RequestPath
from kinformer.watchcache.informer_server import WatchCache
from kinformer.watchcache.proxy.figures import ProxyFigures
from kinformer.watchcache.proxy.forwarding import Forwarder
from kinformer.watchcache.proxy.headers import has_body
from kinformer.watchcache.proxy.requests import check

__all__ = ["Router", "Served"]

_FOLLOWED = ("watching", "polling", "listing", "starting", "backing_off")

_source: ContextVar[str] = ContextVar("kinformer source", default="proxy")
"""What answers the request of the current task."""


class Served(NamedTuple):
    """A resource that is answered from a cache, of all namespaces or of one."""

    resource: APIResource
    informer: SharedInformer
    cache: WatchCache
    namespace: str | None

    def holds(self, path: RequestPath) -> bool:
        """Return True if the cache has what a path of this resource names."""
        if path.prefix or path.subresource:
            return False
        if not self.resource.namespaced:
            return not path.namespace
        if not path.namespace:
            return not path.name and self.namespace is None
        return self.namespace in (None, path.namespace)

    @property
    def is_ready(self) -> bool:
        """True if the cache is complete and follows the server, or will again."""
        health = self.informer.health()
        return health.synced and health.state in _FOLLOWED


class Router:
    """Answers the requests of a proxy.

    Args:
        served: The resources that are answered from a cache.
        forwarder: Passes on all other requests.
        hosts: The host names that are answered.
        figures: Counts requests.
    """

    def __init__(
        self, served: Sequence[Served], forwarder: Forwarder, *, hosts: AllowedHosts, figures: ProxyFigures
    ) -> None:
        self._served = {(entry.resource.group, entry.resource.version, entry.resource.name): entry for entry in served}
        self._forwarder = forwarder
        self._hosts = hosts
        self._figures = figures
        self._is_stopping = False

    def application(self) -> web.Application:
        """Return an application whose requests are all answered here."""
        application = web.Application(middlewares=[self._handle_any])
        application.router.add_route("*", "/{path:[^?]*}", self._handle, expect_handler=_leave_to_handler)
        application.on_response_prepare.append(self._complete_head)
        return application

    def end_streams(self) -> None:
        """End watches and logs, and the connection of each further request after its response."""
        self._is_stopping = True
        for served in self._served.values():
            served.cache.storage.end_watches()
        self._forwarder.end_streams()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. A failure is a Status."""
        with Connections.request():
            try:
                return await self._answer(request)
            except StatusError as error:
                _source.set("proxy")
                response = _status_response(error)
                if has_body(request.headers):
                    response.force_close()  # otherwise it would wait for the body
                return response

    @web.middleware
    async def _handle_any(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, also with a method or path that aiohttp's own router does not know."""
        return await self._handle(request)

    async def _complete_head(self, request: web.Request, response: web.StreamResponse) -> None:
        """Complete the header fields of each response. aiohttp calls this before it sends them."""
        response.headers.popall("Server", None)
        source = _source.get()
        self._figures.count(source, request.method)
        if source != "server":
            response.headers.setdefault("Cache-Control", "no-cache, private")  # an API server sends this too
        if self._is_stopping:
            response.force_close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        refusal = refusal_of(request, self._hosts, own_pages=True)
        if refusal is not None:
            status, text = refusal
            raise failure(status, text.strip(), reason=None if status in (400, 403) else "")
        path = check(request)
        if path is not None and request.method == "GET":
            answer = await self._from_cache(request, path)
            if answer is not None:
                return answer
        _source.set("server")
        params = query_of(request.rel_url.raw_query_string)
        is_watch = boolean_of(params, "watch") or (path is not None and path.prefix == "watch")
        return await self._forwarder.forward(request, is_stream=is_watch or boolean_of(params, "follow"))

    async def _from_cache(self, request: web.Request, path: RequestPath) -> web.StreamResponse | None:
        served = self._served.get((path.group, path.version, path.resource))
        if served is None or not served.holds(path) or not served.is_ready or request.path.endswith("/"):
            return None
        _source.set("cache")
        namespace = path.namespace if served.resource.namespaced else ""
        return await served.cache.respond(request, namespace=namespace, name=path.name)


async def _leave_to_handler(_: web.Request) -> None:
    """Do not answer `Expect: 100-continue`, which comes with a body."""


def _status_response(error: StatusError) -> web.Response:
    """Return the response for a failure, like an API server."""
    if isinstance(error.body, str):
        return web.Response(status=error.code, text=error.body, headers=error.headers)
    headers = {"Content-Type": "application/json", **error.headers}
    return web.Response(status=error.code, body=go_json(error.body) + b"\n", headers=headers)
