"""Bodies that come in a hurry: nothing of them is lost, and a lone chunk is read at once.

Internals: the reader of bodies, since its pace shows in no answer.
"""

from __future__ import annotations

import asyncio
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import Client
from kinformer.connection.aiohttp_internals import low_watermark
from kinformer.connection.body import Body, Pace
from kinformer.exceptions import ConnectError

QUICKLY, SLOWLY = 0.0001, 0.01
EVENT = 4_000  # bytes


def test_a_row_of_small_pieces_that_come_quickly_is_a_hurry() -> None:
    pace = Pace()
    for _ in range(4):
        assert not pace.is_hurried
        pace.note(EVENT, QUICKLY)
    assert pace.is_hurried


def test_events_that_come_one_by_one_are_no_hurry_even_in_three_pieces_each() -> None:
    pace = Pace()
    for _ in range(100):
        for waited in (SLOWLY, QUICKLY, QUICKLY):
            pace.note(EVENT, waited)
            assert not pace.is_hurried


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.floats(0, 0.01))))
def test_a_large_or_a_late_piece_ends_every_hurry(pieces: list[tuple[int, float]]) -> None:
    for last in ((1 << 20, 0.0), (1, SLOWLY)):
        pace = Pace()
        for size, waited in [*pieces, last]:
            pace.note(size, waited)
        assert not pace.is_hurried


@asynccontextmanager
async def sending(pieces: list[bytes], *, cut: bool = False) -> AsyncIterator[Client]:
    """A client of a server that answers with these pieces, one after another as fast as the loop turns."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if not cut:
            writer.write(b"0\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Client.from_url(f"http://127.0.0.1:{port}") as client:
        yield client


async def read(body: Body) -> list[bytes]:
    return [chunk async for chunk in body]


async def test_what_comes_in_a_hurry_is_gathered_and_is_whole() -> None:
    chance = random.Random(1)
    pieces = [chance.randbytes(chance.randrange(1, EVENT)) for _ in range(1000)]
    async with sending(pieces) as client, client.stream("/api/v1/pods") as body:
        chunks = await read(body)
    assert b"".join(chunks) == b"".join(pieces)
    assert len(chunks) < len(pieces) / 4


async def test_a_body_that_breaks_off_in_a_hurry_is_an_error() -> None:
    async with sending([b"x" * 100] * 50, cut=True) as client, client.stream("/api/v1/pods") as body:
        with pytest.raises(ConnectError, match="was cut off"):
            await read(body)


async def test_a_watch_that_is_cut_in_a_hurry_has_ended_and_what_came_of_it_is_its_beginning() -> None:
    pieces = [b"%d\n" % number for number in range(50)]
    async with sending(pieces, cut=True) as client, client.stream("/api/v1/pods", watch=True) as body:
        assert b"".join(pieces).startswith(b"".join(await read(body)))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the mark is left alone")
async def test_below_the_mark_nobody_is_woken_and_after_it_somebody_is() -> None:
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    listener = await asyncio.start_server(lambda reader, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    sender = await accepted.get()
    held = writer.transport.get_extra_info("socket")
    with low_watermark(writer.transport, 4096):
        assert held.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 4096
        sender.write(b"few")
        await sender.drain()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(10), 0.05)
    assert held.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
    assert await reader.read(10) == b"few"
    for one in (writer, sender):
        one.close()
        await one.wait_closed()
    listener.close()
    await listener.wait_closed()


async def test_a_socket_that_is_gone_has_no_mark_to_set() -> None:
    with low_watermark(None, 4096):
        pass
    listener = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    _, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    with low_watermark(writer.transport, 4096):
        writer.close()
        await writer.wait_closed()
    with low_watermark(writer.transport, 4096):
        pass
    listener.close()
    await listener.wait_closed()
