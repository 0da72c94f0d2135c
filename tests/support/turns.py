"""The turns of the event loop, counted."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Self

__all__ = ["Turns"]


class Turns:
    """Counts the turns of the loop while it is entered.

    Attributes:
        seen: The turn of each call of `seen_slowly`.
    """

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._count = 0
        self._handle: asyncio.Handle | None = None

    def seen_slowly(self, what: object) -> None:
        """Note the turn, and work for longer than a slice may take."""
        self.seen.append(self._count)
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass

    def _turn(self) -> None:
        self._count += 1
        self._handle = asyncio.get_running_loop().call_soon(self._turn)

    async def __aenter__(self) -> Self:
        self._turn()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._handle is not None
        self._handle.cancel()
