"""A small HTTP server for probes and for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.exceptions import ConfigError
from kinformer.manager.health import Page

__all__ = ["HealthServer", "parse_address"]

_SHUTDOWN = 1.0  # seconds for pending responses when the server is closed


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

    Raises:
        ConfigError: `address` is not a valid address.
    """

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        self._host, self._port = parse_address(address)
        self._pages = dict(pages)
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that it listens on. Raises RuntimeError if it is not listening."""
        if self._runner is None:
            raise RuntimeError("the health server is not listening yet; enter the manager first")
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The port is in use, or this process may not use it.
        """
        application = web.Application()
        for path, page in self._pages.items():
            application.router.add_get(path, self._handler(page))
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN, handle_signals=False)
        await runner.setup()
        starting = asyncio.ensure_future(web.TCPSite(runner, self._host, self._port).start())
        try:
            await asyncio.shield(starting)
        except BaseException:
            # asyncio's create_server leaks a listening socket if it is cancelled half-way.
            await asyncio.wait({starting})
            await runner.cleanup()
            raise
        self._runner = runner

    @shielded_from_scopes
    async def close(self) -> None:
        """Stop listening. Pending responses have one second to finish."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = page(request.headers.get("Accept", ""))
            return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})

        return handle
