"""The tasks of one owner: started by name, watched for bugs, and ended within a deadline.

No task group stays open between entering and leaving an informer, because fixtures and frameworks enter
in one task and leave in another; these are plain tasks that their owner keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from kinformer._runtime.logs import get_logger

__all__ = ["Tasks"]

log = get_logger("kinformer.tasks")

GRACE = 1.0  # seconds that a cancelled task has for its `finally`


class Tasks:
    """Named tasks with one owner. `on_crash` is told of a task that ended by an exception of its own.

    A CancelledError is one, too, where nobody cancelled the task: it awaited something that was cancelled.
    """

    def __init__(self, on_crash: Callable[[str, BaseException], None]) -> None:
        self._on_crash = on_crash
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task and keep it."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
        elif not task.cancelling():
            error = RuntimeError(f"{task.get_name()} ended by a CancelledError of its own")
        else:
            error = None
        if error is not None:
            self._on_crash(task.get_name(), error)

    async def finish(self, tasks: Iterable[asyncio.Task[Any]], deadline: float) -> None:
        """Wait for tasks to end by themselves, until `deadline` on the loop's clock. Raises nothing of theirs."""
        waiting = {task for task in tasks if not task.done()}
        if waiting:
            await asyncio.wait(waiting, timeout=max(0.0, deadline - asyncio.get_running_loop().time()))

    async def cancel(self, tasks: Iterable[asyncio.Task[Any]] | None = None) -> None:
        """Cancel tasks (default: all) once, as asyncio does; whoever still runs after 1 s is named and let go.

        Cancelled once and not again and again, so that a `finally` that awaits can do its work.
        """
        pending = {task for task in (self._tasks if tasks is None else tasks) if not task.done()}
        for task in pending:
            task.cancel()
        if not pending:
            return
        _, stuck = await asyncio.wait(pending, timeout=GRACE)
        for task in stuck:
            self._tasks.discard(task)
            text = "%s did not end within %g s of its cancellation and is abandoned"
            log.error(text, task.get_name(), GRACE, reason="abandoned")
