"""The undocumented parts of aiohttp that kinformer uses: they are there, they work, and it works without them.

Internals: the module itself, since no released aiohttp lacks what it uses.
"""

from __future__ import annotations

import asyncio
import pkgutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import copy_context
from pathlib import Path
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web

from kinformer import Client
from kinformer._runtime.fence import Fence
from kinformer.connection import aiohttp_internals
from kinformer.connection.aiohttp_internals import (
    ERRORS,
    FENCING,
    READING,
    FencedRequest,
    has_all,
    read_untaken,
    read_whole,
    request_class,
    system_error,
)
from kinformer.exceptions import ConnectError, LeadershipLostError
from tests.support.http_server import HttpServer
from tests.support.waiting import until

BUFFER = 64 * 1024
PIECE = b"0123456789abcdef" * 64  # 1 KB, a chunk of its own
PIECES = 4000


@asynccontextmanager
async def answered(
    count: int = PIECES, *, alone: bool = False, compressed: bool = False, cut: bool = False
) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer in small chunks, which arrive together or alone."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if compressed:
            response.enable_compression()
        await response.prepare(request)
        for number in range(count):
            await response.write(b"%6d" % number + PIECE)
            if alone:
                await asyncio.sleep(0.001)
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


def wanted(count: int = PIECES) -> bytes:
    return b"".join(b"%6d" % number + PIECE for number in range(count))


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


async def test_data_is_read_or_taken_as_it_arrives_but_never_both() -> None:
    everything, taken = b"", 0

    def take(data: bytes) -> bool:
        nonlocal everything, taken
        if int(data[:6]) % 3 == 0:
            return False
        everything += data
        taken += 1
        return True

    async with answered(40, alone=True) as response:
        content = response.content
        assert read_whole(content)
        while data := await read_untaken(content, take, copy_context()):
            everything += data
        assert content.total_bytes == len(everything)
        assert content.at_eof()
    assert everything == wanted(40)
    assert taken


async def test_a_compressed_body_is_taken_decompressed() -> None:
    everything = b""

    def take(data: bytes) -> bool:
        nonlocal everything
        everything += data
        return True

    async with answered(30, compressed=True, alone=True) as response:
        content = response.content
        assert read_whole(content)
        while data := await read_untaken(content, take, copy_context()):
            everything += data
    assert everything == wanted(30)


async def test_a_body_that_breaks_off_while_data_is_taken_is_an_error() -> None:
    async def drain(content: aiohttp.StreamReader) -> None:
        while await read_untaken(content, lambda _: True, copy_context()):
            pass

    async with answered(5, cut=True, alone=True) as response:
        content = response.content
        assert read_whole(content)
        with pytest.raises(aiohttp.ClientPayloadError):
            await drain(content)


async def test_a_read_that_is_cancelled_takes_nothing_more_and_loses_nothing() -> None:
    found: list[bytes] = []

    def take(data: bytes) -> bool:
        found.append(data)
        return True

    async def drain(content: aiohttp.StreamReader) -> None:
        while data := await read_untaken(content, take, copy_context()):
            found.append(data)

    async with answered(60, alone=True) as response:
        content = response.content
        assert read_whole(content)
        draining = asyncio.create_task(drain(content))
        await until(lambda: len(found) > 10)
        draining.cancel()
        await asyncio.wait([draining])
        before = len(found)
        rest = await rest_of(content)
        assert len(found) == before
        assert b"".join(found) + rest == wanted(60)


# --- what is relied on ---------------------------------------------------------------------------------

RELEASES = ("3.12.4", "3.14.5")
"""The oldest release of aiohttp that pyproject.toml allows, and the newest one, for which this was checked."""

