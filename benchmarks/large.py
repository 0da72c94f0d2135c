"""How large one process can get: a million objects in a cache, and two thousand informers on one client.

Nothing here has a limit; docs/results.md has the figures. Each of the parts is a process of its own and takes some
minutes and gigabytes, half of them the server's. It ends by itself, and says every few seconds how far it is.

    python -m benchmarks.large                              all parts, one after the other
    python -m benchmarks.large compact informers            some of them
    python -m benchmarks.large pods --objects 100000        smaller
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from benchmarks.data import KINDS
from benchmarks.harness import Figure, forget_peak, peak, resident, run, serving, until
from benchmarks.stall import ticking
from benchmarks.watch import Counter
from kinformer import Client, SharedInformer, SharedInformerFactory

OBJECTS = 1_000_000
INFORMERS = 2_000
OBJECTS_OF_AN_INFORMER = 200
EVENTS = 4_000
RATE = 1_000  # events a second, for many informers
IDLE = 10.0  # seconds for which nothing comes
LONGEST = 900.0  # seconds that a part may take
CACHES: dict[str, tuple[str, dict[str, Any]]] = {
    "pods": ("small_pods", {}),
    "compact": ("small_pods", {"compact": True}),
    "fields": ("small_pods", {"fields": ("spec.nodeName", "status.phase", "status.podIP")}),
    "configmaps": ("configmaps", {}),
}
TOGETHER = {"informers": 0, "groups": 50, "frozen": 50}  # informers that start at once; 0 are all of them
PARTS = (*CACHES, *TOGETHER)


class Collections:
    """The collections of the garbage collector, while it is entered; `longest` is in CPU seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        gc.callbacks.append(self._hear)

    def __exit__(self, *error: object) -> None:
        gc.callbacks.remove(self._hear)

    def _hear(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.longest = max(self.longest, time.process_time() - self._began)


class Report:
    """The figures of one part, under its name."""

    def __init__(self, part: str) -> None:
        self.figures: list[Figure] = []
        self._part = part
        self._began = time.perf_counter()

    def add(self, name: str, value: float, unit: str, reference: str = "") -> None:
        self.figures.append(Figure(f"{self._part}: {name}", value, unit, [], reference=reference))

    def say(self, text: str) -> None:
        took, memory = time.perf_counter() - self._began, psutil.Process().memory_info().rss
        print(f"  {self._part}, {took:.0f} s: {text}; {memory / 1e6:,.0f} MB", file=sys.stderr, flush=True)

    @asynccontextmanager
    async def step(self, name: str) -> AsyncIterator[None]:
        """Measure one step: seconds, CPU seconds, and the longest gap of a timer of 1 ms."""
        self.say(name)
        gc.collect()
        began, cpu = time.perf_counter(), time.process_time()
        progress = asyncio.create_task(self._progress(name))
        collections = Collections()
        try:
            async with ticking() as ticker:
                with collections:
                    yield
        finally:
            progress.cancel()
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        late = sorted(ticker.late) or [0.0]  # none, if all gaps were the doing of others
        text = f"CPU {cpu:.1f} s; 99.9th percentile of the stalls {late[int(len(late) * 0.999)]:.1f} ms"
        self.add(f"{name}, time", took, "s", text)
        wall, collector = max(ticker.gaps, default=0.0), collections.longest * 1e3
        text = f"by the clock on the wall {wall:.1f} ms; the longest collection {collector:.1f} ms"
        self.add(f"{name}, longest stall", late[-1], "ms of CPU", text)

    async def _progress(self, name: str) -> None:
        while True:
            await asyncio.sleep(5)
            self.say(name)


async def cache(part: str, objects: int) -> list[Figure]:
    """A first list, a relist after which nothing has changed, and events, of so many objects."""
    kind, options = CACHES[part]
    data, report = KINDS[kind], Report(part)
    report.say("the server renders its objects")
    async with serving(kind, objects, EVENTS) as url, Client.from_url(url) as client:
        async with SharedInformerFactory(client, watch_list=False) as factory:  # fills the pools of the transport
            factory.for_resource(data.resource, field_selector="warm=up", **{**options, "compact": False})
            await factory.wait_for_cache_sync(timeout=LONGEST)
        del factory
        collected, before = collection(), resident()
        forget_peak()
        counter = Counter()
        async with SharedInformerFactory(client, watch_list=False) as factory:
            informer = factory.for_resource(data.resource, **options)
            informer.add_event_handler(counter, queue_size=1 << 30)
            async with report.step("first list"):
                await factory.wait_for_cache_sync(timeout=LONGEST, handlers=True)
            await sizes(report, informer, objects, before, collected)
            await relist(report, client, informer, before)
            await until_idle()
            await events(report, client, counter)
    return report.figures


async def sizes(report: Report, informer: SharedInformer, objects: int, before: int, collected: float) -> None:
    most = peak() - before
    kept = resident() - before
    assert len(informer.lister) == objects
    report.add("cache", kept / 1e6, "MB", f"{kept / objects:.0f} bytes an object; at the peak {most / 1e6:.0f} MB")
    report.add("gc.collect(), added", (collection() - collected) * 1e3, "ms")


def collection() -> float:
    """CPU seconds of a full collection."""
    gc.collect()
    began = time.process_time()
    gc.collect()
    return time.process_time() - began


async def relist(report: Report, client: Client, informer: SharedInformer, before: int) -> None:
    count = sum(informer.statistics().relists.values())
    forget_peak()
    async with report.step("relist"):
        await client.request("POST", "/control/expire")
        await until(lambda: sum(informer.statistics().relists.values()) > count, LONGEST)
        await until(lambda: informer.health().live, LONGEST)
    report.add("relist, peak", (peak() - before) / 1e6, "MB")


async def until_idle() -> None:
    """Until this process does next to nothing: the old state of a relist is freed in many steps."""
    busy = True
    while busy:
        cpu = time.process_time()
        await asyncio.sleep(0.3)
        busy = time.process_time() - cpu > 0.03


async def events(report: Report, client: Client, counter: Counter) -> None:
    report.say("events")
    done = asyncio.ensure_future(counter.reach(EVENTS))
    began = time.process_time()
    await client.request("POST", "/control/events", params={"count": str(EVENTS)})
    await asyncio.wait_for(done, LONGEST)
    report.add("an event", (time.process_time() - began) / EVENTS * 1e6, "us of CPU")


async def informers(part: str, number: int, together: int) -> list[Figure]:
    """So many informers, of the same few objects, that differ by a selector; `together` of them start at once.

    "frozen" hides each group from the garbage collector (`gc.freeze`) once it has synced.
    """
    report, counter = Report(part), Counter()
    async with serving("configmaps", OBJECTS_OF_AN_INFORMER, EVENTS) as url, Client.from_url(url) as client:
        await client.request("GET", "/version")
        before = resident()
        async with AsyncExitStack() as stack:
            factory = await stack.enter_async_context(SharedInformerFactory(client, watch_list=False))
            async with report.step("start"):
                started = []
                for which in range(number):
                    informer = factory.for_resource("v1/configmaps", label_selector=f"number={which}")
                    informer.add_event_handler(counter, queue_size=1 << 30)
                    started.append(informer)
                    await asyncio.sleep(0)  # the program's own loop does not hold the event loop either
                    if (which + 1) % together == 0:
                        await factory.wait_for_cache_sync(timeout=LONGEST, handlers=True)
                        if part == "frozen":
                            gc.freeze()
                await factory.wait_for_cache_sync(timeout=LONGEST, handlers=True)
            await until(lambda: all(informer.health().state == "watching" for informer in started), LONGEST)
            await until_idle()
            kept = (resident() - before) / number
            report.add("memory of one", kept / 1e3, "KB", f"{OBJECTS_OF_AN_INFORMER} configmaps of 1 KB each")
            report.say(f"idle for {IDLE:.0f} s")
            cpu = time.process_time()
            await asyncio.sleep(IDLE)
            report.add("idle", (time.process_time() - cpu) / IDLE * 100, "% of a core")
            report.say("events")
            done = asyncio.ensure_future(counter.reach(EVENTS))
            cpu = time.process_time()
            await client.request("POST", "/control/turns", params={"count": str(EVENTS), "rate": str(RATE)})
            await asyncio.wait_for(done, LONGEST)
            text = f"at most {RATE} a second, each to the next informer"
            report.add("an event", (time.process_time() - cpu) / EVENTS * 1e6, "us of CPU", text)
            async with report.step("end"):
                await stack.aclose()
    return report.figures


async def one_part(part: str, objects: int, number: int) -> list[Figure]:
    gc.collect()
    gc.freeze()  # as a service does after its imports: a full collection of its modules takes 20 ms
    try:
        async with asyncio.timeout(LONGEST):
            if part in TOGETHER:
                return await informers(part, number, TOGETHER[part] or number)
            return await cache(part, objects)
    finally:
        gc.unfreeze()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--objects", type=int, default=OBJECTS)
    parser.add_argument("--informers", type=int, default=INFORMERS)
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    if len(parts) == 1:
        return run(f"large_{parts[0]}", lambda: one_part(parts[0], options.objects, options.informers))
    sizes = ["--objects", str(options.objects), "--informers", str(options.informers)]
    command = [sys.executable, "-m", "benchmarks.large"]
    codes = [subprocess.run([*command, part, *sizes], cwd=Path(__file__).parents[1]).returncode for part in parts]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
