"""Long waits: a warning after 5 s, and every 10 s from then on, so that no wait for a sync is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["NEXT_WARNING", "warnings_while"]

FIRST_WARNING = 5.0  # seconds
NEXT_WARNING = 10.0


@contextmanager
def warnings_while(warn: Callable[[], None]) -> Iterator[None]:
    """Call `warn` 5 s after entering, and every 10 s from then on, until the context is left."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def due() -> None:
        nonlocal timer
        timer = loop.call_later(NEXT_WARNING, due)
        warn()

    timer = loop.call_later(FIRST_WARNING, due)
    try:
        yield
    finally:
        timer.cancel()
