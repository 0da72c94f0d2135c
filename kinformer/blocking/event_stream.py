"""The event stream for threads: a blocking iterator over the changes of an informer."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Generic, Self

from kinformer.blocking.loop_thread import LoopThread
from kinformer.exceptions import StoppedError
from kinformer.objects.types import M
from kinformer.processor.event_stream import EventStream as AsyncEventStream
from kinformer.processor.event_stream import InformerEvent

__all__ = ["EventStream"]

_TOGETHER = 64  # the most events fetched from the loop's thread at once


class EventStream(Generic[M]):
    """A context manager and iterator over `InformerEvent`s. Created by `Informer.events`.

    ``with pods.events() as events: for event in events`` exits it at the end of the block. It is registered on
    entering, and begins with the cached objects, like a handler that is added late. A `for` over a stream that was not
    entered does both, and exits it when the loop ends or breaks, or when the garbage collector finds it. The iteration
    ends when any thread exits the informer, and raises the informer's error if it crashed. One thread may read at a
    time. Ctrl-C interrupts the wait, and no event is lost.
    """

    def __init__(self, loop_thread: LoopThread, make: Callable[[], AsyncEventStream[M]]) -> None:
        self._loop_thread = loop_thread
        self._make = make
        self._stream: AsyncEventStream[M] | None = None  # set on the loop when this is entered
        self._events: deque[InformerEvent[M]] = deque()  # fetched, but not yet returned
        self._left = False  # True once it was exited

    @property
    def has_synced(self) -> bool:
        """True if every initial add has been read."""
        waiting = any(event.is_in_initial_list for event in tuple(self._events))
        return self._stream is not None and self._stream.has_synced and not waiting

    def __enter__(self) -> Self:
        if self._stream is not None or self._left:
            raise RuntimeError("an event stream can be entered only once; create another one with `events()`")
        self._loop_thread.call("events", self._attach)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._left:
            return
        self._left = True
        self._events.clear()
        if kind is not None and issubclass(kind, GeneratorExit):
            # A generator is closed, perhaps by the garbage collector: in the thread of the loop, or in the middle of
            # another call of this thread. So nothing here may wait.
            self._loop_thread.post(self._detach)
            return
        with suppress(StoppedError):  # the informers were exited, and the stream with them
            self._loop_thread.call("events", self._detach)

    def __iter__(self) -> Iterator[InformerEvent[M]]:
        if self._stream is not None or self._left:
            return self
        return self._entered()

    def __next__(self) -> InformerEvent[M]:
        try:
            return self.get()
        except StoppedError:
            raise StopIteration from None

    def get(self, timeout: float | None = None) -> InformerEvent[M]:
        """Return the next event.

        Args:
            timeout: Seconds, or None to wait forever.

        Raises:
            TimeoutError: No event arrived in time. No event is lost.
            StoppedError: The stream has ended, because it or its informer was exited.
        """
        if self._stream is None:
            raise RuntimeError("the event stream has not been entered; use `with`, or `for event in informer.events()`")
        while True:
            try:
                return self._events.popleft()
            except IndexError:
                pass
            if self._left or not self._loop_thread.call("events", partial(self._fill, timeout)):
                raise StoppedError("the event stream has ended")

    def _entered(self) -> Iterator[InformerEvent[M]]:
        with self:
            while True:
                try:
                    event = self.get()
                except StoppedError:
                    return
                yield event

    # --- on the loop --------------------------------------------------------------------------------------

    async def _attach(self) -> None:
        stream = self._make()
        await stream.__aenter__()
        self._stream = stream

    async def _detach(self) -> None:
        if self._stream is not None:
            await self._stream.__aexit__(None, None, None)

    async def _fill(self, timeout: float | None) -> bool:
        """Wait for events and store them, so that an interrupted reader loses none. Return False at the end."""
        assert self._stream is not None
        if self._events:
            return True
        async with asyncio.timeout(timeout):
            events = await self._stream.read(_TOGETHER)
        self._events.extend(events)
        return bool(events)
