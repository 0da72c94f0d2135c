"""Everything that relies on the insides of aiohttp: sockets, and a reader that takes all that has arrived.

A watch sends each event as an HTTP chunk of its own. aiohttp records where each chunk ends, which only its
`readchunk` needs, and takes the chunks out of its buffer one by one: for events of 1 KB that costs 0.9 us of CPU each,
beside 1.3 us for the rest of aiohttp's work.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import aiohttp
from aiohttp import StreamReader

__all__ = ["Connecting", "keepalive_socket", "low_watermark", "read_whole", "without_farewell"]

# Two silent minutes are enough to know that a peer is gone; Linux waits two hours. Go's clients use 15-30 s.
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))
_TURNS = 20  # of the loop, until asyncio has noticed the end of a socket and closed it; three or four in practice

# Those that the request under way has made, also in the tasks that aiohttp connects in.
_made: ContextVar[list[socket.socket] | None] = ContextVar("_made", default=None)


def keepalive_socket(address: Any) -> socket.socket:
    """A socket with TCP keep-alive for what getaddrinfo has found, as aiohttp's `socket_factory`."""
    family, kind, protocol = address[:3]
    made = socket.socket(family, kind, protocol)
    with suppress(OSError):  # a platform that refuses one still gives a socket that works
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    under_way = _made.get()
    if under_way is not None:
        under_way.append(made)
    return made


class Connecting:
    """Middleware for the sessions of one client: a request that is cancelled while it connects leaves no socket behind.

    Cancelled in the turn in which the TLS handshake ends, asyncio's `create_connection` closes a transport that nobody
    owns yet: it says farewell, and waits for the answer, 30 s where a server is silent. The loop may be gone by then. A
    socket that is shut down ends at once.
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
        for one in made:
            if one.fileno() >= 0:
                with suppress(OSError):  # it has not been connected, or not any more
                    one.shutdown(socket.SHUT_RDWR)
                self._ended.add(one)

    async def settle(self) -> None:
        """Gives asyncio the turns that it needs to close what has been ended, before the loop may be gone."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
            if all(one.fileno() < 0 for one in self._ended):
                return


def without_farewell(transport: asyncio.Transport | None) -> None:
    """Ends TLS at once. Otherwise it says farewell and waits for the answer, 30 s where a server is silent.

    That is longer than the loop may last, and who leaves in the middle of an answer has nothing more to hear.
    """
    if transport is not None and transport.get_extra_info("sslcontext") is not None:
        transport.abort()


@contextmanager
def low_watermark(transport: asyncio.BaseTransport | None, size: int) -> Iterator[None]:
    """Within it, fewer than `size` bytes wake nobody up, unless they are the end; what is there when it is left, does.

    By SO_RCVLOWAT, and on Linux alone, which looks anew at what has arrived when the mark is lowered (since 4.18:
    net/ipv4/tcp.c, tcp_set_rcvlowat). Elsewhere, and where the socket refuses, nothing is changed.
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
        with suppress(OSError):  # it has been closed meanwhile
            held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)


# What of aiohttp's reader, beside its methods, is touched here. Where a version of it has these no more, its own reader
# stays as it is.
_TOUCHED = {"_buffer", "_buffer_offset", "_cursor", "_protocol", "_size"}


class _WholeReader(StreamReader):
    __slots__ = ()

    def begin_http_chunk_receiving(self) -> None:
        pass

    def end_http_chunk_receiving(self) -> None:
        pass

    def _read_nowait(self, n: int) -> bytes:
        if n != -1 or self._buffer_offset:
            return super()._read_nowait(n)
        data = b"".join(self._buffer)
        self._buffer.clear()
        self._size = 0
        self._cursor += len(data)
        self._protocol.resume_reading()  # may fill the buffer again, so it comes last
        return data


def read_whole(content: StreamReader) -> bool:
    """Make a reader one whose `readany` is quick, and whose `readchunk` must not be used.

    Returns whether that could be done. If not, it reads as it always did: aiohttp has changed inside, or this is one
    of its other readers.
    """
    if type(content) is not StreamReader or not _TOUCHED.issubset(getattr(StreamReader, "__slots__", ())):
        return False
    content.__class__ = _WholeReader
    return True
