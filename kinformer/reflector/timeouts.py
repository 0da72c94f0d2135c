"""The time limit for the silence of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Literal, Self

__all__ = ["IdleTimeout", "Verdict"]

# If a timer fires this many seconds late, other code has blocked the loop, and data that the server has sent in the
# meantime may not have been read yet. So silence is then counted for `_GRACE` more seconds.
_LATE = 0.5
_GRACE = 1.0

# The reason why an `IdleTimeout` ended its body: silence, its deadline, or a call of `interrupt`, or "" if it did not.
Verdict = Literal["", "idle", "deadline", "interrupted"]


class IdleTimeout:
    """Ends the body of its `async with` after `idle` seconds of silence, or at `deadline`.

    The body writes the loop's time to `heard` at each sign of life. This is the only cost per batch of events, because
    a due timer reads `heard` and is set again. If the timeout ends the body, there is no exception, and `verdict` is
    the reason. Exceptions of the body, and cancellation from outside, propagate.

    Args:
        idle: Seconds of silence. It may be changed later. A smaller value takes effect when the timer is next due.
        deadline: A loop time, or None.

    Attributes:
        heard: The loop's time of the last sign of life.
        verdict: The reason why the body was ended, or "" if it was not.
    """

    __slots__ = ("_deadline", "_loop", "_paused", "_scope", "_timer", "heard", "idle", "verdict")

    def __init__(self, *, idle: float, deadline: float | None = None) -> None:
        self.idle = idle
        self.heard = 0.0
        self.verdict: Verdict = ""
        self._deadline = deadline
        self._paused = False  # True while the body is inside `paused`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None  # reads `heard` when it is due, and is then set again
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
        except TimeoutError:  # only raised by the scope, in place of its own cancellation
            return True
        self.verdict = ""  # the body ended by itself before the cancellation
        return False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count silence while the body itself does not read. The deadline still applies."""
        assert self._loop is not None
        self._paused = True
        try:
            yield
        finally:
            self._paused = False
            self.heard = self._loop.time()

    def interrupt(self) -> None:
        """End the body soon, with the verdict `interrupted`."""
        self._end("interrupted")

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self.heard + self.idle
        self._timer = loop.call_at(due if self._deadline is None else min(due, self._deadline), self._look)

    def _look(self) -> None:
        loop, timer = self._loop, self._timer
        if loop is None or timer is None or self._scope is None:
            return
        now = loop.time()
        if self._deadline is not None and now >= self._deadline:
            self._end("deadline")
        elif self._paused:
            self.heard = now
            self._arm(loop)
        elif now < self.heard + self.idle:
            self._arm(loop)
        elif now - timer.when() > _LATE:
            self.heard = now - self.idle + _GRACE
            self._arm(loop)
        else:
            self._end("idle")

    def _end(self, verdict: Verdict) -> None:
        if self._scope is None or self.verdict or self._loop is None:
            return
        self.verdict = verdict
        self._scope.reschedule(self._loop.time())
