"""Reads the body of a response in chunks as it arrives, and gathers many small chunks into larger ones.

A server that writes a list of 100,000 pods, or the initial stream of a watch, sends a record of some KB every 100
microseconds. Each record wakes the event loop, which takes about 40 microseconds of CPU for epoll, the socket, TLS,
aiohttp and the reader. So if small chunks arrive quickly, the reader waits 2 ms, in which the loop is free for other
tasks and the kernel gathers the data. Reading a list of 3,000 pods from a kube-apiserver over TLS took 57 us of CPU
per pod without waiting and 29 us with it. An initial stream took 58 us and 37 us. Neither took longer in total. Events
that arrive one by one, as they do below 2,000 a second, are never delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context

import aiohttp

from kinformer._runtime.clock import SYSTEM, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.connection.aiohttp_internals import (
    low_watermark,
    read_untaken,
    read_whole,
    transport_of,
    without_close_notify,
)
from kinformer.connection.responses import failure, reason_of
from kinformer.exceptions import ConnectError, DecodeError
from kinformer.objects.excerpts import excerpt_of

__all__ = ["QUICK", "SMALL", "Body", "Pace", "keep_free_memory"]

log = get_logger("kinformer.body")

_ERROR_BODY = 64 * 1024  # bytes to read of an error's body
SMALL = 64 * 1024  # bytes. A larger chunk is worth an iteration of the loop
QUICK = 0.0005  # seconds. A chunk that took longer to arrive ends the run of quick chunks
_WAITED = 0.0002  # seconds. A read that took longer has yielded to the loop
_ROW = 4  # consecutive quick small chunks before the reader waits. An event arrives in up to three
_NAP = 0.002  # seconds, less than the jitter of a network response
_GATHERED = 256 * 1024  # bytes that wake the reader earlier, as much as is read at once
_MAPPED = 2 * 1024 * 1024  # bytes. The chunks of a watch allocate and free up to 1.5 MB


class Pace:
    """Tracks the pace of a stream, which is hurried while small chunks arrive in quick succession."""

    __slots__ = ("_row",)

    def __init__(self) -> None:
        self._row = 0

    def note(self, size: int, waited: float) -> None:
        """Record a chunk of `size` bytes that arrived after `waited` seconds."""
        self._row = self._row + 1 if size < SMALL and waited < QUICK else 0

    @property
    def is_hurried(self) -> bool:
        """True if more data is likely to arrive while the reader waits."""
        return self._row >= _ROW


def keep_free_memory() -> None:
    """Make glibc's malloc keep up to 4 MB of free memory of this process instead of returning it to the system.

    Streams allocate and free memory all the time, and memory that was returned costs page faults when it is allocated
    again. A program that follows busy resources can call this once at its start (docs/cost.md has the effect).
    kinformer never calls it, because it affects the whole process.

    Malloc's threshold is twice the size of the largest mapped block that was freed (mallopt(3), M_MMAP_THRESHOLD). So
    this maps and frees one block, without touching its pages. A program that has set the thresholds keeps them. Other
    allocators are not affected.
    """
    bytes(_MAPPED)


class Body:
    """A response whose head has been read. `read` or `async for` returns its body in chunks as they arrive."""

    __slots__ = (
        "_budget",
        "_cut_is_end",
        "_is_whole",
        "_no_json",
        "_pace",
        "_push",
        "_reason",
        "_response",
        "_what",
    )

    def __init__(self, response: aiohttp.ClientResponse, what: str, *, cut_is_end: bool, reason: str = "") -> None:
        self._response = response
        self._what = what
        self._cut_is_end = cut_is_end
        self._reason = reason
        self._pace = Pace()
        # Set by `expect_json`, before the body is read. The second is None again once the body has begun as JSON.
        self._budget: YieldBudget | None = None
        self._no_json: type[Exception] | None = None
        self._is_whole = read_whole(response.content)
        self._push: tuple[Callable[[bytes], bool], Context] | None = None  # see `push_to`

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    @property
    def content_type(self) -> str:
        """The media type without parameters, in lower case, or "" if the server sent none."""
        return self._response.headers.get("Content-Type", "").partition(";")[0].strip().lower()

    def expect_json(self, budget: YieldBudget, error: type[Exception]) -> None:
        """Expect JSON, and yield to the event loop regularly.

        Args:
            budget: The reader's budget. Waiting is not work, so a read that has waited starts a new slice of it.
            error: The class of the error to raise if the body is HTML, such as a login page or a proxy's error page
                with status 200.
        """
        self._budget = budget
        self._no_json = error

    def push_to(self, take: Callable[[bytes], bool]) -> bool:
        """Offer data to `take`, in the callback in which it arrives, while `read` waits.

        `read` goes on waiting after data for which `take` returned True. It returns the rest. While `read` gathers
        data that arrives in quick succession, none is offered.

        Args:
            take: Called in the context of this call. It must be short and must not raise.

        Returns:
            False if this version of aiohttp cannot do that.
        """
        if not self._is_whole:
            return False
        self._push = take, copy_context()
        return True

    async def read(self) -> bytes:
        """Wait for data, and return everything that has arrived, or b"" at the end.

        Data that was pushed is not returned. If small chunks arrive quickly, data is gathered for up to 2 ms.

        Raises:
            ConnectError: The connection was cut, unless that is a regular end of the body. (A truncated LIST must not
                look like a short list.)
        """
        began = SYSTEM.perf()
        if self._pace.is_hurried:
            await self._gather()
        before = SYSTEM.perf()
        try:
            content = self._response.content
            if self._push is None or self._pace.is_hurried or self._no_json is not None:
                chunk = await content.readany()
            else:
                chunk = await read_untaken(content, *self._push)
        except (aiohttp.ClientError, OSError) as error:
            if self._cut_is_end:
                log.debug("%s was cut off: %s", self._what, error, reason=error)
                return b""
            raise ConnectError.of_lost_connection(f"{self._what}: the body was cut off: {reason_of(error)}") from None
        now = SYSTEM.perf()
        self._pace.note(len(chunk), now - before)
        if self._budget is not None:
            if now - began > _WAITED:
                self._budget.enter()
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
            message = f"expected JSON, got {got}: a proxy is answering instead of the API server"
            raise error(f"{message}: {excerpt_of(chunk)}")

    async def _gather(self) -> None:
        transport = transport_of(self._response)
        if transport is None:
            return
        with low_watermark(transport, _GATHERED):
            await asyncio.sleep(_NAP)

    async def read_all(self, limit: int | None = None) -> bytes:
        """Read the rest of the body, up to about `limit` bytes."""
        chunks, size = [], 0
        while (limit is None or size < limit) and (chunk := await self.read()):
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    async def read_whole(self, most: int, request: str) -> bytes:
        """Read the rest of the body. Raises DecodeError if it has more than `most` bytes, as an endless one has."""
        whole = await self.read_all(most + 1)
        if len(whole) > most:
            raise DecodeError(f"{request}: the response is longer than {most} bytes; use `stream` if it may be")
        return whole

    async def check(self) -> None:
        """Raise the APIError of a response with a status other than 2xx, and close the response.

        Its message ends with the reason that this client knows, if any.
        """
        if 200 <= self.status < 300:
            return
        try:
            body = await self.read_all(_ERROR_BODY)
        except ConnectError as error:
            body = f"(its body was cut off: {error})".encode()
        finally:
            self.close()
        raise failure(self.status, self.headers, body, self._reason)

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.read()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        """Return the connection to the pool if the body was read to its end, and otherwise close it. Never blocks."""
        if self._response.content.at_eof() and self._response.content.exception() is None:
            self._response.release()
            return
        without_close_notify(transport_of(self._response))
        self._response.close()
