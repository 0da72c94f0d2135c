"""The longest time for which the event loop answers nobody while 100,000 pods of 8 KB come in.

A ticker sleeps 1 ms again and again, and notes by how much it was late. Of a gap only the CPU time counts that this
process had in it: the rest was the machine's doing (another process, the hypervisor). A gap in which it had less than
half is left out altogether; both are printed. On a quiet machine the two figures are the same.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.data import KINDS
from benchmarks.harness import Figure, run, serving
from benchmarks.memory import until
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
TICK = 0.001
LIMIT = 10.0  # milliseconds
OWN = 0.5  # the part of a gap that must be this process's CPU for the gap to count


class Ticker:
    """Lateness of a 1 ms timer, in milliseconds.

    Attributes:
        late: The CPU time of this process in gaps that are its own doing.
        gaps: The length of these gaps.
        foreign: The length of the others.
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
            if own < OWN * gap:
                self.foreign.append(gap * 1e3)
            else:
                self.late.append(min(own, gap) * 1e3)
                self.gaps.append(gap * 1e3)

    def figure(self, name: str, idle: float) -> Figure:
        """The longest gap, beside what the same ticker saw on an idle loop."""
        late = sorted(self.late)
        others = f"{sum(gap > 1 for gap in self.foreign)} gaps above 1 ms were the machine's"
        if self.foreign:
            others += f" (the longest {max(self.foreign):.1f} ms)"
        p99 = late[int(len(late) * 0.99)]
        reference = f"p99 {p99:.1f} ms of {len(late)} ticks; by the clock {max(self.gaps):.1f} ms; {others}; "
        reference += f"an idle loop {idle:.1f} ms"
        return Figure(name, late[-1], "ms", [], limit=LIMIT, below=True, reference=reference)


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


async def _on_add(obj: Any) -> None:
    return None


async def _sync(client: Client, *, watch_list: bool, idle: float) -> list[Figure]:
    """Sync with one index, one handler; then a relist of everything."""
    name = "initial stream (WatchList)" if watch_list else "LIST"
    figures = []
    async with SharedInformerFactory(client, watch_list=watch_list) as factory:
        async with ticking() as ticker:
            informer = factory.for_resource(KINDS["pods"].resource)
            informer.add_event_handler(on_add=_on_add)
            await factory.wait_for_cache_sync(timeout=120, handlers=True)
        figures.append(ticker.figure(f"longest stall, first {name} of 100,000", idle))
        async with ticking() as ticker:
            await client.request("POST", "/control/expire")
            await until(lambda: sum(informer.statistics().relists.values()) > 0)
            await until(lambda: informer.health().live)
            await asyncio.sleep(0.5)
        figures.append(ticker.figure(f"longest stall, {name} again after a 410", idle))
        assert len(informer.lister) == OBJECTS
        if not watch_list:
            async with ticking() as ticker:
                await informer.build_indexers({"node": "spec.nodeName"})
            figures.append(ticker.figure("longest stall, an index built over 100,000", idle))
    return figures


async def measure() -> list[Figure]:
    async with ticking() as ticker:
        await asyncio.sleep(1)
    idle = max(ticker.late + ticker.foreign)
    async with serving("pods", OBJECTS) as url, Client.from_url(url) as client:
        return [
            *await _sync(client, watch_list=False, idle=idle),
            *await _sync(client, watch_list=True, idle=idle),
        ]


if __name__ == "__main__":
    sys.exit(run("stall", measure))
