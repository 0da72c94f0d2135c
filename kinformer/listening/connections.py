"""The limits of accepted connections: how many there may be, and how long each may keep the server waiting.

A server of asyncio accepts connections for as long as the process has file descriptors. Peers that send nothing could
take all of them, and the process could then no longer reach the API server. Neither aiohttp nor uvicorn limits the
number of connections or the time for the head of a request. So a protocol is put between the transport and theirs.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec

from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Coro, wait_for_end

if sys.platform != "win32":
    import resource

__all__ = ["Connections"]

log = get_logger("kinformer.listening")

_FEW = 4  # connections that are always possible, so that a probe is answered when descriptors are scarce
_COMPLAINT = 60.0  # seconds between two warnings
_END_OF_HEAD = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

P = ParamSpec("P")


class Connections:
    """The open connections of a server, within limits.

    ::

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            with connections.request():
                return web.Response(text="here")

        connections = Connections(most=100)
        factory = connections.guard(web.Server(handle))
        server = await asyncio.get_running_loop().create_server(factory, "127.0.0.1", 0)

    While a connection has no request, it is idle. A new connection beyond the limit takes the place of the one that
    has been idle for the longest time. If all are busy, the new one is closed.

    Args:
        most: The largest number of connections.
        share: The largest share of the process's file descriptors (`ulimit -n`), if that is less.
        spare: The share of file descriptors that is kept for other parts of the process. While less is free, there
            are at most four connections.
        head: Seconds from the first byte of a request to the end of its head. For the first request of a connection
            they begin when it is accepted. (controller-runtime, pkg/internal/httpserver/server.go: ReadHeaderTimeout)
        head_bytes: The largest size of a head. A larger one is answered with 431.
        unread: Seconds for which a peer may leave a response unread. None sets no limit.
    """

    def __init__(
        self,
        *,
        most: int = 64,
        share: float = 0.125,
        spare: float = 0.25,
        head: float = 32.0,
        head_bytes: int = 64 * 1024,
        unread: float | None = 90.0,
    ) -> None:
        self.head = head
        self.head_bytes = head_bytes
        self.unread = unread
        self._most = most
        self._share = share
        self._spare = spare
        self._open: set[_Connection] = set()
        self._idle: dict[_Connection, None] = {}  # in the order in which they became idle
        self._silent_until = 0.0  # the time before which nothing is logged
        self._handshakes: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    def guard(
        self, factory: Callable[P, asyncio.Protocol], *, tls: ssl.SSLContext | None = None
    ) -> Callable[P, asyncio.Protocol]:
        """Return a factory of protocols for `create_server`, whose connections are within the limits.

        Args:
            factory: Creates the protocol of a connection, like aiohttp's `web.Server` or a class of uvicorn.
            tls: The context for TLS. With `ssl=` of `create_server`, a connection would count only after its handshake.
        """
        return lambda *args, **options: _Connection(self, partial(factory, *args, **options), tls)

    def abort(self, *, besides: asyncio.BaseTransport | None = None) -> None:
        """End all connections at once, besides the one with a transport.

        :meta private:
        """
        for connection in tuple(self._open):
            if besides is None or connection.transport is not besides:
                connection.abort()

    async def ended(self) -> None:
        """End all connections, and wait until they have ended.

        :meta private:
        """
        self.abort()
        await wait_for_end(tuple(self._handshakes))
        await asyncio.sleep(0)

    @staticmethod
    @contextmanager
    def request() -> Iterator[None]:
        """Mark the connection of the current task as busy. Its server calls this around the handling of a request.

        Has no effect in a task of a server without `Connections`.
        """
        connection = _current.get()
        if connection is None:
            yield
            return
        connection.begin_request()
        try:
            yield
        finally:
            connection.end_request()

    def admit(self, connection: _Connection, descriptor: int) -> bool:
        """Count a new connection, and return True if there is room. The one that is idle for the longest time may end.

        :meta private:
        """
        limit = self._limit(descriptor)
        while len(self._open) >= limit:
            oldest = next(iter(self._idle), None)
            self._complain(limit, refused=oldest is None)
            if oldest is None:
                return False
            oldest.abort()
        self._open.add(connection)
        self._idle[connection] = None
        return True

    def forget(self, connection: _Connection) -> None:
        """Stop counting a connection, which has ended or is about to.

        :meta private:
        """
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def set_idle(self, connection: _Connection, *, idle: bool) -> None:
        """Record that an open connection has become idle, or busy.

        :meta private:
        """
        if idle and connection in self._open:
            self._idle[connection] = None
        else:
            self._idle.pop(connection, None)

    def shake_hands(self, handshake: Coro[None]) -> None:
        """Run the handshake of a connection.

        :meta private:
        """
        task = asyncio.create_task(handshake, name="kinformer handshake")
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    def _limit(self, descriptor: int) -> int:
        """Return how many connections there may be, now that a new one has this descriptor."""
        there = _descriptors()
        # The system hands out the lowest free number, so all below it are in use.
        if descriptor >= there - int(there * self._spare):
            return _FEW
        return max(_FEW, min(self._most, int(there * self._share)))

    def _complain(self, limit: int, *, refused: bool) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._silent_until:
            return
        self._silent_until = now + _COMPLAINT
        what = "a new connection is refused" if refused else "the oldest idle connection is closed"
        message = "more than %d connections: %s; further ones are logged once in %g s"
        log.warning(message, limit, what, _COMPLAINT, reason="crowded")


class _Connection(asyncio.Protocol):
    """One connection: passes everything on to the protocol of the server, and ends if it waits for too long."""

    __slots__ = (
        "_early",
        "_end_of_data",
        "_factory",
        "_head",
        "_inner",
        "_owner",
        "_requests",
        "_timer",
        "_tls",
        "transport",
    )

    def __init__(self, owner: Connections, factory: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None) -> None:
        self.transport: asyncio.Transport | None = None
        self._owner = owner
        self._factory = factory
        self._tls = tls
        self._early = b""  # data that came with the end of the handshake
        self._inner: asyncio.Protocol | None = None  # None if it is refused, or before the end of the handshake
        self._timer: asyncio.TimerHandle | None = None
        self._requests = 0  # that are being handled
        self._head = 0  # bytes of the head so far, or -1 once it is complete
        self._end_of_data = b""  # the last bytes, in which the end of the head may have begun

    # --- called by the transport -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        sock = transport.get_extra_info("socket")
        if not self._owner.admit(self, -1 if sock is None else sock.fileno()):
            transport.abort()
            return
        self._wait(self._owner.head)
        if self._tls is None:
            self._begin(transport)
        else:
            self._owner.shake_hands(self._begin_tls(transport, self._tls))

    async def _begin_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Begin once the handshake is complete. It has the same time as the head."""
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=self._owner.head
            )
        except OSError as error:
            log.debug("a TLS handshake failed: %s", error, reason="bad_request")
            secure = None
        if secure is None:  # also after `abort`
            self.abort()
            return
        self._begin(secure)
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def _begin(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._inner = self._factory()
        token = _current.set(self)  # the tasks of the server, which are started from here, find it by that
        try:
            self._inner.connection_made(transport)
        finally:
            _current.reset(token)

    def data_received(self, data: bytes) -> None:
        if self._inner is None:
            self._early += data
            return
        if not self._requests and not self._take_head(data):
            return
        token = _current.set(self)
        try:
            self._inner.data_received(data)
        finally:
            _current.reset(token)

    def eof_received(self) -> bool | None:
        return None if self._inner is None else self._inner.eof_received()

    def pause_writing(self) -> None:
        if self._owner.unread is not None:
            self._wait(self._owner.unread)
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._stop_waiting()
        if self._head > 0:
            self._wait(self._owner.head)  # the next request has begun meanwhile
        if self._inner is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._owner.forget(self)
        if self._inner is not None:
            self._inner.connection_lost(exc)

    # --- the requests ------------------------------------------------------------------------------------------

    def begin_request(self) -> None:
        """Record that the head of a request is complete, and is being handled."""
        self._requests += 1
        self._stop_waiting()
        self._owner.set_idle(self, idle=False)

    def end_request(self) -> None:
        """Record that a request has been handled."""
        self._requests -= 1
        if not self._requests:
            self._head, self._end_of_data = 0, b""
            self._owner.set_idle(self, idle=True)

    def abort(self) -> None:
        """End the connection at once, without the data that the peer has not read."""
        self._stop_waiting()
        self._owner.forget(self)
        if self.transport is not None:
            self.transport.abort()

    def _take_head(self, data: bytes) -> bool:
        """Count the bytes of a head, and return True. If it is too large, refuse it and return False."""
        if self._head < 0:
            return True  # the request has not begun yet, and this is its body
        if not self._head and self._timer is None:
            self._wait(self._owner.head)
        seen = self._end_of_data + data
        end = seen.find(_END_OF_HEAD)
        size = self._head + (len(data) if end < 0 else end - len(self._end_of_data))
        if size > self._owner.head_bytes:
            self._refuse()
            return False
        self._head = size if end < 0 else -1
        self._end_of_data = seen[-len(_END_OF_HEAD) + 1 :]
        return True

    def _refuse(self) -> None:
        assert self.transport is not None
        self.transport.write(_TOO_LARGE)
        self.transport.close()

    # --- waiting -----------------------------------------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_current: ContextVar[_Connection | None] = ContextVar("kinformer connection", default=None)


def _descriptors() -> int:
    """Return how many file descriptors the process may have."""
    if sys.platform == "win32":
        return sys.maxsize  # sockets are no descriptors there
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else int(soft)
