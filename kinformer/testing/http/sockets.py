"""The sockets of a server: accepting connections within limits, refusing them, and cutting them off."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

from aiohttp import web

from kinformer.listening.aiohttp_server import server_options
from kinformer.listening.connections import Connections

__all__ = ["HTTPServer", "NoResponse", "abort_all", "listen", "stop_accepting"]

# Idle connections stay open, so that a client's pool never races with a server closing them, above all in virtual
# time.
KEEPALIVE = 3600.0  # seconds
HANDSHAKE = 32.0  # seconds for TLS, as long as for the head of a request
_ACCEPTING = 4  # loop iterations from accepting a connection to creating its protocol

# Nearly all descriptors of such a process may be connections: a watch has one of its own, and may read as slowly as it
# likes. A body that no handler reads, of up to 3 MiB, is counted like the next head.
_MOST = 100_000
_SHARE = 0.95
_HEAD_BYTES = 4 * 1024 * 1024


class HTTPServer(web.Server):
    """aiohttp's server, which here rejects connections that were accepted just as it stopped.

    Args:
        handler: Answers a request.

    Attributes:
        stopping: True once it accepts no more connections.
    """

    def __init__(self, handler: Any) -> None:
        super().__init__(handler, handler_cancellation=True, **server_options(keepalive=KEEPALIVE))
        self.stopping = False

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if self.stopping:
            transport.abort()


async def listen(http: HTTPServer, host: str, port: int, context: ssl.SSLContext | None) -> asyncio.Server:
    """Bind the address. Connections are accepted once `start_serving` of the result is called."""
    limited = Connections(most=_MOST, share=_SHARE, spare=0, head_bytes=_HEAD_BYTES, unread=None)
    handshake = None if context is None else HANDSHAKE
    return await asyncio.get_running_loop().create_server(
        limited.guard(http), host, port, ssl=context, ssl_handshake_timeout=handshake, start_serving=False
    )


async def stop_accepting(listener: asyncio.Server) -> None:
    """Let half-accepted connections arrive first: asyncio would lose them, unclosed, when its server closes."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for sock in listener.sockets:
            loop.remove_reader(sock.fileno())
    for _ in range(_ACCEPTING):
        await asyncio.sleep(0)


class NoResponse(web.StreamResponse):
    """Placeholder for a response that can no longer be sent. The connection ends without any data."""

    async def prepare(self, request: web.BaseRequest) -> Any:
        raise ConnectionResetError("cut on purpose, or by the client")


def abort_all(http: web.Server) -> None:
    """Cut all connections."""
    for connection in http.connections:
        if connection.transport is not None:
            connection.transport.abort()
