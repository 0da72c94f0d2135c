"""The limits of accepted connections, in front of a server of aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from kinformer.listening import Connections
from tests.support.bare_http import Bare, connected
from tests.support.log_records import Said, said
from tests.support.waiting import until

GET = "GET / HTTP/1.1\nHost: localhost\n\n"
Answer = Callable[[web.BaseRequest], Any]


async def at_once(_: web.BaseRequest) -> web.Response:
    return web.Response(text="here")


@asynccontextmanager
async def served(connections: Connections, answer: Answer = at_once) -> AsyncIterator[int]:
    """Yield the port of a server whose handler says itself when it is busy."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        with connections.request():
            response: web.StreamResponse = await answer(request)
            return response

    http = web.Server(handle, keepalive_timeout=10_000)
    listener = await asyncio.get_running_loop().create_server(connections.guard(http), "127.0.0.1", 0)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await http.shutdown(0.1)


# --- time --------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize("begun", ["", "GET / HT", "GET / HTTP/1.1\nHost: localhost\n"])
async def test_a_connection_without_a_whole_head_is_closed(begun: str) -> None:
    async with served(Connections(head=32)) as port, connected(port) as [one]:
        one.send(begun)
        assert await one.ended_after() == pytest.approx(32, abs=0.1)


@pytest.mark.virtual_time
async def test_a_head_that_comes_byte_by_byte_has_no_more_time() -> None:
    async def dribble(one: Bare) -> None:
        while True:
            one.send("x")
            await asyncio.sleep(1)

    async with served(Connections(head=32)) as port, connected(port) as [one]:
        one.send("GET / HTTP/1.1\nHost: ")
        dribbling = asyncio.create_task(dribble(one))
        assert await one.ended_after() == pytest.approx(32, abs=0.1)
        dribbling.cancel()


@pytest.mark.virtual_time
async def test_the_time_for_the_next_head_begins_with_its_first_byte() -> None:
    async with served(Connections(head=32)) as port, connected(port) as [one]:
        for _ in range(3):
            one.send(GET)
            assert await one.status() == 200
            await asyncio.sleep(100)
        one.send("GET")
        assert await one.ended_after() == pytest.approx(32, abs=0.1)


@pytest.mark.virtual_time
async def test_a_request_may_take_longer_than_its_head() -> None:
    async def slowly(request: web.BaseRequest) -> web.Response:
        await request.read()
        await asyncio.sleep(1000)
        return web.Response(text="here")

    async with served(Connections(head=32), slowly) as port, connected(port) as [one]:
        one.send("POST / HTTP/1.1\nHost: localhost\nContent-Length: 2\n\n")
        await asyncio.sleep(100)
        one.send("ab")
        assert await one.status() == 200


@pytest.mark.virtual_time
@pytest.mark.parametrize("next_head", ["", "GET / HT"])
async def test_a_peer_that_does_not_read_is_let_go(next_head: str) -> None:
    async def much(_: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 50_000_000)

    connections = Connections(unread=60)
    async with served(connections, much) as port, connected(port) as [one]:
        one.writer.transport.pause_reading()
        one.send(GET + next_head)
        await asyncio.sleep(59)
        assert len(connections) == 1
        await asyncio.sleep(2)
        assert len(connections) == 0


@pytest.mark.virtual_time
async def test_a_peer_that_reads_at_last_must_send_its_next_head_in_time() -> None:
    async def much(_: web.BaseRequest) -> web.Response:
        return web.Response(body=b"x" * 50_000_000)

    async with served(Connections(head=32, unread=60), much) as port, connected(port) as [one]:
        one.writer.transport.pause_reading()
        one.send(GET)
        await asyncio.sleep(10)
        one.send("GET / HT")
        await asyncio.sleep(40)
        one.writer.transport.resume_reading()
        assert await one.ended_after() == pytest.approx(32, abs=1)


# --- number ------------------------------------------------------------------------------------------------------


async def test_the_oldest_idle_connection_makes_room_for_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    async with served(Connections(most=4)) as port, connected(port, 4) as old:
        old[0].send(GET)  # which makes it the one that was idle last
        assert await old[0].status() == 200
        async with connected(port, 2) as new:
            for one in new:
                one.send(GET)
                assert await one.status() == 200
            await until(lambda: not old[1].is_open and not old[2].is_open)
            assert old[0].is_open
            assert old[3].is_open
    assert said(caplog, "crowded") == [Said("WARNING", "kinformer.listening")]


async def test_a_busy_connection_is_never_closed_for_a_new_one() -> None:
    go_on, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def waiting(_: web.BaseRequest) -> web.Response:
        begun.release()
        await go_on.wait()
        return web.Response(text="here")

    async with served(Connections(most=4), waiting) as port, connected(port, 4) as busy:
        for one in busy:
            one.send(GET)
            await begun.acquire()
        async with connected(port) as [new]:
            await new.ended_after()
        go_on.set()
        assert [await one.status() for one in busy] == [200] * 4
        async with connected(port) as [new]:
            new.send(GET)
            assert await new.status() == 200


async def test_connections_that_end_are_not_counted() -> None:
    connections = Connections(most=4)
    async with served(connections) as port:
        for _ in range(20):
            async with connected(port, 3) as some:
                for one in some:
                    one.send(GET)
                    assert await one.status() == 200
            await until(lambda: len(connections) == 0)


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "\n"])
async def test_a_head_that_is_too_large_is_refused(end: str) -> None:
    async with served(Connections(head_bytes=10_000)) as port, connected(port) as [one]:
        one.send("GET / HTTP/1.1\nHost: localhost\n" + f"X-Some: {'x' * 990}\n" * 20 + end)
        assert await one.status() == 431
        await one.ended_after()


async def test_a_head_that_grows_slowly_is_refused_at_the_same_size() -> None:
    connections = Connections(head_bytes=1000)
    async with served(connections) as port, connected(port) as [one]:
        one.send("GET / HTTP/1.1\nHost: localhost\n")
        await until(lambda: len(connections) == 1)
        sent = 0
        while len(connections):
            one.send("X: y\n")
            sent += len("X: y\n")
            await asyncio.sleep(0)
        assert sent < 2000


async def test_a_body_is_not_part_of_the_head() -> None:
    async def length(request: web.BaseRequest) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    async with served(Connections(head_bytes=1000), length) as port, connected(port) as [one]:
        for _ in range(3):
            one.send("POST / HTTP/1.1\nHost: localhost\nContent-Length: 500000\n\n")
            one.send(b"x" * 500_000)
            assert await one.status() == 200


async def test_the_end_of_a_head_may_come_in_pieces() -> None:
    async with served(Connections(head_bytes=1000)) as port, connected(port) as [one]:
        for piece in (b"GET / HTTP/1.1\r\nHost: localhost\r", b"\n\r", b"\n"):
            one.send(piece)
            await asyncio.sleep(0.01)
        assert await one.status() == 200
