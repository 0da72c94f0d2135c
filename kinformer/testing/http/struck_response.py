"""Responses of a server with faults: closed while it is paused, garbled, cut off."""

from __future__ import annotations

import asyncio
import socket
import struct
import uuid
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

from aiohttp import web
from multidict import CIMultiDict

from kinformer.apiserver.response import ResponseWriter
from kinformer.testing.faults import Fault
from kinformer.testing.http.encodings import ENCODINGS

__all__ = ["ConnectionCut", "NoResponse", "StruckResponse"]


class ConnectionCut(Exception):
    """The connection was deliberately cut, so no response can follow."""


class NoResponse(web.StreamResponse):
    """Placeholder for a response that can no longer be sent. The connection ends without any data."""

    async def prepare(self, request: web.BaseRequest) -> Any:
        raise ConnectionResetError("cut on purpose, or by the client")


class StruckResponse(ResponseWriter):
    """Writes the response to one request. Every byte passes the gate, which is closed while the server is paused.

    The server sets `garble`, `cut_body` and `more_headers` before the response begins. An exploration sets
    `before_head` and `before_data`.

    Attributes:
        garble: True to make the body invalid JSON.
        cut_body: True to close the connection within the body, once.
        before_head: Called once with the status. It may raise.
        before_data: Returns the bytes to send.
        more_headers: Header fields to send besides the others.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        gate: asyncio.Event,
        *,
        pretty: bool = False,
        on_head: Callable[[int], None] = lambda status: None,
    ) -> None:
        super().__init__(request, pretty=pretty, encodings=ENCODINGS)
        self._gate = gate
        self._on_head = on_head
        self.garble = False
        self.cut_body = False
        self.more_headers: Mapping[str, str] = {}
        self.before_head: Callable[[int], Awaitable[None]] | None = None
        self.before_data: Callable[[bytes], Awaitable[bytes]] | None = None

    async def write(self, data: bytes) -> None:
        """Send bytes of the body. Raises ConnectionError if the client has disconnected."""
        if not data or self.request.method == "HEAD":
            return
        await self._gate.wait()
        if self.cut_body:
            self.cut_body = False
            await super().write(data[: max(1, len(data) // 2)])
            await self.close()
        if self.before_data is not None:
            data = await self.before_data(data)
        await super().write(data)

    async def write_now(self, data: bytes) -> None:
        """Send bytes of the body without calling `before_data`."""
        await super().write(data)

    async def finish(self) -> web.StreamResponse:
        """End the response cleanly."""
        await self._gate.wait()
        return await super().finish()

    def direct(self) -> None:
        """Return None: every line passes the gate and the faults."""

    async def close(self) -> NoReturn:
        """Close the connection without ending the body. Raises `ConnectionCut`."""
        transport = self.request.transport
        if transport is not None:
            transport.close()
        raise ConnectionCut

    async def reset(self) -> NoReturn:
        """Reset the connection. Raises `ConnectionCut`."""
        _reset(self.request.transport)
        raise ConnectionCut

    async def cut_or_stall(self, fault: Fault) -> None:
        """Apply a fault that cuts or stalls the connection. The caller handles other faults."""
        if fault.kind == "reset":
            await self.reset()
        elif fault.kind == "silent_close":
            await self.close()
        elif fault.kind == "stall":
            await asyncio.get_running_loop().create_future()  # until cancelled: the client leaves or the server stops

    def _headers(self, content_type: str, more: Mapping[str, str]) -> CIMultiDict[str]:
        headers = CIMultiDict({"Audit-Id": str(uuid.uuid4()), **self.more_headers})
        headers.extend(super()._headers(content_type, more))
        return headers

    async def _open(self, response: web.StreamResponse) -> None:
        await self._gate.wait()
        before, self.before_head = self.before_head, None
        if before is not None:
            await before(response.status)
        self._on_head(response.status)
        await super()._open(response)

    def _first(self, first: bytes) -> bytes:
        return b'{"kind":"' + bytes(byte ^ 0x15 for byte in first[:64]) + first[64:] if self.garble else first

    async def _packed(self, packer: zlib._Compress, piece: bytes) -> bytes:
        return packer.compress(piece)  # without a thread, in which virtual time would not pass


def _reset(transport: asyncio.BaseTransport | None) -> None:
    """Close a connection with a linger time of zero, so that the kernel sends RST."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.Transport):
        transport.abort()
