"""Responses without an end of their own: tunnels of websockets and SPDY (kubectl's exec), and how a proxy ends one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from aiohttp import ClientResponse, web

from kinformer._runtime.tasks import wait_for_end
from kinformer.exceptions import ConnectError
from kinformer.watchcache.proxy.headers import response_headers

__all__ = ["Ending", "tunnel"]

_PIECE = 64 * 1024  # bytes that are read at once


class Ending:
    """Ends a block early, without an error.

    Attributes:
        is_over: True once `end` was called.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._limit: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self) -> AsyncIterator[None]:
        """Run a block until `end` is called. A block that is entered later ends at its first wait."""
        limit = asyncio.timeout(0 if self.is_over else None)
        try:
            async with limit:
                self._limit = limit
                try:
                    yield
                finally:
                    self._limit = None
        except TimeoutError:
            if not limit.expired():
                raise

    def end(self) -> None:
        """End the block. Has no effect the second time."""
        if not self.is_over:
            self.is_over = True
            if self._limit is not None:
                self._limit.reschedule(asyncio.get_running_loop().time())


class _Beginning:
    """A parser to which aiohttp passes the bytes that arrived right behind a head."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""

    def feed_eof(self) -> None:
        pass  # the transport reports its end to `_Spliced`


class _Spliced(asyncio.StreamReaderProtocol):
    """The protocol of a connection that was aiohttp's, which is still told when it ends or is not read."""

    def __init__(self, reader: asyncio.StreamReader, before: asyncio.Protocol) -> None:
        super().__init__(reader)
        self._before = before

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._before.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._before.resume_writing()


async def tunnel(request: web.Request, upstream: ClientResponse, ending: Ending) -> web.StreamResponse:
    """Pass on the server's 101, and then all bytes in both directions until either side ends.

    Args:
        request: The request, whose connection is used up.
        upstream: The response with status 101.
        ending: Ends the connection early.

    Raises:
        ConnectError: The server's connection ended at once.
    """
    connection = upstream.connection
    if connection is None or connection.transport is None or connection.protocol is None:
        raise ConnectError("the server closed the upgraded connection")
    headers = response_headers(upstream.headers.items(), upstream.headers.getall("Connection", ()))
    headers["Connection"], headers["Upgrade"] = "Upgrade", upstream.headers.get("Upgrade", "")
    answer = web.StreamResponse(status=101, reason=upstream.reason, headers=headers)
    answer.force_close()
    of_client, of_server = _Beginning(), _Beginning()
    request.protocol.set_parser(of_client)  # type: ignore[arg-type]
    connection.protocol.set_parser(of_server, None)
    await answer.prepare(request)
    transport = request.transport
    if transport is None or connection.transport is None:
        return answer
    client = _spliced(transport, of_client.data)
    server = _spliced(connection.transport, of_server.data)
    pumps = {asyncio.create_task(_pump(client[0], server[1])), asyncio.create_task(_pump(server[0], client[1]))}
    try:
        async with ending.within():
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for pump in pumps:
            pump.cancel()
        client[1].close()
        server[1].close()
        await wait_for_end(pumps)
    return answer


def _spliced(transport: asyncio.Transport, beginning: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_PIECE, loop=loop)
    before = transport.get_protocol()
    assert isinstance(before, asyncio.Protocol)
    protocol = _Spliced(reader, before)
    protocol.connection_made(transport)
    transport.set_protocol(protocol)
    if beginning:
        reader.feed_data(beginning)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
