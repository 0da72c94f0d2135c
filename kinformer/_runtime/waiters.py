"""Those who wait for something of which each can have a part."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["WaiterQueue"]


class WaiterQueue:
    """Waiters in the order in which they came, woken one by one or all at once.

    Who is woken looks for itself whether there is something, and waits again if not. A wake-up is never lost: one that
    reaches a waiter as it is cancelled goes to the next.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def wait(self) -> None:
        """Until this one is woken; cancelling it loses nothing."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if not waiter.cancelled():
                self.wake()  # woken and cancelled at once: the wake-up is for somebody else
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def wake(self) -> None:
        """Wake the one who has waited longest."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def wake_all(self) -> None:
        """Wake everybody."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
