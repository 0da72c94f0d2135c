"""The parts that the servers of aiohttp share: the options of `web.Server`, and the check of a request's host."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from kinformer._runtime.logs import StructuredLogger, get_logger
from kinformer.listening.connections import Connections
from kinformer.listening.hosts import AllowedHosts

__all__ = ["guard_by", "refusal_of", "server_options"]

log = get_logger("kinformer.listening")

_LINE = 8190  # bytes of a request line or header field, aiohttp's default


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


def server_options(*, keepalive: float = 90.0) -> dict[str, Any]:
    """Return the options of a `web.Server`, or of its runner.

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


def refusal_of(request: web.BaseRequest, allowed: AllowedHosts) -> tuple[int, str] | None:
    """Return the status and text of the response that refuses a request, or None. See `AllowedHosts.refusal`.

    Args:
        request: The request.
        allowed: The host names of the server.
    """
    # A host in the request line takes the place of the header's. Without a header, aiohttp returns that of the socket.
    target = request.host if "Host" in request.headers else ""
    return allowed.refusal(request.raw_headers, version=request.version, target=target)


def guard_by(allowed: AllowedHosts) -> Middleware:
    """Return a middleware that marks connections as busy, and refuses requests that name another host."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        with Connections.request():
            refusal = refusal_of(request, allowed)
            if refusal is None:
                return await handler(request)
            status, text = refusal
            return web.Response(status=status, text=text)

    return guard
