"""The parts that the servers of aiohttp share: their options, the check of a request's host, and their listener."""

from __future__ import annotations

import ssl
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kinformer._runtime.logs import StructuredLogger, get_logger
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts
from kinformer.listening.listener import Listener

__all__ = ["IDLE", "HTTPListener", "refusal_of", "server_options"]

log = get_logger("kinformer.listening")

IDLE = 90.0  # seconds between two requests of a connection (controller-runtime, pkg/internal/httpserver/server.go)
_LINE = 1 << 20  # bytes of a request line or header field (net/http, DefaultMaxHeaderBytes)


class _ServerLog(StructuredLogger):
    """Logs a failed request. One that is malformed has been answered with 400, and is only worth a line at DEBUG.

    aiohttp logs it as an error, with a traceback and the bytes. Everyone who reaches the port could fill the log.
    """

    def exception(self, msg: object, *args: Any, exc_info: Any = True, **kwargs: Any) -> None:
        """Log an error that the server has caught."""
        if isinstance(exc_info, HttpProcessingError):
            log.debug("a malformed request was refused: %s", type(exc_info).__name__, reason="bad_request")
        else:
            log.error(msg, *args, exc_info=exc_info, reason="server_failed", **kwargs)


def server_options(*, keepalive: float = IDLE) -> dict[str, Any]:
    """Return the options of a `web.Server`, or of its runner. Only `Connections` limits the size of a head.

    Args:
        keepalive: Seconds for which a connection may be idle after a response. (controller-runtime,
            pkg/internal/httpserver/server.go: IdleTimeout)
    """
    return {
        "access_log": None,
        "keepalive_timeout": keepalive,
        "logger": _ServerLog(log.logger, {}),
        "max_line_size": _LINE,
        "max_field_size": _LINE,
    }


def refusal_of(request: web.BaseRequest, allowed: AllowedHosts, *, own_pages: bool = False) -> tuple[int, str] | None:
    """Return the status and text of the response that refuses a request, or None. See `AllowedHosts.refusal`.

    Args:
        request: The request.
        allowed: The host names of the server.
        own_pages: True refuses requests of other sites' web pages.
    """
    # A host in the request line takes the place of the header's. Without a header, aiohttp returns that of the socket.
    target = request.host if "Host" in request.headers else ""
    return allowed.refusal(request.raw_headers, version=request.version, target=target, own_pages=own_pages)


class HTTPListener(Listener):
    """Listens for a server of aiohttp.

    Args:
        http: The server.
        connections: The limits.
        tls, at_once: See `Listener`.
    """

    def __init__(
        self, http: web.Server, connections: Connections, *, tls: ssl.SSLContext | None = None, at_once: int = 1
    ) -> None:
        super().__init__(http, connections, tls=tls, at_once=at_once)
        self._http = http

    async def close(self, grace: float) -> None:
        """Stop listening. Responses that are under way have `grace` seconds, and then all connections end."""
        await self.stop()
        self._http.pre_shutdown()
        await self._http.shutdown(grace)
        await self.connections.ended()
