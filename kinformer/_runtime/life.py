"""The life of an informer, derived collection, fleet or factory: entered once, on one event loop, synced, left once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.logs import StructuredLogger
from kinformer._runtime.tasks import Coro, require_loop
from kinformer._runtime.waiters import NEXT_WARNING, warnings_while
from kinformer.exceptions import APIError, NotSyncedError, StoppedError

__all__ = ["SHUTDOWN_TIMEOUT", "FirstSync", "Life", "Refusals"]

SHUTDOWN_TIMEOUT = 5.0
"""Seconds that leaving may take before tasks are cancelled, by default."""

_DENIED = (401, 403, 404)
_NAMED = 10  # resources that a warning names
_ENOUGH = 2  # the first may be a token that is being renewed, or a role that is on its way


class Life:
    """Keeps whether its owner has been entered and left, on which loop, and by which error it ended.

    Args:
        owner: The owner in words, for errors: `"informer v1/pods"`.
        start: Starts the owner's tasks. It is called on entering, and raises if there is nothing to follow.
        finish: Ends the tasks within a deadline on the loop's clock, and lets what has come be handled before.
        refuse_inside: Called with the refusal in words; raises RuntimeError if the caller is a handler that leaving
            would wait for.
        shutdown_timeout: Seconds that leaving may take, if nobody else sets a deadline.

    Attributes:
        owner, shutdown_timeout: See above.
        loop: The event loop that it was entered on.
        is_left: True from the moment when leaving begins.
        error: The error that ended it, before it was left.
    """

    def __init__(
        self,
        owner: str,
        *,
        start: Callable[[], None],
        finish: Callable[[float], Coro[Any]],
        refuse_inside: Callable[[str], None],
        shutdown_timeout: float = SHUTDOWN_TIMEOUT,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_left = False
        self.error: BaseException | None = None
        self.shutdown_timeout = shutdown_timeout
        self.owner = owner
        self._start = start
        self._finish = finish
        self._refuse_inside = refuse_inside

    @property
    def has_begun(self) -> bool:
        """True once it has been entered."""
        return self.loop is not None

    @property
    def has_ended(self) -> bool:
        """True once it has been left, or ended by an error, or its event loop has been closed."""
        return self.is_left or self.error is not None or (self.loop is not None and self.loop.is_closed())

    @property
    def crash(self) -> BaseException | None:
        """The error that ended it, unless that only says that what it followed was left."""
        return None if isinstance(self.error, StoppedError) else self.error

    def begin(self) -> None:
        """Start the owner, on the running event loop.

        Raises:
            RuntimeError: It was entered before.
        """
        if self.loop is not None:
            raise RuntimeError(f"{self.owner} was entered before; make a new one")
        self.loop = asyncio.get_running_loop()
        self._start()

    @shielded_from_scopes
    async def leave(self, deadline: float) -> None:
        """End the owner within `deadline` on the loop's clock.

        Raises:
            RuntimeError: Called on another event loop, or from inside a handler that this would wait for.
        """
        self.refuse_leaving()
        self.is_left = True
        await self._finish(deadline)

    async def leave_in_time(self) -> None:
        """End the owner within its `shutdown_timeout`."""
        await self.leave(asyncio.get_running_loop().time() + self.shutdown_timeout)

    def refuse_leaving(self) -> None:
        """Raise RuntimeError if `leave` would."""
        self.require_loop("leaving")
        self._refuse_inside(f"{self.owner} cannot be left")

    def require_loop(self, method: str) -> None:
        """Raise RuntimeError if it was entered on an event loop that does not run in this thread."""
        require_loop(self.loop, method, self.owner)

    def require_running(self, method: str) -> None:
        """Raise what `require_loop` raises, the error that ended the owner, or StoppedError if it has been left."""
        self.require_loop(method)
        if self.error is not None:
            raise self.error
        if self.is_left:
            raise StoppedError(f"{method}: {self.owner} has been left")


class Refusals:
    """Counts the 401, 403 and 404 of one informer, and ends the waits that are to fail fast."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._answer: APIError | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, error: BaseException) -> None:
        """Record an error that ended a request or a stream; another error takes the last refusal back."""
        if not isinstance(error, APIError) or error.status not in _DENIED:
            self._answer = None
            return
        self._counts[error.status] += 1
        if self._counts[error.status] < _ENOUGH:
            return
        self._answer = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def end(self, waiting: Coro[None]) -> None:
        """Wait for `waiting`; raise the second refusal of a kind if that comes first."""
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._answer is not None:
            refused.set_exception(self._answer)
        self._waiters.add(refused)
        done = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({refused, done}, return_when=asyncio.FIRST_COMPLETED)
            (done if done.done() else refused).result()
        finally:
            self._waiters.remove(refused)
            if not refused.cancel():
                refused.exception()  # if both were done, the sync counts
            done.cancel()


class FirstSync:
    """The wait for the first sync of one owner, or of several together.

    Args:
        name: Of the owner, in words.
        first: A coroutine function that returns once the owner has synced; called with True if a second 401, 403 or 404
            shall end it.
        is_done: Returns True once the owner has synced.
        reason: Returns why it has not, in words.
        errors: Returns the last error of each resource that it waits for, or None.
        log: The logger of the warnings.
    """

    def __init__(
        self,
        name: str,
        first: Callable[[bool], Coro[None]],
        *,
        is_done: Callable[[], bool],
        reason: Callable[[], str],
        errors: Callable[[], Mapping[str, BaseException | None]],
        log: StructuredLogger,
    ) -> None:
        self.first = first
        self.is_done = is_done
        self.reason = reason
        self.errors = errors
        self._name = name
        self._log = log
        self._warned: float | None = None

    async def wait(self, timeout: float | None, *, fail_fast: bool = False) -> None:
        """Wait for the first sync. After 5 s, and every 10 s from then on, log a warning with the reason.

        Raises:
            NotSyncedError: `timeout` seconds have passed.
            APIError: With `fail_fast`, the second 401, 403 or 404.
            BaseException: The error that ended the owner, such as a StoppedError if it was left.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                with warnings_while(self._warn):
                    await self.first(fail_fast)
        except TimeoutError:
            if not limit.expired():
                raise
            text = f"{self._name} has not synced after {timeout:g} s: {self.reason()}"
            raise NotSyncedError(text, self.errors()) from None

    def _warn(self) -> None:
        """Log why it has not synced; of many tasks that wait at once, one does."""
        now = asyncio.get_running_loop().time()
        if self._warned is None or now - self._warned > NEXT_WARNING / 2:
            self._warned = now
            text, resources = "%s still waits for its first sync: %s", list(self.errors())[:_NAMED]
            self._log.warning(text, self._name, self.reason(), resource=",".join(resources), reason="unsynced")
