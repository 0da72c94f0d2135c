"""The cost of a cache in a collection of the garbage collector: 100,000 pods that came by LIST, a million objects.

A full collection is timed with the cache and without it, in turns, and each is the best of many, because
other processes only add time.
"""

from __future__ import annotations

import gc
import sys
import time
from operator import attrgetter
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run, serving
from kinformer import NAMESPACE_INDEX, Client, Indexer, SharedInformerFactory, meta_namespace_index_func
from kinformer.wire.decoder import EntryDecoder

PODS = 100_000
SMALL = 1_000_000
ROUNDS = 5


def collection_ms() -> float:
    """CPU milliseconds of a full collection."""
    gc.collect()
    times = []
    for _ in range(15):
        began = time.process_time()
        gc.collect()
        times.append((time.process_time() - began) * 1e3)
    return min(times)


async def with_pods(rounds: int = ROUNDS) -> Figure:
    added, without = [], []
    async with serving("pods", PODS) as url, Client.from_url(url) as client:
        for number in range(rounds + 1):
            before = collection_ms()
            async with SharedInformerFactory(client, watch_list=False) as factory:
                informer = factory.for_resource(KINDS["pods"].resource)
                await factory.wait_for_cache_sync(timeout=120)
                assert len(informer.lister) == PODS
                full = collection_ms()
            del factory, informer
            after = collection_ms()
            if number:  # the first one warms up
                without.append((before + after) / 2)
                added.append(full - without[-1])
    reference = f"a collection of this process without it takes {min(without):.2f} ms of CPU"
    return median("G7 gc.collect(), added by 100,000 pods", added, "ms", limit=2.0, aim=1.0, reference=reference)


def _million() -> Any:
    indexer = Indexer(attrgetter("key"), {NAMESPACE_INDEX: meta_namespace_index_func})
    decode = EntryDecoder().item
    small = (
        b'{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"lease-%d","namespace":"team-%d",'
    )
    small += b'"uid":"%036d","resourceVersion":"%d","labels":{"app":"app-%d"}},"spec":{"holderIdentity":"node-%d"}}'
    for number in range(SMALL):
        obj = decode(small % (number, number % 50, number, number + 1, number % 500, number % 5000))
        indexer.put(obj.key, obj)
    return indexer


def with_a_million() -> Figure:
    added = []
    before = collection_ms()
    indexer = _million()
    for _ in range(ROUNDS):
        full = collection_ms()
        added.append(full - before)
    assert len(indexer) == SMALL
    del indexer
    without = (before + collection_ms()) / 2
    added = [one + before - without for one in added]
    reference = f"a collection of this process without it takes {without:.2f} ms of CPU"
    return median("G7 gc.collect(), added by 1,000,000 objects", added, "ms", limit=2.0, aim=1.0, reference=reference)


async def measure() -> list[Figure]:
    return [await with_pods(), with_a_million()]


if __name__ == "__main__":
    sys.exit(run("collector", measure))
