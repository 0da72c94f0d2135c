"""Deduplicates concurrent calls: one runs, and all callers share its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from kinformer._runtime.fence import unfenced
from kinformer._runtime.tasks import Coro

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares one running call among all concurrent callers, and its result for `ttl` seconds after.

    A failure is raised in every waiting caller, and is not cached. Cancelling one caller does not affect the others.
    Unless the call `lingers`, it is cancelled with its last caller, so that nothing runs without a waiting task
    (golang.org/x/sync/singleflight lacks this).

    Args:
        call: Returns the coroutine to run.
        ttl: Seconds of loop time for which a result is reused. 0, the default, only shares running calls.
        lingers: True to continue the call without callers, for the next one. Otherwise a call that takes longer than
            any caller waits would never finish. `close` ends it.
        joins_running: False if a caller may only share a call that has not begun, because it needs an answer from after
            it asked. While a call runs, later callers share the next one, which begins when that has ended.
    """

    def __init__(
        self,
        call: Callable[[], Coro[T]],
        *,
        ttl: float = 0.0,
        lingers: bool = False,
        joins_running: bool = True,
    ) -> None:
        self._call = call
        self._ttl = ttl
        self._lingers = lingers
        self._joins_running = joins_running
        self._flight: _Flight[T] | None = None  # the running call, or one that has not begun
        self._kept: tuple[float, T] | None = None  # the time until which the last result is reused, and the result

    async def get(self) -> T:
        """Return the cached result if it is recent enough, or else the result of the running or a new call."""
        loop = asyncio.get_running_loop()
        if self._kept is not None and loop.time() < self._kept[0]:
            return self._kept[1]
        flight = self._flight
        if flight is None or (flight.has_begun and not self._joins_running):
            with unfenced():  # shared, because the first caller's fence may lapse before the others' fences
                flight = self._flight = _Flight(self._call, after=flight)
        flight.waiters += 1
        try:
            await asyncio.wait((flight.task,))
            result = flight.task.result()
        finally:
            flight.waiters -= 1
            if flight.task.done():
                self._landed(flight.task)
            elif not flight.waiters:
                flight.task.add_done_callback(self._landed)
                if not self._lingers:
                    self._cancel(flight)
        if self._ttl:
            self._kept = (loop.time() + self._ttl, result)
        return result

    def forget(self) -> None:
        """Drop the cached result. A running call continues."""
        self._kept = None

    async def close(self) -> None:
        """End a call that no task waits for, and let no call linger from now on."""
        self._lingers = False
        flight = self._flight
        if flight is not None and not flight.waiters:
            self._cancel(flight)
            await asyncio.wait((flight.task,))

    def _cancel(self, flight: _Flight[T]) -> None:
        flight.task.cancel()
        self._flight = None

    def _landed(self, task: asyncio.Task[T]) -> None:
        if self._flight is not None and self._flight.task is task:
            self._flight = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved, even if no task waited for it


class _Flight(Generic[T]):
    """A call, which begins after another one has ended."""

    __slots__ = ("has_begun", "task", "waiters")

    def __init__(self, call: Callable[[], Coro[T]], *, after: _Flight[T] | None) -> None:
        self.has_begun = False
        self.waiters = 0
        self.task = asyncio.get_running_loop().create_task(self._run(call, after))

    async def _run(self, call: Callable[[], Coro[T]], after: _Flight[T] | None) -> T:
        if after is not None and not after.task.done():
            await asyncio.wait((after.task,))
        self.has_begun = True
        return await call()
