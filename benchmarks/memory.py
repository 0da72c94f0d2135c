"""Memory of a cache over the JSON that was received for it, its peak, and what it adds to a garbage collection.

Resident memory is what counts, after what is free has been given back, against the same process before the
informer. The cache keeps raw JSON without managedFields, which are 30 % of what came in.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable

from benchmarks.data import KINDS
from benchmarks.harness import Figure, forget_peak, peak, resident, run, serving
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
MEMORY_LIMIT = 0.85
RELIST_LIMIT = 1.3  # peak of a relist over the cache: far from a second copy
COLLECTION_LIMIT = 2.0  # milliseconds


def collection_ms() -> list[float]:
    """CPU milliseconds of ten full collections."""
    gc.collect()
    times = []
    for _ in range(10):
        began = time.process_time()
        gc.collect()
        times.append((time.process_time() - began) * 1e3)
    return times


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Look every 10 ms."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def measure() -> list[Figure]:
    data = KINDS["pods"]
    received = sum(len(data.item(index)) + 1 for index in range(OBJECTS))
    async with serving("pods", OBJECTS) as url, Client.from_url(url) as client:
        # Caches and pools of the transport are no part of the figure: fill them first.
        async with SharedInformerFactory(client, watch_list=False) as factory:
            factory.for_resource(data.resource, field_selector="warm=up")
            await factory.wait_for_cache_sync(timeout=120)
        del factory  # and its cache
        collections = collection_ms()
        before = resident()
        forget_peak()
        async with SharedInformerFactory(client, watch_list=False) as factory:
            informer = factory.for_resource(data.resource)
            await factory.wait_for_cache_sync(timeout=120)
            most = peak() - before
            cache = resident() - before
            full_collections = collection_ms()
            forget_peak()
            await client.request("POST", "/control/expire")
            await until(lambda: sum(informer.statistics().relists.values()) > 0)
            await informer.wait_synced()
            await until(lambda: informer.health().live)
            relist = peak() - before
            assert len(informer.lister) == OBJECTS
    reference = f"{received / 1e6:.0f} MB of JSON became {cache / 1e6:.0f} MB, {cache / OBJECTS:.0f} bytes an object"
    return [
        Figure("cache", cache / received, "bytes per byte of JSON", [], limit=MEMORY_LIMIT, reference=reference),
        Figure("peak of the first list", most / received, "bytes per byte of JSON", []),
        Figure("peak of a relist after a 410", relist / cache, "x the cache", [], limit=RELIST_LIMIT),
        # The minima: what other processes do to the caches of the CPU only adds.
        Figure(
            "gc.collect() with the cache",
            min(full_collections) - min(collections),
            "ms more than without",
            [one - min(collections) for one in full_collections],
            limit=COLLECTION_LIMIT,
            reference=f"without it {min(collections):.2f} ms; the minimum of 10 each, CPU time; 100,000 pods",
        ),
    ]


if __name__ == "__main__":
    sys.exit(run("memory", measure))
