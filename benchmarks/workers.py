"""What workers of one service cost that share a cache, over as many that do not.

    python -m benchmarks.workers                # half an hour, most of it writing 100,000 pods
    python -m benchmarks.workers --pods 500 --watched 500 --seconds 5 --rounds 1 --kills 1
    python -m benchmarks.workers --starts 20000    only a start of all workers at once, with so many pods: five minutes

A real kube-apiserver over TLS on the same machine. Each worker is a process of its own with an informer of all pods.

- 5,000 pods with 200 changes a second: connections and watches at the server, the server's CPU for a change, a
  follower's CPU for an event, and the delay from the holder's handler to a follower's.
- From a holder that is killed to the first event at all followers. Only events count that were written afterwards.
- The first list of 100,000 pods: seconds until the cache of a follower has synced, over one from the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil

from benchmarks.harness import RESULTS, Figure, median, run
from benchmarks.real_client import TIMEOUT, session
from benchmarks.real_cluster import RealCluster, lacks, real_cluster
from benchmarks.worker import command

PODS = 100_000
WATCHED = 5_000
WORKERS = 8
RATE = 200.0
_IDLE = 16.0  # seconds after which an idle connection has been closed
_COMPRESSED = 5.0  # seconds after a first list, in which `compact` compresses what came before its dictionary
_FIRST = 30.0  # seconds for the first event after a kill
_WATCHES = re.compile(r'^apiserver_longrunning_requests\{.*resource="pods".*verb="WATCH".*\} (\d+)$', re.MULTILINE)


def say(text: object) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


class Worker:
    """A process of `benchmarks.worker` that has synced.

    Attributes:
        seconds: The time that it took to sync.
    """

    def __init__(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        self.process = process
        self.seconds = seconds

    @classmethod
    async def start(cls, kubeconfig: Path, share: str = "", *, compact: bool = False) -> Worker:
        """Start one, and wait until it has synced."""
        pipe, root = asyncio.subprocess.PIPE, RESULTS.parent.parent
        process = await asyncio.create_subprocess_exec(
            *command(str(kubeconfig), "pods", share, compact=compact),
            stdin=pipe,
            stdout=pipe,
            cwd=root,
            limit=1 << 26,
        )
        worker = cls(process, 0.0)
        try:
            worker.seconds = (await worker._line())["seconds"]
        except BaseException:
            await worker.kill()
            raise
        return worker

    async def tell(self) -> dict[str, Any]:
        """Return what it had since the last call."""
        return await self._ask(b"\n")

    async def slow_read(self) -> float:
        """Return the 99th percentile of its reads, in milliseconds."""
        return float((await self._ask(b"read\n"))["read"])

    async def _ask(self, line: bytes) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        return await self._line()

    async def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT)
        if not line:
            raise RuntimeError("a worker has ended; its output is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    async def kill(self) -> None:
        """Kill it, and wait for its end."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def workers(cluster: RealCluster, count: int, share: str = "") -> AsyncIterator[list[Worker]]:
    """Start workers, one after the other, so that the first one holds the cache."""
    started: list[Worker] = []
    try:
        for _ in range(count):
            started.append(await Worker.start(cluster.kubeconfig, share))
        yield started
    finally:
        for worker in started:
            await worker.kill()


@asynccontextmanager
async def written(cluster: RealCluster, rate: float) -> AsyncIterator[None]:
    """Change pods at this rate for as long as the body takes."""
    writing = asyncio.create_task(cluster.patch("pods", 1 << 30, rate))
    try:
        yield
    finally:
        writing.cancel()
        await asyncio.wait([writing])
        if not writing.cancelled() and (error := writing.exception()) is not None:
            raise error


