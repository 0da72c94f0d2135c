"""An HTTP server that answers from watch caches, and passes what they cannot answer to the server behind them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

import aiohttp
from aiohttp import web
from yarl import URL

from kinformer import Client, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer
from kinformer.watchcache import WatchCache

_PATH = re.compile(
    r"/api/v1(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>pods|configmaps)(?(namespace)(?:/(?P<name>[^/]+))?)"
)
_OWN = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # what a client adds by itself
_HOP = ("Transfer-Encoding", "Connection", "Content-Length", "Keep-Alive")


class Front:
    """Watch caches of pods and configmaps.

    Attributes:
        answered, passed: The number of requests that the caches answered, and that the server did.
        passes: False to refuse with 406 instead.
    """

    def __init__(
        self,
        server: APIServer,
        informers: Sequence[SharedInformer[Any]],
        caches: dict[str, WatchCache],
        session: aiohttp.ClientSession,
    ) -> None:
        self.caches = caches
        self._informers = informers
        self.answered = self.passed = 0
        self.passes = True
        self.url = ""
        self._server = server
        self._session = session

    @property
    def server(self) -> APIServer:
        """The server, with the URL of the front."""
        return cast("APIServer", Fronted(self._server, self))

    async def caught_up(self) -> None:
        """Wait until the caches have what the server has."""
        for informer in self._informers:
            await informer.confirm()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        found = _PATH.fullmatch(request.path)
        if found is not None and request.method == "GET":
            cache = self.caches[found["plural"]]
            self.answered += 1  # a watch whose client leaves is cancelled
            answer = await cache.respond(request, namespace=found["namespace"] or "", name=found["name"] or "")
            if answer is not None:
                return answer
            self.answered -= 1
        self.passed += 1
        return await self._pass(request) if self.passes else web.Response(status=406)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name not in ("Host", *_HOP)}
        async with self._session.request(
            request.method,
            URL(self._server.url + request.raw_path, encoded=True),
            headers=headers,
            data=await request.read() or None,
            skip_auto_headers=_OWN,
        ) as theirs:
            kept = {name: value for name, value in theirs.headers.items() if name not in _HOP}
            response = web.StreamResponse(status=theirs.status, headers=kept)
            await response.prepare(request)
            async for data in theirs.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response


@asynccontextmanager
async def front_of(
    server: APIServer, client: Client, *, watch_list: bool | None = None, **limits: Any
) -> AsyncIterator[Front]:
    """Serve watch caches of a server."""
    async with AsyncExitStack() as stack:
        factory = await stack.enter_async_context(SharedInformerFactory(client, watch_list=watch_list))
        caches: dict[str, WatchCache] = {}
        informers = []
        for plural in ("pods", "configmaps"):
            informer = factory.for_resource(f"v1/{plural}", keep_managed_fields=True)
            caches[plural] = await stack.enter_async_context(WatchCache(informer, client=client, **limits))
            informers.append(informer)
            await informer.wait_synced()
        session = await stack.enter_async_context(aiohttp.ClientSession(auto_decompress=False))
        front = Front(server, informers, caches, session)
        app = web.Application()
        app.on_response_prepare.append(_add_fields)
        app.router.add_route("*", r"/{path:[\s\S]*}", front.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        front.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield front


async def _add_fields(_: web.Request, response: web.StreamResponse) -> None:
    """Add the header field that `Proxy` adds."""
    response.headers.setdefault("Cache-Control", "no-cache, private")


@asynccontextmanager
async def answering(cache: WatchCache) -> AsyncIterator[str]:
    """Serve one cache at any path, and refuse with 406 what only a server can answer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await cache.respond(request) or web.Response(status=406)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class Fronted:
    """A server whose URL is a front's."""

    def __init__(self, server: APIServer, front: Front) -> None:
        self._server = server
        self.url = front.url

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def without_ages(table: dict[str, Any]) -> dict[str, Any]:
    """Return a Table without the ages in it, which are those of its moment, in whole seconds."""
    ages = [number for number, column in enumerate(table["columnDefinitions"]) if column["name"] == "Age"]
    assert ages
    for row in table["rows"]:
        for number in ages:
            row["cells"][number] = ""
    return table


def borrowed(module: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return tests of another module, to run them with this one's fixtures."""
    return {name: getattr(module, name) for name in names}
