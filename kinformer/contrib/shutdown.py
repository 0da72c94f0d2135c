"""Ending long answers when the server that gives them is about to end.

uvicorn, told to stop, first waits for every answer that is being given, and only then ends the lifespan. A stream that
is open for hours would hold it up, and nothing tells an application of it. What can be seen is the server's own flag:
uvicorn's signal handler is a method of its `Server`, whose `should_exit` it sets. That is looked at here, four times a
second and only while streams are open. No handler is installed and nothing of the server is changed.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

__all__ = ["close_event_streams", "ends_with_server"]

_LOOK = 0.25  # seconds between two looks


class _Watch:
    """Who, on one event loop, wants to be told."""

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
    """A future that is done when the server is about to end, as far as that can be seen."""
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
    """End every event stream that is open on this event loop, after what it is sending; browsers come back.

    For servers whose stop cannot be seen from inside: call it where you learn of it, before they wait for answers.
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