@dataclass(frozen=True)
class Load:
    """What so many workers cost while pods were changed.

    Attributes:
        server: The server's CPU for a change, in microseconds.
        connections, watches: At the server, by the workers.
        reports: What each worker told.
    """

    server: float
    connections: int
    watches: int
    reports: list[dict[str, Any]]

    def of(self, *roles: str) -> list[dict[str, Any]]:
        """The reports of the workers with one of these roles."""
        return [report for report in self.reports if report["role"] in roles]

    def us(self, *roles: str) -> float:
        """The CPU for an event of a worker with one of these roles, in microseconds."""
        return statistics.median([float(report["cpu"]) / len(report["events"]) * 1e6 for report in self.of(*roles)])

    def delays(self) -> list[float]:
        """The milliseconds from the holder's handler to a follower's."""
        (holder,) = self.of("holder")
        first = dict(map(tuple, holder["events"]))
        pairs = [pair for report in self.of("follower") for pair in report["events"]]
        return [(at - first[version]) * 1e3 for version, at in pairs if version in first]


class Start(NamedTuple):
    """A start of all workers at once: until the last has synced, the server's CPU, their memory, the slowest reads."""

    seconds: float
    server: float
    memory: float
    read: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s, CPU {self.server:.1f} s, {self.memory:.0f} MB, reads {self.read:.2f} ms"


_COLUMNS = (("seconds to synced", "s"), ("the server's CPU", "s"), ("memory", "MB"), ("p99 of a read", "ms"))


