"""What somebody asks who has to choose: memory limits, delays, the server's costs, and cut connections.

    python -m benchmarks.beside                        # 40 minutes, a quarter of them writing 100,000 pods
    python -m benchmarks.beside --pods 5000 --events 500
    python -m benchmarks.beside --pods 20000 --only memory
    python -m benchmarks.beside --pods 5000 --only lists    # delays while a list comes in, ten lists of each client
    python -m benchmarks.beside --only cuts                 # five minutes

A real kube-apiserver over TLS on the same machine, and one client after the other: kinformer, client-go with protobuf
(if Go is installed) and kube-rs (if Rust is). Each is a process of its own.

- The smallest memory limit under which a first list of all pods survives, found by halving between half and all of
  the peak without a limit, to a twentieth. It needs root and the memory controller of cgroups. Otherwise it is the
  peak.
- From the write to the handler: 100 and 1,000 configmaps a second, and 100 while the same process lists all pods.
  A write is stamped before it is sent, so that the server's own time is a part of all of them.
- The API server's CPU and the bytes it sends: for a first list, for events to five watchers, for a start with a
  snapshot.
- From a cut connection to the next event, with 50 events a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from benchmarks.clients import CLIENTS, PROGRAMS, SYNCS
from benchmarks.harness import RESULTS, Figure, run
from benchmarks.real_cluster import RealCluster, lacks, real_cluster

PODS = 100_000
CONFIGMAPS = 2_000
EVENTS = 3_000  # of a measurement of delays
WATCHERS = 5
LISTS = 10
CUTS = 20
RATES = ((100, ""), (1_000, ""), (100, "pods"))  # events a second, and what is listed meanwhile
GROUP = Path("/sys/fs/cgroup/memory/kinformer-benchmark")


@dataclass(frozen=True)
class Programs:
    """The programs of other clients that could be built, by the first word of their names."""

    built: Mapping[str, Path]
    pods: int

    def have(self, client: str) -> bool:
        """True if this client can be measured."""
        return self._of(client) is not None or client.startswith(("kinformer", "kubernetes"))

    def _of(self, client: str) -> Path | None:
        return self.built.get(client.partition(",")[0])

    def command(self, client: str, what: str, kubeconfig: Path, **options: str) -> list[str]:
        """The command line for `sync` of pods or `arrivals` of configmaps."""
        kind = "pods" if what == "sync" else "configmaps"
        program = self._of(client)
        if program is None:
            how = SYNCS[client] if what == "sync" else "informer"
            command = [sys.executable, "-m", "benchmarks.real_client", what, "--how", how, "--kind", kind]
            command += ["--kubeconfig", str(kubeconfig), "--objects", str(self.pods)]
        else:
            module = PROGRAMS[client.partition(",")[0]]
            how = SYNCS[client] if what == "sync" else SYNCS[client].removesuffix(" list")
            command = [str(program), *module.arguments(what, how, kind, kubeconfig, int(options.pop("events", "0")))]
        dash = "-" if client.startswith("client-go") else "--"
        return command + [word for name, value in options.items() for word in (f"{dash}{name}", value)]


@asynccontextmanager
async def started(command: Sequence[str], *, group: Path | None = None) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process, which has ended afterwards; in a cgroup from its first instruction on."""
    if group is not None:
        command = ["sh", "-c", f'echo $$ > {group / "cgroup.procs"}; exec "$0" "$@"', *command]
    pipe, root = asyncio.subprocess.PIPE, RESULTS.parent.parent
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, cwd=root, limit=1 << 26)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def figures_of(command: Sequence[str]) -> dict[str, Any]:
    """What a process prints at its end."""
    async with started(command) as process:
        output, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"failed with status {process.returncode}: {' '.join(command)}")
        figures: dict[str, Any] = json.loads(output.splitlines()[-1])
        return figures


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# --- memory ----------------------------------------------------------------------------------------------------------


@contextmanager
def limited(size: int) -> Iterator[Path]:
    """A cgroup with this limit in bytes, without swap."""
    GROUP.mkdir(exist_ok=True)
    try:
        (GROUP / "memory.limit_in_bytes").write_text(str(size))
        yield GROUP
    finally:
        GROUP.rmdir()


def can_limit() -> bool:
    """True if a cgroup can be made here."""
    try:
        with limited(1 << 30):
            return True
    except OSError:
        return False


async def survives(command: Sequence[str], size: int) -> bool:
    """True if the process ends well within so many bytes."""
    with limited(size) as group:
        async with started(command, group=group) as process:
            await process.communicate()
        return process.returncode == 0


