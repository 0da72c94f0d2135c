"""Work queues with delayed adds: `DelayingQueue` with a given delay, `RateLimitingQueue` with a limiter's delay.

`RateLimitingQueue` is here because a rate-limited add is a delayed add whose delay a limiter chooses.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from dataclasses import replace

from kinformer._runtime.clock import YieldBudget
from kinformer.metrics import Metrics
from kinformer.workqueue.rate_limiters import RateLimiter, default_rate_limiter
from kinformer.workqueue.work_queue import K, QueueStatistics, WorkQueue

__all__ = ["DelayingQueue", "RateLimitingQueue"]

_STALE = 64  # outdated entries allowed in the heap, in addition to the number of current ones


class DelayingQueue(WorkQueue[K]):
    """A `WorkQueue` with `add_after` (client-go, util/workqueue/delaying_queue.go).

    A key has one delayed add at a time, the earliest. It is independent of the key's plain adds, which neither hasten
    nor cancel it. All delays of a queue share one timer, without a task or polling.

    Args:
        name, metrics, ageing: See `WorkQueue`.
    """

    def __init__(self, *, name: str | None = None, metrics: Metrics | None = None, ageing: float = 10.0) -> None:
        super().__init__(name=name, metrics=metrics, ageing=ageing)
        self._delayed: dict[K, tuple[float, int]] = {}  # time on the loop's clock, and priority
        # Entries of the heap are not removed when a delay is replaced or dropped, but skipped when they are due.
        self._heap: list[tuple[float, int, K]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None
        self._timer_at = math.inf  # the time of `_timer`, or -inf while due keys are queued in slices
        self._has_loop = False
        self._waits_for_delayed = False

    def add_after(self, key: K, delay: float, *, priority: int = 0) -> None:
        """Add `key` after `delay` seconds, or immediately if the delay is 0 or less.

        If a key has two delays, the one that ends first counts, with the higher of the two priorities. A call after a
        shutdown is ignored, except during a drain that waits for delayed keys. If it is called before there is an
        event loop, the delay is due once the queue is used inside one.

        Raises:
            ValueError: `delay` is infinite or not a number.
            RuntimeError: The queue has been used inside an event loop, and this call is outside.
        """
        if not math.isfinite(delay):
            raise ValueError(f"invalid delay in add_after({key!r}, {delay!r}): expected a finite number of seconds")
        if self._shutting_down and not self._waits_for_delayed:
            return
        if delay > 0 and self._has_loop:
            asyncio.get_running_loop()  # raises before anything is recorded
        self._retries += 1
        if self._exported is not None:
            self._exported.count_retry(1)
        if delay <= 0:
            self._enqueue(key, priority)
            return
        self._schedule(key, self._now() + delay, priority)

    def _schedule(self, key: K, when: float, priority: int) -> None:
        delayed = self._delayed.get(key)
        if delayed is not None:
            priority = max(priority, delayed[1])
            if delayed[0] <= when:
                self._delayed[key] = (delayed[0], priority)
                return
        self._delayed[key] = (when, priority)
        heapq.heappush(self._heap, (when, next(self._order), key))
        if len(self._heap) > 2 * len(self._delayed) + _STALE:
            self._heap = [(when, next(self._order), key) for key, (when, _) in self._delayed.items()]
            heapq.heapify(self._heap)
        if when < self._timer_at:
            self._arm_timer()

    def _arm_timer(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the first `add_after` or `get` inside a loop starts it
        self._has_loop = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._heap[0][0]
        self._timer = loop.call_at(self._timer_at, self._enqueue_due)

    async def get(self) -> K:
        """Take the next key. See `WorkQueue.get`."""
        if not self._has_loop:
            self._has_loop = True
            if self._heap:
                self._arm_timer()
        return await super().get()

    def _enqueue_due(self, budget: YieldBudget | None = None) -> None:
        """Queue the keys that are due, in slices, because thousands of keys may become due together."""
        self._timer, self._timer_at = None, math.inf
        if budget is None:
            budget = YieldBudget()
        else:
            budget.enter()
        loop = asyncio.get_running_loop()
        now = self._now()
        heap = self._heap
        while heap:
            when, _, key = heap[0]
            delayed = self._delayed.get(key)
            if delayed is None or delayed[0] != when:
                heapq.heappop(heap)  # replaced by an earlier delay, or dropped
                continue
            if when > now:
                self._arm_timer()
                return
            if budget.exhausted():
                self._timer_at = -math.inf
                budget.leave()
                self._timer = loop.call_soon(self._enqueue_due, budget)
                return
            heapq.heappop(heap)
            del self._delayed[key]
            self._enqueue(key, delayed[1])

    # --- shutting down --------------------------------------------------------------------------------------

    def shut_down(self) -> None:
        """Ignore adds from now on, like `WorkQueue.shut_down`. Delayed keys are dropped, as in client-go."""
        self._waits_for_delayed = False
        self._forget_delayed()
        super().shut_down()

    async def shut_down_with_drain(self, timeout: float | None = None, *, wait_for_delayed: bool = False) -> None:
        """Shut down and drain, like `WorkQueue.shut_down_with_drain`. Delayed keys are dropped, or waited for.

        Args:
            timeout: Seconds, or None to wait forever.
            wait_for_delayed: True to wait until delayed keys are due, taken and done, including keys that workers
                delay in the meantime. With a key that always fails, only the timeout ends this. False by default,
                because a delay may be hours.

        Raises:
            TimeoutError: `timeout` seconds have passed. With `wait_for_delayed`, keys that are still delayed are
                dropped.
        """
        self._waits_for_delayed = wait_for_delayed
        if not wait_for_delayed:
            self._forget_delayed()
        super().shut_down()
        try:
            await self._wait_drained(timeout)
        finally:
            if self._waits_for_delayed:
                self._waits_for_delayed = False
                self._forget_delayed()
                self._after_shut_down()

    def _forget_delayed(self) -> None:
        self._delayed.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_at = None, math.inf

    def _has_ended(self) -> bool:
        return super()._has_ended() and not self._delayed

    def statistics(self) -> QueueStatistics:
        """Return the current figures. See `WorkQueue.statistics`."""
        return replace(super().statistics(), delayed=len(self._delayed))


class RateLimitingQueue(DelayingQueue[K]):
    """A `DelayingQueue` whose limiter chooses the delay (client-go, util/workqueue/rate_limiting_queue.go).

    ::

        key = await queue.get()
        try:
            await reconcile(key)
        except Exception:
            queue.add_rate_limited(key)
        else:
            queue.forget(key)
        finally:
            queue.done(key)

    Both `forget` and `done` are needed: the first resets the count of failures, and the second ends the work.

    Args:
        limiter: The rate limiter. None uses client-go's limiter for controllers, `default_rate_limiter`: 5 ms doubling
            to 1000 s for each key, and 10 retries a second in total, with bursts of 100.
        name, metrics, ageing: See `WorkQueue`.
    """

    def __init__(
        self,
        limiter: RateLimiter[K] | None = None,
        *,
        name: str | None = None,
        metrics: Metrics | None = None,
        ageing: float = 10.0,
    ) -> None:
        super().__init__(name=name, metrics=metrics, ageing=ageing)
        self.limiter: RateLimiter[K] = default_rate_limiter() if limiter is None else limiter

    def add_rate_limited(self, key: K, *, priority: int = 0) -> None:
        """Add `key` after the delay chosen by the limiter, and count one failure."""
        self.add_after(key, self.limiter.when(key), priority=priority)

    def forget(self, key: K) -> None:
        """Reset the failures of a key that has succeeded or was given up. It still needs `done`."""
        self.limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """Return how often the key has failed since it was last forgotten."""
        return self.limiter.num_requeues(key)
