"""Work that is done one by one: so many calls at once that together they would hold the loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kinformer._runtime.fence import unfenced
from kinformer._runtime.tasks import Tasks

__all__ = ["OneByOne"]

T = TypeVar("T")


class OneByOne(Generic[T]):
    """Does something for each item, in order: for the first at once, and for one more in each turn of the loop.

    Starting what talks to a server costs a tenth of a millisecond or more, most of it in the first step of a task,
    which is part of the next turn. So no clock is looked at.

    Args:
        do: Called with each item.
        tasks: Have the task that does the rest, and hear of what it raises.
        name: Of that task.
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
        """Do it for these, after those that wait."""
        self._waiting.extend(items)
        if self._is_busy or not self._waiting:
            return
        self._do(self._waiting.popleft())
        if self._waiting:
            self._is_busy = True
            with unfenced():  # it may be started by a leader's body, and outlive that
                self._tasks.start(self._rest(), self._name)

    def clear(self) -> None:
        """Do it for none of those that wait."""
        self._waiting.clear()

    async def _rest(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(0)
                if self._waiting:
                    self._do(self._waiting.popleft())
        finally:
            self._is_busy = False
