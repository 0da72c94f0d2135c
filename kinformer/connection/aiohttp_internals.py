"""All code that relies on undocumented parts of aiohttp, or on the sockets below it.

Four things have no documented API: checking a fence right before a request is written, getting the connection of a
request, cheaply reading a body that arrives in small chunks, and finding the system error that caused an aiohttp
error. `FENCING`, `READING` and `ERRORS` list the attributes needed. If aiohttp lacks one, it is used unchanged
(`request_class`, `read_whole`, `system_error`).
"""

from __future__ import annotations

import asyncio
import pkgutil
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from functools import cache
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

import aiohttp
import msgspec
from aiohttp import StreamReader
from aiohttp.payload import BytesPayload

from kinformer._runtime.fence import check_fences
from kinformer.connection.tls import is_outdated
from kinformer.exceptions import MALFORMED, KinformerError

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

__all__ = [
    "ERRORS",
    "FENCING",
    "READING",
    "Connecting",
    "FencedRequest",
    "abort_on_cancel",
    "has_all",
    "json_body",
    "keepalive_socket",
    "low_watermark",
    "on_a_current_connection",
    "read_whole",
    "reads_gzip_members",
    "request_class",
    "system_error",
    "transport_of",
    "without_close_notify",
]

FENCING = (
    "aiohttp.ClientRequest.send",
    "aiohttp.ClientRequest.write_bytes",
    "aiohttp.connector.Connection.protocol",
    "aiohttp.connector.Connection.transport",
    "aiohttp.client_proto.ResponseHandler.set_exception",
)
"""The attributes of aiohttp that `FencedRequest` overrides or uses."""

READING = (
    "aiohttp.StreamReader._buffer",
    "aiohttp.StreamReader._buffer_offset",
    "aiohttp.StreamReader._cursor",
    "aiohttp.StreamReader._eof",
    "aiohttp.StreamReader._exception",
    "aiohttp.StreamReader._protocol",
    "aiohttp.StreamReader._read_nowait",
    "aiohttp.StreamReader._size",
    "aiohttp.StreamReader._waiter",
    "aiohttp.StreamReader.begin_http_chunk_receiving",
    "aiohttp.StreamReader.end_http_chunk_receiving",
    "aiohttp.StreamReader.feed_data",
    "aiohttp.StreamReader.total_bytes",
    "aiohttp.base_protocol.BaseProtocol._reading_paused",
    "aiohttp.base_protocol.BaseProtocol.resume_reading",
)
"""The attributes of aiohttp that `read_whole` overrides or uses."""

ERRORS = (
    "aiohttp.ClientConnectorCertificateError.certificate_error",
    "aiohttp.ClientConnectorError.os_error",
    "aiohttp.ClientProxyConnectionError.host",
    "aiohttp.ClientProxyConnectionError.port",
)
"""The attributes of aiohttp that `system_error` uses."""


@cache
def has_all(attributes: tuple[str, ...]) -> bool:
    """Return True if the installed aiohttp has all of these attributes."""
    return all(map(_exists, attributes))


def _exists(attribute: str) -> bool:
    owner, _, name = attribute.rpartition(".")
    try:
        return hasattr(pkgutil.resolve_name(owner), name)
    except (ImportError, AttributeError):
        return False


# --- requests ------------------------------------------------------------------------------------------

# The connections of the current request, in case it is cancelled.
_used: ContextVar[list[asyncio.Transport | None] | None] = ContextVar("_used", default=None)


class _OutdatedConnectionError(Exception):
    """The connection was opened before the certificates were replaced. Nothing was sent."""


