"""The runner of a blocking handler: makes the calls in a worker thread, in order, one at a time."""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import NamedTuple

import anyio
import anyio.to_thread

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.processor.handler import Handler, HandlerRunner
from kinformer.processor.mailbox import Delivery, Mailbox, Notification

__all__ = ["ThreadRunner"]

log = get_logger("kinformer.handler")

_MOST = 64  # the most calls that are sent to the thread together
_TOGETHER = 0.001  # seconds after which the thread returns even if calls are left


class _Made(NamedTuple):
    """A call that was made: its duration in seconds, and its error."""

    seconds: float
    error: BaseException | None


class ThreadRunner(HandlerRunner):
    """Takes calls from a mailbox and makes them in a worker thread.

    A trip to a thread and back takes about 100 us, so the calls of a fast handler are sent together: twice as many as
    the last time, if these took less than a millisecond, or else one. Calls that have been taken but not begun count as
    waiting, are dropped with the others, and are fewer than `queue_size`.

    Args:
        handler, mailbox, on_error, resource: See `HandlerRunner`.
        limiter: Limits the worker threads. None uses the limiter of the event loop.
    """

    def __init__(
        self,
        handler: Handler,
        mailbox: Mailbox,
        on_error: Callable[[], None],
        *,
        resource: str,
        limiter: anyio.CapacityLimiter | None,
    ) -> None:
        super().__init__(handler, mailbox, on_error, resource=resource)
        self._limiter = limiter
        # The worker thread sets the first, and the task the second, which the thread reads before each call.
        self._thread: int | None = None  # the thread that is making a call
        self._abandoned = False

    def is_caller(self) -> bool:
        """True if called from inside the handler."""
        return self._thread == threading.get_ident() or super().is_caller()

    async def run(self) -> None:
        """Make calls until the mailbox is closed, or is draining and empty."""
        mailbox = self.mailbox
        mailbox.budget = YieldBudget()
        most = min(_MOST, mailbox.queue_size)
        taken: deque[Notification] = deque()
        size = 1
        try:
            while not mailbox.closed:
                while len(taken) < size and (call := mailbox.take()) is not None:
                    taken.append(call)
                    if mailbox.budget.exhausted():  # by a filter that hides many
                        break
                if not taken:
                    if mailbox.draining and not len(mailbox):
                        return
                    await mailbox.wait()
                    mailbox.budget.enter()
                    continue
                mailbox.held = len(taken) - 1
                made = await anyio.to_thread.run_sync(
                    self._make, tuple(taken), abandon_on_cancel=True, limiter=self._limiter
                )
                mailbox.budget.enter()
                self._note(taken, made)
                size = min(most, size * 2) if not taken else 1
        finally:
            self._abandon()

    def _make(self, calls: Sequence[Notification]) -> list[_Made]:
        """Make calls in the worker thread until they have taken a millisecond. Raises nothing."""
        made: list[_Made] = []
        self._thread = threading.get_ident()
        try:
            until = perf_counter() + _TOGETHER
            for call in calls:
                if self._abandoned or self.mailbox.closed:
                    break
                started, error = perf_counter(), None
                try:
                    self._refuse_awaitable(self.handler.call(call))
                except BaseException as raised:  # noqa: BLE001 - as in any thread, sys.exit() does not end the program
                    error = raised
                now = perf_counter()
                made.append(_Made(now - started, error))
                if now > until:
                    break
        finally:
            self._thread = None
        return made

    def _refuse_awaitable(self, result: object) -> None:
        if result is None or not inspect.isawaitable(result):
            return
        if inspect.iscoroutine(result):
            result.close()  # nothing will await it
        raise TypeError(
            f"handler {self.mailbox.name} returned a {type(result).__name__} in a worker thread, where nothing awaits "
            "it; pass a coroutine function without thread=True"
        )

    def _note(self, taken: deque[Notification], made: Sequence[_Made]) -> None:
        """Count, log and observe the calls that were made, and remove them from `taken`."""
        for seconds, error in made:
            call = taken.popleft()
            if error is not None:
                self._failed(Delivery._make(call), error)
            self.mailbox.finished(call)
            if self.observe is not None:
                self.observe(seconds)
        self.mailbox.held = len(taken)

    def _abandon(self) -> None:
        """Make no more calls, and log a call that still runs, because a thread cannot be stopped."""
        self._abandoned = True
        self.mailbox.held = 0
        if self._thread is not None:
            log.error(
                "handler %s is still running in its worker thread and is abandoned",
                self.mailbox.name,
                resource=self._resource,
                reason="abandoned",
            )
