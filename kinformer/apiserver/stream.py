"""Sends a watch as lines of a chunked body."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from kinformer.apiserver.accept import JSON
from kinformer.apiserver.line_queue import Line, Watcher
from kinformer.apiserver.response import ResponseWriter

__all__ = ["WatchResponse"]

_LOOK = 5.0  # seconds between two looks whether the client of a silent watch has gone
_DRAIN = 30.0  # seconds in which a client that was too slow may read what was sent, before its connection is closed


class WatchResponse:
    """The response of one open watch.

    Args:
        response: The writer.
        watcher: Has the lines. The caller opens and closes it.
        media: The media type of the objects.
        compress: True to send each batch as a gzip member, if the client accepts gzip.
    """

    def __init__(
        self, response: ResponseWriter, watcher: Watcher[bytes], *, media: str = JSON, compress: bool = False
    ) -> None:
        self._response = response
        self._watcher = watcher
        self._encoding = response.encodings.get(media)
        self._compress = compress
        self._ended = False

    async def start(self) -> None:
        """Send the head."""
        content_type = JSON if self._encoding is None else self._encoding.stream
        await self._response.start_stream(compress=self._compress, content_type=content_type)

    async def run(self) -> None:
        """Send lines until the watch ends, or the client has gone."""
        watcher = self._watcher
        watcher.direct = self._response.direct() if self._encoding is None else None
        with self._looking():
            while not self._ended and (batch := await watcher.next_batch()) is not None:
                if self._response.is_gone:
                    return
                await self._send(batch)
        await self._response.finish()

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Look now and then whether the client has gone, since it sends nothing, or does not read any more."""
        loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            self._watcher.wake()
            timer = loop.call_later(_LOOK, look)

        def drain() -> None:
            nonlocal timer
            timer.cancel()
            timer = loop.call_later(_DRAIN, self._response.abort)

        timer = loop.call_later(_LOOK, look)
        self._watcher.on_slow = drain
        try:
            yield
        finally:
            timer.cancel()

    async def _send(self, batch: list[Line[bytes]]) -> None:
        await self._write(b"".join([line.data for line in batch]))

    async def _write(self, lines: bytes) -> None:
        if not lines:
            return
        self._watcher.set_blocked(True)
        try:
            await self._response.write(lines if self._encoding is None else self._encoding.encode_lines(lines))
        finally:
            self._watcher.set_blocked(False)
