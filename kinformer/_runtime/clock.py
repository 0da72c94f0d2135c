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
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["SYSTEM", "YIELD_SECONDS", "Clock", "YieldBudget"]

# Seconds of work between two looks at the event loop. What the loop itself reads of a socket comes on top, up to a
# millisecond for 256 KB: together a stall is smaller than the jitter of a network answer. A pause takes about 10 us;
# with 2 ms in the place of 1 a list of 100,000 pods cost no less.
YIELD_SECONDS = 0.001


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


class _Turn:
    """What all budgets of one thread share: until when somebody may go on working."""

    __slots__ = ("begun", "looked", "perf", "until")

    def __init__(self, perf: Callable[[], float]) -> None:
        self.perf = perf
        self.until = 0.0
        self.looked = -1.0  # when somebody last looked at the clock
        self.begun = 0  # how many there have been

    def begin(self, seconds: float) -> None:
        self.looked = self.perf()
        self.until = self.looked + seconds
        self.begun += 1


class _Turns(threading.local):
    def __init__(self) -> None:
        self.turn = _Turn(SYSTEM.perf)


_turns = _Turns()

# Seconds without a look at the clock, after which a task that comes back from waiting takes it that the loop has been
# round meanwhile. Shorter would be wrong while others are at work between two looks; longer costs a pause too many.
_AWAY = 0.0005


class YieldBudget:
    """How long pieces of work may hold the event loop, all of one thread together.

    Together, because what counts is how long everybody else waits: a reader, a processor and sixteen handlers that
    each took 1 ms in a row would hold the loop for 18. So whoever comes first has what is left of the turn, the others
    do the least that they can between two looks, and the first to come back from its pause begins the next turn.

    ::

        budget = YieldBudget()
        for number, item in enumerate(items):
            work(item)
            if number % 64 == 0 and budget.exhausted():
                await budget.pause()

    Args:
        seconds: Of work between two pauses; the default is `YIELD_SECONDS`.
        clock: Whose `perf` is read. One that is not the system's shares its turns with nobody.
    """

    __slots__ = ("_perf", "_seconds", "_turn", "rested")

    def __init__(self, seconds: float = YIELD_SECONDS, *, clock: Clock = SYSTEM) -> None:
        self._seconds = seconds
        self._perf = clock.perf
        self._turn = _turns.turn if clock is SYSTEM else _Turn(clock.perf)
        self.rested = False
        """Set by a task that has waited: the next look restarts the budget first. Cheaper than `restart` for work that
        ends before it looks."""
        self.restart()

    def exhausted(self) -> bool:
        """Whether it is time to pause."""
        if self.rested:
            self.restart()
        turn = self._turn
        turn.looked = now = self._perf()
        return now >= turn.until

    def restart(self) -> None:
        """The work has waited for something: count from now, unless others are at it in this turn of the loop."""
        turn = self._turn
        self.rested = False
        if self._perf() - turn.looked > _AWAY:
            turn.begin(self._seconds)

    async def pause(self) -> None:
        """Let everything else that is ready run once, and count afresh.

        What the loop does meanwhile, mostly reading the socket that brings the work, counts too, up to half of the
        budget: it is as long a wait for all others.
        """
        come_back = self.leave()
        await asyncio.sleep(0)
        come_back()

    def leave(self) -> Callable[[], None]:
        """`pause` for a callback: it returns to the loop, and when it is called again, first calls what this gives."""
        turn, seconds, perf = self._turn, self._seconds, self._perf
        begun, left = turn.begun, perf()

        def come_back() -> None:
            if turn.begun == begun:  # nobody has come back before
                turn.begin(max(seconds - (perf() - left), seconds / 2))

        return come_back
