"""Cancelling a body once, telling one's own cancellation from everybody else's, and leaving without being disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

import anyio

__all__ = ["BodyCancellation", "ShieldedExitStack", "shielded_from_scopes"]

F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


def shielded_from_scopes(function: F) -> F:
    """For what leaves: a cancel scope of anyio, which cancels at every await, does not cancel at those in here.

    Else a scope that was cancelled around an informer would cut its leaving short, and its tasks would stay. So both
    kinds of groups mean the same: cancelled once, it is left in order, within its own time; asyncio's `cancel`, called
    again, still hurries it. The type stays what it is, for `AsyncExitStack.enter_async_context` asks for an async def.
    """

    @wraps(function)
    async def shielded(*args: Any, **kwargs: Any) -> Any:
        with anyio.CancelScope(shield=True):
            return await function(*args, **kwargs)
        raise AssertionError("a scope that nobody cancels lets nothing disappear")

    return cast("F", shielded)


class ShieldedExitStack(AsyncExitStack):
    """An AsyncExitStack that unwinds shielded from anyio's scopes, all of it in one."""

    @shielded_from_scopes
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return await super().__aexit__(kind, error, traceback)


class BodyCancellation:
    """Made when a body is entered, by the task that enters it; the bookkeeping is that of `asyncio.timeout`.

    The body may be left in another task than the one that entered it (fixtures do that); then there is nothing that
    could be cancelled once the entering task has ended.
    """

    __slots__ = ("_called", "_cancelling", "_left", "_task")

    def __init__(self) -> None:
        task: asyncio.Task[Any] | None = asyncio.current_task()
        if task is None:
            raise RuntimeError("this needs a task to run in")
        self._task = task
        self._cancelling = task.cancelling()
        self._called = False
        self._left = False

    def cancel(self) -> None:
        """Cancel the body, if it has not been left; a second call does nothing more."""
        if not self._called and not self._left:
            self._called = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> bool:
        """The body has been left by `error`; whether that is our cancellation, and nobody else's.

        A cancellation that has not reached the body any more is taken back here.

        Raises:
            CancelledError: Somebody else cancelled too.
        """
        self._left = True
        if not self._called or self._task is not asyncio.current_task():
            return False
        others = self._task.uncancel() > self._cancelling
        if isinstance(error, asyncio.CancelledError):
            return not others
        try:
            await asyncio.sleep(0)  # where the body swallowed it, or ended before it arrived, this does nothing, or ...
        except asyncio.CancelledError:
            if others:
                raise
        return False
