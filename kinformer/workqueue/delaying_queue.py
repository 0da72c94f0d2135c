"""A work queue with adds for later."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from kinformer._runtime.clock import YieldBudget
from kinformer.metrics import Metrics
from kinformer.workqueue.work_queue import K, QueueStatistics, WorkQueue

__all__ = ["DelayingQueue"]

_STALE = 64  # entries of the heap that may be out of date, beside as many as are not


class DelayingQueue(WorkQueue[K]):
    """A `WorkQueue` with `add_after` (client-go, util/workqueue/delaying_queue.go).

    A key has one delayed add at a time: the earliest. It is apart from the key's plain adds, which neither hasten nor
    cancel it. All delays of a queue share one timer; there is no task and no polling.

    Args:
        name, metrics, ageing: See `WorkQueue`.
    """

    def __init__(self, *, name: str | None = None, metrics: Metrics | None = None, ageing: float = 10.0) -> None:
        super().__init__(name=name, metrics=metrics, ageing=ageing)
        self._delayed: dict[K, tuple[float, int]] = {}  # when, on the loop's clock, and the priority
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._timer_at = math.inf
        self._has_loop = False
        self._handed_back: dict[K, float] = {}
        self._draining = False
        self._waits_for_delayed = False

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Add `key` after `delay` seconds; at once if that is 0 or less.

        Of two delays for a key the one that ends first counts, and the higher priority. Called during a drain it is
        waited for, or handed back, as the drain was told; once shut down otherwise, it is ignored. Called before there
        is a loop, it comes due once the queue is used inside one.

        Raises:
            ValueError: `delay` is no number, or infinite.
            RuntimeError: The queue has been used inside a loop, and this call is made outside.
        """
        if not math.isfinite(delay):
            raise ValueError(f"add_after({key!r}, {delay!r}): a finite number of seconds is needed")
        if self._shutting_down and not self._waits_for_delayed:
            if self._draining:
                self._hand_back(key, max(0.0, delay))
            return
        if delay > 0 and self._has_loop:
            asyncio.get_running_loop()  # raises before anything is noted
        self._retries += 1
        if self._count_retry is not None:
            self._count_retry(1)
        if delay <= 0:
            self._put(key, priority)
            return
        when = self._now() + delay
        known = self._delayed.get(key)
        if known is not None:
            priority = max(priority, known[1])
            if known[0] <= when:
                self._delayed[key] = (known[0], priority)
                return
        self._delayed[key] = (when, priority)
        heapq.heappush(self._heap, (when, next(self._order), key))
        if len(self._heap) > 2 * len(self._delayed) + _STALE:
            self._heap = [(when, next(self._order), key) for key, (when, _) in self._delayed.items()]
            heapq.heapify(self._heap)
        if when < self._timer_at:
            self._arm()

    def _arm(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the first `add_after` or `get` inside one will do it
        self._has_loop = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        self._timer = loop.call_at(self._timer_at, self._due)

    async def get(self) -> K:
        """As `WorkQueue.get`."""
        if not self._has_loop:
            self._has_loop = True
            if self._heap:
                self._arm()
        return await super().get()

    def _due(self, come_back: Callable[[], None] | None = None) -> None:
        """Move what is due, in slices: a thousand keys that back off together come back together."""
        self._timer, self._timer_at = None, math.inf
        if come_back is not None:
            come_back()
        loop = asyncio.get_running_loop()
        now = self._now()
        budget = YieldBudget()
        heap = self._heap
        while heap:
            when, _, key = heap[0]
            known = self._delayed.get(key)
            if known is None or known[0] != when:
                heapq.heappop(heap)  # replaced by an earlier one, or handed back
                continue
            if when > now:
                self._arm()
                return
            if budget.exhausted():
                self._timer_at = -math.inf
                self._timer = loop.call_soon(self._due, budget.leave())
                return
            heapq.heappop(heap)
            del self._delayed[key]
            self._put(key, known[1])

    # --- the end ------------------------------------------------------------------------------------------

    @property
    def handed_back(self) -> Mapping[K, float]:
        """The delayed keys that a shutdown found, with the seconds they had left: they will not be handed out.

        client-go forgets them. During a drain those are added that workers ask for in its course, such as retries.
        """
        return MappingProxyType(self._handed_back)

    def shut_down(self) -> None:
        """As `WorkQueue.shut_down`; delayed keys are handed back, see `handed_back`."""
        self._draining = self._waits_for_delayed = False
        self._hand_back_all()
        super().shut_down()

    async def shut_down_with_drain(self, timeout: float | None = None, *, wait_for_delayed: bool = False) -> None:
        """As `WorkQueue.shut_down_with_drain`; delayed keys are handed back, or waited for.

        Args:
            timeout: Seconds.
            wait_for_delayed: Let them come due, be taken and be done first, and those that workers delay meanwhile;
                with a key that always fails this only ends by the timeout. False, because a delay may be hours.

        Raises:
            TimeoutError: `timeout` seconds have passed; with `wait_for_delayed`, what is still delayed is handed back.
        """
        self._draining, self._waits_for_delayed = True, wait_for_delayed
        if not wait_for_delayed:
            self._hand_back_all()
        super().shut_down()
        try:
            await self._drained(timeout)
        finally:
            self._draining = False
            if self._waits_for_delayed:
                self._waits_for_delayed = False
                self._hand_back_all()
                self._after_shut_down()

    def _hand_back_all(self) -> None:
        if self._delayed:
            now = self._now()
            for key, (when, _) in self._delayed.items():
                self._hand_back(key, max(0.0, when - now))
            self._delayed.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, math.inf

    def _hand_back(self, key: K, delay: float) -> None:
        self._handed_back[key] = min(delay, self._handed_back.get(key, delay))

    def _ended(self) -> bool:
        return super()._ended() and not self._delayed

    def statistics(self) -> QueueStatistics:
        """The figures of this moment."""
        return replace(super().statistics(), delayed=len(self._delayed))
