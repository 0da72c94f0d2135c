"""A small HTTP server for probes and for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.exceptions import ConfigError
from kinformer.manager.health import Page

__all__ = ["HealthServer", "parse_address"]

_SHUTDOWN = 1.0  # seconds for answers under way when the server is closed


def parse_address(address: str) -> tuple[str | None, int]:
    """Return the host and port of `"127.0.0.1:8080"`, `"[::1]:8080"` or `":8080"` (None: all interfaces).

    Raises:
        ConfigError: It is not an address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(f"invalid listen={address!r}: expected an address such as ':8080' or '127.0.0.1:8080'")
    return host.strip("[]") or None, int(port)


class HealthServer:
    """Serves pages by GET and HEAD, from `start` to `close`.

    Args:
        address: See `parse_address`; port 0 takes a free one.
        pages: A plain function for each path; it is called at each request.

    Raises:
        ConfigError: `address` is not an address.
    """

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        self._host, self._port = parse_address(address)
        self._pages = dict(pages)
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that it listens on; RuntimeError if it does not listen."""
        if self._runner is None:
            raise RuntimeError("the health server does not listen yet; enter the manager first")
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: The port is in use, or may not be used by this process.
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
            # asyncio's create_server, cancelled half-way, leaves a listening socket without an owner.
            await asyncio.wait({starting})
            await runner.cleanup()
            raise
        self._runner = runner

    @shielded_from_scopes
    async def close(self) -> None:
        """Stop listening; answers under way have a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = page(request.headers.get("Accept", ""))
            return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})

        return handle
