"""The lifecycle of an informer, derived collection, fleet or factory: entered once, on one loop, synced, left once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.tasks import Coro, require_loop
from kinformer.exceptions import StoppedError

__all__ = ["SHUTDOWN_TIMEOUT", "Life"]

SHUTDOWN_TIMEOUT = 5.0
"""The default number of seconds that leaving may take before tasks are cancelled."""


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
