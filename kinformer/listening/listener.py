"""The listener of a server: accepts the connections of an address or a unix socket, within limits."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from ipaddress import ip_address

from kinformer._runtime.tasks import Coro, wait_for_end
from kinformer.listening.connections import Connections

__all__ = ["Listener"]

_WAITING = 128  # connections that the kernel keeps until they are accepted
_ACCEPTING = 4  # steps of the event loop from accepting a connection to creating its protocol


class Listener:
    """Accepts connections, from `listen` to `stop`. Nothing listens before.

    Args:
        factory: Creates the protocol of a connection, like aiohttp's `web.Server`.
        connections: The limits.
        tls: The context for TLS, or None.
        at_once: The most connections that are accepted in one step of the event loop. More than one may take the last
            file descriptors of a process.

    Attributes:
        connections: The connections that were accepted.
    """

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        connections: Connections,
        *,
        tls: ssl.SSLContext | None = None,
        at_once: int = 1,
    ) -> None:
        self.connections = connections
        self._at_once = at_once
        self._factory = connections.guard(factory, tls=tls)
        self._server: asyncio.Server | None = None
        self._left: list[asyncio.Server] = []  # servers that accept nothing any more, and are still to be closed

    @property
    def port(self) -> int | None:
        """The port, 0 for a unix socket, or None while it does not listen."""
        if self._server is None:
            return None
        name = self._server.sockets[0].getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    async def listen(self, host: str | None, port: int) -> None:
        """Listen on an address.

        Args:
            host: An address of this machine, or a name, of which the first address is taken, by IPv4 if it has one.
                None is all interfaces.
            port: The port. 0 chooses a free one, on one address.

        Raises:
            OSError: The address is in use or is not of this machine, or this process may not use it.
        """
        loop = asyncio.get_running_loop()
        try:
            address = await _first_address(host, port)
            await self._start(loop.create_server(self._factory, address, port, backlog=_backlog(loop, self._at_once)))
        except OSError as error:
            problem = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
            message = f"cannot listen on {host or 'all interfaces'} port {port}: {str(problem).lower()}"
            raise OSError(error.errno, message) from None

    async def listen_unix(self, bound: socket.socket) -> None:
        """Listen on a unix socket, which then belongs to this listener, instead of the one before."""
        loop = asyncio.get_running_loop()
        try:
            await self._start(loop.create_unix_server(self._factory, sock=bound, backlog=_backlog(loop, self._at_once)))
        except BaseException:
            bound.close()
            raise

    def leave(self) -> None:
        """Accept no further connection. Those that were accepted stay open."""
        server, self._server = self._server, None
        if server is None:
            return
        self._left.append(server)
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.SelectorEventLoop):
            for listening in server.sockets:
                loop.remove_reader(listening.fileno())
        else:
            server.close()

    async def stop(self) -> None:
        """Accept no further connection, and return once those that were accepted have a protocol.

        asyncio would lose them, without closing them, when its server closes.
        """
        self.leave()
        left, self._left = self._left, []
        try:
            for _ in range(_ACCEPTING if left else 0):
                await asyncio.sleep(0)
        finally:
            for server in left:
                server.close()

    async def _start(self, creating: Coro[asyncio.Server]) -> None:
        starting = asyncio.ensure_future(creating)
        try:
            server = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # asyncio leaks a listening socket if this is cancelled half-way.
            await wait_for_end((starting,))
            if not starting.cancelled() and starting.exception() is None:
                starting.result().close()
            raise
        if isinstance(asyncio.get_running_loop(), asyncio.SelectorEventLoop):
            for listening in server.sockets:
                _lengthen_queue(listening.fileno())
        await self.stop()
        self._server = server


async def _first_address(host: str | None, port: int) -> str | None:
    """Return the only address to listen on, or None for all interfaces."""
    try:
        if host is None or ip_address(host):
            return host or (None if port else "0.0.0.0")
    except ValueError:
        pass
    candidates = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return str(min(candidates, key=lambda found: found[0] != socket.AF_INET)[4][0])


def _backlog(loop: asyncio.AbstractEventLoop, at_once: int) -> int:
    """Return the backlog to ask for.

    A selector loop accepts as many connections as its backlog at once, and so could run out of file descriptors before
    one is refused. The kernel's queue, which has the same length, is made longer again.
    """
    return at_once if isinstance(loop, asyncio.SelectorEventLoop) else _WAITING


def _lengthen_queue(descriptor: int) -> None:
    same = socket.socket(fileno=descriptor)
    try:
        same.listen(_WAITING)
    finally:
        same.detach()
