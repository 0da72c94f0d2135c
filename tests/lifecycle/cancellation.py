"""Cancels a coroutine at its first suspension, at its second, and so on, and looks what is left of it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any

from tests.support.sockets import open_sockets

# How a cancellation arrives: while what is awaited has not come, or in the very moment in which it has.
WHILE_WAITING, AS_IT_COMES = "while waiting", "as it comes"

MOST = 2000  # suspensions; one that has more does not end


class _CancelledAt:
    """Awaits a coroutine, and cancels the task that does so at the n-th suspension of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], suspension: int, how: str) -> None:
        self._coroutine = coroutine
        self._suspension = suspension
        self._how = how
        self.suspensions = 0
        self.cancelled = False

    def __await__(self) -> Generator[Any, Any, Any]:
        inner = self._coroutine.__await__()
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        while True:
            try:
                awaited = inner.send(None) if error is None else inner.throw(error)
            except StopIteration as end:
                return end.value
            error = None
            self.suspensions += 1
            if self.suspensions == self._suspension:
                self._cancel(task, awaited)
            try:
                yield awaited
            except BaseException as thrown:
                error = thrown

    def _cancel(self, task: asyncio.Task[Any], awaited: Any) -> None:
        def cancel(_: object = None) -> None:
            self.cancelled = True
            task.cancel()

        if self._how == AS_IT_COMES and asyncio.isfuture(awaited):
            # Before the task hears of it: its own callback is added behind this one.
            awaited.add_done_callback(cancel)
        else:
            cancel()


async def nothing_more_than(tasks: set[asyncio.Task[Any]], before: int, what: str) -> None:
    """Waits a moment for what is being closed, and finds fault with what stays."""
    for _ in range(100):
        left = {task for task in asyncio.all_tasks() - tasks if not task.done()}
        if not left and open_sockets() <= before:
            return
        await asyncio.sleep(0.01)
    gc.collect()
    raise AssertionError(f"{what}: {left} and {open_sockets() - before} sockets are left")


Setting = Callable[[], Any]  # an async context manager that gives (the call to cancel, a check of what is left)


async def cancel_everywhere(setting: Setting, how: str, *, at_least: int = 1) -> int:
    """Makes the setting anew for each suspension of its call; how many of these there were.

    The call has to raise CancelledError whenever it was cancelled before its end.
    """
    suspension = 0
    while suspension < MOST:
        suspension += 1
        what = f"cancelled at suspension {suspension}, {how}"
        tasks, before = asyncio.all_tasks(), open_sockets()
        async with setting() as (call, check):
            driver = _CancelledAt(call(), suspension, how)
            within, within_sockets = asyncio.all_tasks(), open_sockets()

            async def drive(driver: _CancelledAt = driver) -> Any:
                return await driver

            task = asyncio.ensure_future(drive())
            await asyncio.wait([task])
            if not task.cancelled() and task.exception() is not None:
                raise AssertionError(f"{what}: it raised") from task.exception()
            assert task.cancelled() == driver.cancelled, f"{what}: the cancellation was swallowed"
            await nothing_more_than(within, within_sockets, what)
            await _checked(check, task.cancelled())
        await nothing_more_than(tasks, before, f"{what}, and all was left")
        if not task.cancelled():
            assert suspension > at_least, f"it suspended {suspension - 1} times only"
            return suspension - 1
    raise AssertionError(f"more than {MOST} suspensions")


async def _checked(check: Callable[[bool], Any], cancelled: bool) -> None:
    found = check(cancelled)
    if isinstance(found, Awaitable):
        await found
