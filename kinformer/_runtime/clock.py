"""Clocks: all that kinformer reads, in one place, so that tests can replace them. And the budget of a slice of work.

| clock | for | reason |
|---|---|---|
| `loop` | timers, ages, timeouts | the clock of `asyncio.sleep` and `call_at`, which a virtual loop controls |
| `wall` | timestamps that people and servers read | the only one with dates. It may jump, so it measures no durations |
| `boot` | leases, and noticing that the machine slept | runs on while the machine is suspended (CLOCK_BOOTTIME) |
| `perf` | the budget of a slice of work | the finest one |
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["SYSTEM", "YIELD_SECONDS", "Clock", "ClockedLoop", "YieldBudget"]

# Seconds of work after which the event loop runs other tasks. The loop's own socket read adds up to a millisecond, for
# 256 KB. Together, a stall is shorter than the jitter of a network response. A pause takes about 10 us. With 2 ms
# instead of 1, listing 100,000 pods was no cheaper.
YIELD_SECONDS = 0.001


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class ClockedLoop:
    """The base class of an event loop with its own clocks, which are used while it runs: the seam for simulations.

    Attributes:
        clock: The clocks.
    """

    clock: Clock


def _simulated() -> Clock | None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.clock if isinstance(loop, ClockedLoop) else None


def _wall_time() -> float:
    simulated = _simulated()
    return time.time() if simulated is None else simulated.wall()


def _boot_time() -> float:
    simulated = _simulated()
    if simulated is not None:
        return simulated.boot()
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # only on Linux. Elsewhere the monotonic clock is the best.
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of clocks, each a callable that returns seconds. Except for `wall`, only differences are meaningful."""

    loop: Callable[[], float] = _loop_time
    wall: Callable[[], float] = _wall_time
    boot: Callable[[], float] = _boot_time
    perf: Callable[[], float] = time.perf_counter


SYSTEM = Clock()


class _Turn:
    """The turn of work that all budgets of one thread share, with the time at which it ends."""

    __slots__ = ("begun", "looked", "perf", "until")

    def __init__(self, perf: Callable[[], float]) -> None:
        self.perf = perf
        self.until = 0.0
        self.looked = -1.0  # the time of the last check by any budget
        self.begun = 0  # the number of turns so far

    def begin(self, seconds: float) -> None:
        self.looked = self.perf()
        self.until = self.looked + seconds
        self.begun += 1


class _Turns(threading.local):
    def __init__(self) -> None:
        self.turn = _Turn(SYSTEM.perf)


_turns = _Turns()

# If no task has checked the clock for this many seconds, a task that resumes assumes that the event loop has completed
# an iteration, and starts a new turn. A smaller value would be wrong while others work between two checks. A larger
# one causes needless pauses.
_AWAY = 0.0005


class YieldBudget:
    """Limits the time for which work holds the event loop: 1 ms, for all budgets together.

    All budgets of a thread share the limit. Otherwise a reader, a processor and sixteen handlers that work for 1 ms
    each in a row would hold the loop for 18 ms. So the first uses up the turn, the others work only until their first
    check, and the first to resume after its pause begins the next turn.

    ::

        budget = YieldBudget()
        for number, item in enumerate(items):
            work(item)
            if number % 64 == 0 and budget.exhausted():
                await budget.pause()

    Args:
        seconds: Seconds of work between two pauses. Default: 0.001.
        clock: For tests. A budget with a clock other than the system's shares its turns with no other budget.
    """

    __slots__ = ("_perf", "_seconds", "_turn", "rested")

    def __init__(self, seconds: float = YIELD_SECONDS, *, clock: Clock = SYSTEM) -> None:
        if clock is SYSTEM:
            clock = _simulated() or SYSTEM
        self._seconds = seconds
        self._perf = clock.perf
        self._turn = _turns.turn if clock is SYSTEM else _Turn(clock.perf)
        self.rested = False
        """Set to True by a task that has waited, so that the next check restarts the budget first. Cheaper than
        `restart` for work that ends before its first check."""
        self.restart()

    def exhausted(self) -> bool:
        """True if it is time to pause."""
        if self.rested:
            self.restart()
        turn = self._turn
        turn.looked = now = self._perf()
        return now >= turn.until

    def restart(self) -> None:
        """Begin a new turn, after the work has waited for something, unless others work in this loop iteration."""
        turn = self._turn
        self.rested = False
        if self._perf() - turn.looked > _AWAY:
            turn.begin(self._seconds)

    async def pause(self) -> None:
        """Let everything else that is ready run once, and begin a new turn.

        The loop's own time, mostly for reading the socket that brings the work, counts against the new turn, up to half
        of the budget, because other tasks wait for it too.
        """
        come_back = self.leave()
        await asyncio.sleep(0)
        come_back()

    def leave(self) -> Callable[[], None]:
        """Pause in a callback: return to the loop, and when it calls again, call the function that this returns."""
        turn, seconds, perf = self._turn, self._seconds, self._perf
        begun, left = turn.begun, perf()

        def come_back() -> None:
            if turn.begun == begun:  # this is the first to resume
                turn.begin(max(seconds - (perf() - left), seconds / 2))

        return come_back
