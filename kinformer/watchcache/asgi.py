"""Answers of a watch cache to ASGI requests, as those of FastAPI and Starlette."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple, cast

from aiohttp import HttpVersion, HttpVersion11, web
from multidict import CIMultiDict

from kinformer.apiserver.accept import is_pretty
from kinformer.apiserver.options import query_of
from kinformer.apiserver.response import ResponseWriter
from kinformer.watchcache.backend import respond_from
from kinformer.watchcache.cached_resource import CachedResource

__all__ = ["Scope", "Send", "respond_asgi"]

Scope = Mapping[str, object]
Send = Callable[[dict[str, object]], Awaitable[None]]


class _Request(NamedTuple):
    """The parts of aiohttp's request that an answer depends on."""

    method: str
    headers: CIMultiDict[str]
    version: HttpVersion = HttpVersion11


class _ASGIWriter(ResponseWriter):
    """Writes the response as ASGI messages. The server of the application notices a client that has gone."""

    def __init__(self, request: web.BaseRequest, send: Send, *, pretty: bool) -> None:
        super().__init__(request, pretty=pretty)
        self._send_message = send

    @property
    def is_gone(self) -> bool:
        """False: the server of the application cancels what it does not need."""
        return False

    def abort(self) -> None:
        """Do nothing: only the server of the application has the connection."""

    def direct(self) -> None:
        """Return None: each message is sent by the task of the request."""

    async def _open(self, response: web.StreamResponse) -> None:
        self._stream = response
        headers = [(name.lower().encode(), value.encode()) for name, value in response.headers.items()]
        await self._send_message({"type": "http.response.start", "status": response.status, "headers": headers})

    async def _send(self, data: bytes) -> None:
        await self._send_message({"type": "http.response.body", "body": data, "more_body": True})

    async def _end(self) -> None:
        await self._send_message({"type": "http.response.body", "body": b"", "more_body": False})


async def respond_asgi(cache: CachedResource, scope: Scope, send: Send, namespace: str, name: str) -> bool:
    """Implement `WatchCache.respond_asgi`."""
    headers = cast("Iterable[tuple[bytes, bytes]]", scope["headers"])
    params = query_of(cast("bytes", scope["query_string"]).decode("latin-1"))
    asked = _Request(
        str(scope["method"]),
        CIMultiDict((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers),
    )
    request = cast("web.BaseRequest", asked)
    response = _ASGIWriter(request, send, pretty=is_pretty(request.headers, params))
    return await respond_from(cache, response, params, namespace, name)
