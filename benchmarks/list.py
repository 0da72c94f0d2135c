"""CPU of one object of a first list, from the socket to the cache and a handler, over `orjson.loads` of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Alternating, Figure, run, serving
from kinformer import Client, SharedInformerFactory

ROUNDS = 5


async def _on_add(obj: Any) -> None:
    return None


async def first_list(
    name: str,
    kind: str,
    objects: int,
    *,
    watch_list: bool,
    rounds: int = ROUNDS,
    indexers: Mapping[str, str] | None = None,
    **limits: float,
) -> Figure:
    """CPU of an object until every handler has it."""
    data = KINDS[kind]
    both = Alternating([data.item(index) for index in range(1000)])
    async with serving(kind, objects) as url:
        for _ in range(rounds + 1):

            async def sync() -> None:
                async with (
                    Client.from_url(url) as client,
                    SharedInformerFactory(client, watch_list=watch_list) as factory,
                ):
                    informer = factory.for_resource(data.resource, indexers=indexers)
                    informer.add_event_handler(on_add=_on_add)
                    await factory.wait_for_cache_sync(timeout=120, handlers=True)

            await both.round(objects, sync)
    return both.figure(name, "an object", **limits)


async def measure() -> list[Figure]:
    by_node = {"node": "spec.nodeName"}
    return [
        await first_list("G4 LIST, 100,000 8 KB pods", "pods", 100_000, watch_list=False, limit=1.4, aim=1.0),
        await first_list("G4 by WatchList, 100,000 8 KB pods", "pods", 100_000, watch_list=True, limit=1.4, aim=1.0),
        await first_list(
            "G20 LIST, 100,000 pods, indexed by spec.nodeName too",
            "pods",
            100_000,
            watch_list=False,
            indexers=by_node,
            limit=1.2,
            aim=1.1,
        ),
        await first_list("LIST, 15,000 8 KB pods", "pods", 15_000, watch_list=False),
        await first_list(
            "G21 LIST, 30,000 1 KB configmaps", "configmaps", 30_000, watch_list=False, limit=3.0, aim=2.2
        ),
    ]


if __name__ == "__main__":
    sys.exit(run("list", measure))
