"""One running call that many wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from kinformer._runtime.fence import unfenced

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Shares one running call among all who ask meanwhile, and its result for `ttl` seconds after.

    A failure is raised by all who waited for it and is not remembered. Whoever is cancelled while waiting
    leaves the others undisturbed; when the last one has gone, the call is cancelled too, so nothing goes
    on running that nobody waits for (golang.org/x/sync/singleflight, which lacks this), unless it `lingers`.

    Args:
        call: Makes the coroutine to run.
        ttl: Seconds of loop time for which a result is handed out again; 0 shares running calls only.
        lingers: Whether a call goes on when the last one has gone, for whoever asks next: one that takes longer than
            anybody waits would never end otherwise. `close` ends it.
    """

    def __init__(self, call: Callable[[], Coroutine[Any, Any, T]], *, ttl: float = 0.0, lingers: bool = False) -> None:
        self._call = call
        self._ttl = ttl
        self._lingers = lingers
        self._flight: _Flight[T] | None = None
        self._kept: tuple[float, T] | None = None

    async def get(self) -> T:
        """The result: the kept one if it is young enough, that of the running call, or of a new one."""
        loop = asyncio.get_running_loop()
        if self._kept is not None and loop.time() < self._kept[0]:
            return self._kept[1]
        if self._flight is None:
            with unfenced():  # it is everybody's: the right of who asks first may lapse before that of the others
                self._flight = _Flight(loop.create_task(self._call()))
        flight = self._flight
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
        """Makes the next `get` ask anew; a running call is left alone."""
        self._kept = None

    async def close(self) -> None:
        """Ends a call that nobody waits for any more, and lets none linger from now on."""
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
            task.exception()  # looked at, also where nobody waited for it: asyncio need not report it


class _Flight(Generic[T]):
    __slots__ = ("task", "waiters")

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiters = 0
