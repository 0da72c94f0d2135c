"""Time limits on what a server may take: the head of an answer, and the silence of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Literal, Self, TypeVar

__all__ = ["IdleTimeout", "Verdict", "answered"]

T = TypeVar("T")

# A loop that has come this much too late to a timer was held up by somebody's code; what the server has sent meanwhile
# still waits to be read, so silence is counted afresh from there for `_GRACE` seconds.
_LATE = 0.5
_GRACE = 1.0

# Why a watchdog ended a body: nothing was heard, its time was over, or `interrupt` was called.
Verdict = Literal["", "idle", "deadline", "interrupted"]


async def answered(awaitable: Awaitable[T], seconds: float, what: str) -> T:
    """What `awaitable` gives, within `seconds`.

    Raises:
        TimeoutError: It did not; the text says that `what` had no answer.
    """
    scope = asyncio.timeout(seconds)
    try:
        async with scope:
            return await awaitable
    except TimeoutError as error:
        if scope.expired():
            raise TimeoutError(f"{what}: no answer within {seconds:g} s") from error
        raise


class IdleTimeout:
    """Ends the body of its `async with` when nothing has been heard for `idle` seconds, or at `deadline`.

    The owner writes the loop's time to `heard` at each sign of life, which is all that a batch of events costs: the
    timer looks at it when it is due and goes back to sleep. A body that it ended is left without an exception, and
    `verdict` tells why; what the body raises, and cancellation from outside, passes through.

    Args:
        idle: Seconds of silence. May be raised later; a lower value counts from the next look.
        deadline: A time of the loop, or None.
    """

    __slots__ = ("_deadline", "_loop", "_scope", "_timer", "heard", "idle", "verdict")

    def __init__(self, *, idle: float, deadline: float | None = None) -> None:
        self.idle = idle
        self.heard = 0.0
        self.verdict: Verdict = ""
        self._deadline = deadline
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._scope: asyncio.Timeout | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._scope = asyncio.timeout(None)
        await self._scope.__aenter__()
        self.heard = self._loop.time()
        self._arm(self._loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        scope, self._scope = self._scope, None
        assert scope is not None
        if self._timer is not None:
            self._timer.cancel()
        try:
            await scope.__aexit__(kind, error, traceback)
        except TimeoutError:  # raised by the scope alone, in place of the cancellation that it asked for
            return True
        self.verdict = ""  # the body ended by itself before it could be told
        return False

    def interrupt(self) -> None:
        """End the body soon, because its owner has something better to do."""
        self._bite("interrupted")

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self.heard + self.idle
        self._timer = loop.call_at(due if self._deadline is None else min(due, self._deadline), self._look)

    def _look(self) -> None:
        loop, timer = self._loop, self._timer
        if loop is None or timer is None or self._scope is None:
            return
        now = loop.time()
        if self._deadline is not None and now >= self._deadline:
            self._bite("deadline")
        elif now < self.heard + self.idle:
            self._arm(loop)
        elif now - timer.when() > _LATE:
            self.heard = now - self.idle + _GRACE
            self._arm(loop)
        else:
            self._bite("idle")

    def _bite(self, verdict: Verdict) -> None:
        if self._scope is None or self.verdict or self._loop is None:
            return
        self.verdict = verdict
        self._scope.reschedule(self._loop.time())
