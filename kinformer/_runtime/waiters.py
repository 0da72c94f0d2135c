"""Those who wait for something of which each can have a part."""

from __future__ import annotations

import asyncio
from collections import deque

__all__ = ["Latch", "WaiterQueue"]


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


class Latch:
    """A condition that becomes true once, or fails; tasks wait for either. True in a boolean context once it is set.

    Cancelling a waiter affects no other. What is set or failed stays so.
    """

    __slots__ = ("_error", "_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._error: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def __bool__(self) -> bool:
        return self._is_set

    def set(self) -> None:
        """Let every waiter go on. Again, or after `fail`: later waiters go on too."""
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It will not be set: raise `error` in every waiter, and in those that come later. Nothing if it is set."""
        if self._is_set:
            return
        self._error = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def wait(self) -> None:
        """Wait until it is set; raises what `fail` was given."""
        if self._is_set:
            return
        if self._error is not None:
            raise self._error
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
