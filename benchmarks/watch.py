"""CPU of one watch event, from the socket to the awaited handler, over `orjson.loads` of the same line.

The whole way is in it: aiohttp, framing, decoding, reflector, DeltaFIFO, cache and namespace index, mailbox,
an `async def` handler. The event is not decoded beyond its metadata, and managedFields are dropped: that is
what kinformer does by default, and a row says what it costs when the handler decodes the whole object.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import aiohttp

from benchmarks.data import FIRST_VERSION, KINDS
from benchmarks.harness import Figure, loads_us, median, run, serving
from kinformer import Client, SharedInformerFactory

OBJECTS = 5_000
ROUNDS = 5
LIMIT = 1.2


class _Counter:
    """An async handler that does nothing but count, or read the whole object."""

    def __init__(self, *, decode: bool) -> None:
        self.seen = 0
        self._decode = decode
        self._wanted = 0
        self._reached: asyncio.Future[None] | None = None

    async def on_update(self, old: Any, new: Any) -> None:
        self.seen += 1
        if self._decode:
            new.to_dict()
        if self.seen == self._wanted and self._reached is not None:
            self._reached.set_result(None)

    async def reach(self, more: int) -> None:
        self._wanted = self.seen + more
        self._reached = asyncio.get_running_loop().create_future()
        await self._reached


async def events_us(
    kind: str, events: int, *, decode: bool = False, rate: float = 0.0, **options: Any
) -> tuple[list[float], list[float]]:
    """CPU microseconds of an event, and of `orjson.loads` of such a line, in interleaved rounds."""
    data = KINDS[kind]
    first = FIRST_VERSION + OBJECTS + 1
    lines = [data.event("MODIFIED", number % OBJECTS, first + number) for number in range(min(events, 3000))]
    costs, references = [], []
    async with (
        serving(kind, OBJECTS, events * (ROUNDS + 1)) as url,
        Client.from_url(url) as client,
        SharedInformerFactory(client, watch_list=False) as factory,
    ):
        informer = factory.for_resource(data.resource, **options)
        counter = _Counter(decode=decode)
        informer.add_event_handler(counter, queue_size=1 << 30)  # nothing is folded: each event is a call
        await factory.wait_for_cache_sync(timeout=60, handlers=True)
        for number in range(ROUNDS + 1):
            reference = loads_us(lines)
            done = asyncio.ensure_future(counter.reach(events))
            began = time.process_time()
            await client.request("POST", "/control/events", params={"count": str(events), "rate": str(rate)})
            await asyncio.wait_for(done, 120)
            if number:  # the first one warms up
                costs.append((time.process_time() - began) / events * 1e6)
                references.append(reference)
        assert informer.statistics().coalesced == 0
    return costs, references


async def floor_us(kind: str, events: int, rate: float) -> list[float]:
    """CPU microseconds of an event for a client that reads the stream with aiohttp and does nothing with it."""
    costs = []
    path = KINDS[kind].path
    async with (
        serving(kind, 1, events * ROUNDS) as url,
        aiohttp.ClientSession(url, read_bufsize=256 * 1024) as session,
        session.get(path, params={"watch": "1"}, timeout=aiohttp.ClientTimeout()) as stream,
    ):
        for _ in range(ROUNDS):
            began, lines = time.process_time(), 0
            async with session.post("/control/events", params={"count": str(events), "rate": str(rate)}):
                pass
            while lines < events:
                lines += (await stream.content.readany()).count(b"\n")
            costs.append((time.process_time() - began) / events * 1e6)
    return costs


async def alone() -> Figure:
    """At live rates each event wakes the process up for itself: what matters is what is added to that."""
    rate, events = 500.0, 500
    floor = await floor_us("pods", events, rate)
    costs, _ = await events_us("pods", events, rate=rate)
    base = sorted(floor)[len(floor) // 2]
    added = [cost - base for cost in costs]
    text = f"an event {sorted(costs)[len(costs) // 2]:.0f} us of CPU, aiohttp alone {base:.0f} us"
    return median("watch event, 8 KB pod, 500 a second, each alone", added, "us above the floor", reference=text)


def _over(name: str, costs: list[float], references: list[float], limit: float | None = None) -> Figure:
    ratios = [cost / reference for cost, reference in zip(costs, references, strict=True)]
    cost, reference = sorted(costs)[len(costs) // 2], sorted(references)[len(references) // 2]
    text = f"an event {cost:.1f} us of CPU, orjson.loads of its line {reference:.1f} us"
    details = {"event_us": costs, "orjson_us": references}
    return median(name, ratios, "x orjson.loads", limit=limit, reference=text, details=details)


async def measure() -> list[Figure]:
    index = {"node": "spec.nodeName"}
    return [
        _over("watch event, 8 KB pod", *await events_us("pods", 8000), limit=LIMIT),
        _over("the same, indexed by spec.nodeName too", *await events_us("pods", 5000, indexers=index)),
        _over("the same, handler decodes all", *await events_us("pods", 5000, decode=True)),
        _over("watch event, 1 KB configmap", *await events_us("configmaps", 20000)),
        await alone(),
    ]


if __name__ == "__main__":
    sys.exit(run("watch", measure))
