"""The budget of work on the event loop: how long a task may hold it, and the function that has held it for longer."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Final, Generic, TypeVar

from kinformer._runtime.clock import SYSTEM, Clock, clock_of_loop
from kinformer._runtime.logs import StructuredLogger

try:
    import resource

    # The CPU that this thread has used, and how often it has waited by itself. It takes half a microsecond.
    _usage: Callable[[], resource.struct_rusage] | None = partial(resource.getrusage, resource.RUSAGE_THREAD)
except (ImportError, AttributeError):  # not on Linux
    _usage = None

__all__ = ["MOST_AT_ONCE", "YIELD_SECONDS", "Steps", "UserFunction", "YieldBudget", "in_steps"]

T = TypeVar("T")

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

_HOLDS = 0.1  # seconds for which a function of the program may hold the event loop before a warning


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

    def had_the_cpu(self) -> bool:
        """True unless the thread waited for the CPU, or if the system does not count that.

        It had the CPU if it has used it for so long, or if it has waited by itself, as in `time.sleep`. The event loop
        waits by itself, too, but only before the turn.
        """
        if _usage is None or self._usage is None:
            return True
        then, now = self._usage, _usage()
        used = now.ru_utime + now.ru_stime - then.ru_utime - then.ru_stime
        waited = now.ru_nvcsw > then.ru_nvcsw and (self._is_exact or now.ru_nivcsw == then.ru_nivcsw)
        return used > _HOLDS or waited


class _Turns(threading.local):
    def __init__(self) -> None:
        self.turn = _Turn(SYSTEM.perf)


_turns = _Turns()


class UserFunction:
    """A function of the program that runs on the event loop, as the log names it, once, if it blocks the loop.

    Args:
        name: Its name in the log: `"the filter of handler x"`.
        log: The logger.
        resource: The resource in the log.
        advice: The advice in the log.
    """

    __slots__ = ("_advice", "_is_named", "_log", "_resource", "name")

    def __init__(
        self,
        name: str,
        log: StructuredLogger,
        resource: str = "",
        *,
        advice: str = "it is called for each object, so it should take microseconds",
    ) -> None:
        self.name = name
        self._log = log
        self._resource = resource
        self._advice = advice
        self._is_named = False

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
            about = (self.name, seconds, key, self._advice)
            self._log.warning(message, *about, resource=self._resource, key=key, reason="loop_held")


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
    is named in the log, unless the thread was waiting for the CPU.

    Args:
        clock: For tests. A budget with a clock other than the system's shares its turns with no other budget.

    Attributes:
        blames: True if a run that takes too long is logged. False if the work may have waited within it.
        perf: The clock, for loops that look at it themselves: `if budget.perf() >= budget.limit`.
        began: The time at which the present run began.
        limit: The time at which the present run must end.
        turn: The turn that budgets of the thread share.
    """

    __slots__ = ("_left", "_paused", "began", "blames", "limit", "perf", "turn")

    def __init__(self, *, clock: Clock = SYSTEM) -> None:
        if clock is SYSTEM:
            clock = clock_of_loop() or SYSTEM
        self.perf = clock.perf
        self.blames = True
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

    def blame(self, function: UserFunction | None = None, key: str = "") -> None:
        """If this run has held the event loop for too long, name the function of the program that did it in the log.

        Args:
            function: The function that was called in this run, with `key`. None if there were several, which note when
                they have `returned`.
            key: See `function`.
        """
        turn = self.turn
        turn.looked = now = turn.perf()
        seconds = now - self.began
        if seconds > _HOLDS and turn.had_the_cpu():
            if turn.slowest is not None and (function is None or turn.longest > seconds / 2):
                function, key = turn.slowest
            if function is not None:
                function.held(seconds, key)

    async def pause(self, function: UserFunction | None = None, key: str = "") -> None:
        """Let everything else that is ready run once, and begin a new run. The arguments are those of `blame`."""
        self.leave(function, key)
        await _next_iteration()
        self.enter()

    def leave(self, function: UserFunction | None = None, key: str = "") -> None:
        """Pause in a callback: return to the loop, and when it calls again, `enter`."""
        if self.blames:
            self.blame(function, key)
        self._paused = self.turn.begun
        self._left = self.turn.looked


@coroutine
def _next_iteration() -> Generator[None, None, None]:
    """Yield to the event loop once, as `asyncio.sleep(0)` does."""
    yield


_NOTHING: Final = object()


class Steps(Generic[T]):
    """A coroutine of the program, to be awaited, whose every step is a run of a budget, between two waits.

    If a step holds the event loop, `function` is named in the log.

    Args:
        coroutine: The coroutine.
        budget: The budget.
        function: Its function.
        key: The key for which it was called.
        steps: The iterator of a coroutine that has made its first step.
        first: The result of that step.
    """

    def __init__(
        self,
        coroutine: Coroutine[object, object, T],
        budget: YieldBudget,
        function: UserFunction,
        key: str,
        steps: Generator[object, None, T] | None = None,
        first: object = _NOTHING,
    ) -> None:
        self._coroutine = coroutine
        self._steps = coroutine.__await__() if steps is None else steps
        self._budget = budget
        self._about = function, key
        self._first = first

    def __await__(self) -> Generator[object, object, T]:
        return self  # type: ignore[return-value] # it has what `await` uses of a generator

    def __next__(self) -> object:
        first, self._first = self._first, _NOTHING
        if first is _NOTHING:
            return self._step(next, self._steps)
        self._budget.blame(*self._about)
        return first

    def throw(self, *error: object) -> object:
        return self._step(self._steps.throw, *error)

    def close(self) -> None:
        self._steps.close()

    def __getattr__(self, name: str) -> object:
        return getattr(self._coroutine, name)  # such as `cr_frame`, by which asyncio shows where a task is

    def _step(self, step: Callable[..., object], *args: object) -> object:
        self._budget.enter()
        try:
            return step(*args)
        finally:
            self._budget.blame(*self._about)


def in_steps(awaitable: Awaitable[T], budget: YieldBudget, function: UserFunction, key: str) -> Awaitable[T]:
    """Return the `Steps` of a coroutine, or what else was passed to be awaited."""
    return Steps(awaitable, budget, function, key) if inspect.iscoroutine(awaitable) else awaitable
