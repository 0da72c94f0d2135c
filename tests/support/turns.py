"""The turns of the event loop in which a function is called."""

from __future__ import annotations

import asyncio
import time

__all__ = ["Turns"]


class Turns:
    """Tells in which turn of the loop each of many slow calls was made.

    Attributes:
        seen: The turn of each call of `seen_slowly`, counted in turns in which there was one.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._count = 0

    def seen_slowly(self, what: object) -> None:
        """Note the turn, and work for longer than a slice may take."""
        self.seen.append(self._count)
        asyncio.get_running_loop().call_soon(self._passed)  # not before this turn is over
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass

    def _passed(self) -> None:
        self._count += 1