class FencedRequest(aiohttp.ClientRequest):
    """A request that checks its fences just before it is written. Waiting for a connection may outlast a lease.

    It also refuses a connection with an outdated certificate, so it needs `on_a_current_connection`.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        check_fences()
        if is_outdated(conn.transport):
            without_close_notify(conn.transport)
            raise _OutdatedConnectionError
        used = _used.get()
        if used is not None:
            used.append(conn.transport)
        return await super().send(conn)

    async def write_bytes(
        self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
    ) -> None:
        try:
            check_fences()  # up to Python 3.11, head and body are written in a later iteration of the loop
        except KinformerError as lapsed:
            # The response raises it when it is read, and closes the connection. Since 3.12 this runs before aiohttp
            # starts reading, and fails if the connection is closed by then.
            if conn.protocol is not None:
                conn.protocol.set_exception(lapsed)
            return
        await super().write_bytes(writer, conn, content_length)


def request_class() -> type[aiohttp.ClientRequest]:
    """Return the request class of a session: `FencedRequest`, or aiohttp's own class if it lacks any of `FENCING`.

    With aiohttp's class, `on_a_current_connection` checks the fences before the request waits for a connection, and
    the age of the connection is not checked.
    """
    return FencedRequest if has_all(FENCING) else aiohttp.ClientRequest


async def on_a_current_connection(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Middleware that skips pooled connections with an outdated client certificate."""
    if not isinstance(request, FencedRequest):
        check_fences()
    while True:
        try:
            return await handler(request)
        except _OutdatedConnectionError:
            continue


@contextmanager
def abort_on_cancel() -> Iterator[None]:
    """Abort the TLS connection of a request that is cancelled inside the block."""
    used: list[asyncio.Transport | None] = []
    token = _used.set(used)
    try:
        yield
    except asyncio.CancelledError:
        for transport in used:
            without_close_notify(transport)
        raise
    finally:
        _used.reset(token)


def system_error(error: BaseException) -> tuple[str, BaseException | None]:
    """Return the proxy that failed ("host:port" or ""), and the system error that caused an aiohttp error, or None."""
    if not has_all(ERRORS):
        return "", None
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"{error.host}:{error.port}", error.os_error
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "", error.certificate_error
    return "", error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None


