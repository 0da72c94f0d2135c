"""The listener of a server: accepts the connections of a socket one by one, within limits."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import wait_for_end
from kinformer.listening.connections import Connections

__all__ = ["Listener"]

log = get_logger("kinformer.listening")

_WAITING = 128  # connections that the kernel keeps until they are accepted
_PAUSE = 1.0  # seconds without accepting when no file descriptor is left


class _Listening(socket.socket):
    """A listening socket that keeps what it accepts, which a cancelled `sock_accept` would lose.

    Attributes:
        accepted: The connection that was accepted last and has not been taken, or None.
    """

    accepted: socket.socket | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        self.accepted, address = super().accept()
        return self.accepted, address


class Listener:
    """Accepts connections, from `start` to `stop`.

    A server of asyncio accepts as many connections as its backlog at once, so that the process could run out of file
    descriptors before one is refused, and when it closes it loses those that have no protocol yet.

    Args:
        factory: Creates the protocol of a connection, like aiohttp's `web.Server`.
        connections: The limits.
        tls: The context for TLS, or None.
    """

    def __init__(
        self, factory: Callable[[], asyncio.Protocol], connections: Connections, *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.connections = connections
        self._factory = connections.guard(factory, tls=tls)
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._arriving: set[asyncio.Task[object]] = set()  # accepted, and without a protocol yet

    @property
    def port(self) -> int | None:
        """The port, 0 for a unix socket, or None while it does not listen."""
        if self._socket is None:
            return None
        name = self._socket.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    def start(self, bound: socket.socket) -> None:
        """Listen on a socket, which then belongs to this listener. An earlier socket is closed.

        Raises:
            OSError: Another socket listens on its address.
        """
        self.leave()
        listening = _Listening(fileno=bound.detach())
        try:
            listening.setblocking(False)
            listening.listen(_WAITING)
        except BaseException:
            listening.close()
            raise
        self._socket = listening
        self._accepting = asyncio.create_task(self._accept(listening), name="kinformer listener")
        self._accepting.add_done_callback(lambda _: _close(listening))

    def leave(self) -> None:
        """Accept no further connection. Those that were accepted stay open."""
        accepting, self._accepting, self._socket = self._accepting, None, None
        if accepting is not None:
            self._arriving.add(accepting)
            accepting.add_done_callback(self._arriving.discard)
            accepting.cancel()

    async def stop(self) -> None:
        """Accept no further connection, and return once those that were accepted have a protocol."""
        self.leave()
        await wait_for_end(tuple(self._arriving))

    async def _accept(self, listening: _Listening) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
                listening.accepted = None
            except ConnectionError:
                continue  # it has gone
            except OSError as error:
                log.warning("no connection is accepted for %g s: %s", _PAUSE, error, reason=error)
                await asyncio.sleep(_PAUSE)
                continue
            arriving = asyncio.create_task(self._take(accepted), name="kinformer listener: connection")
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)
            await asyncio.sleep(0)  # the next one after this one was admitted or refused

    async def _take(self, accepted: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(self._factory, accepted)
        except OSError as error:
            accepted.close()
            log.debug("a connection ended at once: %s", error, reason=error)


def _close(listening: _Listening) -> None:
    listening.close()
    if listening.accepted is not None:
        listening.accepted.close()
