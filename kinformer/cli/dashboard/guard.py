"""Protection against other web pages: only requests from this server's own pages and host names are answered."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kinformer.listening import AllowedHosts, Connections

__all__ = ["LOOPBACK_NAMES", "Guard"]

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")

_HEADERS = {
    # Everything is loaded from this server and nothing is inline, so cluster data cannot run as a script.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class Guard:
    """Refuses requests with another host name (421) or origin (403), and requests that would write (405).

    Args:
        app: The application to protect.
        names: The accepted host names, as in `AllowedHosts`.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] = LOOPBACK_NAMES) -> None:
        self._app = app
        self._names = AllowedHosts(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it on (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with Connections.request():
            refusal = self._refusal(scope)
            if refusal is None:
                await self._answer(scope, receive, send)
            else:
                status, reason = refusal
                await PlainTextResponse(reason, status_code=status, headers=_HEADERS)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    *((name.encode(), value.encode()) for name, value in _HEADERS.items()),
                ]
            await send(message)

        await self._app(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        version = (1, 0) if scope["http_version"] == "1.0" else (1, 1)
        if (refusal := self._names.refusal(scope["headers"], version=version, own_pages=True)) is not None:
            return refusal
        return None if scope["method"] in ("GET", "HEAD") else (405, "405: this server is read-only\n")
