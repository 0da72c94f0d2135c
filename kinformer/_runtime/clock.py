"""Clocks: all that kinformer reads, in one place, so that tests can replace them. And the budget of work on the loop.

| clock | for | reason |
|---|---|---|
| `loop` | timers, ages, timeouts | the clock of `asyncio.sleep` and `call_at`, which a virtual loop controls |
| `wall` | timestamps that people and servers read | the only one with dates. It may jump, so it measures no durations |
| `boot` | leases, and noticing that the machine slept | runs on while the machine is suspended (CLOCK_BOOTTIME) |
| `perf` | the budget of a slice of work | the finest one |
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import coroutine
from typing import TypeVar

from kinformer._runtime.logs import StructuredLogger

try:
    import resource

    # The CPU that this thread has used, and how often it has waited by itself. It takes half a microsecond.
    _usage: Callable[[], resource.struct_rusage] | None = partial(resource.getrusage, resource.RUSAGE_THREAD)
except (ImportError, AttributeError):  # not on Linux
    _usage = None

__all__ = ["MOST_AT_ONCE", "SYSTEM", "YIELD_SECONDS", "Clock", "ClockedLoop", "UserFunction", "YieldBudget", "in_steps"]

T = TypeVar("T")


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


# --- the budget of work on the event loop -----------------------------------------------------------------------------

# Seconds of work after which the event loop runs other tasks. The loop's own socket read adds up to a millisecond, for
# 256 KB. Together, a stall is shorter than the jitter of a network response. A pause takes about 10 us. With 2 ms
# instead of 1, listing 100,000 pods was no cheaper.
YIELD_SECONDS = 0.001

# Events that a store takes in less than that, if no function of the program is called with them.
MOST_AT_ONCE = 512

# Seconds that a task may work in a turn that others have used up. A pause takes about 3 us.
_LEAST = 0.00005

# If no budget has looked at the clock for this many seconds, the event loop has been idle, or busy with other work.
_AWAY = 0.0002

_OLD = 0.01  # seconds after the end of a turn that cannot be the present one any more

_SHORT = 0.02  # seconds of a wait: four times the interval at which a thread that waits for the GIL wakes up

_HOLDS = 0.1  # seconds for which a function of the program may hold the event loop before a warning


_collected = [0.0, 0.0]  # when the last full garbage collection began and ended. It may happen in any function


def _note_collection(phase: str, info: Mapping[str, int]) -> None:
    if info["generation"] == 2:  # the oldest generation, whose collection may take long
        _collected[phase == "stop"] = SYSTEM.perf()


gc.callbacks.append(_note_collection)


class _Turn:
    """The turn of work that all budgets of one thread share: about one iteration of the event loop.

    Attributes:
        perf: The clock.
        until: The time at which it ends.
        looked: The time of the last look at the clock by any budget.
        begun: The number of turns so far.
        longest: The longest time of a function that has returned in the present run, if it is of importance.
        slowest: That function, and the key that it was called for.
    """

    __slots__ = ("_is_exact", "_usage", "_usage_until", "begun", "longest", "looked", "perf", "slowest", "until")

    def __init__(self, perf: Callable[[], float]) -> None:
        self.perf = perf
        self.until = 0.0
        self.looked = -1.0
        self.begun = 0
        self.longest = YIELD_SECONDS
        self.slowest: tuple[UserFunction, str] | None = None
        self._usage = None if _usage is None else _usage()
        self._usage_until = 0.0
        self._is_exact = False  # True if the usage is that of the beginning of this turn

    def begin(self, now: float, seconds: float) -> None:
        self.until = now + seconds
        self.begun += 1
        self._is_exact = now > self._usage_until
        if self._is_exact and _usage is not None:  # not for each event, because that would cost a lone one a hundredth
            self._usage, self._usage_until = _usage(), now + _OLD

    def had_the_cpu(self, seconds: float) -> bool:
        """True unless the thread waited for the CPU in a run of so many seconds, or if the system does not count that.

        It had the CPU if it has used it for so long, or if it has waited by itself, as in `time.sleep`. The event loop
        waits by itself, too, but only before the turn. Many short waits are those for the GIL, if other threads run.
        """
        if _usage is None or self._usage is None:
            return True
        then, now = self._usage, _usage()
        used = now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
        waits = now.ru_nvcsw - then.ru_nvcsw
        waited = waits > 0 and (self._is_exact or now.ru_nivcsw == then.ru_nivcsw)
        waited = waited and (waits * _SHORT < seconds or threading.active_count() == 1)
        return used > _HOLDS or waited


class _Turns(threading.local):
    def __init__(self) -> None:
        self.turn = _Turn(SYSTEM.perf)


_turns = _Turns()


@dataclass(slots=True, eq=False)
class UserFunction:
    """A function of the program that runs on the event loop, as the log names it, once, if it blocks the loop.

    Args:
        name: Its name in the log: `"the filter of handler x"`.
        log: The logger.
        resource: The resource in the log.
        advice: The advice in the log.
    """

    name: str
    log: StructuredLogger
    resource: str = ""
    advice: str = "it is called for each object, so it should take microseconds"
    _is_named: bool = field(default=False, init=False)

    def returned(self, key: str) -> None:
        """Note that it has returned, in a run in which several functions are called one after the other."""
        turn = _turns.turn
        now = turn.perf()
        if now - turn.looked > turn.longest:
            turn.longest, turn.slowest = now - turn.looked, (self, key)
        turn.looked = now

    def held(self, seconds: float, key: str) -> None:
        """Log that it has held the event loop."""
        if not self._is_named:
            self._is_named = True
            message = "%s blocked the event loop for %.1f s on %s: %s"
            about = (self.name, seconds, key, self.advice)
            self.log.warning(message, *about, resource=self.resource, key=key, reason="loop_held")


class YieldBudget:
    """Limits the time for which work holds the event loop: 1 ms between two changes, for all budgets together.

    All budgets of a thread share the limit. Otherwise a reader, a processor and sixteen handlers that work for 1 ms
    each in a row would hold the loop for 18 ms. So the first uses up the turn, and the first to resume after its pause
    begins the next one. The others work for 50 us, so that they are not slowed down by pauses.

    ::

        budget = YieldBudget()
        for item in items:
            work(item)
            if budget.exhausted():
                await budget.pause()

    A *run* is the work between two pauses. If it takes more than 0.1 s, the function of the program that took longest
    is named in the log, unless the thread was waiting for the CPU. A full garbage collection does not count.

    Args:
        function: The function of the program that is called in each run. None if there are several, which note when
            they have `returned`.
        clock: For tests. A budget with a clock other than the system's shares its turns with no other budget.
        blames: True if a run that takes too long is logged. False if the work may have waited within it.

    Attributes:
        key: The key for which `function` was called last in the run, or "". Set it before a pause.
        perf: The clock, for loops that look at it themselves: `if budget.perf() >= budget.limit`.
        began: The time at which the present run began.
        limit: The time at which the present run must end.
        turn: The turn that budgets of the thread share.
    """

    __slots__ = ("_blames", "_function", "_left", "_paused", "began", "key", "limit", "perf", "turn")

    def __init__(self, function: UserFunction | None = None, *, clock: Clock = SYSTEM, blames: bool = True) -> None:
        if clock is SYSTEM:
            clock = _simulated() or SYSTEM
        self.perf = clock.perf
        self.key = ""
        self._function = function
        self._blames = blames
        self.turn = _turns.turn if clock is SYSTEM else _Turn(clock.perf)
        self._paused = -1  # the number of the turn that a pause has ended
        self._left = 0.0
        self.enter()

    def enter(self) -> None:
        """Begin a run, after the work has waited for something. In a turn that others have used up it is short.

        After a pause, the loop's own time, mostly for reading the socket that brings the work, counts against the new
        turn, up to half of the budget, because other tasks wait for it too.
        """
        turn = self.turn
        now = self.perf()
        if self._paused == turn.begun:  # the first to resume
            turn.begin(now, max(YIELD_SECONDS - (now - self._left), YIELD_SECONDS / 2))
        elif now - turn.looked > _AWAY or now - turn.until > _OLD:
            turn.begin(now, YIELD_SECONDS)
        if turn.slowest is not None:
            turn.longest, turn.slowest = YIELD_SECONDS, None
        self._paused = -1
        turn.looked = self.began = now
        least, until = now + _LEAST, turn.until
        self.limit = until if until > least else least  # noqa: FURB136 - `max` takes as long as all of this

    def exhausted(self) -> bool:
        """True if it is time to pause."""
        turn = self.turn
        turn.looked = now = turn.perf()
        return now >= self.limit

    def blame(self) -> None:
        """If this run has held the event loop for too long, name the function of the program that did it in the log."""
        turn = self.turn
        turn.looked = now = turn.perf()
        seconds = now - self.began
        if seconds > _HOLDS and self.began < _collected[0] < _collected[1] < now:
            seconds -= _collected[1] - _collected[0]
        if seconds > _HOLDS and turn.had_the_cpu(seconds):
            function, key = self._function, self.key
            if turn.slowest is not None and (function is None or turn.longest > seconds / 2):
                function, key = turn.slowest
            if function is not None:
                function.held(seconds, key)

    @coroutine
    def pause(self) -> Generator[None, None, None]:
        """Let everything else that is ready run once, and begin a new run."""
        self.leave()
        yield  # as `asyncio.sleep(0)` does
        self.enter()

    def leave(self) -> None:
        """Pause in a callback: return to the loop, and when it calls again, `enter`."""
        if self._blames:
            self.blame()
        self._paused = self.turn.begun
        self._left = self.turn.looked


@coroutine
def in_steps(awaited: Coroutine[object, object, T], budget: YieldBudget) -> Generator[object, None, T]:
    """Await a coroutine that calls functions of the program, so that each of its steps is a run of a budget.

    A step is the work between two waits. If one holds the event loop, the budget's function is named in the log.
    """
    steps = awaited.__await__()
    error: BaseException | None = None
    budget.enter()
    while True:
        try:
            waits_for = next(steps) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        finally:
            error = None  # its traceback has this frame, so they would be a cycle
            if budget.key:
                budget.blame()
        try:
            yield waits_for
        except BaseException as raised:  # noqa: BLE001 - for the coroutine
            error = raised
        budget.enter()
