"""Memory of a cache over the JSON that was received for it, and its peaks: first list, and relists.

Resident memory is what counts, after what is free has been given back, against the same process before the
informer. The cache keeps raw JSON without managedFields, which are 30 % of what came in.
"""

from __future__ import annotations

import sys

from benchmarks.data import KINDS
from benchmarks.harness import Figure, forget_peak, peak, resident, run, serving, until
from kinformer import Client, SharedInformer, SharedInformerFactory

OBJECTS = 100_000


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
    data = KINDS["pods"]
    received = sum(len(data.item(index)) + 1 for index in range(OBJECTS))
    async with serving("pods", OBJECTS) as url, Client.from_url(url) as client:
        # Caches and pools of the transport are no part of the figure: fill them first.
        async with SharedInformerFactory(client, watch_list=False) as factory:
            factory.for_resource(data.resource, label_selector="warm=up")
            await factory.wait_for_cache_sync(timeout=120)
        del factory  # and its cache
        before = resident()
        forget_peak()
        async with SharedInformerFactory(client, watch_list=False) as factory:
            informer = factory.for_resource(data.resource)
            await factory.wait_for_cache_sync(timeout=120)
            first = peak() - before
            cache = resident() - before
            same = await relisted(client, informer, before)
            await client.request("POST", "/control/change")
            changed = await relisted(client, informer, before)
    reference = f"{received / 1e6:.0f} MB of JSON became {cache / 1e6:.0f} MB, {cache / OBJECTS:.0f} bytes an object"
    unit = "x the cache"
    return [
        Figure("G5 cache", cache / received, "bytes per byte of JSON", [], limit=0.8, aim=0.72, reference=reference),
        Figure("G6 peak of the first list", first / cache, unit, [], limit=1.1, aim=1.05),
        Figure("G6 peak of a relist, nothing changed", same / cache, unit, [], limit=1.1, aim=1.05),
        Figure("G6 peak of a relist, all changed", changed / cache, unit, [], limit=2.1, aim=2.0),
    ]


if __name__ == "__main__":
    sys.exit(run("memory", measure))
