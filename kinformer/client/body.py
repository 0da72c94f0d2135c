"""The body of a response, read in chunks as it arrives; many small chunks are gathered into larger ones.

A server that writes a list of 100,000 pods, or the initial stream of a watch, sends a record of some KB every 100
microseconds, and each wakes the event loop: epoll, the socket, TLS, aiohttp, the reader, about 40 microseconds of CPU.
So a reader to which small chunks arrive quickly waits 2 ms, in which the loop is free for other tasks and the kernel
gathers the data. Draining a list of 3,000 pods from a kube-apiserver over TLS took 57 us of CPU a pod without it and 29
with it, an initial stream 58 and 37, and neither took longer. Events that arrive one by one, as they do below 2,000 a
second, are never delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from kinformer._runtime.clock import SYSTEM, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.client.aiohttp_internals import low_watermark, read_whole, transport_of, without_close_notify
from kinformer.client.responses import failure, reason_of
from kinformer.exceptions import ConnectError

__all__ = ["Body", "Pace", "keep_free_memory"]

log = get_logger("kinformer.body")

_ERROR_BODY = 64 * 1024  # bytes of the body of an error that are read
_SMALL = 64 * 1024  # bytes: a larger chunk is worth an iteration of the loop
_QUICK = 0.0005  # seconds: a chunk that took longer to arrive ends the row
_WAITED = 0.0002  # seconds: a read that took longer has given the loop its turn
_ROW = 4  # small chunks that arrived quickly in a row, before the reader waits; an event arrives in up to three
_NAP = 0.002  # seconds: less than the jitter of a network response
_GATHERED = 256 * 1024  # bytes that wake the reader earlier; as much as is read at once
_MAPPED = 2 * 1024 * 1024  # bytes: what the chunks of a watch take and free is up to 1.5 MB


class Pace:
    """The pace of a stream: hurried if small chunks arrive quickly, one after another."""

    __slots__ = ("_row",)

    def __init__(self) -> None:
        self._row = 0

    def note(self, size: int, waited: float) -> None:
        """Note a chunk of `size` bytes, which arrived after `waited` seconds."""
        self._row = self._row + 1 if size < _SMALL and waited < _QUICK else 0

    @property
    def is_hurried(self) -> bool:
        """True if more will arrive while the reader waits."""
        return self._row >= _ROW


def keep_free_memory() -> None:
    """Make glibc's malloc keep up to 4 MB of free memory of this process, instead of returning it to the system.

    Streams take and free memory all the time, and each piece that was returned costs page faults when it is taken
    again. A program that follows busy resources may call this once, at its start: docs/cost.md says what it brings.
    kinformer never calls it, because it concerns the whole process.

    The threshold of malloc is twice the size of the largest block that was mapped and has been freed (mallopt(3),
    M_MMAP_THRESHOLD). So one is mapped and freed here, and its pages are never touched. A program that has set the
    thresholds keeps its own. Other allocators are not affected.
    """
    bytes(_MAPPED)


class Body:
    """A response whose head has been read; `read`, or `async for`, returns its body in chunks as they arrive."""

    __slots__ = ("_budget", "_cut_is_end", "_no_json", "_pace", "_response", "_what")

    def __init__(self, response: aiohttp.ClientResponse, what: str, *, cut_is_end: bool) -> None:
        self._response = response
        self._what = what
        self._cut_is_end = cut_is_end
        self._pace = Pace()
        self._budget: YieldBudget | None = None
        self._no_json: type[Exception] | None = None
        read_whole(response.content)

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case; "" if the server sent none."""
        return self._response.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def expect_json(self, budget: YieldBudget, error: type[Exception]) -> None:
        """Expect JSON, whose reader works within a budget.

        Args:
            budget: Time spent waiting is not work, so a read that has waited starts a new turn of it.
            error: Raised if the body is HTML: a login page, or the error page of a proxy, with status 200.
        """
        self._budget = budget
        self._no_json = error

    async def read(self) -> bytes:
        """Wait for data, and return all that has arrived; b"" at the end.

        A stream that arrives quickly in small chunks is gathered for up to 2 ms.

        Raises:
            ConnectError: The connection was cut, unless that is how the body ends (a LIST that is cut is no short
                list).
        """
        began = SYSTEM.perf()
        if self._pace.is_hurried:
            await self._gather()
        before = SYSTEM.perf()
        try:
            chunk = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            if self._cut_is_end:
                log.debug("%s was cut: %s", self._what, error, reason=error)
                return b""
            raise ConnectError.of_lost_connection(f"{self._what}: the body broke off: {reason_of(error)}") from None
        now = SYSTEM.perf()
        self._pace.note(len(chunk), now - before)
        if self._budget is not None:
            if now - began > _WAITED:
                self._budget.rested = True
            elif self._budget.exhausted():
                await self._budget.pause()
        if self._no_json is not None and chunk:
            self._check_json(chunk, self._no_json)
        return chunk

    def _check_json(self, chunk: bytes, error: type[Exception]) -> None:
        first = chunk.lstrip(b" \t\r\n")[:1]
        if first:
            self._no_json = None
        if first == b"<" or self.content_type == "text/html":
            got = self.content_type or "HTML"
            text = f"expected JSON, got {got}: something is answering instead of the API server"
            raise error(f"{text}: {chunk[:80]!r}")

    async def _gather(self) -> None:
        transport = transport_of(self._response)
        if transport is None:
            return
        with low_watermark(transport, _GATHERED):
            await asyncio.sleep(_NAP)

    async def read_all(self, limit: int | None = None) -> bytes:
        """Read the rest of the body, at most about `limit` bytes of it."""
        chunks, size = [], 0
        while (limit is None or size < limit) and (chunk := await self.read()):
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    async def check(self) -> None:
        """Raise the APIError of a response other than 2xx, and close it."""
        if 200 <= self.status < 300:
            return
        try:
            body = await self.read_all(_ERROR_BODY)
        except ConnectError as error:
            body = f"(its text broke off: {error})".encode()
        finally:
            self.close()
        raise failure(self.status, self.headers, body)

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.read()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """Return the connection to the pool if the body was read to its end, close it otherwise. Never blocks."""
        if self._response.content.at_eof() and self._response.content.exception() is None:
            self._response.release()
            return
        transport = transport_of(self._response)
        self._response.close()
        without_close_notify(transport)
