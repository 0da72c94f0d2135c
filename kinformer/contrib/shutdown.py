"""Long responses: they end with their content, when the reader disconnects, or when their server is about to shut down.

On shutdown, uvicorn first waits for all open responses, and only then ends the lifespan. A stream that stays open for
hours would delay it, and the application is not notified. But the server's flag is visible: uvicorn's signal handler
is a method of its `Server`, and sets `should_exit`. This module reads the flag four times a second, only while streams
are open. It installs no handler and does not change the server.
"""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakKeyDictionary

from kinformer._lazy import needs_extra

with needs_extra("fastapi", "starlette"):
    from starlette.responses import Response
    from starlette.types import Message, Receive, Scope, Send

__all__ = ["LiveResponse", "Write", "close_event_streams", "respond_live"]

Write = Callable[[bytes], Awaitable[None]]

_LAST_WORD = 1.0  # seconds to end the response cleanly when the server ends

_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would buffer chunks for minutes
}
_LOOK = 0.25  # seconds between two checks of the flag


class LiveResponse(Response, ABC):
    """A response whose content is written while it is open.

    Args:
        name: What it is, for the names of its tasks.
        patience: Seconds that a reader may take for a chunk before it is disconnected.
    """

    def __init__(self, name: str, patience: float) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._name = name
        self._patience = patience

    @abstractmethod
    async def write_content(self, scope: Scope, write: Write) -> None:
        """Write the content in chunks. It is cancelled when the response ends earlier.

        Args:
            scope: The request (ASGI).
            write: Sends a chunk. Raises TimeoutError if the reader takes too long.
        """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond (ASGI)."""

        async def answer(send: Send) -> None:
            async def write(chunk: bytes) -> None:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})

            await self.write_content(scope, write)

        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await respond_live(answer, scope, receive, send, name=self._name, patience=self._patience, has_begun=True)


async def respond_live(
    answer: Callable[[Send], Coroutine[Any, Any, None]],
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    name: str,
    patience: float,
    has_begun: bool = False,
) -> None:
    """Send a response until it is complete, the reader disconnects, or the server ends.

    Args:
        answer: Sends the messages of the response with the function that it gets, which raises TimeoutError if the
            reader takes too long.
        scope, receive, send: The request (ASGI).
        name: What it is, for the names of the tasks.
        patience: Seconds that the reader may take for a message before it is disconnected.
        has_begun: True if the head was sent.
    """
    goes_on = has_begun  # the head was sent, and not yet the last part of the body

    async def send_in_time(message: Message) -> None:
        nonlocal goes_on
        async with asyncio.timeout(patience):
            await send(message)
        goes_on = message.get("more_body", True)

    with _ends_with_server() as server_ends:
        writing = asyncio.create_task(answer(send_in_time), name=f"kinformer {name}")
        leaving = asyncio.create_task(_disconnected(receive), name=f"kinformer {name}: disconnect")
        try:
            await asyncio.wait({writing, leaving, server_ends}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and isinstance(_error_of(writing), TimeoutError) and _cut(scope, receive):
                await asyncio.wait({leaving}, timeout=_LAST_WORD)
        finally:
            for task in (writing, leaving):
                task.cancel()
                task.add_done_callback(_error_of)  # its error is retrieved, even if this is cancelled again
            await asyncio.wait({writing, leaving})  # not gather, which hides the cancelling scope from anyio
    for error in map(_error_of, (writing, leaving)):
        # A reader that has disconnected or does not read is not an error of this program.
        if error is not None and not isinstance(error, OSError):
            raise error
    if goes_on and leaving.cancelled() and not isinstance(_error_of(writing), OSError):
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD):
                await send({"type": "http.response.body", "body": b"", "more_body": False})


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _cut(scope: Scope, receive: Receive) -> bool:
    """Drop the connection of a reader that does not read. Return True if it could be found.

    ASGI has no message for that, and a server that closes the connection waits until the reader has read the rest. So
    it would keep its file descriptor. With uvicorn and HTTP/1, `receive` belongs to an object that has the transport.
    """
    abort = getattr(getattr(getattr(receive, "__self__", None), "transport", None), "abort", None)
    if not callable(abort) or not str(scope.get("http_version", "")).startswith("1."):
        return False
    abort()
    return True


async def _disconnected(receive: Receive) -> None:
    message: Any = None
    while message is None or message["type"] != "http.disconnect":
        message = await receive()


class _Watch:
    """The streams of one event loop that wait for the shutdown. A timer looks at the flag only while there are any."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._open: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> asyncio.Future[None]:
        future: asyncio.Future[None] = self._loop.create_future()
        self._open.add(future)
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK, self._look)
        return future

    def remove(self, future: asyncio.Future[None]) -> None:
        self._open.discard(future)
        future.cancel()
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if _server_stops():
            self.end()
        elif self._open:
            self._timer = self._loop.call_later(_LOOK, self._look)

    def end(self) -> None:
        for future in self._open:
            if not future.done():
                future.set_result(None)


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watch] = WeakKeyDictionary()


@contextmanager
def _ends_with_server() -> Iterator[asyncio.Future[None]]:
    """Return a future that is done when the server is about to end, if this can be detected."""
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = _Watch(loop)
    future = watch.add()
    try:
        yield future
    finally:
        watch.remove(future)


def close_event_streams() -> None:
    """End every event stream of this event loop after its current chunk. Browsers will reconnect.

    For servers whose shutdown cannot be detected. Call it when the shutdown begins, before the server waits for
    responses.
    """
    watch = _watches.get(asyncio.get_running_loop())
    if watch is not None:
        watch.end()


def _server_stops() -> bool:
    for number in (signal.SIGINT, signal.SIGTERM):
        server = getattr(signal.getsignal(number), "__self__", None)
        if getattr(server, "should_exit", False) is True:
            return True
    return False
