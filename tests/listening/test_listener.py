"""A listener accepts connections within its limits, with TLS from their first byte, and loses none when it stops.

Internals: the listener of aiohttp's servers, to close it at chosen moments.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from kinformer.listening import Connections, Listener
from kinformer.listening.aiohttp_server import HTTPListener, server_options
from tests.support.bare_http import Bare, connected
from tests.support.certificates import client_side, server_side
from tests.support.sockets import open_sockets
from tests.support.waiting import until

GET = "GET / HTTP/1.1\nHost: localhost\n\n"
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


async def at_once(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="here")


@asynccontextmanager
async def listening(
    connections: Connections, *, tls: ssl.SSLContext | None = None, answer: Answer = at_once, grace: float = 1.0
) -> AsyncIterator[HTTPListener]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        with Connections.request():
            return await answer(request)

    listener = HTTPListener(web.Server(handle, **server_options()), connections, tls=tls)
    await listener.listen("127.0.0.1", 0)
    try:
        yield listener
    finally:
        await listener.close(grace)
        assert len(connections) == 0


def port_of(listener: Listener) -> int:
    assert listener.port is not None
    return listener.port


@asynccontextmanager
async def secure(port: int, certificates: Path) -> AsyncIterator[Bare]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_side(certificates))
    try:
        yield Bare(reader, writer)
    finally:
        writer.transport.abort()


# --- TLS -----------------------------------------------------------------------------------------------------------


async def test_requests_are_answered_over_tls(certificates: Path) -> None:
    async with (
        listening(Connections(), tls=server_side(certificates)) as listener,
        secure(port_of(listener), certificates) as bare,
    ):
        for _ in range(3):
            bare.send(GET)
            assert await bare.status() == 200


async def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(certificates: Path) -> None:
    async with (
        listening(Connections(), tls=server_side(certificates)) as listener,
        connected(port_of(listener)) as [raw],
    ):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        session = client_side(certificates).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                session.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.send(outgoing.read())
                incoming.write(await raw.reader.read(65536))
        session.write(GET.replace("\n", "\r\n").encode())
        raw.send(outgoing.read())  # in one segment with the last message of the handshake
        answer = b""
        async with asyncio.timeout(10):
            while b"here" not in answer:
                try:
                    answer += session.read(65536)
                except ssl.SSLWantReadError:
                    incoming.write(await raw.reader.read(65536))
        assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.virtual_time
@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02"])
async def test_a_handshake_has_the_time_of_a_head(certificates: Path, begun: bytes) -> None:
    async with (
        listening(Connections(head=32), tls=server_side(certificates)) as listener,
        connected(port_of(listener)) as [raw],
    ):
        raw.send(begun)
        assert await raw.ended_after() == pytest.approx(32, abs=0.1)


async def test_silent_connections_give_way_before_their_handshake(certificates: Path) -> None:
    connections = Connections(most=4)
    async with (
        listening(connections, tls=server_side(certificates)) as listener,
        connected(port_of(listener), 20) as silent,
        secure(port_of(listener), certificates) as bare,
    ):
        bare.send(GET)
        assert await bare.status() == 200
        await until(lambda: sum(one.is_open for one in silent) <= 3)
        assert len(connections) <= 4


async def test_what_is_no_tls_is_closed(certificates: Path) -> None:
    connections = Connections()
    async with (
        listening(connections, tls=server_side(certificates)) as listener,
        connected(port_of(listener), 2) as [plain, gone],
    ):
        plain.send(GET)
        await plain.ended_after()
        await until(lambda: len(connections) == 1)
        gone.writer.transport.abort()
        await until(lambda: len(connections) == 0)


async def test_a_stop_within_handshakes_leaves_no_connection_open(certificates: Path) -> None:
    before = open_sockets()
    async with (
        listening(Connections(), tls=server_side(certificates)) as listener,
        connected(port_of(listener), 3) as silent,
    ):
        await until(lambda: len(listener.connections) == 3)
        await listener.close(0.1)
        for raw in silent:
            await raw.ended_after()
    await until(lambda: open_sockets() == before)


# --- stop ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(8))
async def test_a_connection_that_arrives_at_a_stop_is_closed(steps: int) -> None:
    before = open_sockets()
    async with listening(Connections()) as listener, connected(port_of(listener)) as [raw]:
        for _ in range(steps):
            await asyncio.sleep(0)
        await listener.close(0.1)
        await raw.ended_after()
    await until(lambda: open_sockets() == before)


async def test_responses_under_way_have_time_and_no_connection_is_accepted_meanwhile() -> None:
    go_on, begun = asyncio.Event(), asyncio.Event()

    async def waiting(_: web.BaseRequest) -> web.StreamResponse:
        begun.set()
        await go_on.wait()
        return web.Response(text="here")

    async with listening(Connections(), answer=waiting) as listener, connected(port_of(listener)) as [busy]:
        port = port_of(listener)
        busy.send(GET)
        await begun.wait()
        closing = asyncio.create_task(listener.close(20))
        await until(lambda: listener.port is None)
        await asyncio.sleep(0.01)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        go_on.set()
        assert await busy.status() == 200
        await closing


@pytest.mark.virtual_time
async def test_a_response_that_takes_longer_than_the_grace_is_cut() -> None:
    async def forever(_: web.BaseRequest) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with listening(Connections(), answer=forever) as listener, connected(port_of(listener)) as [busy]:
        busy.send(GET)
        await until(lambda: len(listener.connections) == 1)
        await listener.close(3)
        assert await busy.ended_after() < 1


async def test_it_may_listen_again_with_its_connections() -> None:
    async with listening(Connections()) as listener, connected(port_of(listener)) as [old]:
        old.send(GET)
        assert await old.status() == 200
        before = port_of(listener)
        await listener.listen("127.0.0.1", 0)
        assert port_of(listener) != before
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", before)
        old.send(GET)
        assert await old.status() == 200
        async with connected(port_of(listener)) as [new]:
            new.send(GET)
            assert await new.status() == 200
