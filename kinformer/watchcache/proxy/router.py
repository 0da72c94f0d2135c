"""The way of a request: refused, answered by a cache, or passed on to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler

from kinformer.client.discovery import APIResource
from kinformer.informer.informer import SharedInformer
from kinformer.listening.aiohttp_server import refusal_of
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.serving.status import StatusError, dumps, failure, method_not_allowed
from kinformer.watchcache.proxy.callers import Caller
from kinformer.watchcache.proxy.figures import Figures
from kinformer.watchcache.proxy.forwarding import Forwarder
from kinformer.watchcache.proxy.headers import is_impersonating, upgrade_of
from kinformer.watchcache.proxy.paths import ResourcePath, check_reads_only, read_path, segments_of
from kinformer.watchcache.proxy.rights import Access, attempt_of
from kinformer.watchcache.proxy.tunnel import Ending
from kinformer.watchcache.watch_cache import WatchCache

__all__ = ["Router", "Served"]

_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"))
_FOLLOWED = ("watching", "polling", "listing", "starting", "backing_off")
_CANNOT_PASS_ON = (
    "this proxy answers only reads of cached resources for a client certificate, which it cannot pass on; use a token"
)

# Of the request that a task answers: the response that has begun, and what answers it.
_begun: ContextVar[web.StreamResponse | None] = ContextVar("kinformer response", default=None)
_source: ContextVar[str] = ContextVar("kinformer source", default="proxy")


class Served(NamedTuple):
    """A resource that is answered from a cache, of all namespaces or of one."""

    resource: APIResource
    informer: SharedInformer
    cache: WatchCache
    namespace: str | None

    def holds(self, path: ResourcePath) -> bool:
        """Return True if the cache has what a path of this resource names."""
        if path.prefix or path.subresource:
            return False
        if not self.resource.namespaced:
            return not path.inside
        if not path.inside:
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
        allow_writes: True passes on requests that are no reads.
        access: The rights of callers, or None if all callers have those of the proxy.
        figures: Counts requests.
    """

    def __init__(
        self,
        served: Sequence[Served],
        forwarder: Forwarder,
        *,
        hosts: AllowedHosts,
        allow_writes: bool,
        access: Access | None,
        figures: Figures,
    ) -> None:
        self._served = {(one.resource.group, one.resource.version, one.resource.name): one for one in served}
        self._forwarder = forwarder
        self._hosts = hosts
        self._allow_writes = allow_writes
        self._access = access
        self._figures = figures
        self._endings: set[Ending] = set()
        self.stopping = False

    def end_streams(self) -> None:
        """End watches, logs and tunnels, and the connection of each further request after its response."""
        self.stopping = True
        for ending in self._endings:
            ending.end()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request. A failure is a Status."""
        with Connections.request():
            try:
                return await self._answer(request)
            except StatusError as error:
                _source.set("proxy")
                return status_response(error)
            except web.RequestPayloadError as error:
                return status_response(failure(400, f"the body of the request is malformed: {error}"))

    @web.middleware
    async def handle_any(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer a request, also with a method or path that aiohttp's own router does not know."""
        return await self.handle(request)

    async def on_prepare(self, request: web.Request, response: web.StreamResponse) -> None:
        """Complete the header fields of each response. aiohttp calls this before it sends them."""
        response.headers.popall("Server", None)
        source = _source.get()
        self._figures.count(source, request.method)
        if source != "server":
            response.headers.setdefault("Cache-Control", "no-cache, private")  # as an API server
        _begun.set(response)
        if self.stopping:
            response.force_close()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self._check_origin(request)
        if request.method not in _METHODS:
            raise method_not_allowed()
        if request.headers.get("Expect", "100-continue").lower() != "100-continue":
            raise failure(417, "the proxy knows no expectation but 100-continue")
        path = read_path(segments_of(request.raw_path))
        caller = None if self._access is None else await self._access.callers.identify(request)
        upgrade = bool(upgrade_of(request.headers))
        if not self._allow_writes:
            check_reads_only(request.method, path, upgrade=upgrade)
        watch = path is not None and not path.name and _asks_to_watch(request.query)
        ending = Ending()
        if watch or upgrade or request.query.get("follow"):  # a log may be followed
            self._endings.add(ending)
        try:
            if path is not None and request.method == "GET" and not upgrade and not is_impersonating(request.headers):
                answer = await self._from_cache(request, path, caller, ending, watch=watch)
                if answer is not None:
                    return answer
            if caller is not None and not caller.has_token:
                raise failure(403, f"forbidden: {_CANNOT_PASS_ON}", details={})
            _source.set("server")
            return await self._forwarder.forward(request, ending)
        finally:
            self._endings.discard(ending)

    async def _from_cache(
        self, request: web.Request, path: ResourcePath, caller: Caller | None, ending: Ending, *, watch: bool
    ) -> web.StreamResponse | None:
        served = self._served.get((path.group, path.version, path.resource))
        if served is None or not served.holds(path) or not served.is_ready or request.path.endswith("/"):
            return None
        namespace = path.namespace if served.resource.namespaced else ""
        answer: web.StreamResponse | None = None
        async with AsyncExitStack() as stack:
            if self._access is not None and caller is not None:
                attempt = attempt_of(path, request.query, watch=watch)
                await self._access.check(caller, attempt)
                if watch:
                    await stack.enter_async_context(self._access.watching(request, attempt, ending))
            if watch:
                stack.enter_context(self._figures.reading(str(served.resource)))
            _source.set("cache")
            async with ending.within():
                answer = await served.cache.respond(request, namespace=namespace, name=path.name)
        if ending.is_over and answer is None:
            answer = await _completed()
        return answer

    def _check_origin(self, request: web.Request) -> None:
        """Refuse what a web page of another site could send. A websocket would even be shown to it."""
        refusal = refusal_of(request, self._hosts)
        if refusal is not None:
            status, text = refusal
            raise failure(status, text.strip(), reason="" if status != HTTPStatus.BAD_REQUEST else None)
        origin = request.headers.get("Origin")
        if origin is not None and _netloc(origin) != request.headers.get("Host", "").lower():
            raise failure(403, "forbidden: requests from other origins are not allowed", details={})
        if request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            raise failure(403, "forbidden: requests from other sites are not allowed", details={})


async def _completed() -> web.StreamResponse | None:
    """Complete the response that a watch has begun before it was ended."""
    response = _begun.get()
    if response is not None:
        with suppress(ConnectionError):
            await response.write_eof()
    return response


def status_response(error: StatusError) -> web.Response:
    """Return the response for a failure, like an API server."""
    if isinstance(error.body, str):
        return web.Response(status=error.code, text=error.body, headers=error.headers)
    headers = {"Content-Type": "application/json", **error.headers}
    return web.Response(status=error.code, body=dumps(error.body) + b"\n", headers=headers)


def _asks_to_watch(params: Mapping[str, str]) -> bool:
    return params.get("watch", "false").lower() not in ("0", "false")


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:  # unbalanced brackets
        return ""
