"""Every clock that kinformer reads, in one place, so that a test can put its own there.

| clock | for | why this one |
|---|---|---|
| `loop` | timers, ages, timeouts | what `asyncio.sleep` and `call_at` count in; a virtual loop moves it |
| `wall` | timestamps that people and servers read | the only one that means a date; it may jump, so it times nothing |
| `boot` | leases, and noticing that the machine slept | goes on while the machine is suspended (CLOCK_BOOTTIME) |
| `perf` | the budget of a slice of work | the finest one |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["SYSTEM", "YIELD_SECONDS", "Clock", "YieldBudget"]

# Seconds of work between two looks at the event loop. At 2 ms a stall is smaller than the jitter of a network answer,
# and a pause (about 10 us) costs half a percent.
YIELD_SECONDS = 0.002


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _boot_time() -> float:
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux; elsewhere the monotonic clock is the best there is
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of clocks, each a callable that gives seconds; of all but `wall` only differences mean something."""

    loop: Callable[[], float] = _loop_time
    wall: Callable[[], float] = time.time
    boot: Callable[[], float] = _boot_time
    perf: Callable[[], float] = time.perf_counter


SYSTEM = Clock()


class YieldBudget:
    """How long a piece of work may hold the event loop.

    ::

        budget = YieldBudget()
        for number, item in enumerate(items):
            work(item)
            if number % 64 == 0 and budget.exhausted():
                await budget.pause()

    Args:
        seconds: Of work between two pauses; the default is `YIELD_SECONDS`.
        clock: Whose `perf` is read.
    """

    __slots__ = ("_perf", "_seconds", "_until")

    def __init__(self, seconds: float = YIELD_SECONDS, *, clock: Clock = SYSTEM) -> None:
        self._seconds = seconds
        self._perf = clock.perf
        self._until = self._perf() + seconds

    def exhausted(self) -> bool:
        """Whether it is time to pause."""
        return self._perf() >= self._until

    def restart(self) -> None:
        """Count from now; for when the work has waited for something anyway."""
        self._until = self._perf() + self._seconds

    async def pause(self) -> None:
        """Let everything else that is ready run once, and count afresh."""
        await asyncio.sleep(0)
        self.restart()
