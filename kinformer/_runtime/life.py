"""The lifecycle of an informer, derived collection, fleet or factory: entered once, on one loop, synced, left once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.logs import StructuredLogger
from kinformer._runtime.tasks import Coro, require_loop
from kinformer._runtime.waiters import NEXT_WARNING, warnings_while, within
from kinformer.exceptions import APIError, KinformerError, NotSyncedError, NotWatchableError, StoppedError

__all__ = ["SHUTDOWN_TIMEOUT", "Answers", "FirstSync", "Life", "Refusals", "refuses"]

SHUTDOWN_TIMEOUT = 5.0
"""The default number of seconds that leaving may take before tasks are cancelled."""

_STATUSES = (401, 403, 404)
_REPEATED = 2  # the first one may come from a token that is being renewed, or a role that is just being created
_LASTING = 4
_LONG = 15.0  # seconds, because an API server that starts answers 403 until its roles are loaded
_NAMED = 10  # the number of resources that a warning names
_LOOK = 0.25  # seconds between two looks at the refusals


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


def refuses(error: BaseException | None) -> bool:
    """True if the server answered 401, 403 or 404."""
    return isinstance(error, APIError) and error.status in _STATUSES


class _Health(Protocol):
    @property
    def synced(self) -> bool: ...


class _Source(Protocol):
    """The source of answers: a reflector, whose health says whether it has synced."""

    @property
    def has_followed(self) -> bool: ...

    def health(self) -> _Health: ...


class Answers:
    """The answers to the requests of one source.

    Attributes:
        last: The last answer, if it is a refusal.
        at: The time of the last answer, on the loop's clock.
        is_final: True if no wait changes it, because the resource cannot be watched.
        is_repeated: True if the last answer is a refusal, and not the first one with its status.
        is_lasting: True if there have been at least 4 refusals for at least 15 s, and nothing else in between.
    """

    def __init__(self) -> None:
        self.last: KinformerError | None = None
        self.is_final = False
        self.is_repeated = False
        self.is_lasting = False
        self.at = 0.0
        self._counts: Counter[int] = Counter()
        self._since = 0.0
        self._alone = 0

    def note(self, error: BaseException | None) -> None:
        """Record an answer: its error, or None for a success."""
        self.at = now = asyncio.get_running_loop().time()
        self.is_final = isinstance(error, NotWatchableError)
        if not isinstance(error, APIError) or not refuses(error):
            self.last = error if isinstance(error, NotWatchableError) else None
            self.is_repeated = self.is_lasting = False
            return
        if self.last is None:
            self._since, self._alone = now, 0
        self.last = error
        self._alone += 1
        self._counts[error.status] += 1
        self.is_repeated = self._counts[error.status] >= _REPEATED
        self.is_lasting = self._alone >= _LASTING and now - self._since >= _LONG


class Refusals:
    """The answers 401, 403 and 404 to the requests of one informer, which end a wait for its first sync.

    `fail_fast=True` ends it at the second one. None ends it once there has been nothing else for 15 s, in at least 4
    answers of which the last one came during the wait. False never does. A resource that cannot be watched ends each
    wait. A wait goes on after the first list until a watch is open, if the last answer before was a refusal.

    Args:
        name: The name of the informer.
        optional: True if the informer does without the resource. Then None never ends a wait.
    """

    def __init__(self, name: str, *, optional: bool = False) -> None:
        self.name = name
        self._optional = optional
        self._answers: dict[_Source, Answers] = {}

    def note(self, source: _Source, error: BaseException) -> None:
        """Record the error of a request or a stream of a source."""
        self._answers.setdefault(source, Answers()).note(error)

    def forget(self, source: _Source) -> None:
        """Forget a source that is no longer waited for."""
        self._answers.pop(source, None)

    def clear(self) -> None:
        """Forget all sources, because there will be no further answer."""
        self._answers.clear()

    @property
    def last(self) -> KinformerError | None:
        """The refusal that prevents the sync of a source, or that its watch got last, or None."""
        return next((answers.last for answers in self._preventing(True)), None)

    def prevent(self, fail_fast: bool | None) -> bool:
        """Return True if a refusal prevents the sync of a source, or has met its watch alone, and may end the wait."""
        return bool(self._preventing(fail_fast))

    def ended_by(self, fail_fast: bool | None, since: float) -> KinformerError | None:
        """Return the refusal that ends a wait which began at `since`, or None."""
        for answers in self._preventing(fail_fast):
            is_enough = answers.is_repeated if fail_fast else answers.is_lasting and answers.at >= since
            if is_enough or answers.is_final:
                return answers.last
        return None

    def _preventing(self, fail_fast: bool | None) -> list[Answers]:
        final_only = fail_fast is False or (fail_fast is None and self._optional)
        preventing = []
        for source, answers in self._answers.items():
            is_over = answers.last is None or (source.has_followed and source.health().synced)
            if not is_over and (answers.is_final or not final_only):
                preventing.append(answers)
        return preventing


def _error_of(refusals: Sequence[Refusals], fail_fast: bool | None, since: float) -> KinformerError | None:
    """Return the error that ends a wait for several informers, or None. It lists all that are refused.

    Args:
        refusals: The refusals of the informers.
        fail_fast: See `Refusals`.
        since: The time when the wait began, on the loop's clock.
    """
    first = next((error for one in refusals if (error := one.ended_by(fail_fast, since)) is not None), None)
    if first is None:
        return None
    each = {one.name: error for one in refusals if isinstance(error := one.last, APIError)}
    if len(each) <= 1 or not isinstance(first, APIError):
        return first
    message = "; ".join(f"{name}: {error.message or error}" for name, error in each.items())
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
        return any(one.prevent(fail_fast) for one in self.refusals(fail_fast is True))

    def _why(self) -> str:
        """Return why the owner has not synced, or why it has, and does not follow."""
        return self.reason() or "; ".join(f"{one.name}: {one.last}" for one in self.refusals(False) if one.last)

    def _warn(self) -> None:
        """Log why the owner has not synced. If many tasks wait at once, only one logs it."""
        now = asyncio.get_running_loop().time()
        if self._warned is None or now - self._warned > NEXT_WARNING / 2:
            self._warned = now
            message, resources = "%s is still waiting for its first sync: %s", list(self.errors())[:_NAMED]
            about, resource = (self._name, self._why()), ",".join(resources)
            self._log.warning(message, *about, resource=resource, reason="unsynced", cluster=self.cluster)
