"""The work queue: each key waits at most once, and is never processed by two workers.

A key is in one of three states. *Waiting*: it will be handed out. *Processing*: a worker has it. *Added again*: a
worker has it, and it was added in the meantime, so it waits again once that worker is done. Hence any number of adds
of a waiting key cause one run, any number of adds during a run cause exactly one more run, and two workers never
process the same key (client-go, util/workqueue/queue.go).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kinformer._runtime.waiters import WaiterQueue
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.metrics import Metrics

__all__ = ["LOW_PRIORITY", "QueueStatistics", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

LOW_PRIORITY = -100
"""The priority of keys from the first list and from resyncs, as opposed to live changes. As in controller-runtime."""

# While a key of a lower priority has waited longer than `ageing`, every fourth key is taken from there. So the initial
# backlog makes progress, and a live change waits for at most one more key.
_OVERDUE_TURN = 4

# Seconds: twelve buckets from 10 ns, each ten times the previous one (component-base, metrics/prometheus/workqueue).
_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """The figures of a queue at one moment.

    Attributes:
        depth: Keys that are waiting and could be taken now.
        processing: Keys being processed by workers.
        delayed: Keys whose delay has not passed.
        adds: Adds so far, except for adds of a key that was already waiting.
        retries: Delayed adds so far.
        unfinished_work: Total seconds for which the keys in process have been with their workers.
        longest_running: Seconds for which the oldest of them has been with its worker.
    """

    depth: int
    processing: int
    delayed: int
    adds: int
    retries: int
    unfinished_work: float
    longest_running: float


class _Exported:
    """The metrics of a queue, as in component-base (metrics/prometheus/workqueue/metrics.go)."""

    def __init__(self, metrics: Metrics, name: str, queue: WorkQueue[Any]) -> None:
        labels = {"name": name}

        def seconds(metric: str, description: str) -> Callable[[float], None]:
            return metrics.histogram(f"workqueue_{metric}_seconds", description, labels, _BUCKETS)

        self.count_add = metrics.counter("workqueue_adds_total", "Adds that a work queue has handled", labels)
        self.count_retry = metrics.counter("workqueue_retries_total", "Retries that a work queue has handled", labels)
        self.observe_wait = seconds("queue_duration", "Seconds that a key waits before it is taken")
        self.observe_work = seconds("work_duration", "Seconds that a key is processed")
        figures = queue.statistics
        self._gauges = [
            metrics.gauge(f"workqueue_{metric}", description, labels, read)
            for metric, description, read in (
                ("depth", "Keys that are waiting", lambda: len(queue)),
                ("unfinished_work_seconds", "Total seconds of work in progress", lambda: figures().unfinished_work),
                (
                    "longest_running_processor_seconds",
                    "Seconds of the longest work in progress",
                    lambda: figures().longest_running,
                ),
            )
        ]

    def close(self) -> None:
        """Stop exporting the gauges."""
        for close in self._gauges:
            close()
        self._gauges.clear()


class WorkQueue(Generic[K]):
    """A FIFO queue of keys for workers. Each key waits at most once, and is never processed by two workers.

    ::

        key = await queue.get()
        try:
            await reconcile(key)
        finally:
            queue.done(key)

    Everything except `get` and the drain is synchronous. A queue belongs to one event loop, but can be created and
    filled without one. It starts no task.

    Args:
        name: Its name in metrics and errors.
        metrics: A sink. Without a sink or a name, nothing is exported.
        ageing: Seconds that a key of lower priority waits behind others before it is taken regularly. 10 by default,
            which is longer than a burst of live changes, but short enough for people to wait.

    Raises:
        ConfigError: `ageing` is negative or not a number.
    """

    def __init__(self, *, name: str | None = None, metrics: Metrics | None = None, ageing: float = 10.0) -> None:
        if not ageing >= 0:
            raise ConfigError(f"invalid ageing={ageing!r}: expected a number of seconds, 0 or more")
        self.name = name
        self._ageing = ageing
        # Waiting keys of priority 0, and when they were added. An OrderedDict, because taking from the front of a dict
        # gets slower with each key taken. Other priorities have an entry only while they have keys.
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._prioritized: dict[int, OrderedDict[K, float]] = {}
        # `get` moves a key from the waiting ones to those in process, and `done` removes it or lets it wait again.
        self._processing: dict[K, float] = {}
        self._added_again: dict[K, tuple[int, float]] = {}  # while in process: priority, and time of the first add
        self._taken_at: dict[K, int] = {}  # the priority at which keys in process were taken, unless 0
        self._getters = WaiterQueue()
        self._drainers: list[asyncio.Future[None]] = []
        self._shutting_down = False
        self._turn = 0  # the number of takes while several priorities waited
        self._adds = 0
        self._retries = 0
        self._now: Callable[[], float] = self._first_now
        self._exported = _Exported(metrics, name, self) if metrics is not None and name else None

    # --- adding -----------------------------------------------------------------------------------------

    def add(self, key: K, *, priority: int = 0) -> None:
        """Queue `key` for the next free worker. If a worker has it now, it is queued again after that worker is done.

        A waiting key keeps its place. If the priority is higher than before, it moves to the end of that priority.
        Ignored once the queue is shutting down.

        Args:
            key: Any hashable value.
            priority: Higher is taken first. Within one priority, the order is first in, first out. `LOW_PRIORITY` is
                for keys from the first list or from resyncs.
        """
        if not self._shutting_down:
            self._enqueue(key, priority)

    def _enqueue(self, key: K, priority: int) -> None:
        if key in self._processing:
            again = self._added_again.get(key)
            if again is None:
                self._added_again[key] = (priority, self._now())
            elif priority > again[0]:
                self._added_again[key] = (priority, again[1])
                return
            else:
                return
        elif priority == 0 and not self._prioritized:
            if key in self._ready:
                return
            self._ready[key] = self._now()
            self._getters.wake()
        elif not self._insert_waiting(key, priority, self._now()):
            return
        self._adds += 1
        if self._exported is not None:
            self._exported.count_add(1)

    def _insert_waiting(self, key: K, priority: int, added: float) -> bool:
        """Return True if the key is newly waiting, or False if it was already waiting (and may have moved up)."""
        held = self._priority_of_waiting(key)
        if held is not None:
            if priority <= held:
                return False
            added = self._remove_waiting(key, held)
        if priority == 0:
            self._ready[key] = added
        else:
            self._prioritized.setdefault(priority, OrderedDict())[key] = added
        if held is None:
            self._getters.wake()
        return held is None

    def _priority_of_waiting(self, key: K) -> int | None:
        if key in self._ready:
            return 0
        return next((priority for priority, waiting in self._prioritized.items() if key in waiting), None)

    def _remove_waiting(self, key: K, priority: int) -> float:
        waiting = self._ready if priority == 0 else self._prioritized[priority]
        added = waiting.pop(key)
        if priority != 0 and not waiting:
            del self._prioritized[priority]
        return added

    # --- taking -----------------------------------------------------------------------------------------

    async def get(self) -> K:
        """Take the next key, which belongs to this worker until `done`.

        Safe under cancellation: a key is taken in the same step in which it is returned, so a `get` that is cancelled
        or times out has taken none, and another waiting `get` is woken instead. Does not suspend while keys are
        waiting.

        Raises:
            StoppedError: The queue is shut down and empty.
        """
        while not (self._ready or self._prioritized):
            if self._has_ended():
                raise StoppedError(f"work queue{self._label()} is shut down and empty")
            await self._getters.wait()
        now = self._now()
        key, added = self._take_by_priority(now) if self._prioritized else self._ready.popitem(last=False)
        self._processing[key] = now
        if self._exported is not None:
            self._exported.observe_wait(now - added)
        if self._shutting_down:
            self._after_shut_down()
        return key

    def _take_by_priority(self, now: float) -> tuple[K, float]:
        waiting_by_priority = {0: self._ready, **self._prioritized} if self._ready else self._prioritized
        chosen = max(waiting_by_priority)
        if len(waiting_by_priority) > 1:
            self._turn += 1
            if self._turn % _OVERDUE_TURN == 0:
                first_added = {
                    priority: next(iter(waiting.values())) for priority, waiting in waiting_by_priority.items()
                }
                del first_added[chosen]
                oldest = min(first_added, key=first_added.__getitem__)
                if now - first_added[oldest] >= self._ageing:
                    chosen = oldest
        key = next(iter(waiting_by_priority[chosen]))
        if chosen != 0:
            self._taken_at[key] = chosen
        return key, self._remove_waiting(key, chosen)

    def priority(self, key: K) -> int:
        """Return the priority at which a key in process was taken, so that a retry is not more urgent."""
        return self._taken_at.get(key, 0)

    def done(self, key: K) -> None:
        """Finish the work on `key`. It waits again if it was added in the meantime.

        Does nothing for a key that no worker has.
        """
        started = self._processing.pop(key, None)
        if started is None:
            return
        if self._exported is not None:
            self._exported.observe_work(self._now() - started)
        if self._taken_at:
            self._taken_at.pop(key, None)
        again = self._added_again.pop(key, None) if self._added_again else None
        if again is not None:
            self._insert_waiting(key, *again)
        elif self._shutting_down:
            self._check_drained()

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._prioritized.values()))

    def __bool__(self) -> bool:
        return True  # an empty queue is truthy

    def __contains__(self, key: object) -> bool:
        return key in self._ready or any(key in waiting for waiting in self._prioritized.values())

    # --- shutting down --------------------------------------------------------------------------------------

    @property
    def shutting_down(self) -> bool:
        """True if adds are ignored because the queue is shutting down or has shut down."""
        return self._shutting_down

    def shut_down(self) -> None:
        """Ignore adds from now on. Waiting keys are still handed out, and then every `get` raises StoppedError."""
        self._shutting_down = True
        self._after_shut_down()

    def clear(self) -> list[K]:
        """Remove all waiting keys, and return them in the order in which they would have been taken.

        Keys in process are not affected. For stopping without a drain, because the next start finds its work by
        reading the cluster.
        """
        keys: list[K] = []
        for priority in sorted({0, *self._prioritized}, reverse=True):
            keys += self._prioritized.pop(priority, ()) if priority else self._ready
        self._ready.clear()
        if self._shutting_down:
            self._after_shut_down()
        return keys

    async def shut_down_with_drain(self, timeout: float | None = None) -> None:
        """Ignore adds from now on, and wait until every waiting key has been taken and every taken key is done.

        (client-go only waits for keys in process, and abandons waiting keys.) Workers must continue in the meantime.
        The queue stays shut down however the wait ends.

        Args:
            timeout: Seconds, or None to wait forever.

        Raises:
            TimeoutError: `timeout` seconds have passed.
        """
        self.shut_down()
        await self._wait_drained(timeout)

    async def _wait_drained(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not (self._has_ended() and not self._processing):
                    drainer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._drainers.append(drainer)
                    try:
                        await drainer
                    finally:
                        self._drainers.remove(drainer)
        except TimeoutError:
            left = f"{len(self)} waiting, {len(self._processing)} being processed"
            raise TimeoutError(f"work queue{self._label()} has not drained after {timeout:g} s: {left}") from None

    def _has_ended(self) -> bool:
        """Return True if no key is waiting, and none will be."""
        return self._shutting_down and not self._ready and not self._prioritized

    def _after_shut_down(self) -> None:
        if self._has_ended():
            self._getters.wake_all()
        self._check_drained()

    def _check_drained(self) -> None:
        if self._has_ended() and not self._processing:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)
            if self._exported is not None:
                self._exported.close()

    # --- figures ------------------------------------------------------------------------------------------

    def statistics(self) -> QueueStatistics:
        """Return the current figures. Ages are measured on the loop's clock."""
        now = self._now()
        return QueueStatistics(
            depth=len(self),
            processing=len(self._processing),
            delayed=0,
            adds=self._adds,
            retries=self._retries,
            unfinished_work=sum(ages := [now - started for started in self._processing.values()]),
            longest_running=max(ages, default=0.0),
        )

    def _first_now(self) -> float:
        # Outside a loop, the queue uses the clock that event loops use. From its first use inside a loop, it uses that
        # loop's clock, which usually is the same clock behind one more Python call.
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return time.monotonic()
        usual = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time
        self._now = time.monotonic if usual else loop.time
        return self._now()

    def _label(self) -> str:
        return f" {self.name}" if self.name else ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._label()}: {len(self)} waiting, {len(self._processing)} in process>"