class Measurement:
    """The measurements on a cluster.

    Args:
        cluster: Filled.
        folder: A directory for the sockets.
        options: Those of the command line.
    """

    def __init__(self, cluster: RealCluster, folder: Path, options: argparse.Namespace) -> None:
        self._cluster = cluster
        self._folder = folder
        self._options = options
        self._sockets = 0
        self._watches = 0

    def socket(self) -> str:
        """Return the path of a socket that has not been used."""
        self._sockets += 1
        return str(self._folder / f"{self._sockets}.sock")

    async def watches(self) -> int:
        """Return how many watches of pods the server has."""
        async with session(str(self._cluster.kubeconfig)) as http, http.get("/metrics") as answer:
            return sum(map(int, _WATCHES.findall(await answer.text())))

    def _connections(self, of: Sequence[Worker]) -> int:
        port = urlsplit(self._cluster.server).port
        open_ = [one for worker in of for one in psutil.Process(worker.process.pid).net_connections("tcp")]
        return sum(one.status == psutil.CONN_ESTABLISHED and one.raddr.port == port for one in open_)

    async def load(self, count: int, share: str = "") -> Load:
        """Change pods with so many workers."""
        before = await self.watches()
        async with workers(self._cluster, count, share) as started, written(self._cluster, self._options.rate):
            await asyncio.sleep(_IDLE if count else 2.0)
            await asyncio.gather(*(worker.tell() for worker in started))
            seconds, changes = self._cluster.server_seconds(), self._cluster.changes
            await asyncio.sleep(self._options.seconds)
            seconds, changes = self._cluster.server_seconds() - seconds, self._cluster.changes - changes
            reports = await asyncio.gather(*(worker.tell() for worker in started))
            watches = await self.watches() - before
            load = Load(seconds / changes * 1e6, self._connections(started), watches, list(reports))
        await self._settled(before)
        if any(report["relists"] for report in reports):
            raise RuntimeError("a worker has listed again meanwhile")
        what = f"{count} workers {'that share' if share else 'without sharing'}"
        say(f"{what}: server {load.server:.0f} us, {load.connections} connections, {watches} watches")
        return load

    async def _settled(self, watches: int) -> None:
        """Wait until the server has noticed that the workers have ended."""
        async with asyncio.timeout(30):
            while await self.watches() > watches:  # noqa: ASYNC110 - the server tells only when it is asked
                await asyncio.sleep(0.5)

    async def under_load(self) -> list[Figure]:
        """The figures of all workers while pods are changed."""
        count = self._options.workers
        nothing, one, many, shared = [], [], [], []
        for _ in range(self._options.rounds):
            nothing.append(await self.load(0))
            one.append(await self.load(1))
            shared.append(await self.load(count, self.socket()))
            many.append(await self.load(count))
        return [
            *_counted("connections", count, [one.connections for one in many], [one.connections for one in shared]),
            *_counted("watches", count, [one.watches for one in many], [one.watches for one in shared]),
            _server_cost(f"{count} workers without sharing, over one", many, one, nothing),
            _server_cost(f"{count} workers that share, over one without sharing", shared, one, nothing, limit=1.3),
            _follower_cost(one, shared),
            _delay(shared),
        ]

    async def takeovers(self) -> list[Figure]:
        """The seconds from a killed holder to the first event at all followers."""
        share, took = self.socket(), []
        running = workers(self._cluster, self._options.workers, share)
        async with running as started, written(self._cluster, self._options.rate):
            await asyncio.sleep(2)
            for _ in range(self._options.kills):
                took.append(await self._killed(started))
                started.append(await Worker.start(self._cluster.kubeconfig, share))
                await asyncio.sleep(1)
        return [median("from a killed holder to the first event at all followers", took, "s", limit=1.0)]

    async def _killed(self, started: list[Worker]) -> float:
        roles = [(await worker.tell())["role"] for worker in started]
        holder = started.pop(roles.index("holder"))
        await holder.kill()
        killed = time.time()
        version = await self._cluster.version("pods")
        firsts = await asyncio.gather(*(_first_event(worker, version) for worker in started))
        took = max(firsts) - killed
        say(f"killed holder: first event at all followers after {took:.3f} s")
        return took

    async def starts(self) -> list[Figure]:
        """The costs of a start of all workers at once that share, over those of as many that do not."""
        await self._start("")  # the server's own cache and the page cache are warm afterwards
        alone, shared, compact = [], [], []
        for _ in range(self._options.rounds):
            alone.append(await self._start(""))
            shared.append(await self._start(self.socket()))
            compact.append(await self._start(self.socket(), compact=True))
        return [
            median(
                f"{what} of {self._options.workers} workers that start at once and {way}, over as many without",
                [mine[column] / theirs[column] for mine, theirs in zip(starts, alone, strict=True)],
                "x",
                reference=", without ".join(
                    f"{statistics.median(start[column] for start in of):.4g} {unit}" for of in (starts, alone)
                ),
            )
            for way, starts in (("share", shared), ("share, with compact=True", compact))
            for column, (what, unit) in enumerate(_COLUMNS)
        ]

    async def _start(self, share: str, *, compact: bool = False) -> Start:
        """Start all workers at once."""
        before = self._cluster.server_seconds()
        started = await asyncio.gather(
            *(Worker.start(self._cluster.kubeconfig, share, compact=compact) for _ in range(self._options.workers))
        )
        try:
            spent = self._cluster.server_seconds() - before
            await asyncio.sleep(_COMPRESSED)
            # Of pages that processes share, each has its part.
            memory = sum(psutil.Process(worker.process.pid).memory_full_info().pss for worker in started) / 1e6
            reads = [await worker.slow_read() for worker in started]
        finally:
            for worker in started:
                await worker.kill()
        start = Start(max(worker.seconds for worker in started), spent, memory, max(reads))
        say(f"a start {'with' if share else 'without'} sharing{', compact' * compact}: {start}")
        await asyncio.sleep(3)
        return start

    async def first_lists(self) -> list[Figure]:
        """The seconds of a first list from a holder, over those from the server."""
        share = self.socket()
        server, holder = [], []
        async with workers(self._cluster, 1, share):
            for _ in range(max(2, self._options.rounds)):
                async with workers(self._cluster, 1) as (worker,):
                    server.append(worker.seconds)
                async with workers(self._cluster, 1, share) as (worker,):
                    holder.append(worker.seconds)
                say(f"first list: {server[-1]:.2f} s from the server, {holder[-1]:.2f} s from the holder")
        ratios = [mine / theirs for mine, theirs in zip(holder, server, strict=True)]
        text = f"{statistics.median(holder):.2f} s from the holder, {statistics.median(server):.2f} s from the server"
        name = f"a follower's first list of {self._options.pods:,} pods, over one from the server"
        return [median(name, ratios, "x", limit=0.5, reference=text)]


