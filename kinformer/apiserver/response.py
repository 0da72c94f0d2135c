"""Writes responses: heads, whole bodies, bodies in pieces, and lines, compressed and indented as clients ask."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple

import anyio.to_thread
import msgspec
from aiohttp import HttpVersion11, web
from multidict import CIMultiDict

from kinformer.apiserver.accept import JSON, Accepted, error_media
from kinformer.apiserver.pages import GZIP_LEVEL, accepts_gzip, opening
from kinformer.apiserver.status import StatusError
from kinformer.objects.paths.printing import go_json

__all__ = ["TEXT", "Encoding", "ResponseWriter"]

TEXT = "text/plain; charset=utf-8"
# Go's net/http sets a Content-Length if the body fits its buffer when the handler returns, and otherwise chunks it.
_UNCHUNKED = 2048
_GZIP = 16 + zlib.MAX_WBITS  # writes gzip's header and sum
_IN_THREAD = 64 * 1024  # bytes from which a piece is compressed in a thread


class Encoding(NamedTuple):
    """A media type besides JSON.

    Attributes:
        encode: Converts the JSON of a body.
        stream, encode_lines: The media type of a watch and what converts lines of JSON, if it has any.
    """

    encode: Callable[[bytes], bytes]
    stream: str = ""
    encode_lines: Callable[[bytes], bytes] = lambda lines: lines


class ResponseWriter:
    """Writes the response to one request.

    Args:
        request: The request.
        pretty: True to indent JSON.
        encodings: The media types besides JSON.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        *,
        pretty: bool = False,
        encodings: Mapping[str, Encoding] = {},
    ) -> None:
        self.request = request
        self.pretty = pretty
        self.encodings = encodings
        self.warnings: list[str] = []
        self._members = False  # every write is a separate gzip member
        self._stream: web.StreamResponse | None = None

    @property
    def stream(self) -> web.StreamResponse | None:
        """The response, if its head has been sent."""
        return self._stream

    # --- whole bodies -------------------------------------------------------------------------------------

    async def send(
        self, body: bytes, *, status: int = 200, content_type: str = JSON, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """Send a whole body."""

        async def once() -> AsyncIterator[bytes]:
            yield body

        return await self._write(once(), len(body), status, content_type, headers or {})

    async def send_json(
        self, value: object, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """Send a value as JSON with a newline, as the server's encoder does. Indented if the client requests it."""
        return await self.send_encoded(go_json(value) + b"\n", status=status, headers=headers)

    async def send_encoded(
        self, body: bytes, media: str = JSON, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> web.StreamResponse:
        """Send encoded JSON in a media type."""
        if media != JSON:
            body = self.encodings[media].encode(body)
        elif self.pretty:
            body = msgspec.json.format(body, indent=2)  # as Go's MarshalIndent, with no newline at the end
        return await self.send(body, status=status, content_type=media, headers=headers)

    async def send_error(self, error: StatusError) -> web.StreamResponse:
        """Send a failure."""
        if isinstance(error.body, str):
            headers = dict(error.headers)
            content_type = headers.pop("Content-Type", TEXT)
            return await self.send(error.body.encode(), status=error.code, content_type=content_type, headers=headers)
        media = error_media(self.request.headers)
        self.pretty = self.pretty or media is None
        supported = JSON if media is None or media not in self.encodings else media
        return await self.send_encoded(go_json(error.body) + b"\n", supported, status=error.code, headers=error.headers)

    async def send_pieces(self, pieces: AsyncIterator[bytes], wanted: Accepted) -> web.StreamResponse:
        """Send the JSON body of a LIST in pieces."""
        if self.pretty or wanted.media != JSON:
            return await self.send_encoded(b"".join([piece async for piece in pieces]), wanted.media)
        return await self._write(pieces, None, 200, JSON, {})

    # --- streams ------------------------------------------------------------------------------------------

    async def start_stream(self, *, compress: bool = False, content_type: str = JSON) -> web.StreamResponse:
        """Send the head of a watch immediately.

        With `compress`, each write is a gzip member if the client accepts gzip.
        """
        self._members = compress and accepts_gzip(self.request.headers.get("Accept-Encoding", ""))
        headers = {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"} if self._members else {}
        response = web.StreamResponse(status=200, headers=self._headers(content_type, headers))
        await self._open(response)
        return response

    async def write(self, data: bytes) -> None:
        """Send bytes of the body, unless the request is a HEAD.

        Raises ConnectionError if the client has disconnected.
        """
        if data and self.request.method != "HEAD":
            await self._send(gzip.compress(data, GZIP_LEVEL) if self._members else data)

    async def finish(self) -> web.StreamResponse:
        """End the response cleanly."""
        assert self._stream is not None, "the head is written first"
        await self._end()
        return self._stream

    @property
    def is_gone(self) -> bool:
        """True if the client has disconnected."""
        transport = self.request.transport
        return transport is None or transport.is_closing()

    def abort(self) -> None:
        """End the connection at once, without what the client has not read."""
        if self.request.transport is not None:
            self.request.transport.abort()

    def direct(self) -> Callable[[bytes], bool] | None:
        """Return a function that writes a line, as a chunk, in the step that applies its change, if there is one.

        It does so only while no byte waits for the socket, so that a slow reader fills the watcher's queue, which is
        limited. A task that is woken for each reader and line would cost more than the line.
        """
        request = self.request
        if self._members or request.version < HttpVersion11:
            return None

        def write(line: bytes) -> bool:
            transport = request.transport
            if transport is None or transport.is_closing() or transport.get_write_buffer_size():
                return False
            transport.write(b"%x\r\n%b\r\n" % (len(line), line))
            return True

        return write

    # --- parts --------------------------------------------------------------------------------------------

    def _headers(self, content_type: str, more: Mapping[str, str]) -> CIMultiDict[str]:
        headers = CIMultiDict({"Cache-Control": "no-cache, private", "Content-Type": content_type})
        headers.update(more)
        for warning in dict.fromkeys(self.warnings):
            headers.add("Warning", f'299 - "{_quoted(warning)}"')
        return headers

    async def _write(
        self,
        pieces: AsyncIterator[bytes],
        length: int | None,
        status: int,
        content_type: str,
        headers: Mapping[str, str],
    ) -> web.StreamResponse:
        first, is_large = await opening(pieces)
        first = self._first(first)
        zipped = is_large and accepts_gzip(self.request.headers.get("Accept-Encoding", ""))
        response = web.StreamResponse(status=status, headers=self._headers(content_type, headers))
        ended = length is not None or not is_large
        if status in (204, 304):  # a cache would mistake a length for the length of its own copy
            del response.headers["Content-Type"]
            await self._open(response)
            return await self.finish()
        if ended and len(first) <= _UNCHUNKED:
            response.content_length = len(first)
        if zipped:
            response.headers["Content-Encoding"] = "gzip"
            response.headers["Vary"] = "Accept-Encoding"
        await self._open(response)
        packer = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP) if zipped else None
        await self.write(first if packer is None else await self._packed(packer, first))
        async for piece in pieces:
            await self.write(piece if packer is None else await self._packed(packer, piece))
        if packer is not None:
            await self.write(packer.flush())
        return await self.finish()

    def _first(self, first: bytes) -> bytes:
        """Return what is sent as the beginning of a body."""
        return first

    async def _packed(self, packer: zlib._Compress, piece: bytes) -> bytes:
        if len(piece) < _IN_THREAD:
            return packer.compress(piece)
        return await anyio.to_thread.run_sync(packer.compress, piece)

    async def _open(self, response: web.StreamResponse) -> None:
        """Send the head."""
        self._stream = response
        is_empty = response.status in (204, 304)
        if response.content_length is None and not is_empty and self.request.version >= HttpVersion11:
            response.enable_chunked_encoding()
        await response.prepare(self.request)

    async def _send(self, data: bytes) -> None:
        """Send bytes of the body as they are."""
        assert self._stream is not None, "the head is written first"
        await self._stream.write(data)

    async def _end(self) -> None:
        """End the body."""
        assert self._stream is not None, "the head is written first"
        await self._stream.write_eof()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
