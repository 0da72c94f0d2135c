"""An HTTP server that answers as a test says: for what no true API server would do on request."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Self

import aiohttp
import pytest
from aiohttp import web

needs_gzip_members = pytest.mark.skipif(
    tuple(map(int, aiohttp.__version__.split(".")[:2])) < (3, 14),
    reason="aiohttp before 3.14 reads the first member of a gzip body alone",
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpServer:
    """Answers every request by `handler`; remembers them in `requests`, and how many are being answered in `open`."""

    def __init__(self, handler: Handler, *, port: int = 0, ssl_context: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._port = port
        self._ssl = ssl_context
        self.requests: list[web.Request] = []
        self.open = 0
        self._changed = asyncio.Condition()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._runner = web.ServerRunner(web.Server(self._serve, handler_cancellation=True), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, ssl_context=self._ssl)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http{'s' if self._ssl else ''}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)  # type: ignore[arg-type]
        await self._count(1)
        try:
            return await self._handler(request)  # type: ignore[arg-type]
        finally:
            await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.open += change
            self._changed.notify_all()

    async def until_idle(self) -> None:
        """Returns when no request is being answered any more; the test's own timeout is the limit."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.open == 0)

    async def until_asked(self) -> None:
        """Returns when a request is being answered."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.open > 0)


def json_answer(document: Any, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(document, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})


def status_answer(code: int, reason: str, message: str = "", **headers: str) -> web.Response:
    document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json_answer({**document, "message": message or reason, "reason": reason, "code": code}, code, **headers)


async def send_chunks(
    request: web.Request, chunks: list[bytes], *, content_type: str = "application/json", end: bool = True
) -> web.StreamResponse:
    """A chunked answer; `end=False` cuts the connection where the end would be."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    for chunk in chunks:
        await response.write(chunk)
        await asyncio.sleep(0)
    if end:
        await response.write_eof()
    else:
        assert request.transport is not None
        request.transport.close()
    return response


async def hang(request: web.Request) -> web.StreamResponse:
    """Sends a head, and then nothing until the client goes."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await asyncio.Event().wait()
    return response


def line(kind: str, obj: dict[str, Any]) -> bytes:
    """A line of a watch as servers write it, without spaces."""
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"
