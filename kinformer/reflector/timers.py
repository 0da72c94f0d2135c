"""The timers of a reflector: of the resyncs beside its watch, and of the lists of a resource that is polled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress

from kinformer.exceptions import ConfigError, StoppedError
from kinformer.reflector.errors import ResyncError

__all__ = ["PollTimer", "ResyncTimer"]

_JITTER = 0.1  # of the period, so that the lists of many clients spread
_MOST_JITTER = 30.0  # seconds, because a cache counts as live for a minute more than the period


class ResyncTimer:
    """Calls `resync` every `period` seconds of loop time while started (client-go, tools/cache/reflector.go).

    A resync makes no request. It replays the objects in the store. It is called between steps of other tasks, so never
    in the middle of a batch of events.

    Args:
        period: Seconds, or 0 to turn it off.
        resync: The resync of the store.
        failed: Called after `resync` has raised. The timer has then stopped.

    Attributes:
        error: The last exception of `resync`, until `raise_error` takes it.

    Raises:
        ConfigError: `period` is negative.
    """

    def __init__(self, period: float, resync: Callable[[], object], failed: Callable[[], None]) -> None:
        if not period >= 0:
            raise ConfigError(f"resync_period={period!r}: pass a number of seconds, or 0 for never")
        self._period = period
        self._resync = resync
        self._failed = failed
        self.error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None  # between `start` and `stop`

    def start(self) -> None:
        """Start a period, unless one is running."""
        if self._period > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._fire)

    def stop(self) -> None:
        """Cancel the current period."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def raise_error(self) -> None:
        """Raise ResyncError if `resync` has failed since the last call."""
        error, self.error = self.error, None
        if error is not None:
            raise ResyncError(f"the store's resync failed: {error!r}") from error

    def _fire(self) -> None:
        self._timer = None
        try:
            self._resync()
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the reflector decides
            self.error = error
            self._failed()
        else:
            self.start()


class PollTimer:
    """The times of the lists of a resource that is polled, and the calls that wait for one of them.

    Args:
        period: Seconds from the beginning of a list to the next one. A tenth of it, at most 30 s, is added or
            subtracted at random. None for a resource that is watched.

    Attributes:
        is_on: True if the resource is polled.
    """

    def __init__(self, period: float | None) -> None:
        self.is_on = period is not None
        self._period = period or 0.0
        # `begin` moves the waiting calls to the answered ones, and `end` ends these.
        self._began = 0.0
        self._wanted = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []  # for a list that has not begun
        self._answered: list[asyncio.Future[None]] = []  # by the list that has

    async def due(self) -> None:
        """Wait until a list is due, or wanted."""
        now = asyncio.get_running_loop().time()
        jitter = min(_JITTER * self._period, _MOST_JITTER)
        due = self._began + self._period + random.uniform(-jitter, jitter)
        with suppress(TimeoutError):
            # A list that takes longer than the period is followed by a short pause.
            async with asyncio.timeout(max(due - now, jitter)):
                await self._wanted.wait()

    def hurry(self) -> None:
        """Let the next list begin at once."""
        self._wanted.set()

    def begin(self) -> None:
        """Record that a list begins. It answers all calls that have waited for one."""
        self._began = asyncio.get_running_loop().time()
        self._wanted.clear()
        self._answered += self._waiting
        self._waiting.clear()

    def end(self, error: BaseException | None = None) -> None:
        """Record that the list is in the store, or has failed."""
        for waiter in self._answered:
            if not waiter.done():
                waiter.set_result(None) if error is None else waiter.set_exception(error)
        self._answered.clear()

    def stop(self, name: str) -> None:
        """End all calls that wait, because there will be no list."""
        self.begin()
        self.end(StoppedError(f"reflector {name} has ended"))

    async def listed(self) -> None:
        """Want a list, and wait until one that begins after this call is in the store. Raise its error if it fails."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self.hurry()
        try:
            await waiter
        finally:
            if not waiter.cancel():
                waiter.exception()  # marks it as retrieved, in case the caller's timeout came first
