"""An event loop whose clock jumps: timers fire as soon as nothing else is left to do.

Real sockets on loopback work: before a jump the selector is polled for what the kernel has ready.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio.to_thread
import pytest

GRACE = 0.002  # seconds of real time that loopback sockets and helper threads get before a jump
PATIENCE = 10.0  # seconds of real time that threads get for which a jump waits


class _JumpingSelector:
    def __init__(self, loop: VirtualTimeLoop, inner: selectors.BaseSelector) -> None:
        self._loop = loop
        self._inner = inner

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return self._inner.select(None)
        events = self._inner.select(0)
        if events or timeout <= 0:
            return events
        events = self._inner.select(min(timeout, GRACE))
        if not events and self._loop.threads:
            events = self._inner.select(PATIENCE)  # a thread that ends wakes it
        if not events:
            self._loop.advance(timeout)
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 1000.0 and moves only by jumps to the next timer.

    Attributes:
        threads: The calls in other threads that a jump waits for.
    """

    def __init__(self) -> None:
        self._now = 1000.0
        self.threads = 0
        super().__init__(_JumpingSelector(self, selectors.DefaultSelector()))  # type: ignore[arg-type]
        # No timer fires early: tasks that wait again for the rest would keep the loop busy, and the clock would stand.
        self._clock_resolution = math.ulp(self._now)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now = max(self._now + seconds, math.nextafter(self._now, math.inf))  # a part of a step would be none
        self._clock_resolution = math.ulp(self._now)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Let the threads of the executor end, in real time."""
        self.threads += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self.threads -= 1


@contextmanager
def no_jump_before_threads_end(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have the clock of a `VirtualTimeLoop` wait for calls in other threads, which on a busy machine take long."""
    assert isinstance(loop, VirtualTimeLoop)
    run_sync = anyio.to_thread.run_sync

    async def counted(*args: Any, **options: Any) -> Any:
        loop.threads += 1
        try:
            return await run_sync(*args, **options)
        finally:
            loop.threads -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anyio.to_thread, "run_sync", counted)
        yield
