"""CPU of one object of a first list, from the socket to the cache and a handler, over `orjson.loads` of it."""

from __future__ import annotations

import sys
import time
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, loads_us, median, run, serving
from kinformer import Client, SharedInformerFactory

ROUNDS = 5


async def _on_add(obj: Any) -> None:
    return None


async def list_us(kind: str, objects: int, *, watch_list: bool) -> tuple[list[float], list[float]]:
    """CPU microseconds of an object until every handler has it, and of `orjson.loads`, in interleaved rounds."""
    data = KINDS[kind]
    items = [data.item(index) for index in range(3000)]
    costs, references = [], []
    async with serving(kind, objects) as url:
        for number in range(ROUNDS + 1):
            reference = loads_us(items)
            async with Client.from_url(url) as client:
                began = time.process_time()
                async with SharedInformerFactory(client, watch_list=watch_list) as factory:
                    factory.for_resource(data.resource).add_event_handler(on_add=_on_add)
                    await factory.wait_for_cache_sync(timeout=120, handlers=True)
                    cost = (time.process_time() - began) / objects * 1e6
            if number:  # the first one warms up
                costs.append(cost)
                references.append(reference)
    return costs, references


def _over(name: str, costs: list[float], references: list[float]) -> Figure:
    ratios = [cost / reference for cost, reference in zip(costs, references, strict=True)]
    cost, reference = sorted(costs)[len(costs) // 2], sorted(references)[len(references) // 2]
    text = f"an object {cost:.1f} us of CPU, orjson.loads of it {reference:.1f} us"
    return median(name, ratios, "x orjson.loads", reference=text)


async def measure() -> list[Figure]:
    return [
        _over("LIST, 8 KB pods", *await list_us("pods", 15_000, watch_list=False)),
        _over("initial stream (WatchList), 8 KB pods", *await list_us("pods", 15_000, watch_list=True)),
        _over("LIST, 1 KB configmaps", *await list_us("configmaps", 30_000, watch_list=False)),
    ]


if __name__ == "__main__":
    sys.exit(run("list", measure))
