"""The work queue: keys that wait, each once, and never with two workers.

A key is in one of three places. *Waiting*: it will be handed out. *Processing*: a worker has it. *Again*: a worker has
it, and it was added meanwhile, so that it waits anew once that worker is done. Hence N adds of a waiting key are one
run, any number of adds during a run are exactly one more run, and no key is ever with two workers
(client-go, util/workqueue/queue.go).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kinformer._runtime.waiters import WaiterQueue
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.metrics import Metrics

__all__ = ["LOW_PRIORITY", "QueueStatistics", "WorkQueue"]

K = TypeVar("K", bound=Hashable)

# For what a cluster brings by itself: the first list and resyncs. controller-runtime has the same figure.
LOW_PRIORITY = -100

# While something in a lower class has waited for too long, every fourth key comes from there: the backlog of a start
# moves on, and a live change waits for one more key at the most.
_OVERDUE_TURN = 4

# Seconds: from 10 ns, times ten, twelve of them (component-base, metrics/prometheus/workqueue).
_BUCKETS = tuple(10.0**exponent for exponent in range(-8, 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """A moment of a queue.

    Attributes:
        depth: Keys that wait and could be taken now.
        processing: Keys that workers have.
        delayed: Keys whose time has not come.
        adds: Adds so far, but for those of a key that waited already.
        retries: Delayed adds so far.
        unfinished_work: Seconds that the keys being processed have been so, added up.
        longest_running: Seconds that the longest of them has been so.
    """

    depth: int
    processing: int
    delayed: int
    adds: int
    retries: int
    unfinished_work: float
    longest_running: float


class WorkQueue(Generic[K]):
    """Keys for workers: first in, first out, each waiting once, never two workers on one key.

    ::

        key = await queue.get()
        try:
            await reconcile(key)
        finally:
            queue.done(key)

    Everything but `get` and the drain is a plain function. A queue belongs to one event loop; it needs none to be
    made and filled. It starts no task.

    Args:
        name: The label of its metrics, and what errors call it.
        metrics: A sink; without one, or without a name, nothing is exported.
        ageing: Seconds that a key of lower priority waits behind others without a turn of its own. 10: longer than
            any burst of live changes, short enough for people to wait.
    """

    def __init__(self, *, name: str | None = None, metrics: Metrics | None = None, ageing: float = 10.0) -> None:
        if not ageing >= 0:
            raise ConfigError(f"ageing={ageing!r}: seconds, 0 at least")
        self.name = name
        self._ageing = ageing
        # Waiting keys and when they were added. An OrderedDict, because taking from the front of a dict gets slower
        # with each key taken. Priority 0 by itself; the other classes exist while they hold something.
        self._ready: OrderedDict[K, float] = OrderedDict()
        self._classes: dict[int, OrderedDict[K, float]] = {}
        self._processing: dict[K, float] = {}
        self._again: dict[K, tuple[int, float]] = {}
        self._taken_from: dict[K, int] = {}  # the class of keys in process, where it is not 0
        self._getters = WaiterQueue()
        self._drainers: list[asyncio.Future[None]] = []
        self._shutting_down = False
        self._turn = 0
        self._adds = 0
        self._retries = 0
        self._now: Callable[[], float] = self._first_now
        self._count_add: Callable[[float], None] | None = None
        self._count_retry: Callable[[float], None] | None = None
        self._observe_wait: Callable[[float], None] | None = None
        self._observe_work: Callable[[float], None] | None = None
        self._close_gauges: list[Callable[[], None]] = []
        if metrics is not None and name:
            self._instrument(metrics, name)

    # --- adding -----------------------------------------------------------------------------------------

    def add(self, key: K, *, priority: int = 0) -> None:
        """Have `key` worked on, as soon as a worker is free; once more, if a worker has it now.

        A key that waits already keeps its place; with a higher priority than before it goes to the end of that class.
        Ignored once the queue is being shut down.

        Args:
            key: Anything hashable.
            priority: Higher goes first, and among equals who came first. `LOW_PRIORITY` is for what is not news.
        """
        if not self._shutting_down:
            self._put(key, priority)

    def _put(self, key: K, priority: int) -> None:
        if key in self._processing:
            mark = self._again.get(key)
            if mark is None:
                self._again[key] = (priority, self._now())
            elif priority > mark[0]:
                self._again[key] = (priority, mark[1])
                return
            else:
                return
        elif priority == 0 and not self._classes:
            if key in self._ready:
                return
            self._ready[key] = self._now()
            self._getters.wake()
        elif not self._place(key, priority, self._now()):
            return
        self._adds += 1
        if self._count_add is not None:
            self._count_add(1)

    def _place(self, key: K, priority: int, added: float) -> bool:
        """Put a key into its class; False where it waited already (and was at most raised)."""
        held = self._class_of(key)
        if held is not None:
            if priority <= held:
                return False
            added = self._remove(key, held)
        if priority == 0:
            self._ready[key] = added
        else:
            self._classes.setdefault(priority, OrderedDict())[key] = added
        if held is None:
            self._getters.wake()
        return held is None

    def _class_of(self, key: K) -> int | None:
        if key in self._ready:
            return 0
        return next((priority for priority, waiting in self._classes.items() if key in waiting), None)

    def _remove(self, key: K, priority: int) -> float:
        waiting = self._ready if priority == 0 else self._classes[priority]
        added = waiting.pop(key)
        if priority != 0 and not waiting:
            del self._classes[priority]
        return added

    # --- taking -----------------------------------------------------------------------------------------

    async def get(self) -> K:
        """The next key; it is this worker's until `done`.

        Safe under cancellation: a key is taken in the very step in which it is returned, so a `get` that is
        cancelled, or whose timeout passes, has taken none, and another waiting `get` is woken in its place. Does not
        suspend while keys wait.

        Raises:
            StoppedError: The queue is shut down, and empty.
        """
        while not (self._ready or self._classes):
            if self._ended():
                raise StoppedError(f"work queue{self._named()} is shut down")
            await self._getters.wait()
        now = self._now()
        key, added = self._take_by_priority(now) if self._classes else self._ready.popitem(last=False)
        self._processing[key] = now
        if self._observe_wait is not None:
            self._observe_wait(now - added)
        if self._shutting_down:
            self._after_shut_down()
        return key

    def _take_by_priority(self, now: float) -> tuple[K, float]:
        classes = {0: self._ready, **self._classes} if self._ready else self._classes
        chosen = max(classes)
        if len(classes) > 1:
            self._turn += 1
            if self._turn % _OVERDUE_TURN == 0:
                heads = {priority: next(iter(waiting.values())) for priority, waiting in classes.items()}
                del heads[chosen]
                oldest = min(heads, key=heads.__getitem__)
                if now - heads[oldest] >= self._ageing:
                    chosen = oldest
        key = next(iter(classes[chosen]))
        if chosen != 0:
            self._taken_from[key] = chosen
        return key, self._remove(key, chosen)

    def priority(self, key: K) -> int:
        """The priority with which a worker got the key that it has: for a retry that is to be no more urgent."""
        return self._taken_from.get(key, 0)

    def done(self, key: K) -> None:
        """The worker has finished with `key`; it waits anew if it was added meanwhile.

        Of a key that no worker has, it does nothing.
        """
        started = self._processing.pop(key, None)
        if started is None:
            return
        if self._observe_work is not None:
            self._observe_work(self._now() - started)
        if self._taken_from:
            self._taken_from.pop(key, None)
        mark = self._again.pop(key, None) if self._again else None
        if mark is not None:
            self._place(key, *mark)
        elif self._shutting_down:
            self._look_whether_drained()

    def __len__(self) -> int:
        return len(self._ready) + sum(map(len, self._classes.values()))

    def __bool__(self) -> bool:
        return True  # an empty queue is a queue

    def __contains__(self, key: object) -> bool:
        return key in self._ready or any(key in waiting for waiting in self._classes.values())

    # --- the end ------------------------------------------------------------------------------------------

    @property
    def shutting_down(self) -> bool:
        """No more adds are taken."""
        return self._shutting_down

    def shut_down(self) -> None:
        """Take nothing more. What waits is still handed out; then every `get` raises StoppedError."""
        self._shutting_down = True
        self._after_shut_down()

    def clear(self) -> list[K]:
        """Take out all that waits, in the order in which it would have come; what workers have is not touched.

        For an end without a drain: the next start finds what is to be done by looking at the world.
        """
        keys: list[K] = []
        for priority in sorted({0, *self._classes}, reverse=True):
            keys += self._classes.pop(priority, ()) if priority else self._ready
        self._ready.clear()
        if self._shutting_down:
            self._after_shut_down()
        return keys

    async def shut_down_with_drain(self, timeout: float | None = None) -> None:
        """Take nothing more, and wait until every key that waits has been taken, and every key taken is done.

        (client-go waits for the keys being processed alone, and leaves those that wait behind.) Workers have to go on
        for it. The queue stays shut down however the wait ends.

        Raises:
            TimeoutError: `timeout` seconds have passed.
        """
        self.shut_down()
        await self._drained(timeout)

    async def _drained(self, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not (self._ended() and not self._processing):
                    drainer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._drainers.append(drainer)
                    try:
                        await drainer
                    finally:
                        self._drainers.remove(drainer)
        except TimeoutError:
            left = f"{len(self)} waiting, {len(self._processing)} being processed"
            raise TimeoutError(f"work queue{self._named()} has not drained after {timeout:g} s: {left}") from None

    def _ended(self) -> bool:
        """Nothing waits, and nothing will."""
        return self._shutting_down and not self._ready and not self._classes

    def _after_shut_down(self) -> None:
        if self._ended():
            self._getters.wake_all()
        self._look_whether_drained()

    def _look_whether_drained(self) -> None:
        if self._ended() and not self._processing:
            for drainer in self._drainers:
                if not drainer.done():
                    drainer.set_result(None)
            for close in self._close_gauges:
                close()
            self._close_gauges.clear()

    # --- figures ------------------------------------------------------------------------------------------

    def statistics(self) -> QueueStatistics:
        """The figures of this moment; ages are counted on the loop's clock."""
        return QueueStatistics(
            depth=len(self),
            processing=len(self._processing),
            delayed=0,
            adds=self._adds,
            retries=self._retries,
            unfinished_work=self._unfinished_work(),
            longest_running=self._longest_running(),
        )

    def _unfinished_work(self) -> float:
        now = self._now()
        return sum(now - started for started in self._processing.values())

    def _longest_running(self) -> float:
        return self._now() - min(self._processing.values()) if self._processing else 0.0

    def _instrument(self, metrics: Metrics, name: str) -> None:
        # Names, texts and buckets of component-base, metrics/prometheus/workqueue/metrics.go.
        labels = {"name": name}

        def seconds(metric: str, text: str) -> Callable[[float], None]:
            return metrics.histogram(f"workqueue_{metric}_seconds", text, labels, _BUCKETS)

        self._count_add = metrics.counter("workqueue_adds_total", "Adds that a work queue has handled", labels)
        self._count_retry = metrics.counter("workqueue_retries_total", "Retries that a work queue has handled", labels)
        self._observe_wait = seconds("queue_duration", "Seconds that a key waits before it is taken")
        self._observe_work = seconds("work_duration", "Seconds that a key is processed")
        for metric, text, read in (
            ("depth", "Keys that wait", lambda: float(len(self))),
            ("unfinished_work_seconds", "Seconds of work in progress, added up", self._unfinished_work),
            ("longest_running_processor_seconds", "Seconds of the longest work in progress", self._longest_running),
        ):
            self._close_gauges.append(metrics.gauge(f"workqueue_{metric}", text, labels, read))

    def _first_now(self) -> float:
        # Made and filled outside a loop it counts on the clock that loops use; once used inside one, on that loop's.
        # The usual loop's is that very clock, one call of Python further away.
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return time.monotonic()
        usual = getattr(type(loop), "time", None) is asyncio.BaseEventLoop.time
        self._now = time.monotonic if usual else loop.time
        return self._now()

    def _named(self) -> str:
        return f" {self.name}" if self.name else ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._named()}: {len(self)} waiting, {len(self._processing)} in process>"
