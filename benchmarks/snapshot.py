"""A start from a cache on disk against a start by a LIST, and what writing and reading that file costs the loop.

The file is read from the system's page cache, as after a restart of a program: a disk is not measured.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.data import KINDS
from benchmarks.harness import Figure, median, run, serving
from benchmarks.stall import Ticker, ticking
from kinformer import Client, SharedInformerFactory

OBJECTS = 100_000
ROUNDS = 5
LIMIT = 0.5  # of the time that a LIST takes


async def start(url: str, snapshot: Path | None, *, write: bool) -> tuple[float, float, float, Ticker]:
    """Seconds and CPU seconds to a synced cache, seconds of leaving (which writes the file), and the loop meanwhile."""
    gc.collect()  # the cache of the round before, which is no part of this one
    async with ticking() as ticker, Client.from_url(url) as client:
        factory = SharedInformerFactory(client, watch_list=False, snapshot=snapshot, shutdown_timeout=60)
        began, cpu = time.perf_counter(), time.process_time()
        async with factory:
            informer = factory.for_resource(KINDS["pods"].resource)
            await factory.wait_for_cache_sync(timeout=120)
            took, spent = time.perf_counter() - began, time.process_time() - cpu
            assert len(informer.lister) == OBJECTS
            outcomes = informer.statistics().snapshots
            assert snapshot is None or outcomes == {"missing" if write else "loaded": 1}, outcomes
            left = time.perf_counter()
    return took, spent, time.perf_counter() - left, ticker


async def measure() -> list[Figure]:
    lists, loads, ratios, cpu_ratios, writes = [], [], [], [], []
    loading, writing = Ticker(), Ticker()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pods.snapshot"
        async with serving("pods", OBJECTS) as url:
            for _ in range(ROUNDS):
                path.unlink(missing_ok=True)
                by_list, list_cpu, _, _ = await start(url, None, write=False)
                _, _, write, ticker = await start(url, path, write=True)
                _add(writing, ticker)
                by_snapshot, load_cpu, _, ticker = await start(url, path, write=False)
                _add(loading, ticker)
                lists.append(by_list)
                loads.append(by_snapshot)
                writes.append(write)
                ratios.append(by_snapshot / by_list)
                cpu_ratios.append(load_cpu / list_cpu)
        size = path.stat().st_size
    load, by_list = statistics.median(loads), statistics.median(lists)
    text = f"{load:.2f} s from {size / 1e6:.0f} MB on disk, {by_list:.2f} s by LIST"
    return [
        median("time to synced, from a snapshot", ratios, "x of a LIST", limit=LIMIT, reference=text),
        median("CPU to synced, from a snapshot", cpu_ratios, "x of a LIST"),
        median("leaving, with the file written", writes, "s", reference="until it is on the disk (fsync)"),
        loading.figure("longest stall, from a snapshot", 0.0),
        writing.figure("longest stall, by LIST and with the file written", 0.0),
    ]


def _add(to: Ticker, ticker: Ticker) -> None:
    to.late += ticker.late
    to.gaps += ticker.gaps
    to.foreign += ticker.foreign


if __name__ == "__main__":
    sys.exit(run("snapshot", measure))
