"""The longest time for which the event loop is blocked while 100,000 pods of 8 KB come in.

A ticker sleeps 1 ms again and again, and notes by how much it was late. Of a gap only the CPU time counts that this
process had in it: the rest was the machine's doing (another process, the hypervisor). A gap in which it had less than
half is left out altogether. Each figure is the median over several syncs of the longest gap of each; the time by the
clock on the wall is printed beside it.
"""

from __future__ import annotations

import asyncio
import gc
import statistics
import sys
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run, serving, until
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
ROUNDS = 5
TICK = 0.001
LONGEST, AIM = 10.0, 5.0  # milliseconds
P999, P999_AIM = 6.0, 3.0
EDGES = [0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 20.0, 1000.0]  # of the histogram, milliseconds
OWN = 0.5  # the part of a gap that must be this process's CPU for the gap to count


class Ticker:
    """Lateness of a 1 ms timer, in milliseconds.

    Attributes:
        late: The CPU time of this process in gaps that are its own doing.
        gaps: The length of all gaps.
        foreign: The length of those that are not.
    """

    def __init__(self) -> None:
        self.late: list[float] = []
        self.gaps: list[float] = []
        self.foreign: list[float] = []

    async def run(self) -> None:
        while True:
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK)
            gap = time.perf_counter() - began - TICK
            own = time.process_time() - cpu
            self.gaps.append(gap * 1e3)
            if own >= OWN * gap:
                self.late.append(min(own, gap) * 1e3)
            else:
                self.foreign.append(gap * 1e3)


def counts(values: list[float], edges: list[float]) -> list[int]:
    """The number of values up to each edge and above the one before; those above the last count with it."""
    found = [0] * len(edges)
    for value in values:
        found[min(bisect_left(edges, value), len(edges) - 1)] += 1
    return found


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    ticker = Ticker()
    task = asyncio.create_task(ticker.run())
    await asyncio.sleep(0)
    try:
        yield ticker
    finally:
        task.cancel()
        await asyncio.wait({task})


class Stalls:
    """The gaps that tickers saw, under a name each."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Ticker]] = {}

    @asynccontextmanager
    async def during(self, name: str) -> AsyncIterator[None]:
        async with ticking() as ticker:
            yield
        self.seen.setdefault(name, []).append(ticker)

    def figures(self) -> list[Figure]:
        """For each name the longest gap, and the 99.9th percentile of the gaps."""
        figures = []
        for name, tickers in self.seen.items():
            longest = [max(ticker.late) for ticker in tickers]
            p999 = [sorted(ticker.late)[int(len(ticker.late) * 0.999)] for ticker in tickers]
            wall = [max(ticker.gaps) for ticker in tickers]
            gaps = [gap for ticker in tickers for gap in ticker.late]
            details = {"histogram": {"up_to_ms": EDGES, "gaps": counts(gaps, EDGES)}}
            text = f"by the clock on the wall {statistics.median(wall):.1f} ms ({min(wall):.1f} to {max(wall):.1f})"
            figures += [
                median(
                    f"G8 longest stall, {name}",
                    longest,
                    "ms",
                    limit=LONGEST,
                    aim=AIM,
                    below=True,
                    reference=text,
                    details=details,
                ),
                median(f"G8 p99.9, {name}", p999, "ms", limit=P999, aim=P999_AIM, below=True),
            ]
        return figures


async def _on_add(obj: Any) -> None:
    return None


async def one_sync(
    client: Client, stalls: Stalls, name: str, *, handlers: int = 1, watch_list: bool = False, more: bool = False
) -> None:
    """Sync; with `more` a relist of everything, and an index built over it."""
    gc.collect()  # the cache of the round before, which is not part of this one: to free it takes 100 ms
    async with SharedInformerFactory(client, watch_list=watch_list) as factory:
        async with stalls.during(name):
            informer = factory.for_resource(KINDS["pods"].resource)
            for _ in range(handlers):
                informer.add_event_handler(on_add=_on_add)
            await factory.wait_for_cache_sync(timeout=120, handlers=True)
        if more:
            async with stalls.during("a relist after a 410"):
                await client.request("POST", "/control/expire")
                await until(lambda: sum(informer.statistics().relists.values()) > 0)
                await until(lambda: informer.health().live)
                await asyncio.sleep(0.3)
            async with stalls.during("an index built over all"):
                await informer.build_indexers({"node": "spec.nodeName"})
        assert len(informer.lister) == OBJECTS


async def measure() -> list[Figure]:
    stalls = Stalls()
    # The modules of this process would be looked through by a full collection, whatever its cause.
    gc.collect()
    gc.freeze()
    async with (
        serving("pods", OBJECTS) as url,
        serving("pods", OBJECTS, 1, "--tls") as tls_url,
        Client.from_url(url) as client,
        Client.from_url(tls_url, ssl=False) as tls_client,
    ):
        for _ in range(ROUNDS):
            for sync in (
                one_sync(client, stalls, "LIST", more=True),
                one_sync(client, stalls, "WatchList", watch_list=True),
                one_sync(tls_client, stalls, "LIST over TLS"),
                one_sync(client, stalls, "LIST with 16 handlers", handlers=16),
            ):
                await sync
                gc.collect()  # the remains of this sync must not be cleared away during the next
    return stalls.figures()


if __name__ == "__main__":
    sys.exit(run("stall", measure))
