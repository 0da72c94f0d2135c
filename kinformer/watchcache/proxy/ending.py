"""The early end of a response that would go on, such as a watch, when its proxy stops or its caller loses a right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Ending"]


class Ending:
    """Ends a block early, without an error.

    Attributes:
        is_over: True once `end` was called.
    """

    def __init__(self) -> None:
        self.is_over = False
        self._limit: asyncio.Timeout | None = None

    @asynccontextmanager
    async def within(self) -> AsyncIterator[None]:
        """Run a block until `end` is called. A block that is entered later ends at its first wait."""
        limit = asyncio.timeout(0 if self.is_over else None)
        try:
            async with limit:
                self._limit = limit
                try:
                    yield
                finally:
                    self._limit = None
        except TimeoutError:
            if not limit.expired():
                raise

    def end(self) -> None:
        """End the block. Has no effect the second time."""
        if not self.is_over:
            self.is_over = True
            if self._limit is not None:
                self._limit.reschedule(asyncio.get_running_loop().time())
