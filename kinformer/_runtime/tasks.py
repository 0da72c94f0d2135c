"""The tasks of one owner, on one loop: started with a name, watched for crashes, and ended by a deadline.

These are plain tasks that their owner keeps. A task group could not stay open between entering and leaving an informer,
because fixtures and frameworks enter in one task and leave in another.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import nullcontext
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import anyio

from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger, logged_for

__all__ = ["Coro", "OneByOne", "Tasks", "all_of", "one_a_turn", "require_loop", "wait_for_end"]

T = TypeVar("T")

Coro: TypeAlias = Coroutine[Any, Any, T]
"""A coroutine that returns a T."""

log = get_logger("kinformer.tasks")

# anyio's locks, because those of asyncio refer to their loop, which would then never be freed.
_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, anyio.Lock] = WeakKeyDictionary()


async def wait_for_end(futures: Collection[asyncio.Future[Any]]) -> None:
    """Wait until all futures have ended. Their errors are not raised, and are marked as retrieved.

    If it is cancelled, it raises that same CancelledError. `asyncio.gather` raises the one of a future instead, without
    the message by which an anyio scope recognizes its own cancellation.
    """
    for future in futures:
        future.add_done_callback(_see)
    if futures:
        await asyncio.wait(futures)


async def all_of(coroutines: Iterable[Coro[None]]) -> None:
    """Run coroutines at the same time. Raise the first error, and then end the others."""
    tasks = {asyncio.ensure_future(coroutine) for coroutine in coroutines}
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        # All of them, because `result` was called only for the first of two that failed in one step.
        await wait_for_end(tasks)


async def one_a_turn() -> None:
    """Wait until the caller is the first of all that wait here. One passes in each iteration of the loop.

    It is for the requests of many reflectors, each of which takes the first third of a millisecond in one step. Two
    thousand that begin in one iteration, as after a restart of the server, would hold the loop for a second.
    """
    async with _turns.setdefault(asyncio.get_running_loop(), anyio.Lock()):
        pass  # the lock is taken, or passed on, in an iteration of its own


def _see(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


GRACE = 1.0  # seconds that a cancelled task has for its `finally`


class Tasks:
    """Named tasks with one owner.

    Args:
        on_crash: Called with the name and the exception of a task that failed. The exception is a RuntimeError if a
            task ended by a CancelledError without being cancelled (because it awaited a cancelled future), or if a
            vital task or a guest was cancelled, but not by `cancel` or `drop`.

    Attributes:
        cluster: The cluster whose name begins their log messages, or "". None keeps that of the code that starts them.
    """

    def __init__(self, on_crash: Callable[[str, BaseException], None]) -> None:
        self.cluster: str | None = None
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[object]] = set()
        self._vital: set[asyncio.Task[object]] = set()
        self._guests: set[asyncio.Task[object]] = set()
        self._dropped: set[asyncio.Task[object]] = set()

    def start(self, coroutine: Coro[T], name: str, *, vital: bool = False) -> asyncio.Task[T]:
        """Start a task and keep it. The owner cannot do without a vital one."""
        with nullcontext() if self.cluster is None else logged_for(self.cluster):
            task = asyncio.get_running_loop().create_task(coroutine, name=name)
            self._tasks.add(task)
            if vital:
                self._vital.add(task)
            task.add_done_callback(self._ended)
        return task

    def start_guest(self, coroutine: Coro[T], name: str) -> asyncio.Task[T]:
        """Start a vital task that runs code of the program, which may cancel it from inside (see `is_ending`)."""
        task = self.start(coroutine, name)
        self._guests.add(task)
        return task

    def is_ending(self) -> bool:
        """True if the owner ends the current task, or if all tasks end, as in `asyncio.run`. Else it cancels itself.

        A vital task that was cancelled, and not by the owner, shows the end of all. A guest may have cancelled itself.
        """
        return asyncio.current_task() in self._dropped or any(task.cancelling() for task in self._vital)

    @property
    def running(self) -> tuple[asyncio.Task[object], ...]:
        """The tasks that have not ended, and whose event loop is open."""
        return tuple(task for task in self._tasks if not task.get_loop().is_closed())

    def _ended(self, task: asyncio.Task[object]) -> None:
        if not task.cancelled():
            error = task.exception()
        elif not task.cancelling():
            error = RuntimeError(f"{task.get_name()} ended with a CancelledError, although it was not cancelled")
        elif task not in self._dropped and (task in self._vital or task in self._guests):
            error = RuntimeError(f"{task.get_name()} was cancelled, but not by its owner")
        else:
            error = None
        for kept in (self._tasks, self._guests, self._dropped):
            kept.discard(task)
        if not task.cancelled():
            self._vital.discard(task)  # a task that was cancelled stays here, because `is_ending` asks for it
        if error is not None:
            self._on_crash(task.get_name(), error)

    async def finish(self, tasks: Iterable[asyncio.Task[object]], deadline: float) -> None:
        """Wait for tasks to end by themselves, until `deadline` on the loop's clock. Raises none of their errors."""
        waiting = {task for task in tasks if not task.done()}
        if waiting:
            await asyncio.wait(waiting, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))

    def drop(self, tasks: Iterable[asyncio.Task[object]]) -> None:
        """Cancel tasks without waiting for their end."""
        for task in tasks:
            if not task.done():
                if not task.cancelling():
                    self._vital.discard(task)
                self._dropped.add(task)
                task.cancel()

    async def cancel(self, tasks: Iterable[asyncio.Task[object]] | None = None) -> None:
        """Cancel tasks (default: all), as asyncio does. Tasks that still run after 1 s are logged and abandoned.

        They are cancelled once, not repeatedly, so that a `finally` that awaits can do its work.
        """
        pending = {task for task in (self._tasks if tasks is None else tasks) if not task.done()}
        self.drop(pending)
        if not pending:
            return
        _, stuck = await asyncio.wait(pending, timeout=GRACE)
        for task in stuck:
            self._tasks.discard(task)
            message = "%s did not end within %g s of its cancellation and is abandoned"
            log.error(message, task.get_name(), GRACE, reason="abandoned")


