from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from kinformer.client.aiohttp_internals import read_whole
from tests.support.http_server import HttpServer

BUFFER = 64 * 1024
PIECE = b"0123456789abcdef" * 64  # 1 KB, a chunk of its own
PIECES = 4000


@asynccontextmanager
async def answered(*, compressed: bool = False, cut: bool = False) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer in many small chunks."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if compressed:
            response.enable_compression()
        await response.prepare(request)
        for number in range(PIECES):
            await response.write(b"%6d" % number + PIECE)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    async with (
        HttpServer(answer) as server,
        aiohttp.ClientSession(read_bufsize=BUFFER) as session,
        session.get(server.url) as response,
    ):
        yield response


def wanted() -> bytes:
    return b"".join(b"%6d" % number + PIECE for number in range(PIECES))


async def rest_of(content: aiohttp.StreamReader) -> bytes:
    found = b""
    while data := await content.readany():
        found += data
    return found


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_reader_of_the_whole_gives_the_body_as_it_was_sent(compressed: bool) -> None:
    async with answered(compressed=compressed) as response:
        first = await response.content.readany()
        assert read_whole(response.content)
        assert first + await rest_of(response.content) == wanted()
        assert response.content.at_eof()
        assert response.content.total_bytes == len(wanted())


async def test_a_reader_that_takes_its_time_slows_the_server_down_and_holds_little() -> None:
    async with answered() as response:
        assert read_whole(response.content)
        sizes = []
        while data := await response.content.readany():
            sizes.append(len(data))
            await asyncio.sleep(0.001)
        assert sum(sizes) == len(wanted())
        assert max(sizes) <= 2 * BUFFER + 256 * 1024  # its own bound, and what one read of the socket brings


async def test_a_body_that_breaks_off_is_an_error() -> None:
    async with answered(cut=True) as response:
        assert read_whole(response.content)
        with pytest.raises(aiohttp.ClientPayloadError):
            await rest_of(response.content)


async def test_parts_can_still_be_read() -> None:
    async with answered() as response:
        assert read_whole(response.content)
        assert await response.content.readexactly(10) == wanted()[:10]
        assert await rest_of(response.content) == wanted()[10:]


def test_a_reader_of_another_kind_is_left_alone() -> None:
    assert not read_whole(aiohttp.streams.EMPTY_PAYLOAD)
    assert type(aiohttp.streams.EMPTY_PAYLOAD) is aiohttp.streams.EmptyStreamReader
