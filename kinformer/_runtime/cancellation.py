"""Cancellation of the body of an `async with`, distinct from other cancellations, and shutdown without interruption."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import wraps
from types import TracebackType
from typing import TypeVar, cast

import anyio

from kinformer._runtime.tasks import Coro

__all__ = ["BodyCancellation", "ShieldedExitStack", "first_kept", "shielded_from_scopes"]

F = TypeVar("F", bound=Callable[..., Coro[object]])


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
        if before is last:  # it would be a cycle
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
        task: asyncio.Task[object] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("no asyncio task is running: enter this from a coroutine that runs in a task")
        self._task = task
        self._cancelling = task.cancelling()
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
