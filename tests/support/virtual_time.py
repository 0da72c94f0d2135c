"""An event loop whose clock jumps: timers fire as soon as nothing else is left to do.

Real sockets on loopback work: before a jump the selector is polled for what the kernel has ready.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

GRACE = 0.002  # seconds of real time that loopback sockets and helper threads get before a jump


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
        if not events:
            self._loop.advance(timeout)
        return events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 1000.0 and moves only by jumps to the next timer."""

    def __init__(self) -> None:
        self._now = 1000.0
        super().__init__(_JumpingSelector(self, selectors.DefaultSelector()))  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds
