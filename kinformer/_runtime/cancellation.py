"""Cancellation: of the body of an `async with`, of a task by the program's code in it, and shutdown without it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import wraps
from types import TracebackType
from typing import TypeVar, cast

import anyio

from kinformer._runtime.tasks import Coro

__all__ = [
    "BodyCancellation",
    "ShieldedExitStack",
    "first_kept",
    "guarded",
    "settled",
    "shielded_from_scopes",
]

F = TypeVar("F", bound=Callable[..., Coro[object]])
T = TypeVar("T")


def shielded_from_scopes(function: F) -> F:
    """Shield a shutdown function from anyio's cancel scopes, which cancel at every await.

    Otherwise a cancelled scope around an informer would interrupt its shutdown, and leave its tasks running. With the
    shield, anyio's task groups behave like asyncio's: cancelled once, the informer shuts down in order, within its own
    timeout. A second asyncio `cancel` still interrupts the shutdown, and is chained to the first (see `first_kept`).
    The type of the function does not change, because `AsyncExitStack.enter_async_context` requires an async def.
    """

    @wraps(function)
    async def shielded(*args: object, **kwargs: object) -> object:
        with first_kept(), anyio.CancelScope(shield=True):
            return await function(*args, **kwargs)
        raise AssertionError("unreachable: this scope is never cancelled")

    return cast("F", shielded)


@contextmanager
def first_kept() -> Iterator[None]:
    """Chain a CancelledError of the body to the one that is being handled when the body begins.

    Use it around awaits in a task that is ending because of a cancellation: a second one, such as from
    `asyncio.timeout`, replaces the first. An anyio scope recognizes its own cancellation by the message of the
    CancelledError, or of one in its `__context__` chain. Python sets `__context__` to the first one, except if a
    `finally` further inside awaits before the error leaves it. Then the scope would mistake the error for another
    scope's and re-raise it, which ends the surrounding task.
    """
    first = sys.exc_info()[1]
    try:
        yield
    except asyncio.CancelledError as error:
        if isinstance(first, asyncio.CancelledError):
            _lead_back(error, first)
        raise


def _lead_back(error: asyncio.CancelledError, first: asyncio.CancelledError) -> None:
    """Append `first` to the cancellations in the context of `error`, unless one is in the other's context already."""
    last: BaseException = error
    while last is not first and isinstance(last.__context__, asyncio.CancelledError):
        last = last.__context__
    if last is first:
        return
    before: BaseException | None = first
    while before is not None:
        if before is last:  # the context would become a cycle
            return
        before = before.__context__
    last.__context__ = first


class ShieldedExitStack(AsyncExitStack):
    """An AsyncExitStack whose whole unwinding is shielded from anyio's cancel scopes."""

    @shielded_from_scopes
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await super().__aexit__(kind, error, traceback)


class BodyCancellation:
    """Cancels the body of an `async with` at most once. Create it in the task that enters the body.

    The bookkeeping is as in `asyncio.timeout`. Another task than the one that entered may leave the body (as fixtures
    do). Then there is nothing to cancel once the entering task has ended.
    """

    __slots__ = ("_called", "_cancelling", "_left", "_task")

    def __init__(self) -> None:
        self._task = _this_task()
        self._cancelling = self._task.cancelling()
        self._called = False
        self._left = False

    def cancel(self) -> None:
        """Cancel the body, unless it has already been left or cancelled."""
        if not self._called and not self._left:
            self._called = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """Record that the body was left by `error`. Return True if `cancel` is its only cause: then suppress it.

        A cancellation that came too late to reach the body is undone here.

        Raises:
            CancelledError: Other code cancelled the task too.
        """
        self._left = True
        if not self._called or self._task is not asyncio.current_task():
            return False
        others = self._task.uncancel() > self._cancelling
        if isinstance(error, asyncio.CancelledError):
            return not others
        try:
            await asyncio.sleep(0)  # raises if the cancellation came too late, but not if the body caught it
        except asyncio.CancelledError:
            if others:
                raise
        return False


# --- code of the program in a task of kinformer's ----------------------------------------------------------


async def guarded(awaitable: Awaitable[T], is_ending: Callable[[], bool], name: str) -> T:
    """Await a coroutine of the program, so that a cancellation from inside it is an error, and does not end the task.

    Args:
        awaitable: The coroutine. It may cancel the task that it runs in, as a library does that cancels it at a timeout
            and does not take that back (such as async_timeout before 4.0.3).
        is_ending: Returns True if the owner of the task ends it. Then its cancellation is the owner's.
        name: The name of the coroutine, for the error.

    Raises:
        RuntimeError: The coroutine has cancelled the task, or awaited something that was cancelled.
        CancelledError: The owner ends the task.
    """
    try:
        result = await awaitable
    except BaseException as error:  # noqa: BLE001 - see `settled`
        raise await settled(error, is_ending, name) or error  # noqa: B904 - its cause is set
    if _this_task().cancelling() and (failure := await settled(None, is_ending, name)) is not None:
        raise failure
    return result


async def settled(error: BaseException | None, is_ending: Callable[[], bool], name: str) -> BaseException | None:
    """Take back the cancellations by a call of the program's code, in a task of kinformer's, and return its failure.

    Args:
        error: The error by which the call has ended, or None.
        is_ending: See `guarded`. If the owner ends the task, it stays cancelled.
        name: The name of the function, for the error.

    Raises:
        CancelledError: The owner ends the task, or cancels it at this moment.
        BaseException: The error, if it is neither an Exception nor a CancelledError.
    """
    is_cancelled = isinstance(error, asyncio.CancelledError)
    if error is not None and not is_cancelled and not isinstance(error, Exception):
        raise error
    task, reason = _this_task(), "ended with a CancelledError, although it was not cancelled"
    if task.cancelling():
        if is_ending():
            if error is None or is_cancelled:
                raise error or asyncio.CancelledError
            return error
        is_cancelled = (await _take_back(task) and error is None) or is_cancelled
        reason = "was cancelled from inside, by its own code"
    if not is_cancelled:
        return error
    failure = RuntimeError(f"{name} {reason}")
    failure.__cause__ = error
    return failure


async def _take_back(task: asyncio.Task[object]) -> bool:
    """Withdraw all requests to cancel this task. Return True if one had not been delivered.

    Raises:
        CancelledError: There was another request meanwhile.
    """
    asked, is_late = task.cancelling(), False
    try:
        await asyncio.sleep(0)  # delivers it. Before Python 3.13 `uncancel` would not withdraw it
    except asyncio.CancelledError:
        is_late = True
    for _ in range(asked):
        task.uncancel()
    if task.cancelling():
        raise asyncio.CancelledError
    return is_late


def _this_task() -> asyncio.Task[object]:
    task: asyncio.Task[object] | None = asyncio.current_task()
    if task is None:
        raise RuntimeError("no asyncio task is running: enter this from a coroutine that runs in a task")
    return task