async def memory(programs: Programs, kubeconfig: Path) -> list[Figure]:
    found = []
    halving = can_limit()
    for client in SYNCS:
        if not programs.have(client):
            continue
        command = programs.command(client, "sync", kubeconfig)
        try:
            figures = await figures_of(command)
        except RuntimeError as error:
            say(f"memory limit, {client}: not measured, {error}")  # it needs more than this machine has
            continue
        peak = figures["process"] * figures["objects"]
        least, most = peak * 0.5, peak * 1.1
        while halving and most - least > peak / 20:
            middle = (least + most) / 2
            if await survives(command, int(middle)):
                most = middle
            else:
                least = middle
        figure = Figure(f"memory limit, {client}", (most if halving else peak) / 1e6, "MB", [], details={"peak": peak})
        say(f"{figure}, peak {peak / 1e6:.0f} MB")
        found.append(figure)
    return found


# --- delays ----------------------------------------------------------------------------------------------------------


def _quantiles(delays: Sequence[float]) -> dict[str, float]:
    ordered = sorted(delays)
    names = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {name: ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3 for name, share in names.items()}


async def arrivals(
    cluster: RealCluster, command: Sequence[str], events: int, rate: float
) -> tuple[dict[str, Any], float]:
    """The times of events while configmaps are written at this rate, and the rate that was reached."""
    async with started(command) as process:
        assert process.stdout is not None
        if (await process.stdout.readline()).strip() != b"ready":
            raise RuntimeError("the client did not get as far as its watch; its output is above")
        began = time.perf_counter()
        await cluster.patch("configmaps", events, rate)
        reached = events / (time.perf_counter() - began)
        output, _ = await asyncio.wait_for(process.communicate(), 120)
        found: dict[str, Any] = json.loads(output)
        return found, reached


async def delays(programs: Programs, cluster: RealCluster, events: int) -> list[Figure]:
    return [
        delay(client, rate, beside, [await arrivals_of(programs, client, cluster, events, rate, beside)])
        for rate, beside in RATES
        for client in filter(programs.have, CLIENTS)
    ]


async def lists(programs: Programs, cluster: RealCluster) -> list[Figure]:
    """The delays while all pods are listed, from several lists of each client, in turns."""
    clients = [client for client in CLIENTS if programs.have(client)]
    taken: dict[str, list[tuple[dict[str, Any], float]]] = {client: [] for client in clients}
    for number in range(LISTS):
        say(f"lists beside events, round {number + 1} of {LISTS}")
        for client in clients:
            taken[client].append(await arrivals_of(programs, client, cluster, 400, 100, "pods"))
    return [delay(client, 100, "pods", taken[client]) for client in clients]


async def arrivals_of(
    programs: Programs, client: str, cluster: RealCluster, events: int, rate: float, beside: str
) -> tuple[dict[str, Any], float]:
    options = {"beside": beside} if beside else {}
    command = programs.command(client, "arrivals", cluster.kubeconfig, events=str(events), **options)
    return await arrivals(cluster, command, events, rate)


def delay(client: str, rate: float, beside: str, taken: Sequence[tuple[dict[str, Any], float]]) -> Figure:
    pairs = [
        (at, arrived)
        for times, _ in taken
        for at, arrived in times["arrivals"]
        if not beside or times["listing"][0] <= at <= times["listing"][1]
    ]
    details = {**_quantiles([arrived - at for at, arrived in pairs]), "events": len(pairs)}
    details["reached"] = statistics.median(reached for _, reached in taken)
    if beside:
        details["listing"] = statistics.median(times["listing"][1] - times["listing"][0] for times, _ in taken)
    what = f"{rate:.0f} a second" + (", pods listed meanwhile" if beside else "")
    figure = Figure(f"delay at {what}, {client}", details["p50"], "ms", [], details=details)
    say(f"{figure} {details}")
    return figure


# --- what it costs the server ----------------------------------------------------------------------------------------


class Relay:
    """A TCP relay to the server, which counts what it sends, and can cut all connections."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.sent = 0
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, back}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, back, count=False))
                group.create_task(self._pump(there, writer, count=True))
        finally:
            self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, count: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 18):
                self.sent += len(data) if count else 0
                writer.write(data)
                await writer.drain()
        writer.transport.abort() if reader.at_eof() and count else writer.close()


def kubeconfig_through(relay: Relay, kubeconfig: Path, folder: Path) -> Path:
    """A copy of the file that leads to the relay. The server's certificate is for 127.0.0.1, at any port."""
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in config["clusters"]:
        entry["cluster"]["server"] = f"https://127.0.0.1:{relay.port}"
    path = folder / "relay.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path