class OneByOne(Generic[T]):
    """Calls a function for each item, in order: for the first at once, then for one in each iteration of the loop.

    It is for starting objects that talk to a server. Each start takes a tenth of a millisecond or more, most of it in
    the first step of a task, which is part of the next iteration. So it does not check a clock.

    Args:
        do: Called with each item.
        tasks: Owns the background task, and is notified if it fails.
        name: The name of the background task.
    """

    def __init__(self, do: Callable[[T], None], tasks: Tasks, name: str) -> None:
        self._do = do
        self._tasks = tasks
        self._name = name
        self._waiting: deque[T] = deque()
        self._is_busy = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, items: Iterable[T]) -> None:
        """Add items after the ones that wait."""
        self._waiting.extend(items)
        if self._is_busy or not self._waiting:
            return
        self._do(self._waiting.popleft())
        if self._waiting:
            self._is_busy = True
            with unfenced():  # a leader's body may start it, and end before it
                self._tasks.start(self._rest(), self._name)

    def clear(self) -> None:
        """Drop all items that wait."""
        self._waiting.clear()

    async def _rest(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)
                if self._waiting:
                    self._do(self._waiting.popleft())
        finally:
            self._is_busy = False


def require_loop(loop: asyncio.AbstractEventLoop | None, method: str, owner: str) -> None:
    """Raise RuntimeError unless `loop` runs in this thread, or is None because the owner has not been entered yet.

    Args:
        loop: The loop that the owner was entered on.
        method: The name of the method that was called.
        owner: The object that it was called on, such as `"informer v1/pods"`.
    """
    if loop is None:
        return
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        return
    if running is not None:
        raise RuntimeError(
            f"{method}: {owner} belongs to another event loop; call it there with asyncio.run_coroutine_threadsafe"
        )
    raise RuntimeError(
        f"{method}: {owner} belongs to the event loop that it was entered on, but was called from thread "
        f"{threading.current_thread().name}; submit a coroutine to that loop with asyncio.run_coroutine_threadsafe, "
        "or use kinformer.blocking, which may be called from any thread"
    )
