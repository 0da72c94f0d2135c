"""A start from a cache on disk against a start by a LIST, and what writing and reading that file costs the loop.

The file is read from the system's page cache, as after a restart of a program: a disk is not measured.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run, serving
from benchmarks.stall import Stalls
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
ROUNDS = 5
LIMIT, AIM = 0.5, 0.2  # of the time that a LIST takes


async def start(url: str, snapshot: Path | None, stalls: Stalls, *, write: bool = False) -> tuple[float, float, float]:
    """Seconds and CPU seconds to a synced cache, and seconds of leaving (which writes the file)."""
    gc.collect()  # the cache of the round before, which is not part of this one
    how = "by LIST" if snapshot is None or write else "from a snapshot"
    async with Client.from_url(url) as client:
        factory = SharedInformerFactory(client, watch_list=False, snapshot=snapshot, shutdown_timeout=60)
        began, cpu = time.perf_counter(), time.process_time()
        async with AsyncExitStack() as stack:
            async with stalls.during(how):
                await stack.enter_async_context(factory)
                informer = factory.for_resource(KINDS["pods"].resource)
                await factory.wait_for_cache_sync(timeout=120)
            took, spent = time.perf_counter() - began, time.process_time() - cpu
            assert len(informer.lister) == OBJECTS
            outcomes = informer.statistics().snapshots
            assert snapshot is None or outcomes == {"missing" if write else "loaded": 1}, outcomes
            left = time.perf_counter()
            async with stalls.during("leaving, with the file written") if write else nullcontext():
                await stack.aclose()
    return took, spent, time.perf_counter() - left


async def measure() -> list[Figure]:
    lists, loads, ratios, cpu_ratios, writes = [], [], [], [], []
    stalls = Stalls()
    gc.collect()
    gc.freeze()  # the modules of this process, which a full collection would look through
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pods.snapshot"
        async with serving("pods", OBJECTS) as url:
            for _ in range(ROUNDS):
                path.unlink(missing_ok=True)
                _, _, write = await start(url, path, stalls, write=True)
                by_list, list_cpu, _ = await start(url, None, stalls)
                by_snapshot, load_cpu, _ = await start(url, path, stalls)
                lists.append(by_list)
                loads.append(by_snapshot)
                writes.append(write)
                ratios.append(by_snapshot / by_list)
                cpu_ratios.append(load_cpu / list_cpu)
        size = path.stat().st_size
    load, by_list = statistics.median(loads), statistics.median(lists)
    text = f"{load:.2f} s from {size / 1e6:.0f} MB on disk, {by_list:.2f} s by LIST"
    name = "G18 time to synced, from a snapshot"
    return [
        median(name, ratios, "x of a LIST", limit=LIMIT, aim=AIM, reference=text),
        median("CPU to synced, from a snapshot", cpu_ratios, "x of a LIST"),
        median("leaving, with the file written", writes, "s", reference="until it is on the disk (fsync)"),
        *stalls.figures(),
    ]


if __name__ == "__main__":
    sys.exit(run("snapshot", measure))