RELIED_ON = {
    "aiohttp.ClientRequest.send": "overridden: the fences and the certificate are checked when there is a connection",
    "aiohttp.ClientRequest.write_bytes": "overridden: up to Python 3.11 a body is written in a later turn of the loop",
    "aiohttp.connector.Connection.protocol": "gets the error of a request that may not be written any more",
    "aiohttp.connector.Connection.transport": "knows the TLS of the connection",
    "aiohttp.client_proto.ResponseHandler.set_exception": "raises the error in who waits for the response",
    "aiohttp.StreamReader._buffer": "the chunks that have arrived",
    "aiohttp.StreamReader._buffer_offset": "how much of the first chunk has been read",
    "aiohttp.StreamReader._cursor": "how much of the body has been read",
    "aiohttp.StreamReader._eof": "whether the body has ended",
    "aiohttp.StreamReader._exception": "what the body ended with, if it broke off",
    "aiohttp.StreamReader._protocol": "goes on reading the socket",
    "aiohttp.StreamReader._read_nowait": "overridden: joins all chunks at once",
    "aiohttp.StreamReader._size": "how much the buffer holds",
    "aiohttp.StreamReader._waiter": "the future of the read under way, whose result wakes it, or its exception",
    "aiohttp.StreamReader.begin_http_chunk_receiving": "overridden: no list of the ends of chunks",
    "aiohttp.StreamReader.end_http_chunk_receiving": "overridden: no list of the ends of chunks",
    "aiohttp.StreamReader.feed_data": "overridden: data may be taken in the callback in which it arrives",
    "aiohttp.StreamReader.total_bytes": "how much of the body has arrived",
    "aiohttp.base_protocol.BaseProtocol._reading_paused": "whether there is anything to resume",
    "aiohttp.base_protocol.BaseProtocol.resume_reading": "called when the buffer is empty and reading was paused",
    "aiohttp.ClientConnectorCertificateError.certificate_error": "what OpenSSL says of the certificate",
    "aiohttp.ClientConnectorError.os_error": "what the system says",
    "aiohttp.ClientProxyConnectionError.host": "which proxy it was",
    "aiohttp.ClientProxyConnectionError.port": "which proxy it was",
}


def numbers(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split("."))


@pytest.fixture
def fresh() -> Iterator[None]:
    has_all.cache_clear()
    yield
    has_all.cache_clear()


def test_each_attribute_that_is_relied_on_is_listed_here_and_there_in_this_release() -> None:
    assert set(RELIED_ON) == {*FENCING, *READING, *ERRORS}
    assert [name for name in RELIED_ON if not has_all((name,))] == []
    assert request_class() is FencedRequest
    assert f'"aiohttp>={RELEASES[0].removesuffix(".0")}",' in Path("pyproject.toml").read_text()
    assert numbers(RELEASES[0]) <= numbers(aiohttp.__version__)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("attribute", RELIED_ON)
def test_where_one_is_missing_aiohttp_is_used_as_it_is(attribute: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = aiohttp.StreamReader(Mock(), 1024, loop=Mock())
    owner, _, name = attribute.rpartition(".")
    for base in pkgutil.resolve_name(owner).__mro__:
        if name in vars(base):
            monkeypatch.delattr(base, name)
    assert not has_all((attribute,))
    assert (request_class() is aiohttp.ClientRequest) == (attribute in FENCING)
    assert (not read_whole(reader)) == (attribute in READING)
    refused = OSError(111, "Connection refused")
    assert (system_error(aiohttp.ClientConnectorError(Mock(), refused))[1] is None) == (attribute in ERRORS)


def without(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """An aiohttp in which something is missing that this table names, and which works.

    The table is patched, since an aiohttp without what is in it does not work.
    """
    monkeypatch.setattr(aiohttp_internals, table, (*getattr(aiohttp_internals, table), "aiohttp.ClientRequest.gone"))


async def test_aiohttps_own_reader_gives_the_same_body(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "READING")
    async with answered() as response:
        assert not read_whole(response.content)
        assert type(response.content) is aiohttp.StreamReader
        assert await rest_of(response.content) == wanted()


@pytest.mark.parametrize("way", ["request", "ApiClient"])
async def test_without_a_fence_at_the_socket_a_lapsed_one_still_keeps_a_request_back(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "FENCING")
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.method)
        return web.json_response({"kind": "Status"})

    def lapsed() -> None:
        raise LeadershipLostError("it is over")

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        await client.request("POST", "/x", body={})
        async with client.stream("/x") as body:
            assert await body.read_all()
        assert asked == ["POST", "GET"]
        post = client.request if way == "request" else lambda method, path: client.api_client.call_api(path, method)
        with Fence(lapsed):
            with pytest.raises(LeadershipLostError):
                await post("POST", "/x")
            async with client.stream("/x"):
                assert asked == ["POST", "GET", "GET"], "a stream only reads, and needs no fence"


async def test_without_the_systems_error_the_text_of_aiohttp_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "ERRORS")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    async with Client.from_url(f"http://127.0.0.1:{port}") as client:
        with pytest.raises(ConnectError, match=f"GET 127.0.0.1:{port}/x: .*refused"):
            await client.request("GET", "/x")
