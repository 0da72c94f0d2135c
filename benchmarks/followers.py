"""The CPU that a watch cache takes for a lone event of 8 KB and each of its followers, over a bare send on asyncio.

The followers are in another process and throw away what they read. The cache's informer has a source in memory. What
an event costs without followers is taken off. The reference writes the same bytes to as many transports.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import selectors
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar

from aiohttp import web

from benchmarks.harness import Figure, median, run
from kinformer import GroupVersionResource, KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent
from kinformer.watchcache import WatchCache

FOLLOWERS = 8
SIZE = 8192
EVENTS = 1_500
ROUNDS = 9
_REQUEST = b"GET /?watch=1&resourceVersion=%d HTTP/1.1\r\nHost: cache\r\n\r\n"


def config_map(number: int) -> KubeObject:
    metadata = {"name": "web", "namespace": "default", "uid": "web", "resourceVersion": str(number)}
    data = {"k": "v" * (SIZE - 180)}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


class Source:
    """One object in memory, and events that come when they are put into the queue."""

    name = "v1/configmaps"
    resource = GroupVersionResource("", "v1", "configmaps")
    decodes = selects_all = True

    def __init__(self) -> None:
        self.coming: asyncio.Queue[WatchEvent] = asyncio.Queue()

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage([config_map(1)], "1")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def events() -> AsyncIterator[list[WatchEvent]]:
            while True:
                yield [await self.coming.get()]

        yield events()


def _read(port: int, count: int, request: bytes) -> None:
    """Read from that many connections, until they end."""
    chosen = selectors.DefaultSelector()
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(request)
        chosen.register(connection, selectors.EVENT_READ)
    while chosen.get_map():
        for key, _ in chosen.select():
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(1 << 18):
                chosen.unregister(key.fileobj)
                key.fileobj.close()


@asynccontextmanager
async def following(port: int, count: int, request: bytes, is_connected: Callable[[], bool]) -> AsyncIterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_read, args=(port, count, request))
    process.start()
    while not is_connected():  # noqa: ASYNC110 - nothing tells of a watcher
        await asyncio.sleep(0.01)
    try:
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.join)


async def _cpu_us(send: Callable[[int], object], first: int) -> float:
    """CPU microseconds of an event, each alone."""
    spent = 0.0
    for number in range(first, first + EVENTS):
        await asyncio.sleep(0.0005)
        began = time.process_time()
        send(number)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        spent += time.process_time() - began
    return spent / EVENTS * 1e6


class Bare(asyncio.Protocol):
    """A connection that only sends."""

    open: ClassVar[list[asyncio.Transport]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.open.append(transport)


async def _bare_us() -> list[float]:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    line = b"x" * SIZE

    def send(number: int) -> None:
        for transport in Bare.open:
            transport.write(line)

    async with server:
        costs = []
        nothing = await _cpu_us(send, 0)
        port = server.sockets[0].getsockname()[1]
        async with following(port, FOLLOWERS, b"x", lambda: len(Bare.open) == FOLLOWERS):
            for _ in range(ROUNDS):
                costs.append((await _cpu_us(send, 0) - nothing) / FOLLOWERS)
        for transport in Bare.open:
            transport.abort()
    return costs


async def _followed_us() -> list[float]:
    source, costs, version = Source(), [], 2
    informer = SharedInformer(source, watch_list=False)
    async with WatchCache(informer) as cache:

        async def handle(request: web.Request) -> web.StreamResponse:
            response = await cache.respond(request)
            assert response is not None
            return response

        app = web.Application()
        app.router.add_get("/", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

        def send(number: int) -> None:
            source.coming.put_nowait(WatchEvent("MODIFIED", config_map(number)))

        await informer.wait_synced()
        nothing = []
        for _ in range(ROUNDS):
            nothing.append(await _cpu_us(send, version))
            version += EVENTS
        watchers = cache.storage.collection("objects").watchers
        port = runner.addresses[0][1]
        async with following(port, FOLLOWERS, _REQUEST % (version - 1), lambda: len(watchers) == FOLLOWERS):
            for _ in range(ROUNDS):
                costs.append((await _cpu_us(send, version) - min(nothing)) / FOLLOWERS)
                version += EVENTS
            assert len(watchers) == FOLLOWERS
        await runner.cleanup()
    return costs


async def measure() -> list[Figure]:
    bare, followed = await _bare_us(), await _followed_us()
    text = f"a bare send {min(bare):.1f} us of CPU at best, the cache {min(followed):.1f}"
    return [median("a lone event for a follower", followed, "us", limit=20, aim=14, reference=text)]


if __name__ == "__main__":
    sys.exit(run("followers", measure))
