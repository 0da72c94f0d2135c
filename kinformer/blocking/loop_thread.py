"""A thread with an event loop, and the calls that other threads make into it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, ExitStack
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

from anyio.from_thread import BlockingPortal, start_blocking_portal

from kinformer.exceptions import StoppedError

__all__ = ["Awaited", "LoopThread"]

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class LoopThread:
    """An anyio portal: a daemon thread with an event loop, which other threads hand coroutines to.

    An interpreter that exits while it is open does not wait for it, nor for the worker threads of its loop, which are
    daemons too.

    Args:
        owner: The object that the loop belongs to, for errors.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = threading.Lock()  # so that no call begins while the portal ends
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._thread: int | None = None
        self._process = 0
        self._closed = False

    def open(self, running: AbstractAsyncContextManager[object]) -> None:
        """Start the thread, and enter `running` on its loop.

        Raises:
            RuntimeError: It was opened before.
            BaseException: Entering raised it; the thread has ended.
        """
        if self._process:
            raise RuntimeError(f"{self._owner} can be entered once; make another one")
        self._process = os.getpid()
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal("asyncio"))
            stack.callback(self._end, portal)
            self._thread = portal.call(_name_thread)
            stack.enter_context(portal.wrap_async_context_manager(running))
            self._stack = stack.pop_all()
        self._portal = portal

    def close(self, error: BaseException | None = None) -> None:
        """Leave what runs, cancel the calls that other threads still wait for, and end the thread.

        Calls are accepted while what runs is left, because handlers may need them to finish.

        Raises:
            RuntimeError: Called on the loop's own thread, or in a forked process.
        """
        self._refuse_own_thread("leaving")
        with self._lock:
            stack = self._stack.pop_all()  # of two threads that leave, one does
        stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)

    @overload
    def call(self, what: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    def call(self, what: str, function: Callable[[], T]) -> T: ...
    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Call a function on the loop, await what it returns if that is a coroutine, and return the result.

        If this thread is interrupted meanwhile, as by Ctrl-C, the coroutine is cancelled.

        Raises:
            RuntimeError: Not entered yet, called on the loop's own thread, or in a forked process.
            StoppedError: Left, before or meanwhile.
        """
        self._refuse_own_thread(what)
        with self._lock:
            if self._closed:
                raise self._left(what)
            if self._portal is None:
                raise RuntimeError(f"{what}: {self._owner} has not been entered; use it inside `with`")
            future: Future[Any] = self._portal.start_task_soon(function)
        try:
            return future.result()
        except CancelledError:
            raise self._left(what) from None
        except BaseException:
            future.cancel()
            raise

    def _left(self, what: str) -> StoppedError:
        return StoppedError(f"{what}: {self._owner} has been left")

    def _refuse_own_thread(self, what: str) -> None:
        if self._process and os.getpid() != self._process:
            raise RuntimeError(
                f"{what}: {self._owner} was entered in the process {self._process}, and its thread has not come along "
                "into this one; enter another one after the fork"
            )
        if self._thread == threading.get_ident():
            raise RuntimeError(
                f"{what}: called on the thread of the event loop of {self._owner}, which would wait for itself; "
                "conditions, filters, index functions and transforms run there, and must not block"
            )

    def _end(self, portal: BlockingPortal) -> None:
        with self._lock:
            self._closed = True
        portal.call(partial(portal.stop, cancel_remaining=True))


def _name_thread() -> int:
    threading.current_thread().name = "kinformer event loop"
    return threading.get_ident()


class _OnLoop(Protocol):
    """Something in front of an object that belongs to the loop of a thread."""

    @property
    def _loop_thread(self) -> LoopThread: ...


class Awaited(Generic[P, R]):
    """A blocking method, made of a coroutine method: same parameters, same result, same errors.

    Args:
        method: The coroutine method.
        of: The name of the attribute that has the object to call it on.
    """

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], *, of: str) -> None:
        self._method = method
        self._of = of
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: _OnLoop, owner: type[object]) -> Callable[P, R]: ...
    def __get__(self, instance: _OnLoop | None, owner: type[object]) -> Self | Callable[P, R]:
        """Bind it to an object, as a function is."""
        if instance is None:
            return self
        name = self._method.__name__
        method: Callable[P, Coroutine[Any, Any, R]] = getattr(getattr(instance, self._of), name)
        loop_thread = instance._loop_thread

        @wraps(method)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
            return loop_thread.call(name, partial(method, *args, **kwargs))

        return blocking
