"""The cost of a controller: reconciles that do nothing, beside workers on an asyncio.Queue in the same process.

Keys are triggered, and then all are waited for. This measures the queue, the dispatcher, the task of each
reconcile, and the bookkeeping around it (own writes, reasons, backoff, figures). The bare workers take the same keys
out of a queue and await the same coroutine function. The two take turns, and each pair gives a ratio.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.harness import Figure, median, run, until
from kinformer import Controller, ListOptions, ListPage, Request, SharedInformer

KEYS = [f"namespace-{number % 20}/name-{number}" for number in range(5_000)]
ROUNDS = 7
LIMIT = 50.0  # microseconds of CPU for a reconcile


class NoObjects:
    """A source that has nothing, and in which nothing happens."""

    name = "v1/pods"

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage([], "1")

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[Any]]:
        async def events() -> AsyncIterator[Any]:
            await asyncio.Event().wait()
            yield []

        stream = events()
        try:
            yield stream
        finally:
            await stream.aclose()  # type: ignore[attr-defined]


class Counted:
    """A reconcile that does nothing, and is counted."""

    def __init__(self) -> None:
        self.count = 0
        self.all = asyncio.Event()

    async def __call__(self, request: Any) -> None:
        self.count += 1
        if self.count == len(KEYS):
            self.all.set()

    async def wait(self) -> None:
        await self.all.wait()
        self.all.clear()
        self.count = 0


async def bare(counted: Counted, workers: int) -> None:
    """The keys through a queue, and nothing else."""
    queue: asyncio.Queue[str] = asyncio.Queue()

    async def work() -> None:
        while True:
            key = await queue.get()
            await counted(key)
            queue.task_done()

    tasks = [asyncio.create_task(work()) for _ in range(workers)]
    for key in KEYS:
        queue.put_nowait(key)
    await queue.join()
    await counted.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def cpu_us(turn: Callable[[], Awaitable[None]]) -> float:
    """CPU microseconds a key."""
    gc.collect()
    began = time.process_time()
    await turn()
    return (time.process_time() - began) / len(KEYS) * 1e6


async def measure_with(workers: int) -> list[Figure]:
    plain, counted = Counted(), Counted()
    costs, references, walls = [], [], []
    async with SharedInformer(NoObjects(), watch_list=False) as informer:

        async def reconcile(request: Request) -> None:
            await counted(request)

        controller = Controller(reconcile, workers=workers).for_(informer)
        running = asyncio.create_task(controller.run())
        await until(lambda: controller.synced)

        async def turn() -> None:
            for key in KEYS:
                controller.trigger(key)
            await counted.wait()

        for number in range(ROUNDS + 1):
            reference = await cpu_us(lambda: bare(plain, workers))
            began = time.perf_counter()
            cost = await cpu_us(turn)
            wall = time.perf_counter() - began
            if number:  # the first is to warm up
                costs.append(cost)
                references.append(reference)
                walls.append(len(KEYS) / wall)
        running.cancel()
        await asyncio.wait({running})
    base = sorted(references)[ROUNDS // 2]
    title = f"a reconcile that does nothing, {workers} worker{'s' if workers > 1 else ''}"
    ratio = sorted(cost / reference for cost, reference in zip(costs, references, strict=True))[ROUNDS // 2]
    text = f"{ratio:.1f} x asyncio.Queue and {workers} bare workers, which take {base:.2f} us"
    details = {"bare_us": references, "ratio": ratio}
    return [
        median(f"{title}: CPU", costs, "us", limit=LIMIT, reference=text, details=details),
        median(f"{title}: reconciles a second", walls, "/s"),
    ]


async def measure() -> list[Figure]:
    return [*await measure_with(1), *await measure_with(16)]


if __name__ == "__main__":
    sys.exit(run("controller", measure))
