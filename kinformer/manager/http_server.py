"""A small HTTP server for probes and for Prometheus."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.exceptions import ConfigError
from kinformer.listening.aiohttp_server import guard_by, server_options
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.manager.health import Page

__all__ = ["HealthServer", "parse_address"]

_SHUTDOWN = 1.0  # seconds for pending responses when the server is closed
_WAITING = 128  # connections that the kernel keeps until they are accepted


def parse_address(address: str) -> tuple[str | None, int]:
    """Return the host and port of `"127.0.0.1:8080"`, `"[::1]:8080"` or `":8080"` (all interfaces, host None).

    Raises:
        ConfigError: `address` is not a valid address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(f"invalid listen={address!r}: expected an address such as ':8080' or '127.0.0.1:8080'")
    return host.strip("[]") or None, int(port)


class HealthServer:
    """Serves pages by GET and HEAD, from `start` to `close`.

    Args:
        address: The address, as in `parse_address`. Port 0 chooses a free port.
        pages: A plain function for each path, called at each request.
        allowed_hosts: The host names that are answered, as in `AllowedHosts`, besides the one of the address.

    Raises:
        ConfigError: `address` is not a valid address, or a name is invalid.
    """

    def __init__(self, address: str, pages: Mapping[str, Page], allowed_hosts: Iterable[str] = ()) -> None:
        self._host, self._port = parse_address(address)
        self._pages = dict(pages)
        self._hosts = AllowedHosts(allowed_hosts, own=self._host)
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port that it listens on. Raises RuntimeError if it is not listening."""
        if self._listener is None:
            raise RuntimeError("the health server is not listening yet; enter the manager first")
        return int(self._listener.sockets[0].getsockname()[1])

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The port is in use, or this process may not use it.
        """
        application = web.Application(middlewares=[guard_by(self._hosts)])
        for path, page in self._pages.items():
            application.router.add_get(path, self._handler(page))
        runner = web.AppRunner(
            application,
            shutdown_timeout=_SHUTDOWN,
            handle_signals=False,
            **server_options(),
        )
        await runner.setup()
        assert runner.server is not None, "it is set up"
        starting = asyncio.ensure_future(_listen(Connections().guard(runner.server), self._host, self._port))
        try:
            self._listener = await asyncio.shield(starting)
        except BaseException:
            # asyncio's create_server leaks a listening socket if it is cancelled half-way.
            await asyncio.wait({starting})
            if not starting.cancelled() and starting.exception() is None:
                starting.result().close()
            await runner.cleanup()
            raise
        self._runner = runner

    @shielded_from_scopes
    async def close(self) -> None:
        """Stop listening. Pending responses have one second to finish."""
        runner, self._runner = self._runner, None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        if runner is not None:
            await runner.cleanup()

    def _handler(self, page: Page) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = page(request.headers.get("Accept", ""))
            return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})

        return handle


async def _listen(factory: Callable[[], asyncio.Protocol], host: str | None, port: int) -> asyncio.Server:
    """Listen, and accept connections one by one.

    asyncio accepts as many as its backlog at once, before their protocols can close one. The kernel's queue, which has
    the same length, is made longer again.
    """
    server = await asyncio.get_running_loop().create_server(factory, host, port, backlog=1)
    try:
        for listening in server.sockets:
            with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
                same.listen(_WAITING)
    except OSError:  # no descriptor is left
        server.close()
        raise
    return server
