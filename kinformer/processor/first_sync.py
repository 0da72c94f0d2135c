"""The wait for the first sync of an informer, a handler, or several of them together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kinformer._runtime.logs import StructuredLogger
from kinformer._runtime.tasks import Coro
from kinformer._runtime.waiters import NEXT_WARNING, warnings_while, within
from kinformer.connection.refusals import Refusals
from kinformer.exceptions import APIError, KinformerError, NotSyncedError

__all__ = ["FirstSync"]

_NAMED = 10  # the number of resources that a warning names
_LOOK = 0.25  # seconds between two looks at the refusals


def _error_of(refusals: Sequence[Refusals], fail_fast: bool | None, since: float) -> KinformerError | None:
    """Return the error that ends a wait for several informers, or None. It lists all that are refused.

    Args:
        refusals: The refusals of the informers.
        fail_fast: See `Refusals`.
        since: The time when the wait began, on the loop's clock.
    """
    first = next((error for part in refusals if (error := part.ended_by(fail_fast, since)) is not None), None)
    if first is None:
        return None
    errors = {part.name: error for part in refusals if isinstance(error := part.last, APIError)}
    if len(errors) <= 1 or not isinstance(first, APIError):
        return first
    message = "; ".join(f"{name}: {error.message or error}" for name, error in errors.items())
    return type(first)(first.status, first.reason, message, first.retry_after, first.details)


class FirstSync:
    """The wait for the first sync of one owner, or of several together.

    Args:
        name: A description of the owner.
        first: A coroutine function that returns once the owner has synced.
        is_done: Returns True once the owner has synced.
        reason: Returns a description of why it has not synced.
        errors: Returns the last error, or None, of each resource that it waits for.
        refusals: Returns the refusals of the informers that it waits for. Called with True to include those that it
            stops waiting for after a while.
        log: The logger for warnings.

    Attributes:
        cluster: The cluster whose name begins the warnings, or "".
    """

    def __init__(
        self,
        name: str,
        first: Callable[[], Coro[None]],
        *,
        is_done: Callable[[], bool],
        reason: Callable[[], str],
        errors: Callable[[], Mapping[str, BaseException | None]],
        refusals: Callable[[bool], Sequence[Refusals]],
        log: StructuredLogger,
    ) -> None:
        self.first = first
        self.is_done = is_done
        self.reason = reason
        self.errors = errors
        self.refusals = refusals
        self.cluster = ""
        self._name = name
        self._log = log
        self._warned: float | None = None

    async def wait(self, timeout: float | None, *, fail_fast: bool | None = None) -> None:
        """Wait for the first sync. Log a warning with the reason after 5 s, and every 10 s from then on.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: Which refusals end the wait. See `Refusals`.

        Raises:
            NotSyncedError: `timeout` seconds have passed.
            APIError: The server keeps refusing.
            NotWatchableError: The resource cannot be watched, and is not polled.
            BaseException: The error that ended the owner, such as a StoppedError if it was left.
        """
        if self.is_done() and not self._is_prevented(fail_fast):
            return
        async with within(timeout, lambda: self._late(timeout)):
            with warnings_while(self._warn):
                await self.unless_refused(fail_fast)

    def _late(self, timeout: float | None) -> NotSyncedError:
        return NotSyncedError(f"{self._name} has not synced after {timeout:g} s: {self._why()}", self.errors())

    async def unless_refused(self, fail_fast: bool | None) -> None:
        """Wait for the first sync, or raise the refusals that prevent it.

        They are looked at regularly, because the informers behind a derived collection or a fleet change.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        refused: KinformerError | None = None
        timer: asyncio.TimerHandle
        interrupt = asyncio.timeout(None)

        def look() -> None:
            nonlocal refused, timer
            refused = _error_of(self.refusals(fail_fast is True), fail_fast, began)
            if refused is None:
                timer = loop.call_later(_LOOK, look)
            else:
                interrupt.reschedule(loop.time())

        timer = loop.call_later(0, look)
        try:
            async with interrupt:
                await self.first()
                while self._is_prevented(fail_fast):  # noqa: ASYNC110 - no event tells that a watch is allowed now
                    await asyncio.sleep(_LOOK)
        except TimeoutError:
            if refused is None:
                raise
            if not self.is_done() or _error_of(self.refusals(fail_fast is True), fail_fast, began) is not None:
                raise refused from None
        finally:
            timer.cancel()

    def _is_prevented(self, fail_fast: bool | None) -> bool:
        return any(part.prevent(fail_fast) for part in self.refusals(fail_fast is True))

    def _why(self) -> str:
        """Return why the owner has not synced, or why it has, and does not follow."""
        return self.reason() or "; ".join(f"{part.name}: {part.last}" for part in self.refusals(False) if part.last)

    def _warn(self) -> None:
        """Log why the owner has not synced. If many tasks wait at once, only one logs it."""
        now = asyncio.get_running_loop().time()
        if self._warned is None or now - self._warned > NEXT_WARNING / 2:
            self._warned = now
            message, resources = "%s is still waiting for its first sync: %s", list(self.errors())[:_NAMED]
            about, resource = (self._name, self._why()), ",".join(resources)
            self._log.warning(message, *about, resource=resource, reason="unsynced", cluster=self.cluster)
