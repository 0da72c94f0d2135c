"""The propagation: which derived collection of an event loop works next.

Each collection has a height, one more than the highest of those that it reads; informers have 0. Of the collections
that have something to do the lowest works first. So a value that two ways lead to is computed once, after both of them
have arrived, and nobody sees the state in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Protocol
from weakref import WeakKeyDictionary

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.waiters import WaiterQueue

__all__ = ["Node", "Propagation"]


class Node(Protocol):
    """What a propagation runs."""

    height: int

    @property
    def is_held(self) -> bool:
        """True while one of the caches that it reads, directly or not, is ahead of what it has told."""
        ...

    def work(self, budget: YieldBudget) -> bool:
        """Work until nothing is left or the budget is exhausted; return True if something is left."""
        ...

    def crashed(self, task: str, error: BaseException) -> None:
        """Take note that `work` has raised."""
        ...


class Propagation:
    """The nodes of one event loop that have something to do. It runs in callbacks of at most 1 ms, and owns no task."""

    def __init__(self) -> None:
        self._waiting: dict[Node, None] = {}
        self._is_scheduled = False
        self._come_back: Callable[[], None] | None = None
        self._turns = WaiterQueue()
        self._context = Context()  # the functions of a program run for no request and no task of it

    @classmethod
    def current(cls) -> Propagation:
        """Return the propagation of the running event loop."""
        loop = asyncio.get_running_loop()
        found = _by_loop.get(loop)
        if found is None:
            found = _by_loop[loop] = cls()
        return found

    def wake(self, node: Node) -> None:
        """Have a node work soon. Called again for each reason why it may be able to."""
        self._waiting[node] = None
        if not self._is_scheduled:
            self._schedule()

    def forget(self, node: Node) -> None:
        """Have a node work no more."""
        self._waiting.pop(node, None)

    async def turn(self) -> None:
        """Wait for the end of the next turn of work."""
        await self._turns.wait()

    def _turn(self) -> None:
        budget = YieldBudget()
        if self._come_back is not None:
            self._come_back()
            self._come_back = None
        try:
            self._work(budget)
        finally:
            self._is_scheduled = False  # not before: what works wakes its readers, and there is one turn at a time
            self._turns.wake_all()
            if self._next() is not None:
                self._come_back = budget.leave()
                self._schedule()

    def _work(self, budget: YieldBudget) -> None:
        while (node := self._next()) is not None:
            try:
                is_left = node.work(budget)
            except Exception as error:  # noqa: BLE001 - it ends this collection, which tells its readers
                self._waiting.pop(node, None)
                node.crashed("its engine", error)
                continue
            if not is_left:
                self._waiting.pop(node, None)
            if budget.exhausted():
                return

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._turn, context=self._context)

    def _next(self) -> Node | None:
        """Return the lowest node that may work. One that is held is woken when it no longer is."""
        ready = [node for node in self._waiting if not node.is_held]
        return min(ready, key=lambda node: node.height, default=None)


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Propagation] = WeakKeyDictionary()
