"""CPU of one watch event, from the socket to the awaited handler, over `orjson.loads` of the same line.

The whole way is in it: aiohttp, framing, decoding, reflector, DeltaFIFO, cache and namespace index, mailbox,
an `async def` handler. The event is not decoded beyond its metadata, and managedFields are dropped: that is
what kinformer does by default, and a row says what it costs when the handler decodes the whole object.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from benchmarks.data import FIRST_VERSION, KINDS, touched
from benchmarks.harness import Alternating, Figure, median, run, serving
from kinformer import Client, SharedInformerFactory

OBJECTS = 5_000
ROUNDS = 15
EVENTS = {"pods": 2_000, "configmaps": 8_000}  # of a round: a twentieth of a second
ALONE = (500.0, 500, 5)  # events a second, events of a round, rounds


class Counter:
    """An async handler that only counts, or reads the whole object."""

    def __init__(self, *, decode: bool = False) -> None:
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


class Followed:
    """An informer that has synced, and a server that sends events when it is told to."""

    def __init__(self, client: Client, counter: Counter) -> None:
        self._client = client
        self._counter = counter

    async def events(self, count: int, rate: float = 0.0) -> None:
        """Have so many events sent, at once or so many a second, and wait until the handler has had them."""
        done = asyncio.ensure_future(self._counter.reach(count))
        await self._client.request("POST", "/control/events", params={"count": str(count), "rate": str(rate)})
        await asyncio.wait_for(done, 120)


@asynccontextmanager
async def following(
    kind: str, events: int, *, objects: int = OBJECTS, decode: bool = False, **options: Any
) -> AsyncIterator[Followed]:
    """An informer on a server with so many objects, that has so many different events."""
    async with (
        serving(kind, objects, events) as url,
        Client.from_url(url) as client,
        SharedInformerFactory(client, watch_list=False) as factory,
    ):
        informer = factory.for_resource(KINDS[kind].resource, **options)
        counter = Counter(decode=decode)
        informer.add_event_handler(counter, queue_size=1 << 30)  # nothing is folded: each event is a call
        await factory.wait_for_cache_sync(timeout=120 + objects / 2000, handlers=True)
        yield Followed(client, counter)
        assert informer.statistics().coalesced == 0


def lines_of(kind: str, objects: int = OBJECTS, count: int = 1000) -> list[bytes]:
    """Lines as the server sends them."""
    first = FIRST_VERSION + objects + 1
    return [KINDS[kind].event("MODIFIED", touched(number, objects), first + number) for number in range(count)]


async def ratio(name: str, kind: str, *, decode: bool = False, rounds: int = ROUNDS, **options: Any) -> Figure:
    """CPU of an event over the reference."""
    limits = {key: options.pop(key) for key in ("limit", "aim") if key in options}
    count = EVENTS[kind]
    both = Alternating(lines_of(kind))
    async with following(kind, (rounds + 1) * count, decode=decode, **options) as informer:
        for _ in range(rounds + 1):
            await both.round(count, lambda: informer.events(count))
    return both.figure(name, "an event", **limits)


async def floor_us(kind: str, events: int, rate: float, rounds: int) -> list[float]:
    """CPU microseconds of an event for a client that reads the stream with aiohttp and does nothing with it."""
    costs = []
    async with (
        serving(kind, 1, events * rounds) as url,
        aiohttp.ClientSession(url, read_bufsize=256 * 1024) as session,
        session.get(KINDS[kind].path, params={"watch": "1"}, timeout=aiohttp.ClientTimeout()) as stream,
    ):
        for _ in range(rounds):
            began, lines = time.process_time(), 0
            async with session.post("/control/events", params={"count": str(events), "rate": str(rate)}):
                pass
            while lines < events:
                lines += (await stream.content.readany()).count(b"\n")
            costs.append((time.process_time() - began) / events * 1e6)
    return costs


async def alone() -> Figure:
    """At live rates each event wakes the process up by itself; the figure is the cost beyond that."""
    rate, events, rounds = ALONE
    floor = statistics.median(await floor_us("pods", events, rate, rounds))
    costs = []
    async with following("pods", rounds * events) as informer:
        for _ in range(rounds):
            began = time.process_time()
            await informer.events(events, rate)
            costs.append((time.process_time() - began) / events * 1e6)
    text = f"an event {statistics.median(costs):.0f} us of CPU, aiohttp alone {floor:.0f} us"
    added = [cost - floor for cost in costs]
    return median("watch event, 8 KB pod, 500 a second, each alone", added, "us above the floor", reference=text)


async def measure() -> list[Figure]:
    index = {"node": "spec.nodeName"}
    return [
        await ratio("G1 watch event, 8 KB pod", "pods", limit=1.0, aim=0.8),
        await ratio("G2 watch event, 1 KB configmap", "configmaps", limit=2.8, aim=2.2),
        await ratio(
            "G19 watch event, 8 KB pod, indexed by spec.nodeName too", "pods", indexers=index, limit=0.95, aim=0.85
        ),
        await ratio("G1, handler decodes all", "pods", rounds=7, decode=True),
        await alone(),
    ]


if __name__ == "__main__":
    sys.exit(run("watch", measure))
