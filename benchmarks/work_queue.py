"""The cost of a work queue: an add-get-done cycle, beside a put and a get of asyncio.Queue in the same process.

Both on one task with keys that are there, so that nothing ever waits: this is the price of the bookkeeping alone. The
two take turns, and each pair gives a ratio; the figure is the median of these.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.harness import Figure, median, run
from kinformer.workqueue import DelayingQueue, RateLimitingQueue, WorkQueue

KEYS = [f"namespace-{number % 20}/name-{number}" for number in range(50_000)]
ROUNDS = 9
LIMIT = 3.0  # times asyncio.Queue


async def reference() -> None:
    queue: asyncio.Queue[str] = asyncio.Queue()
    put = queue.put_nowait
    for key in KEYS:
        put(key)
        await queue.get()


def cycle(make: Callable[[], WorkQueue[str]], **options: Any) -> Callable[[], Awaitable[None]]:
    async def turn() -> None:
        queue = make()
        for key in KEYS:
            queue.add(key, **options)
            await queue.get()
            queue.done(key)

    return turn


async def backlog() -> None:
    """All keys wait before the first is taken, a tenth of them at low priority."""
    queue: WorkQueue[str] = WorkQueue()
    for number, key in enumerate(KEYS):
        queue.add(key, priority=0 if number % 10 else -100)
    for _ in KEYS:
        queue.done(await queue.get())


async def backoff() -> None:
    """Each key is forgotten, added for later, and handed back at the end."""
    queue: DelayingQueue[str] = DelayingQueue()
    for number, key in enumerate(KEYS):
        queue.add_after(key, 1000.0 + number % 7)
    queue.shut_down()


async def cpu_us(turn: Callable[[], Awaitable[None]]) -> float:
    """CPU microseconds a key."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        await turn()
        return (time.process_time() - began) / len(KEYS) * 1e6
    finally:
        gc.enable()


async def measure() -> list[Figure]:
    turns = {
        "add, get, done": (cycle(WorkQueue), LIMIT),
        "add, get, done of a RateLimitingQueue": (cycle(RateLimitingQueue), LIMIT),
        "add, get, done at low priority": (cycle(WorkQueue, priority=-100), None),
        "a backlog of 50,000, a tenth of it at low priority": (backlog, None),
        "add_after, handed back": (backoff, None),
    }
    ratios: dict[str, list[float]] = {name: [] for name in turns}
    costs: dict[str, list[float]] = {name: [] for name in turns}
    references = []
    for _ in range(ROUNDS):
        for name, (turn, _) in turns.items():
            base = await cpu_us(reference)
            cost = await cpu_us(turn)
            references.append(base)
            costs[name].append(cost)
            ratios[name].append(cost / base)
    base = sorted(references)[len(references) // 2]
    return [
        median(
            name,
            ratios[name],
            "x asyncio.Queue",
            limit=limit,
            reference=f"{sorted(costs[name])[ROUNDS // 2]:.2f} us a key; put_nowait and get: {base:.2f} us",
        )
        for name, (_, limit) in turns.items()
    ]


if __name__ == "__main__":
    sys.exit(run("work_queue", measure))