async def server_costs(
    programs: Programs, cluster: RealCluster, relay: Relay, kubeconfig: Path, folder: Path, events: int
) -> list[Figure]:
    found = []

    async def listed(name: str, client: str, **options: str) -> None:
        seconds, sent = cluster.server_seconds(), relay.sent
        figures = await figures_of(programs.command(client, "sync", kubeconfig, **options))
        seconds, sent = cluster.server_seconds() - seconds, relay.sent - sent
        details = {"bytes": sent, "objects": figures["objects"]}
        figure = Figure(f"server, {name}", seconds, "s", [], details=details)
        say(f"{figure} {details}")
        found.append(figure)

    for client in filter(programs.have, CLIENTS):
        await listed(f"first list, {client}", client)
    snapshot = {"snapshot": str(folder / "pods.snapshot")}
    await figures_of(programs.command("kinformer", "sync", kubeconfig, **snapshot))
    await listed("start with a snapshot, kinformer", "kinformer", **snapshot)

    async def watched(client: str | None) -> tuple[float, float]:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(WATCHERS if client else 0):
                command = programs.command(client or "", "arrivals", kubeconfig, events=str(events + 1))
                process = await stack.enter_async_context(started(command))
                assert process.stdout is not None
                await process.stdout.readline()
            seconds, sent = cluster.server_seconds(), relay.sent
            await cluster.patch("configmaps", events, 200)
            await asyncio.sleep(0.5)
            return cluster.server_seconds() - seconds, float(relay.sent - sent)

    alone = statistics.median([(await watched(None))[0] for _ in range(3)])
    for client in filter(programs.have, CLIENTS):
        rounds = [await watched(client) for _ in range(3)]
        us = [(seconds - alone) / events / WATCHERS * 1e6 for seconds, _ in rounds]
        details = {"bytes": statistics.median(sent for _, sent in rounds) / events / WATCHERS}
        figure = Figure(f"server, event to one watcher, {client}", statistics.median(us), "us", us, details=details)
        say(f"{figure} {details}")
        found.append(figure)
    return found


# --- cut connections -------------------------------------------------------------------------------------------------


async def cuts(programs: Programs, cluster: RealCluster, relay: Relay, kubeconfig: Path) -> list[Figure]:
    found = []
    for client in filter(programs.have, CLIENTS):
        events = CUTS * 4 * 50 + 100
        moments: list[float] = []

        async def cutting(moments: list[float]) -> None:
            for _ in range(CUTS):
                await asyncio.sleep(4)
                relay.cut()
                moments.append(time.time())

        cutter = asyncio.create_task(cutting(moments))
        try:
            command = programs.command(client, "arrivals", kubeconfig, events=str(events - 50))
            times, _ = await arrivals(cluster, command, events, 50)
        finally:
            cutter.cancel()
            await asyncio.wait([cutter])
        came = sorted(arrived for _, arrived in times["arrivals"])
        gaps = [next((time_ for time_ in came if time_ > moment), moment) - moment for moment in moments]
        gaps = [gap * 1e3 for gap in gaps if gap > 0]
        details = {"p50": statistics.median(gaps), "most": max(gaps), "cuts": len(gaps)}
        figure = Figure(f"cut connection to next event, {client}", statistics.median(gaps), "ms", gaps, details=details)
        say(str(figure))
        found.append(figure)
    return found


def measuring(options: argparse.Namespace) -> Any:
    async def measure() -> list[Figure]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            built = {name: program.build(folder) for name, program in PROGRAMS.items()}
            programs = Programs(
                {client: program for client, program in built.items() if program is not None}, options.pods
            )
            async with real_cluster(0 if options.only == "cuts" else options.pods, CONFIGMAPS) as cluster:
                if options.only == "memory":
                    return await memory(programs, cluster.kubeconfig)
                if options.only == "lists":
                    return await lists(programs, cluster)
                relay = Relay(cluster.server)
                async with relay.serving():
                    through = kubeconfig_through(relay, cluster.kubeconfig, folder)
                    if options.only == "cuts":
                        return await cuts(programs, cluster, relay, through)
                    figures = await delays(programs, cluster, options.events)
                    figures += await server_costs(programs, cluster, relay, through, folder, options.events)
                return figures + await memory(programs, cluster.kubeconfig)

    return measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--only", choices=("memory", "lists", "cuts"))
    options = parser.parse_args()
    if missing := lacks():
        print(f"beside: not measured, for there is no real server here. {missing}")
        return 0
    return run("_".join(filter(None, ("beside", options.only))), measuring(options))


if __name__ == "__main__":
    sys.exit(main())
