"""Writing answers: bodies, their framing and compression, and the ways in which a connection can go wrong."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from kinformer.testing.faults import Fault
from kinformer.testing.kinds.status import StatusError
from kinformer.testing.store.forms import dumps

__all__ = ["JSON", "ConnectionCut", "ResponseWriter"]

GZIP_FROM = 128 * 1024  # bytes (responsewriters/writers.go, defaultGzipThresholdBytes)
GZIP_LEVEL = 1
# Go's net/http gives a Content-Length to what fits its buffer when the handler returns, and chunks the rest.
UNCHUNKED = 2048
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class ConnectionCut(Exception):
    """The connection is gone, on purpose; there is nothing left to answer."""


class ResponseWriter:
    """The answer to one request; every byte passes the gate, which a paused server keeps closed."""

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
        self.garble = False  # the body comes out as no JSON
        self.cut_body = False  # the connection closes within the body
        self.before_head: Callable[[int], Awaitable[None]] | None = None  # once: is told the status; may raise
        self.before_data: Callable[[bytes], Awaitable[bytes]] | None = None  # returns what is sent of it
        self.warnings: list[str] = []
        self._members = False  # every write is a gzip member of its own
        self._stream: web.StreamResponse | None = None

    @property
    def stream(self) -> web.StreamResponse | None:
        """The part that has been begun."""
        return self._stream

    def _headers(self, content_type: str, more: Mapping[str, str]) -> CIMultiDict[str]:
        headers = CIMultiDict(
            {"Audit-Id": str(uuid.uuid4()), "Cache-Control": "no-cache, private", "Content-Type": content_type}
        )
        headers.update(more)
        for text in dict.fromkeys(self.warnings):
            headers.add("Warning", f'299 - "{_quoted(text)}"')
        return headers

    async def send(
        self, body: bytes, *, status: int = 200, content_type: str = JSON, headers: dict[str, str] | None = None
    ) -> web.StreamResponse:
        """A whole body."""

        async def once() -> AsyncIterator[bytes]:
            yield body

        return await self._write(once(), len(body), status, content_type, headers or {})

    async def send_json(self, value: Any, *, status: int = 200, **more: Any) -> web.StreamResponse:
        """A value as JSON, with the newline that the server's encoder writes; indented for clients that ask for it."""
        return await self.send_encoded_json(dumps(value) + b"\n", status=status, **more)

    async def send_encoded_json(self, body: bytes, *, status: int = 200, **more: Any) -> web.StreamResponse:
        """JSON that is encoded already."""
        if self.pretty:
            body = indent(body)
        return await self.send(body, status=status, **more)

    async def send_yaml(self, value: Any, *, status: int = 200) -> web.StreamResponse:
        """A value as YAML."""
        return await self.send_encoded_yaml(dumps(value), status=status)

    async def send_encoded_yaml(self, body: bytes, *, status: int = 200) -> web.StreamResponse:
        """JSON turned into YAML (sigs.k8s.io/yaml: keys in order of the alphabet)."""
        from kinformer.testing.codec.yaml_text import to_yaml

        return await self.send(to_yaml(msgspec.json.decode(body)), status=status, content_type="application/yaml")

    async def send_error(self, error: StatusError, *, yaml: bool = False) -> web.StreamResponse:
        """A failure."""
        if isinstance(error.body, str):
            headers = dict(error.headers)
            content_type = headers.pop("Content-Type", TEXT)
            return await self.send(error.body.encode(), status=error.code, content_type=content_type, headers=headers)
        if yaml:
            return await self.send_encoded_yaml(dumps(error.body), status=error.code)
        self.pretty = self.pretty or error.pretty
        return await self.send_json(error.body, status=error.code, headers=error.headers)

    async def send_chunks(self, pieces: AsyncIterator[bytes]) -> web.StreamResponse:
        """A JSON body in pieces: those of a LIST."""
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
        held: list[bytes] = []
        size = 0
        async for piece in pieces:  # until it is known whether the body is large
            held.append(piece)
            size += len(piece)
            if size > GZIP_FROM:
                break
        first = b"".join(held)
        if self.garble:
            first = b'{"kind":"' + bytes(byte ^ 0x15 for byte in first[:64]) + first[64:]
        zipped = size > GZIP_FROM and "gzip" in self._request.headers.get("Accept-Encoding", "")
        response = web.StreamResponse(status=status, headers=self._headers(content_type, headers))
        ended = length is not None or size <= GZIP_FROM
        if status == 304:
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
        """An answer without a body, nor a length: a cache would take the length for that of its own copy."""
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
        """The head of a watch, sent at once. Compressed, each write is a gzip member, to clients that accept that."""
        self._members = compress and "gzip" in self._request.headers.get("Accept-Encoding", "")
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if self._members else {}
        response = web.StreamResponse(status=200, headers=self._headers(content_type, headers))
        await self._open(response)
        return response

    async def write(self, data: bytes) -> None:
        """Sends some bytes of the body, unless it is a HEAD. Raises ConnectionError if the client has gone."""
        if not data or self._request.method == "HEAD":
            return
        await self._gate.wait()
        if self.before_data is not None:
            data = await self.before_data(data)
        await self.write_now(data)

    async def write_now(self, data: bytes) -> None:
        """Sends some bytes of the body whatever `before_data` says of them."""
        assert self._stream is not None, "the head is written first"
        await self._stream.write(gzip.compress(data, GZIP_LEVEL) if self._members else data)

    async def finish(self) -> web.StreamResponse:
        """The clean end."""
        await self._gate.wait()
        assert self._stream is not None, "the head is written first"
        await self._stream.write_eof()
        return self._stream

    async def close(self) -> None:
        """Closes the connection without the end of the body. Raises `ConnectionCut`."""
        transport = self._request.transport
        if transport is not None:
            transport.close()
        raise ConnectionCut

    async def reset(self) -> None:
        """Resets the connection. Raises `ConnectionCut`."""
        reset_transport(self._request.transport)
        raise ConnectionCut

    async def cut_or_stall(self, fault: Fault) -> None:
        """Applies a fault to a connection: cuts it or sends nothing more. Other faults are for the caller."""
        if fault.kind == "reset":
            await self.reset()
        elif fault.kind == "silent_close":
            await self.close()
        elif fault.kind == "stall":
            await asyncio.get_running_loop().create_future()  # until cancelled: the client leaves or the server stops


class _Buffer:
    """The buffer that the gzip writer writes to."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> int:
        self._parts.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Sends everything that was held back."""

    def take(self) -> bytes:
        joined = b"".join(self._parts)
        self._parts.clear()
        return joined


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def indent(body: bytes) -> bytes:
    """As Go's MarshalIndent writes it: two blanks, and no newline at the end."""
    text = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        text = text.replace(char, escape)
    return text.encode()


def reset_transport(transport: asyncio.BaseTransport | None) -> None:
    """Makes the kernel send RST: it does so when a socket closes that lingers for no time."""
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if isinstance(transport, asyncio.Transport):
        transport.abort()
