"""The machinery of a lone event: from the source to the awaited handler, over two tasks that hand it on by themselves.

Events come one by one, the next when the handler has had the last, so each pays for every wake-up of a task and every
turn of the loop on its way. The source is in memory: no socket, no decoding. The reference is the least that asyncio
can do: one task takes the event from a queue and hands it to another, which awaits a coroutine function.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.harness import Figure, median, run
from kinformer import KubeObject, ListOptions, ListPage, SharedInformer, WatchEvent

OBJECTS = 100
EVENTS = 4_000  # of a round: a twentieth of a second
ROUNDS = 15


def config_map(number: int) -> KubeObject:
    name = f"web-{number % OBJECTS}"
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(1000 + number)}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}})


class Source:
    """Objects in memory, and events that come when they are put into the queue."""

    name = "v1/configmaps"
    decodes = True  # it gives objects as a `ListWatch` does, so nothing has to look at them

    def __init__(self) -> None:
        self.coming: asyncio.Queue[WatchEvent] = asyncio.Queue()

    async def list(self, options: ListOptions) -> ListPage:
        return ListPage([config_map(number) for number in range(OBJECTS)], str(1000 + OBJECTS))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def events() -> AsyncIterator[list[WatchEvent]]:
            while True:
                yield [await self.coming.get()]

        yield events()


class Heard:
    """A handler that says when it was called."""

    def __init__(self) -> None:
        self._heard: asyncio.Future[None] | None = None

    def next(self) -> Awaitable[None]:
        self._heard = asyncio.get_running_loop().create_future()
        return self._heard

    async def on_update(self, old: KubeObject, new: KubeObject) -> None:
        assert self._heard is not None
        self._heard.set_result(None)


async def by_two_tasks(coming: asyncio.Queue[WatchEvent], heard: Heard) -> None:
    """The reference, until it is cancelled."""
    between: asyncio.Queue[WatchEvent] = asyncio.Queue()

    async def read() -> None:
        while True:
            between.put_nowait(await coming.get())

    reading = asyncio.create_task(read())
    try:
        while True:
            event = await between.get()
            await heard.on_update(event.object, event.object)
    finally:
        reading.cancel()


async def cpu_us(events: list[WatchEvent], put: Callable[[WatchEvent], None], heard: Heard) -> float:
    """CPU microseconds of an event, each alone."""
    began = time.process_time()
    for event in events:
        next_one = heard.next()
        put(event)
        await next_one
    return (time.process_time() - began) / len(events) * 1e6


async def measure() -> list[Figure]:
    source, heard, plain, heard_plainly = Source(), Heard(), asyncio.Queue[WatchEvent](), Heard()
    reference = asyncio.create_task(by_two_tasks(plain, heard_plainly))
    ratios, costs, references = [], [], []
    number = OBJECTS
    async with SharedInformer(source, watch_list=False) as informer:
        informer.add_event_handler(heard)
        await informer.wait_synced(5)
        await asyncio.sleep(0.05)
        for turn in range(ROUNDS + 1):
            events = [WatchEvent("MODIFIED", config_map(number + each)) for each in range(EVENTS)]
            number += EVENTS
            before = await cpu_us(events, plain.put_nowait, heard_plainly)
            cost = await cpu_us(events, source.coming.put_nowait, heard)
            after = await cpu_us(events, plain.put_nowait, heard_plainly)
            if turn:  # the first one warms up
                costs.append(cost)
                references.append((before + after) / 2)
                ratios.append(cost / references[-1])
    reference.cancel()
    text = f"an event {min(costs):.1f} us of CPU at best, two tasks {min(references):.1f}"
    return [median("machinery of a lone event", ratios, "x two tasks", limit=1.7, aim=1.45, reference=text)]


if __name__ == "__main__":
    sys.exit(run("lone", measure))
