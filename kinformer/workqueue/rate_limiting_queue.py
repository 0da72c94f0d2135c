"""A work queue for keys that fail: each waits longer with each failure."""

from __future__ import annotations

from kinformer.metrics import Metrics
from kinformer.workqueue.delaying_queue import DelayingQueue
from kinformer.workqueue.rate_limiters import RateLimiter, default_rate_limiter
from kinformer.workqueue.work_queue import K

__all__ = ["RateLimitingQueue"]


class RateLimitingQueue(DelayingQueue[K]):
    """A `DelayingQueue` with a limiter that says for how long (client-go, util/workqueue/rate_limiting_queue.go).

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

    `forget` and `done` are two things, and both are needed: the one ends the count of failures, the other the work.

    Args:
        limiter: None takes client-go's for controllers: 5 ms doubling to 1000 s for each key, and 10 retries a second
            in all, with bursts of 100.
        name, metrics, ageing: See `WorkQueue`.
    """

    def __init__(
        self,
        limiter: RateLimiter | None = None,
        *,
        name: str | None = None,
        metrics: Metrics | None = None,
        ageing: float = 10.0,
    ) -> None:
        super().__init__(name=name, metrics=metrics, ageing=ageing)
        self.limiter: RateLimiter = default_rate_limiter() if limiter is None else limiter

    def add_rate_limited(self, key: K, *, priority: int = 0) -> None:
        """Add `key` when its limiter says so; counts one failure."""
        self.add_after(key, self.limiter.when(key), priority=priority)

    def forget(self, key: K) -> None:
        """The key has succeeded, or is given up: its failures count from 0. It still needs its `done`."""
        self.limiter.forget(key)

    def num_requeues(self, key: K) -> int:
        """How often the key has failed since it was last forgotten."""
        return self.limiter.num_requeues(key)
