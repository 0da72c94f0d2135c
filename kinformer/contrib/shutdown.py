"""Ends long responses when their server is about to shut down.

On shutdown, uvicorn first waits for all open responses, and only then ends the lifespan. A stream that stays open for
hours would delay it, and the application is not notified. But the server's flag is visible: uvicorn's signal handler
is a method of its `Server`, and sets `should_exit`. This module reads the flag four times a second, only while streams
are open. It installs no handler and does not change the server.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

__all__ = ["close_event_streams", "ends_with_server"]

_LOOK = 0.25  # seconds between two checks of the flag


class _Watch:
    """The streams of one event loop that wait for the shutdown."""

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
def ends_with_server() -> Iterator[asyncio.Future[None]]:
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
