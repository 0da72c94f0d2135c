"""A small HTTP server for probes and for Prometheus."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.exceptions import ConfigError

__all__ = ["Answer", "HealthServer", "parse_address"]

_SHUTDOWN = 1.0  # seconds that answers under way have


class Answer(NamedTuple):
    """What a page says: the status, the Content-Type and the body."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[str], Answer]


def parse_address(address: str) -> tuple[str | None, int]:
    """The host and port of `"127.0.0.1:8080"`, `"[::1]:8080"` or `":8080"` (None: all interfaces).

    Raises:
        ConfigError: It is no address.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(f"listen={address!r}: an address such as ':8080' or '127.0.0.1:8080' is needed")
    return host.strip("[]") or None, int(port)


class HealthServer:
    """Serves pages by GET and HEAD; an async context manager.

    Args:
        address: See `parse_address`; port 0 takes a free one.
        pages: Path to a plain function of the request's `Accept` header, which says what the page says now.

    Raises:
        ConfigError: On making it: no address.
        OSError: On entering: the port is taken, or not ours to take.
    """

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        self._host, self._port = parse_address(address)
        self._pages = dict(pages)
        self._runner: web.AppRunner | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        if self._runner is None:
            raise RuntimeError("the server has not been entered")
        return int(self._runner.addresses[0][1])

    async def start(self) -> None:
        """Listen."""
        application = web.Application()
        for path, page in self._pages.items():
            application.router.add_get(path, self._handler(page))
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN, handle_signals=False)
        await runner.setup()
        starting = asyncio.ensure_future(web.TCPSite(runner, self._host, self._port).start())
        try:
            await asyncio.shield(starting)
        except BaseException:
            # asyncio's create_server, cancelled half-way, leaves a socket that listens and belongs to nobody.
            await asyncio.wait({starting})
            await runner.cleanup()
            raise
        self._runner = runner

    @shielded_from_scopes
    async def close(self) -> None:
        """Listen no more; what is being answered has a second."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    def _handler(self, page: Page) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            answer = page(request.headers.get("Accept", ""))
            return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})

        return handle
