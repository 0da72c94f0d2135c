"""A small HTTP server for probes and for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.listening.address import parse_address
from kinformer.listening.aiohttp_server import HTTPListener, refusal_of, server_options
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.manager.health import Page

__all__ = ["HealthServer"]

_SHUTDOWN = 1.0  # seconds for pending responses when the server is closed


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
        self._listener = HTTPListener(web.Server(self._handle, **server_options()), Connections())

    @property
    def port(self) -> int:
        """The port that it listens on. Raises RuntimeError if it is not listening."""
        if self._listener.port is None:
            raise RuntimeError("the health server is not listening yet; enter the manager first")
        return self._listener.port

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The port is in use, or this process may not use it.
        """
        await self._listener.listen(self._host, self._port)

    @shielded_from_scopes
    async def close(self) -> None:
        """Stop listening. Pending responses have one second to finish."""
        await self._listener.close(_SHUTDOWN)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        with Connections.request():
            refusal, page = refusal_of(request, self._hosts), self._pages.get(request.path)
            if refusal is not None:
                status, text = refusal
                return web.Response(status=status, text=text)
            if page is None:
                return web.Response(status=404, text="404: Not Found")
            if request.method not in ("GET", "HEAD"):
                return web.Response(status=405, text="405: Method Not Allowed", headers={"Allow": "GET,HEAD"})
            answer = page(request.headers.get("Accept", ""))
            return web.Response(status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type})
