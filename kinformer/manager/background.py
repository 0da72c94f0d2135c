"""The life of informers in a program that has no `async with` around its own: a task that start and stop control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from typing import Generic, TypeVar

from kinformer.exceptions import StoppedError

__all__ = ["Background"]

T = TypeVar("T")


class Background(Generic[T]):
    """Keeps an async context manager open in a task of its own, from `start` to `stop`: for plugins and spawners.

    ::

        @asynccontextmanager
        async def followed():
            async with Client() as client, SharedInformerFactory(client) as factory:
                pods = factory.for_resource("v1/pods")
                await factory.wait_for_cache_sync(timeout=30, fail_fast=True)
                yield pods

        background = Background(followed)
        pods = await background.start()
        await background.stop()

    It belongs to the event loop of `start`. If that loop ends without `stop`, as `asyncio.run` cancels all tasks, the
    context is exited. The task has an empty context, because it outlives the code that starts it.

    Args:
        setup: A function that returns the context manager. It is called for each start.
    """

    def __init__(self, setup: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._setup = setup
        self._task: asyncio.Task[None] | None = None
        self._entered: asyncio.Future[T]
        self._stopping: asyncio.Event

    async def start(self) -> T:
        """Enter the context, unless it is open, and return what it yields. Concurrent calls enter it once.

        A cancelled call does not stop the entering, which others may wait for. After a failure, the next call tries
        again.

        Raises:
            StoppedError: `stop` was called meanwhile.
            Exception: Entering raised this.
        """
        while (task := self._running()) is not None and self._stopping.is_set():
            await asyncio.wait({task})
        if task is None:
            loop = asyncio.get_running_loop()
            self._entered, self._stopping = loop.create_future(), asyncio.Event()
            run = self._run(self._entered, self._stopping)
            self._task = loop.create_task(run, name="kinformer background", context=Context())
        return await asyncio.shield(self._entered)

    async def stop(self) -> None:
        """Exit the context, and wait for its end. Idempotent. An entering that is under way is cancelled.

        Raises:
            Exception: Exiting raised this, such as the error of an informer that has crashed.
        """
        task = self._running()
        if task is None:
            return
        self._stopping.set()
        if not self._entered.done():
            task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    def _running(self) -> asyncio.Task[None] | None:
        return None if self._task is None or self._task.done() else self._task

    async def _run(self, entered: asyncio.Future[T], stopping: asyncio.Event) -> None:
        try:
            async with self._setup() as value:
                entered.set_result(value)
                await stopping.wait()
        except BaseException as error:
            if entered.done():
                raise
            stopped = isinstance(error, asyncio.CancelledError)
            entered.set_exception(StoppedError("it was stopped before it was ready") if stopped else error)
            entered.exception()  # marked as retrieved, because perhaps no caller waits any more
            if not isinstance(error, Exception):
                raise