def _counted(what: str, workers: int, without: Sequence[int], shared: Sequence[int]) -> list[Figure]:
    return [
        median(f"{what} at the server of {workers} workers without sharing", without, ""),
        median(f"{what} at the server of {workers} workers that share", shared, "", limit=1),
    ]


def _server_cost(
    what: str, loads: Sequence[Load], one: Sequence[Load], nothing: Sequence[Load], **limits: float
) -> Figure:
    """Of writes and watches together: a watch takes less CPU than the writes differ from one round to the next."""
    ratios = [mine.server / theirs.server for mine, theirs in zip(loads, one, strict=True)]
    mine, theirs, none = (statistics.median(load.server for load in rounds) for rounds in (loads, one, nothing))
    text = f"CPU of a change {mine:.0f} us, with one worker {theirs:.0f} us, without workers {none:.0f} us"
    return median(f"the server's CPU for {what}", ratios, "x", reference=text, **limits)


def _follower_cost(one: Sequence[Load], shared: Sequence[Load]) -> Figure:
    direct = [load.us("alone") for load in one]
    followers = [load.us("follower") for load in shared]
    ratios = [mine / theirs for mine, theirs in zip(followers, direct, strict=True)]
    holder = statistics.median(load.us("holder") for load in shared)
    text = (
        f"{statistics.median(followers):.0f} us, an informer on the server {statistics.median(direct):.0f} us, "
        f"the holder {holder:.0f} us"
    )
    name = "a follower's CPU for an event, over an informer on the server"
    return median(name, ratios, "x", limit=1.0, aim=0.8, reference=text)


def _delay(shared: Sequence[Load]) -> Figure:
    rounds, halves = [], []
    for load in shared:
        delays = sorted(load.delays())
        rounds.append(delays[int(len(delays) * 0.99)])
        halves.append(statistics.median(delays))
    text = f"half of them within {statistics.median(halves):.2f} ms"
    return median("from the holder's handler to a follower's, p99", rounds, "ms", limit=5.0, reference=text)


async def _first_event(worker: Worker, version: int) -> float:
    """Return the time of the first event after a version."""
    async with asyncio.timeout(_FIRST):
        while True:
            times = [float(at) for of, at in (await worker.tell())["events"] if of > version]
            if times:
                return min(times)
            await asyncio.sleep(0.2)


def measuring(options: argparse.Namespace) -> Callable[[], Coroutine[Any, Any, list[Figure]]]:
    async def measure() -> list[Figure]:
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            pods = options.starts or min(options.watched, options.pods)
            cluster = await stack.enter_async_context(real_cluster(pods, 0))
            measurement = Measurement(cluster, folder, options)
            if options.starts:
                return await measurement.starts()
            figures = await measurement.under_load()
            figures += await measurement.takeovers()
            if options.pods > options.watched:
                await cluster.fill("pods", options.pods - options.watched)
            return figures + await measurement.first_lists()

    return measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=PODS, help="pods of the first lists")
    parser.add_argument("--watched", type=int, default=WATCHED, help="pods of all other figures")
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--rate", type=float, default=RATE, help="changes a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each measurement under load")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--starts", type=int, default=0, metavar="PODS", help="only a start of all workers at once")
    options = parser.parse_args()
    if missing := lacks():
        print(f"workers: not measured, for there is no real server here. {missing}")
        return os.EX_OK
    return run("starts" if options.starts else "workers", measuring(options))


if __name__ == "__main__":
    sys.exit(main())
