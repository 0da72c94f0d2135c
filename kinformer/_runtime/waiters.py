"""Ways for tasks to wait: a FIFO that wakes one task at a time or all at once, a latch that opens once, and limits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

__all__ = ["NEXT_WARNING", "Latch", "WaiterQueue", "warnings_while", "within"]

FIRST_WARNING = 5.0  # seconds from the start of a wait
NEXT_WARNING = 10.0  # seconds between warnings


class WaiterQueue:
    """A FIFO of waiting tasks that can be woken one at a time, all at once, or by an exception.

    A task that is woken checks its condition itself, and waits again if it does not hold.

    Cancelling a waiting task loses no wake-up: if `wake` reached it in the same iteration of the event loop, the next
    task is woken instead.
    """

    __slots__ = ("_waiters",)

    def __init__(self) -> None:
        # The result is True if only this task was woken, so that its wake-up must not be lost.
        self._waiters: deque[asyncio.Future[bool]] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    async def wait(self) -> None:
        """Wait to be woken.

        Raises:
            BaseException: The exception that was passed to `fail`.
        """
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.cancelled() or not waiter.done():
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
            elif waiter.exception() is None and waiter.result():
                self.wake()  # this task was woken and cancelled at once
            raise

    def wake(self) -> None:
        """Wake the task that has waited longest, if any waits."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(True)
                return

    def wake_all(self) -> None:
        """Wake all tasks that wait now."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(False)

    def fail(self, error: BaseException) -> None:
        """Raise `error` in all tasks that wait now."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # marks it as retrieved, in case the task is cancelled first


class Latch:
    """A condition that becomes true once. Tasks can wait until it opens or fails.

    The first call of `open` or `fail` decides for the tasks that wait. `open` after `fail` lets later tasks pass.
    `fail` after `open` does nothing.
    """

    __slots__ = ("_error", "_opened", "_waiters")

    def __init__(self) -> None:
        self._waiters = WaiterQueue()
        self._opened = False
        self._error: BaseException | None = None

    @property
    def is_open(self) -> bool:
        """True once `open` has been called."""
        return self._opened

    async def wait(self) -> None:
        """Wait until the latch is open. Return at once if it is. Cancelling a waiting task affects no other task.

        Raises:
            BaseException: The exception that was passed to `fail`.
        """
        if self._opened:
            return
        if self._error is not None:
            raise self._error
        await self._waiters.wait()

    def open(self) -> None:
        """Let all tasks pass. Calling it again does nothing."""
        if not self._opened:
            self._opened = True
            self._waiters.wake_all()

    def fail(self, error: BaseException) -> None:
        """Raise `error` in all waiting tasks, and in tasks that wait later. Does nothing if the latch is open."""
        if not self._opened:
            self._error = error
            self._waiters.fail(error)


@asynccontextmanager
async def within(seconds: float | None, late: Callable[[], TimeoutError]) -> AsyncIterator[None]:
    """Cancel the body after so many seconds, and raise the error that `late` returns.

    A TimeoutError that the body raises for another reason is raised unchanged.
    """
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise
        raise late() from None


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
