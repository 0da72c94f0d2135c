"""Cancellation of the body of an `async with`, told apart from that by others, and shutdown that is not interrupted."""

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

    Otherwise a scope that was cancelled around an informer would interrupt its shutdown, and its tasks would stay. With
    the shield a task group of anyio means the same as one of asyncio: cancelled once, the informer shuts down in order,
    within its own time; a second `cancel` of asyncio still hurries it, and leads back to the first (see
    `first_kept`). The type of the function does not change, because `AsyncExitStack.enter_async_context` requires an
    async def.
    """

    @wraps(function)
    async def shielded(*args: object, **kwargs: object) -> object:
        with first_kept(), anyio.CancelScope(shield=True):
            return await function(*args, **kwargs)
        raise AssertionError("unreachable: this scope is never cancelled")

    return cast("F", shielded)


@contextmanager
def first_kept() -> Iterator[None]:
    """Have a CancelledError of the body lead back to the one that is being handled as the body begins.

    It is for what is awaited while a task ends because of a cancellation: another one, such as that of
    `asyncio.timeout`, takes the place of the first. A scope of anyio knows its own cancellation by the text of the
    CancelledError that arrives, or of those in its `__context__`. Python sets that to the first one, but not if a
    `finally` further inside awaits before the error leaves it: then the scope would take the error for that of another,
    and pass it on, which ends the task around it.
    """
    first = sys.exc_info()[1]
    try:
        yield
    except asyncio.CancelledError as error:
        if isinstance(first, asyncio.CancelledError):
            _lead_back(error, first)
        raise


def _lead_back(error: asyncio.CancelledError, first: asyncio.CancelledError) -> None:
    """Append `first` to the cancellations in the context of `error`, unless one of the two has the other already."""
    last: BaseException = error
    while last is not first and isinstance(last.__context__, asyncio.CancelledError):
        last = last.__context__
    if last is first:
        return
    before: BaseException | None = first
    while before is not None:
        if before is last:  # it would be a circle
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
    """Cancels the body of an `async with` at most once; to be made by the task that enters it.

    The bookkeeping is that of `asyncio.timeout`. The body may be left in another task than the one that entered it
    (fixtures do that); then there is nothing to cancel once the entering task has ended.
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
        """Cancel the body, unless it has been left or cancelled already."""
        if not self._called and not self._left:
            self._called = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """Note that the body has been left by `error`; True if that is our cancellation alone, to be suppressed.

        A cancellation that came too late to reach the body is taken back here.

        Raises:
            CancelledError: The task was cancelled by others too.
        """
        self._left = True
        if not self._called or self._task is not asyncio.current_task():
            return False
        others = self._task.uncancel() > self._cancelling
        if isinstance(error, asyncio.CancelledError):
            return not others
        try:
            await asyncio.sleep(0)  # raises if the cancellation came too late; not if the body swallowed it
        except asyncio.CancelledError:
            if others:
                raise
        return False
