"""The propagation: decides which derived collection of an event loop works next.

Each collection has a height, one more than the highest collection that it reads. Informers have height 0. Of the
collections that have work, the lowest works first. So a value that a change reaches on two paths is computed once,
after both have arrived, and the state in between is never visible. The cost of a change is that of the collections that
it reaches, and of their reads, however many paths lead through them.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Protocol
from weakref import WeakKeyDictionary

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.waiters import WaiterQueue

__all__ = ["Propagation", "PropagationNode"]


class PropagationNode(Protocol):
    """A unit of work that a propagation runs: the engine of a derived collection."""

    height: int

    @property
    def is_held(self) -> bool:
        """True while a cache that it reads, directly or indirectly, is ahead of its receivers."""
        ...

    def work(self, budget: YieldBudget) -> bool:
        """Work until nothing is left or the budget is exhausted. Return True if work is left."""
        ...

    def crashed(self, task: str, error: BaseException) -> None:
        """Handle an exception raised by `work`."""
        ...


class Propagation:
    """The nodes of one event loop that have work. It runs in callbacks of at most 1 ms, and owns no task.

    Attributes:
        links: A number that changes whenever a node begins or ceases to read another.
    """

    def __init__(self) -> None:
        self.links = 0
        self._waiting: dict[PropagationNode, None] = {}
        # A heap of waiting nodes by height, and entries of earlier ones.
        self._order: list[tuple[int, int, PropagationNode]] = []
        self._numbers = count()
        self._held: list[PropagationNode] = []  # waiting nodes that were held in this turn
        self._is_scheduled = False
        self._budget = YieldBudget()
        self._turns = WaiterQueue()
        self._context = Context()  # a program's functions run outside the context of its requests and tasks

    @classmethod
    def current(cls) -> Propagation:
        """Return the propagation of the running event loop."""
        loop = asyncio.get_running_loop()
        propagation = _by_loop.get(loop)
        if propagation is None:
            propagation = _by_loop[loop] = cls()
        return propagation

    @property
    def is_busy(self) -> bool:
        """True if some node has work."""
        return bool(self._waiting)

    def wake(self, node: PropagationNode) -> None:
        """Schedule the work of a node. Called again for each reason why it may be able to work."""
        if node not in self._waiting:
            self._waiting[node] = None
            self._place(node)
        if not self._is_scheduled:
            self._schedule()

    def forget(self, node: PropagationNode) -> None:
        """Stop scheduling a node."""
        self._waiting.pop(node, None)
        self._held = [held for held in self._held if held is not node]
        self._order = [entry for entry in self._order if entry[2] is not node]
        heapify(self._order)

    async def turn(self) -> None:
        """Wait for the end of the next turn of work."""
        await self._turns.wait()

    def _turn(self) -> None:
        self._budget.enter()
        for node in self._held:
            self._place(node)
        self._held.clear()
        try:
            self._work(self._budget)
        finally:
            self._is_scheduled = False  # not earlier: nodes wake their readers, and there is one turn at a time
            self._turns.wake_all()
            if self._next() is None:
                self._budget.blame()
            else:
                self._budget.leave()
                self._schedule()

    def _work(self, budget: YieldBudget) -> None:
        while (node := self._next()) is not None:
            try:
                is_left = node.work(budget)
            except Exception as error:  # noqa: BLE001 - ends this collection, which passes it on to its readers
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

    def _place(self, node: PropagationNode) -> None:
        heappush(self._order, (node.height, next(self._numbers), node))

    def _next(self) -> PropagationNode | None:
        """Return the lowest node that may work. A held node waits for a later turn, and is woken when it may work."""
        order = self._order
        while order:
            height, number, node = order[0]
            if node not in self._waiting:
                heappop(order)
            elif height != node.height:
                heapreplace(order, (node.height, number, node))
            elif node.is_held:
                heappop(order)
                self._held.append(node)
            else:
                return node
        return None


_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Propagation] = WeakKeyDictionary()
