"""Memory of a cache over the JSON that was received for it, and its peaks: first list, and relists.

Resident memory is what counts, after what is free has been given back, against the same process before the
informer. The cache keeps raw JSON without managedFields, which are 30 % of what came in.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.data import KINDS
from benchmarks.harness import Figure, forget_peak, peak, resident, run, serving, until
from kinformer import Client, SharedInformer, SharedInformerFactory

OBJECTS = 100_000
LIMITS = {"pods": ("G5 cache", 0.8, 0.72), "configmaps": ("G23 cache of 1 KB configmaps", 1.15, 1.0)}


@dataclass(frozen=True)
class Synced:
    """An informer that has synced, and what its process had in memory.

    Attributes:
        before: Bytes without it.
        cache: Bytes more with it.
        first: Bytes more than `before` at the peak of its first list.
        figure: The cache over the JSON that was received for it.
    """

    client: Client
    informer: SharedInformer
    before: int
    cache: int
    first: int
    figure: Figure


@asynccontextmanager
async def synced(objects: int = OBJECTS, kind: str = "pods") -> AsyncIterator[Synced]:
    """An informer on so many pods, or objects of another kind."""
    data = KINDS[kind]
    received = sum(len(data.item(index)) + 1 for index in range(objects))
    async with serving(kind, objects) as url, Client.from_url(url) as client:
        # Caches and pools of the transport are not part of the figure: fill them first.
        async with SharedInformerFactory(client, watch_list=False) as factory:
            factory.for_resource(data.resource, label_selector="warm=up")
            await factory.wait_for_cache_sync(timeout=120)
        del factory  # and its cache
        before = resident()
        forget_peak()
        async with SharedInformerFactory(client, watch_list=False) as factory:
            informer = factory.for_resource(data.resource)
            await factory.wait_for_cache_sync(timeout=120)
            assert len(informer.lister) == objects
            first = peak() - before
            cache = resident() - before
            text = f"{received / 1e6:.0f} MB of JSON became {cache / 1e6:.0f} MB, {cache / objects:.0f} bytes an object"
            unit = "bytes per byte of JSON"
            name, limit, aim = LIMITS[kind]
            figure = Figure(name, cache / received, unit, [], limit=limit, aim=aim, reference=text)
            yield Synced(client, informer, before, cache, first, figure)


async def relisted(client: Client, informer: SharedInformer, before: int) -> int:
    """Bytes at the peak of a relist, above what there was before the informer."""
    count = sum(informer.statistics().relists.values())
    resident()
    forget_peak()
    await client.request("POST", "/control/expire")
    await until(lambda: sum(informer.statistics().relists.values()) > count)
    await until(lambda: informer.health().live)
    assert len(informer.lister) == OBJECTS
    return peak() - before


async def measure() -> list[Figure]:
    async with synced(kind="configmaps") as small:
        figure = small.figure
    del small  # and its cache
    async with synced() as one:
        same = await relisted(one.client, one.informer, one.before)
        await one.client.request("POST", "/control/change")
        changed = await relisted(one.client, one.informer, one.before)
    unit, cache = "x the cache", one.cache
    return [
        one.figure,
        figure,
        Figure("G6 peak of the first list", one.first / cache, unit, [], limit=1.1, aim=1.05),
        Figure("G6 peak of a relist, nothing changed", same / cache, unit, [], limit=1.1, aim=1.05),
        Figure("G6 peak of a relist, all changed", changed / cache, unit, [], limit=2.1, aim=2.0),
    ]


if __name__ == "__main__":
    sys.exit(run("memory", measure))
