"""Writes responses: bodies, framing and compression, and deliberate connection failures."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from kinformer.objects.paths.printing import go_json
from kinformer.serving.pages import GZIP_LEVEL, accepts_gzip, opening
from kinformer.serving.status import StatusError
from kinformer.testing.faults import Fault

__all__ = ["JSON", "ConnectionCut", "ResponseWriter"]

# Go's net/http sets a Content-Length if the body fits its buffer when the handler returns, and otherwise chunks it.
UNCHUNKED = 2048
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class ConnectionCut(Exception):
    """The connection was deliberately cut, so no response can follow."""


class ResponseWriter:
    """Writes the response to one request. Every byte passes the gate, which is closed while the server is paused."""

    def __init__(
        self,
        request: web.BaseRequest,
        gate: asyncio.Event,
        *,
        pretty: bool = False,
        on_head: Callable[[int], None] = lambda status: None,
    ) -> None:
        self._request = request
        self._gate = gate
        self._on_head = on_head
        self.pretty = pretty
        self.status = 0
        self.garble = False  # make the body invalid JSON
        self.cut_body = False  # close the connection within the body
        self.before_head: Callable[[int], Awaitable[None]] | None = None  # called once with the status, may raise
        self.before_data: Callable[[bytes], Awaitable[bytes]] | None = None  # returns the bytes to send
        self.warnings: list[str] = []
        self._members = False  # every write is a separate gzip member
        self._stream: web.StreamResponse | None = None

    @property
    def stream(self) -> web.StreamResponse | None:
        """The response, if its head has been sent."""
        return self._stream

    def _headers(self, content_type: str, more: Mapping[str, str]) -> CIMultiDict[str]:
        headers = CIMultiDict(
            {"Audit-Id": str(uuid.uuid4()), "Cache-Control": "no-cache, private", "Content-Type": content_type}
        )
        headers.update(more)
        for warning in dict.fromkeys(self.warnings):
            headers.add("Warning", f'299 - "{_quoted(warning)}"')
        return headers

    async def send(
        self, body: bytes, *, status: int = 200, content_type: str = JSON, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        """Send a whole body."""

        async def once() -> AsyncIterator[bytes]:
            yield body

        return await self._write(once(), len(body), status, content_type, headers or {})

    async def send_json(self, value: Any, *, status: int = 200, **more: Any) -> web.StreamResponse:
        """Send a value as JSON with a newline, as the server's encoder does. Indented if the client requests it."""
        return await self.send_encoded_json(go_json(value) + b"\n", status=status, **more)

    async def send_encoded_json(self, body: bytes, *, status: int = 200, **more: Any) -> web.StreamResponse:
        """Send encoded JSON."""
        if self.pretty:
            body = indent(body)
        return await self.send(body, status=status, **more)

    async def send_yaml(self, value: Any, *, status: int = 200) -> web.StreamResponse:
        """Send a value as YAML."""
        return await self.send_encoded_yaml(go_json(value), status=status)

    async def send_encoded_yaml(self, body: bytes, *, status: int = 200) -> web.StreamResponse:
        """Send encoded JSON as YAML (sigs.k8s.io/yaml: keys in alphabetical order)."""
        from kinformer.testing.codec.yaml_text import to_yaml

        return await self.send(to_yaml(msgspec.json.decode(body)), status=status, content_type="application/yaml")

    async def send_error(self, error: StatusError, *, yaml: bool = False) -> web.StreamResponse:
        """Send a failure."""
        if isinstance(error.body, str):
            headers = dict(error.headers)
            content_type = headers.pop("Content-Type", TEXT)
            return await self.send(error.body.encode(), status=error.code, content_type=content_type, headers=headers)
        if yaml:
            return await self.send_encoded_yaml(go_json(error.body), status=error.code)
        self.pretty = self.pretty or error.pretty
        return await self.send_json(error.body, status=error.code, headers=error.headers)

    async def send_chunks(self, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        """Send the JSON body of a LIST in pieces."""
        if self.pretty:
            whole = b"".join([piece async for piece in pieces])
            return await self.send_encoded_json(whole)
        return await self._write(pieces, None, 200, JSON, {})

    async def _write(
        self,
        pieces: AsyncIterator[bytes],
        length: int | None,
        status: int,
        content_type: str,
        headers: dict[str, str],
    ) -> web.StreamResponse:
        first, is_large = await opening(pieces)
        if self.garble:
            first = b'{"kind":"' + bytes(byte ^ 0x15 for byte in first[:64]) + first[64:]
        zipped = is_large and accepts_gzip(self._request.headers.get("Accept-Encoding", ""))
        response = web.StreamResponse(status=status, headers=self._headers(content_type, headers))
        ended = length is not None or not is_large
        if status in (204, 304):
            return await self._empty(response)
        if ended and len(first) <= UNCHUNKED:
            response.content_length = len(first)
        if zipped:
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
        await self._open(response)
        if self.cut_body:
            await self.write(first[: max(1, len(first) // 2)])
            await self.close()
        if zipped:
            await self._write_zipped(first, pieces)
        else:
            await self.write(first)
            async for piece in pieces:
                await self.write(piece)
        await self.finish()
        return response

    async def _empty(self, response: web.StreamResponse) -> web.StreamResponse:
        """Drop the body and the length. A cache would mistake the length for the length of its own copy."""
        await self._gate.wait()
        self._stream = response
        self._on_head(response.status)
        del response.headers["Content-Type"]
        await response.prepare(self._request)
        return await self.finish()

    async def _write_zipped(self, first: bytes, pieces: AsyncIterator[bytes]) -> None:
        buffer = _Buffer()
        with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=GZIP_LEVEL) as packer:
            packer.write(first)
            await self.write(buffer.take())
            async for piece in pieces:
                packer.write(piece)
                await self.write(buffer.take())
        await self.write(buffer.take())

    async def _open(self, response: web.StreamResponse) -> None:
        await self._gate.wait()
        before, self.before_head = self.before_head, None
        if before is not None:
            await before(response.status)
        self._stream = response
        self.status = response.status
        self._on_head(response.status)
        if response.content_length is None:
            response.enable_chunked_encoding()
        await response.prepare(self._request)

    async def start_stream(self, *, compress: bool = False, content_type: str = JSON) -> web.StreamResponse:
        """Send the head of a watch immediately.

        With `compress`, each write is a gzip member if the client accepts gzip.
        """
        self._members = compress and accepts_gzip(self._request.headers.get("Accept-Encoding", ""))
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if self._members else {}
        response = web.StreamResponse(status=200, headers=self._headers(content_type, headers))
        await self._open(response)
        return response

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, unless the request is a HEAD.

        Raises ConnectionError if the client has disconnected.
        """
        if not data or self._request.method == "HEAD":
            return
        await self._gate.wait()
        if self.before_data is not None:
            data = await self.before_data(data)
        await self.write_now(data)

    async def write_now(self, data: bytes) -> None:
        """Send bytes of the body without calling `before_data`."""
        assert self._stream is not None, "the head is written first"
        await self._stream.write(gzip.compress(data, GZIP_LEVEL) if self._members else data)

    async def finish(self) -> web.StreamResponse:
        """End the response cleanly."""
        await self._gate.wait()
        assert self._stream is not None, "the head is written first"
        await self._stream.write_eof()
        return self._stream

    async def close(self) -> None:
        """Close the connection without ending the body. Raises `ConnectionCut`."""
        transport = self._request.transport
        if transport is not None:
            transport.close()
        raise ConnectionCut

    async def reset(self) -> None:
        """Reset the connection. Raises `ConnectionCut`."""
        reset_transport(self._request.transport)
        raise ConnectionCut

    async def cut_or_stall(self, fault: Fault) -> None:
        """Apply a fault that cuts or stalls the connection. The caller handles other faults."""
        if fault.kind == "reset":
            await self.reset()
        elif fault.kind == "silent_close":
            await self.close()
        elif fault.kind == "stall":
            await asyncio.get_running_loop().create_future()  # until cancelled: the client leaves or the server stops


class _Buffer:
    """The output buffer of the gzip writer."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing, because no data is held back."""

    def take(self) -> bytes:
        joined = b"".join(self._parts)
        self._parts.clear()
        return joined


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def indent(body: bytes) -> bytes:
    """Return indented JSON as Go's MarshalIndent writes it: two spaces, and no newline at the end."""
    return msgspec.json.format(body, indent=2)


def reset_transport(transport: asyncio.BaseTransport | None) -> None:
    """Close a connection with a linger time of zero, so that the kernel sends RST."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.Transport):
        transport.abort()