def transport_of(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    """Return the transport of a response, or None once its last byte has arrived."""
    connection = response.connection
    return connection.transport if connection is not None else None


def without_close_notify(transport: asyncio.Transport | None) -> None:
    """Abort TLS instead of sending `close_notify` and waiting for the reply, up to 30 s if a server is silent.

    Waiting may outlast the event loop, and a client that abandons a response needs no reply.
    """
    if transport is not None and _has_tls(transport):
        transport.abort()


def _has_tls(transport: asyncio.Transport) -> bool:
    try:
        return transport.get_extra_info("sslcontext") is not None
    except AttributeError:  # asyncio's transport has given up its protocol: it was closed after its connection was lost
        return False


# --- requests ------------------------------------------------------------------------------------------


def json_body(request: aiohttp.ClientRequest) -> object:
    """Return the decoded body of a request sent as str or bytes, or None if it has no JSON body."""
    body = request.body
    if not isinstance(body, BytesPayload):  # aiohttp makes one from str too
        return None
    try:
        return cast("object", msgspec.json.decode(body.decode()))
    except MALFORMED:
        return None


# --- sockets -------------------------------------------------------------------------------------------

# A peer is considered dead after two silent minutes. Linux's default is two hours. Go's clients use 15-30 s.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
_TURNS = 20  # loop iterations until asyncio has detected the end of a socket and closed it, in practice four

# The sockets created by the current request, including by the tasks in which aiohttp connects.
_made: ContextVar[list[socket.socket] | None] = ContextVar("_made", default=None)


def keepalive_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Create a socket with TCP keep-alive for a result of getaddrinfo. For aiohttp's `socket_factory`."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    with suppress(OSError):  # the socket also works without an option that the platform refuses
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    under_way = _made.get()
    if under_way is not None:
        under_way.append(made)
    return made


class Connecting:
    """Middleware for the sessions of one client, so that a request cancelled while connecting leaves no socket behind.

    If it is cancelled in the iteration in which the TLS handshake ends, asyncio's `create_connection` closes a
    transport that has no owner yet. It sends `close_notify` and waits for the reply, up to 30 s if a server is silent.
    The loop may be closed by then. A socket that is shut down ends immediately.
    """

    def __init__(self) -> None:
        self._ended: WeakSet[socket.socket] = WeakSet()

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        made: list[socket.socket] = []
        token = _made.set(made)
        try:
            return await handler(request)
        except asyncio.CancelledError:
            self._end(made)
            raise
        finally:
            _made.reset(token)

    def _end(self, made: Iterable[socket.socket]) -> None:
        for sock in made:
            if sock.fileno() >= 0:
                with suppress(OSError):  # not connected, or not any more
                    sock.shutdown(socket.SHUT_RDWR)
                self._ended.add(sock)

    async def settle(self) -> None:
        """Yield until asyncio has closed the ended sockets, before the loop may be closed."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if all(sock.fileno() < 0 for sock in self._ended):
                return


@contextmanager
def low_watermark(transport: asyncio.BaseTransport | None, size: int) -> Iterator[None]:
    """Inside the block, wake the reader only for `size` bytes or the end of the stream. On exit, any bytes wake it.

    Uses SO_RCVLOWAT on Linux, which checks the arrived bytes again when the mark is lowered (since 4.18:
    net/ipv4/tcp.c, tcp_set_rcvlowat). On other systems, and if the socket refuses it, nothing changes.
    """
    held: socket.socket | None = transport.get_extra_info("socket") if transport is not None else None
    if held is None or sys.platform != "linux":
        yield
        return
    with suppress(OSError):
        held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
    try:
        yield
    finally:
        with suppress(OSError):  # closed in the meantime
            held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


# --- bodies --------------------------------------------------------------------------------------------


def reads_gzip_members() -> bool:
    """Return True if aiohttp decompresses several gzip members. Before 3.14, it stops after the first one."""
    major, minor = aiohttp.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (3, 14)


class _WholeReader(StreamReader):
    """A faster reader of bodies, for callers that always read everything that has arrived.

    A watch sends each event as a separate HTTP chunk. aiohttp records the end of each chunk, which only its
    `readchunk` needs, and removes the chunks from its buffer one by one. For events of 1 KB, this costs 0.9 us of CPU
    each, in addition to 1.3 us for the rest of aiohttp's work.
    """

    __slots__ = ()

    def begin_http_chunk_receiving(self) -> None:
        pass

    def end_http_chunk_receiving(self) -> None:
        pass

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        arrival = self._waiter
        if type(arrival) is _Arrival and not arrival.done() and arrival.within.run(arrival.take, data):
            self.total_bytes += len(data)
            self._cursor += len(data)
            return False
        return super().feed_data(data, size)

    def _read_nowait(self, n: int) -> bytes:
        if n != -1 or self._buffer_offset:
            return super()._read_nowait(n)
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._size = 0
        self._cursor += len(data)
        if self._protocol._reading_paused:  # otherwise it would parse zero bytes, which costs a lone event 0.5 us
            self._protocol.resume_reading()  # called last, because it may fill the buffer again
        return data


class _Arrival(asyncio.Future[None]):
    """What a reader waits for when data may be taken in the callback in which it arrives."""

    __slots__ = ("take", "within")

    def __init__(self, take: Callable[[bytes], bool], within: Context) -> None:
        super().__init__()
        self.take = take
        self.within = within


async def read_untaken(content: StreamReader, take: Callable[[bytes], bool], within: Context) -> bytes:
    """Return what `readany` returns, without the data that `take` has taken while this waited.

    Args:
        content: A reader for which `read_whole` has returned True.
        take: Called with data in a callback of the transport, so it must be short and must not raise. It returns False
            for data that it does not take.
        within: The context in which `take` is called.
    """
    if not content._buffer and not content._eof and content._exception is None and content._waiter is None:
        arrival = content._waiter = _Arrival(take, within)
        try:
            await arrival
        finally:
            content._waiter = None
    return await content.readany()


def read_whole(content: StreamReader) -> bool:
    """Make the `readany` of a reader faster. Its `readchunk` must not be used afterwards.

    Returns False and leaves the reader unchanged if aiohttp lacks a part of `READING`, or if the reader is of another
    kind.
    """
    if type(content) is not StreamReader or not has_all(READING):
        return False
    content.__class__ = _WholeReader
    return True
