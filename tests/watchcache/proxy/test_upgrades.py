"""Websockets and SPDY pass through a proxy byte by byte."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from kinformer import Client
from kinformer.watchcache import Proxy
from tests.support.bare_http import connected
from tests.support.http_server import HttpServer
from tests.watchcache.proxy.conftest import proxying

EXEC = "/api/v1/namespaces/default/pods/web-1/exec"
Speak = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def before(speak: Speak) -> AsyncIterator[tuple[Proxy, list[bytes]]]:
    """Run a proxy before a server that reads the head of a request and then speaks; yields the heads too."""
    heads: list[bytes] = []

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await speak(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    try:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client.from_url(url, token="of-the-proxy") as client, proxying(client, allow_writes=True) as proxy:
            yield proxy, heads
    finally:
        server.close()
        await server.wait_closed()


SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream: v4\r\n\r\n"
ASK = f"POST {EXEC}?command=sh HTTP/1.1\nHost: localhost\nConnection: Upgrade\nUpgrade: SPDY/3.1\nContent-Length: 0\n\n"


async def test_spdy_is_passed_on_in_both_directions() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH + b"first")  # in one segment
        while data := await reader.read(1000):
            writer.write(data)

    async with before(echo) as (proxy, heads), connected(proxy.port) as (bare,):
        bare.send(ASK)
        head = await bare.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        assert b"Upgrade: SPDY/3.1" in head
        assert b"X-Stream: v4" in head
        assert await bare.reader.readexactly(5) == b"first"
        bare.send(b"\x80\x03GET / HTTP/1.1\r\n\r\n\x00")
        assert await bare.reader.readexactly(21) == b"\x80\x03GET / HTTP/1.1\r\n\r\n\x00"
    assert b"Authorization: Bearer of-the-proxy" in heads[0]
    assert b"Upgrade: SPDY/3.1" in heads[0]


async def test_a_tunnel_ends_at_both_sides_when_either_ends() -> None:
    ended = asyncio.Event()

    async def until_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH)
        await reader.read()
        ended.set()

    async def at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH + b"last words")
        await writer.drain()

    async with before(until_end) as (proxy, _):
        async with connected(proxy.port) as (bare,):
            bare.send(ASK)
            await bare.reader.readuntil(b"\r\n\r\n")
        await asyncio.wait_for(ended.wait(), 30)
    async with before(at_once) as (proxy, _), connected(proxy.port) as (bare,):
        bare.send(ASK)
        await bare.reader.readuntil(b"\r\n\r\n")
        assert await bare.reader.read() == b"last words"


async def test_much_data_passes_without_being_kept() -> None:
    size, piece = 30_000_000, b"x" * 100_000

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH)
        for _ in range(size // len(piece)):
            writer.write(piece)
            await writer.drain()

    async with before(pour) as (proxy, _), connected(proxy.port) as (bare,):
        bare.send(ASK)
        await bare.reader.readuntil(b"\r\n\r\n")
        total, digest = 0, hashlib.sha256()
        while data := await bare.reader.read(1 << 16):
            total += len(data)
            digest.update(data)
    assert total == size


async def test_a_refused_upgrade_is_an_ordinary_response() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()

    async with before(refuse) as (proxy, _), connected(proxy.port) as (bare,):
        bare.send(ASK)
        assert await bare.status() == 403


async def test_a_websocket_passes_with_its_subprotocol_and_without_a_token() -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Sec-WebSocket-Protocol", ""))
        socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"{message.data}!")
        return socket

    async with (
        HttpServer(answer) as server,
        Client.from_url(server.url) as client,
        proxying(client, allow_writes=True) as proxy,
        aiohttp.ClientSession() as session,
    ):
        words = ["v5.channel.k8s.io", "base64url.bearer.authorization.k8s.io.c2VjcmV0"]
        async with session.ws_connect(f"{proxy.url}{EXEC}", protocols=words) as socket:
            assert socket.protocol == "v5.channel.k8s.io"
            await socket.send_str("hello")
            assert await socket.receive_str() == "hello!"
    assert asked == ["v5.channel.k8s.io"]


async def test_a_tunnel_ends_when_the_proxy_stops() -> None:
    async def until_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCH)
        await reader.read()

    async with before(until_end) as (proxy, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(ASK.replace("\n", "\r\n").encode())
        await reader.readuntil(b"\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
