"""The logs of containers, streamed to a page while its panel is open.

A log is text that anybody may have written. It is cut into bounded lines and sent as JSON, a document in each line of
the response: `{"lines": [...]}` and, at the end, `{"end": null}`, or the reason in its place. Empty lines show that the
response goes on.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import msgspec
from starlette.types import Receive, Scope, Send

from kinformer import Client, KinformerError
from kinformer.cli.output.errors import error_text
from kinformer.cli.output.text import clean
from kinformer.contrib.shutdown import LiveResponse, Write

__all__ = ["LogResponse", "Logs"]

_MOST = 20  # logs that are open at once, over all pages. Each is a connection to the API server
_LONGEST = 8_000  # characters of a line
_LINES = 500  # lines sent at once, so that a page can forget a few at a time
_CHARACTERS = 64 * 1024  # of lines sent at once
_PAUSE = 0.1  # seconds between two batches
_BEAT = 10.0  # seconds without a line after which an empty one is sent
_PATIENCE = 60.0  # seconds that a page may take for a batch

_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_encode = msgspec.json.Encoder().encode

Lines = AsyncGenerator[str, None]


class Logs:
    """The logs that pages read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._open = 0

    @property
    def is_full(self) -> bool:
        """True if no other log can be opened now."""
        return self._open >= _MOST

    def read(self, key: str, *, container: str | None, previous: bool, tail: int) -> LogResponse:
        """Return a response with the last lines of a log, then those that follow.

        Raises:
            ConfigError: The key is invalid.
        """
        lines = self._client.logs(key, container=container, previous=previous, follow=not previous, tail=tail)
        return LogResponse(lines, self._note)

    def _note(self, change: int) -> None:
        self._open += change


class LogResponse(LiveResponse):
    """A response that continues until the log ends, the page closes it, or the server ends.

    A page that does not read stops the reading of the log, so at most two batches are in memory.

    Args:
        lines: The lines.
        note: Called with 1 when the response begins, and with -1 when it has ended.
    """

    media_type = "application/x-ndjson"

    def __init__(self, lines: Lines, note: Callable[[int], object] = lambda _: None) -> None:
        super().__init__("dashboard: log", _PATIENCE)
        self._lines = lines
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond (ASGI)."""
        self._note(1)
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._note(-1)

    async def write_content(self, scope: Scope, write: Write) -> None:
        """Write the lines in batches, and then how they ended."""
        batch = _Batch()
        reading = asyncio.create_task(batch.fill(self._lines), name="kinformer dashboard: log lines")
        try:
            while not (reading.done() and not batch.lines):
                if batch.lines:
                    await write(_encode({"lines": batch.take()}) + b"\n")
                    await asyncio.wait({reading}, timeout=_PAUSE)
                elif not await batch.wait(_BEAT):
                    await write(b"\n")
            await write(_encode({"end": reading.result()}) + b"\n")
        finally:
            reading.cancel()
            await asyncio.wait({reading})


class _Batch:
    """The lines that `fill` has read and `take` has not yet removed. Reading waits while there are many."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._size = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def fill(self, lines: Lines) -> str | None:
        """Read all lines. Returns the reason if the log cannot be read further."""
        try:
            async with aclosing(lines):
                async for line in lines:
                    self.lines.append(_shown(line))
                    self._size += len(self.lines[-1])
                    self._news.set()
                    if len(self.lines) >= _LINES or self._size >= _CHARACTERS:
                        self._room.clear()
                        await self._room.wait()
        except KinformerError as error:
            return error_text(error)
        finally:
            self._news.set()
        return None

    async def wait(self, seconds: float) -> bool:
        """Wait for lines or the end. Returns False if neither comes in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def take(self) -> list[str]:
        """Return the lines, and make room for others."""
        taken, self.lines, self._size = self.lines, [], 0
        self._news.clear()
        self._room.set()
        return taken


def _shown(line: str) -> str:
    """Return a line without the colours of a terminal and without characters that deceive a reader."""
    cut = line[:_LONGEST]
    more = f"… ({len(line) - _LONGEST:,} more characters)" if len(line) > _LONGEST else ""
    return clean(_COLOURS.sub("", cut).expandtabs(8)) + more
