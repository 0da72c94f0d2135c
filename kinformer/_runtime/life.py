"""The lifecycle of an informer, derived collection, fleet or factory: entered once, on one loop, synced, left once."""

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
"""The default number of seconds that leaving may take before tasks are cancelled."""

_DENIED = (401, 403, 404)
_NAMED = 10  # the number of resources that a warning names
_ENOUGH = 2  # the first refusal may come from a token that is being renewed, or a role that is just being created


class Life:
    """The state of an owner's lifecycle: entered or left, the event loop, and the error that ended it.

    Args:
        owner: A description of the owner for errors: `"informer v1/pods"`.
        start: Starts the owner's tasks. It is called on entering, and raises if there is nothing to follow.
        finish: Handles the events that have arrived, then ends the tasks, by a deadline on the loop's clock.
        refuse_inside: Called with the start of an error message. Raises RuntimeError if the caller is a handler that
            leaving would wait for.
        shutdown_timeout: Seconds that leaving may take, unless a deadline is passed.

    Attributes:
        owner, shutdown_timeout: See above.
        loop: The event loop that the owner was entered on.
        is_left: True from the moment when leaving begins.
        error: The error that ended the owner before it was left, or None.
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
        """True once the owner has been entered."""
        return self.loop is not None

    @property
    def has_ended(self) -> bool:
        """True once the owner was left, was ended by an error, or its event loop was closed."""
        return self.is_left or self.error is not None or (self.loop is not None and self.loop.is_closed())

    @property
    def crash(self) -> BaseException | None:
        """The error that ended the owner, except for a StoppedError, which only means that its source was left."""
        return None if isinstance(self.error, StoppedError) else self.error

    def begin(self) -> None:
        """Start the owner, on the running event loop.

        Raises:
            RuntimeError: It has been entered before.
        """
        if self.loop is not None:
            raise RuntimeError(f"{self.owner} has already been entered; create a new one")
        self.loop = asyncio.get_running_loop()
        self._start()

    @shielded_from_scopes
    async def leave(self, deadline: float) -> None:
        """End the owner by `deadline`, in seconds of the loop's clock.

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
        self._refuse_inside(f"{self.owner} cannot be exited")

    def require_loop(self, method: str) -> None:
        """Raise RuntimeError if the owner was entered on an event loop that does not run in this thread."""
        require_loop(self.loop, method, self.owner)

    def require_running(self, method: str) -> None:
        """Raise as `require_loop`, or the error that ended the owner, or StoppedError if it has been left."""
        self.require_loop(method)
        if self.error is not None:
            raise self.error
        if self.is_left:
            raise StoppedError(f"{method}: {self.owner} was exited")


class Refusals:
    """Counts the 401, 403 and 404 responses of one informer, and ends the waits that should fail fast."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._answer: APIError | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, error: BaseException) -> None:
        """Record an error that ended a request or a stream. An error that is no refusal clears the last refusal."""
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
        """Wait for `waiting`. If the second refusal with the same status comes first, raise it."""
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
                refused.exception()  # if both are done, the sync counts
            done.cancel()


class FirstSync:
    """The wait for the first sync of one owner, or of several together.

    Args:
        name: A description of the owner.
        first: A coroutine function that returns once the owner has synced. Called with True if a second 401, 403 or 404
            should end the wait.
        is_done: Returns True once the owner has synced.
        reason: Returns a description of why it has not synced.
        errors: Returns the last error, or None, of each resource that it waits for.
        log: The logger for warnings.
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
        """Wait for the first sync. Log a warning with the reason after 5 s, and every 10 s from then on.

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
            message = f"{self._name} has not synced after {timeout:g} s: {self.reason()}"
            raise NotSyncedError(message, self.errors()) from None

    def _warn(self) -> None:
        """Log why the owner has not synced. If many tasks wait at once, only one logs it."""
        now = asyncio.get_running_loop().time()
        if self._warned is None or now - self._warned > NEXT_WARNING / 2:
            self._warned = now
            message, resources = "%s is still waiting for its first sync: %s", list(self.errors())[:_NAMED]
            self._log.warning(message, self._name, self.reason(), resource=",".join(resources), reason="unsynced")
