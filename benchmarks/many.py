"""Two hundred informers on one client, one event a second each, over one informer with two hundred a second."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from contextlib import AsyncExitStack

from benchmarks.harness import Figure, median, run, serving
from benchmarks.watch import Counter
from kinformer import Client, SharedInformerFactory

INFORMERS = 200
OBJECTS = 200
SECONDS = 2
ROUNDS = 5


async def _followers(stack: AsyncExitStack, informers: int) -> tuple[Client, Counter]:
    """So many informers, that differ by a selector, and one handler for all of them."""
    events = ROUNDS * SECONDS * INFORMERS + INFORMERS
    url = await stack.enter_async_context(serving("configmaps", OBJECTS, events))
    client = await stack.enter_async_context(Client.from_url(url))
    factory = await stack.enter_async_context(SharedInformerFactory(client, watch_list=False))
    counter = Counter()
    for number in range(informers):
        informer = factory.for_resource("v1/configmaps", label_selector=f"number={number}")
        informer.add_event_handler(counter, queue_size=1 << 30)
    await factory.wait_for_cache_sync(timeout=120, handlers=True)
    return client, counter


async def measure() -> list[Figure]:
    ratios, many_us, one_us = [], [], []
    async with AsyncExitStack() as stack:
        many = await _followers(stack, INFORMERS)
        one = await _followers(stack, 1)
        await asyncio.sleep(1)  # until all watches are open

        async def cost(client: Client, counter: Counter) -> float:
            """CPU microseconds of an event."""
            count = SECONDS * INFORMERS
            done = asyncio.ensure_future(counter.reach(count))
            began = time.process_time()
            params = {"count": str(count), "rate": str(INFORMERS)}
            await client.request("POST", "/control/turns", params=params)
            await asyncio.wait_for(done, 60)
            return (time.process_time() - began) / count * 1e6

        for _ in range(ROUNDS):
            pair = await cost(*many), await cost(*one)
            many_us.append(pair[0])
            one_us.append(pair[1])
            ratios.append(pair[0] / pair[1])
    text = f"an event {statistics.median(many_us):.0f} us of CPU, with one informer {statistics.median(one_us):.0f} us"
    name = "G14 200 informers, one event a second each, over one informer"
    return [median(name, ratios, "x", limit=2.0, aim=1.3, reference=text)]


if __name__ == "__main__":
    sys.exit(run("many", measure))
