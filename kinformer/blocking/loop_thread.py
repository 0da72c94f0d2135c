"""A thread with an event loop, and the calls from other threads to it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import anyio
from anyio.from_thread import BlockingPortal

from kinformer.cache.exclusion import FREE_THREADED
from kinformer.exceptions import StoppedError

__all__ = ["Awaited", "LoopThread"]

_ENDING = 5.0  # the most seconds to wait for the thread of a loop that ends by itself

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class LoopThread:
    """An anyio portal: a daemon thread with an event loop, to which other threads pass coroutines.

    An interpreter that exits while it is open does not wait for it, nor for the worker threads of its loop, which are
    daemons too.

    Args:
        owner: The name of the object that the loop belongs to, for errors.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        # Prevents calls from beginning while the portal ends. The handler of a signal, or a finalizer of the program,
        # may call in the middle of another call of its thread.
        self._lock = threading.RLock()
        self._stack = ExitStack()  # what `close` exits
        self._portal: BlockingPortal | None = None  # set by `open`, once it has entered the context
        self._loop: asyncio.AbstractEventLoop | None = None  # set by the thread, once it runs
        self._posted: set[asyncio.Task[None]] = set()  # tasks of `post`, which the loop keeps weakly
        self._thread: threading.Thread | None = None
        self._died: BaseException | None = None  # the exception that ended the loop before it was exited
        self._process = 0  # the id of the process that opened it
        self._closed = False  # True once no call is accepted any more
        self._leaving = False  # True once exiting has begun
        self._dying = False  # True once the loop ends without exiting

    def open(self, running: AbstractAsyncContextManager[object]) -> None:
        """Start the thread, and enter `running` on its loop.

        Raises:
            RuntimeError: It was opened before.
            BaseException: Entering raised it. The thread has ended.
        """
        with self._lock:
            if self._process:
                raise RuntimeError(f"{self._owner} can be entered only once; create a new one")
            self._process = os.getpid()
        started: Future[BlockingPortal] = Future()
        # Not `start_blocking_portal`, which does not report the exception that ended its loop.
        self._thread = threading.Thread(target=self._run, args=(started,), name="kinformer event loop", daemon=True)
        with ExitStack() as stack:
            stack.callback(self._end, started)
            self._thread.start()
            portal = started.result()
            stack.enter_context(portal.wrap_async_context_manager(self._observed(running)))
            self._stack = stack.pop_all()
        self._portal = portal

    def close(self, error: BaseException | None = None) -> None:
        """Exit the context of `open`, cancel the calls that other threads still wait for, and end the thread.

        Calls are accepted while the context exits, because handlers may need them to finish. In a forked process this
        does nothing, because the thread is the parent's.

        Raises:
            RuntimeError: Called on the loop's own thread.
            StoppedError: The loop has ended before, by itself. Not raised if `error` is given.
        """
        if self._process and os.getpid() != self._process:
            return
        self._refuse_own_thread("leaving")
        with self._lock:
            stack = self._stack.pop_all()  # if two threads exit, only one does it
            died = self._dying and not self._closed
            self._leaving = True
        if died:
            stack.pop_all()  # there is nothing left to exit
            ended = self._ended("leaving")
            self._closed = True
            if error is None:
                raise ended
            return
        stack.__exit__(type(error) if error else None, error, error.__traceback__ if error else None)

    @overload
    def call(self, what: str, function: Callable[[], Coroutine[Any, Any, T]]) -> T: ...
    @overload
    def call(self, what: str, function: Callable[[], T]) -> T: ...
    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """Call a function on the loop, await its result if that is a coroutine, and return the result.

        If this thread is interrupted in the meantime, such as by Ctrl-C, the coroutine is cancelled.

        Raises:
            RuntimeError: Not entered yet, called on the loop's own thread, or in a forked process.
            StoppedError: The loop has ended, before or during the call.
        """
        self._refuse_own_thread(what)
        with self._lock:
            if self._closed or self._dying:
                raise self._ended(what)
            if self._portal is None:
                raise RuntimeError(f"{what}: {self._owner} has not been entered; use it inside `with`")
            try:
                future: Future[Any] = self._portal.start_task_soon(function)
            except RuntimeError:  # it is ending by itself
                raise self._ended(what) from None
        try:
            return _result(future)
        except CancelledError:
            raise self._ended(what) from None
        except BaseException:
            future.cancel()
            raise

    def post(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call a coroutine function on the loop soon. Waits neither for it nor for a lock, and raises nothing.

        For finalizers, which the garbage collector runs in any thread, in the middle of any call. Calls that begin
        later run after it. If the loop has ended, or is another process's, nothing happens.
        """
        if self._loop is not None and os.getpid() == self._process:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._start_posted, function)

    def _start_posted(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.ensure_future(function())
        self._posted.add(task)
        task.add_done_callback(self._posted.discard)

    @asynccontextmanager
    async def _observed(self, running: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
        async with running:
            try:
                yield
            finally:
                self._dying = not self._leaving

    def _ended(self, what: str) -> StoppedError:
        if not self._closed and self._thread is not None:
            self._thread.join(_ENDING)  # the reason is known once the thread has ended
        if self._died is None:
            return StoppedError(f"{what}: {self._owner} was exited")
        error = StoppedError(
            f"{what}: the event loop of {self._owner} has ended, because a function that runs there raised "
            f"{type(self._died).__name__}"
        )
        error.__cause__ = self._died
        return error

    def _refuse_own_thread(self, what: str) -> None:
        if self._process and os.getpid() != self._process:
            raise RuntimeError(
                f"{what}: {self._owner} was entered in the process {self._process}, and its thread does not exist in "
                "this one; create a new one after the fork"
            )
        if self._thread is threading.current_thread():
            raise RuntimeError(
                f"{what}: called on the thread of the event loop of {self._owner}, which would wait for itself; "
                "conditions, filters, index functions and transforms run there, and must not block"
            )

    def _run(self, started: Future[BlockingPortal]) -> None:
        """Run the loop, in its thread. An exception that ends it is kept for later calls, because it has no caller."""
        try:
            anyio.run(self._serve, started)
        except BaseException as error:  # noqa: BLE001 - SystemExit and KeyboardInterrupt of a function on the loop
            self._died = error
            if not started.done():
                started.set_exception(error)

    async def _serve(self, started: Future[BlockingPortal]) -> None:
        self._loop = asyncio.get_running_loop()
        async with BlockingPortal() as portal:
            started.set_result(portal)
            await portal.sleep_until_stopped()

    def _end(self, started: Future[BlockingPortal]) -> None:
        portal, thread = started.result(), self._thread
        assert thread is not None
        self._leaving = True
        with self._lock:
            self._closed = True
        try:
            portal.call(partial(portal.stop, cancel_remaining=True))
        except (RuntimeError, CancelledError):
            if self._died is None and thread.is_alive():
                raise
        thread.join()


def _result(future: Future[T]) -> T:
    """Wait for a call on the loop, so that Ctrl-C and other signals end the wait at once, or within a second."""
    # Without the GIL, a lock spins before it sleeps, and CPython 3.14 and 3.15 do not notice signals then.
    while FREE_THREADED and not future.done():
        wait([future], timeout=1)
    return future.result()


class _OnLoop(Protocol):
    """A face of an object that belongs to the loop of a thread."""

    @property
    def _loop_thread(self) -> LoopThread: ...


class Awaited(Generic[P, R]):
    """A blocking method made from a coroutine method, with the same parameters, result and errors.

    Args:
        method: The coroutine method.
        of: The name of the attribute with the object to call it on.
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
        """Bind it to an object, like a function."""
        if instance is None:
            return self
        name = self._method.__name__
        method: Callable[P, Coroutine[Any, Any, R]] = getattr(getattr(instance, self._of), name)
        loop_thread = instance._loop_thread

        @wraps(method)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> R:
            return loop_thread.call(name, partial(method, *args, **kwargs))

        return blocking
