"""A real kube-apiserver over TLS: the CPU of a first list and of an event at live rates, and the memory of the list.

    python -m benchmarks.real_server                    # 5 to 8 minutes, most of them the server's own
    python -m benchmarks.real_server --pods 1000 --rounds 1
    python -m benchmarks.real_server --client-go        # its informer too, in the same rounds, if Go is installed
    python -m benchmarks.real_server --kube-rs          # its reflector too, if Rust is installed
    python -m benchmarks.real_server --only events      # without the lists

Each round is a process of its own (`real_client`), in turns with one that drains the same bytes with aiohttp and drops
them: the difference is kinformer's. The server is a ControlPlane on the same machine; without its binaries (see
`tests/conformance/build_assets.py`) nothing is measured; a line says so, and it is not a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.clients import PROGRAMS
from benchmarks.harness import RESULTS, Figure, median, over, run
from benchmarks.real_client import WARM
from benchmarks.real_cluster import RealCluster, lacks, real_cluster

ROUNDS = 5
PODS = 5_000
CONFIGMAPS = 5_000
SAMPLE = 500
# Of a round. The server takes 5 ms of CPU for a patch of a pod, so that two cores do not reach 200 a second.
RATES = {"pods": (200.0, 400), "configmaps": (600.0, 1_200)}  # patches a second, patches
LIST_LIMIT = {"limit": 2.2, "aim": 1.7}
EVENT_LIMITS = {"pods": {"limit": 2.5, "aim": 1.2}, "configmaps": {"limit": 5.0, "aim": 2.5}}
MEMORY_LIMIT = {"limit": 10_000.0, "aim": 8_000.0}
WAYS = ("list", "watch_list")
PODS_ONLY = ("list, gzip", "list, decoded", "list, indexed by node")


class Rounds:
    """Processes that measure, one after another, and what they have printed.

    Args:
        cluster: The server.
        folder: For the files that they read.
        loop: Of those in Python.
        others: The programs of other clients, by the first word of what they measure.
    """

    def __init__(self, cluster: RealCluster, folder: Path, loop: str, others: dict[str, Path]) -> None:
        self._cluster = cluster
        self._folder = folder
        self._loop = loop
        self._others = others
        self.syncs = [how for name in others for how in PROGRAMS[name].SYNCS]
        self.follows = [how for name in others for how in PROGRAMS[name].FOLLOWS]

    async def sample(self, kind: str) -> None:
        """Write down what the reference is measured with: items of a list, and lines of a watch."""
        for what, lines in (("sync", await self._cluster.items(kind, SAMPLE)), ("follow", await self._lines(kind))):
            (self._folder / f"{what}-{kind}").write_bytes(b"\n".join(lines))

    async def _lines(self, kind: str) -> list[bytes]:
        return [line.rstrip(b"\n") for line in await self._cluster.lines(kind, SAMPLE)]

    async def _start(self, what: str, kind: str, how: str, objects: int, events: int) -> asyncio.subprocess.Process:
        name = how.partition(" ")[0]
        if name in self._others:
            arguments = PROGRAMS[name].arguments(what, how, kind, self._cluster.kubeconfig, events)
            command = [str(self._others[name]), *arguments]
        else:
            command = [sys.executable, "-m", "benchmarks.real_client", what, "--how", how, "--kind", kind]
            command += ["--kubeconfig", str(self._cluster.kubeconfig), "--lines", str(self._folder / f"{what}-{kind}")]
            command += ["--loop", self._loop, "--objects", str(objects), "--events", str(events)]
        root = RESULTS.parent.parent
        return await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=root)

    async def sync(self, kind: str, how: str, objects: int) -> dict[str, Any]:
        """One first list, and what the server had to do meanwhile."""
        before = self._cluster.server_seconds()
        figures = await _figures(await self._start("sync", kind, how, objects, 0))
        return {**figures, "server_us": (self._cluster.server_seconds() - before) / objects * 1e6}

    async def follow(self, kind: str, how: str) -> dict[str, Any]:
        """One watch at the rate of its kind."""
        rate, events = RATES[kind]
        process = await self._start("follow", kind, how, 0, events)
        try:
            assert process.stdout is not None
            if (await process.stdout.readline()).strip() != b"ready":
                raise RuntimeError("the client did not get as far as its watch; its output is above")
            began = time.perf_counter()
            await self._cluster.patch(kind, WARM + events, rate)
            reached = (WARM + events) / (time.perf_counter() - began)
        except BaseException:
            if process.returncode is None:
                process.kill()
            await process.wait()
            raise
        return {**await _figures(process), "rate": reached}


async def _figures(process: asyncio.subprocess.Process) -> dict[str, Any]:
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise RuntimeError("the client failed; its output is above")
    figures: dict[str, Any] = json.loads(output)
    return figures


def _progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _of(rounds: Sequence[dict[str, Any]], name: str) -> list[float]:
    return [float(one[name]) for one in rounds]


async def lists(rounds: Rounds, kind: str, objects: int, count: int) -> list[Figure]:
    """To the synced cache, by LIST and by WatchList; drained alone; and with a handler that reads all."""
    hows = [*WAYS, *(f"{way} drained" for way in WAYS), *(PODS_ONLY if kind == "pods" else [])]
    hows += rounds.syncs
    taken: dict[str, list[dict[str, Any]]] = {how: [] for how in hows}
    for number in range(count):
        _progress(f"{kind}: first lists, round {number + 1} of {count}")
        for how in hows:
            taken[how].append(await rounds.sync(kind, how, objects))
    figures = beside(f"{objects} {kind}", {how: taken.pop(how) for how in rounds.syncs}, taken["list"])
    for how, ones in taken.items():
        is_goal = kind == "pods" and how in WAYS
        limits = LIST_LIMIT if is_goal else {}
        prefix = "G16 " if is_goal else ""
        name = f"{prefix}{how}, {objects} {kind}"
        what = f"the server's CPU {statistics.median(_of(ones, 'server_us')):.0f} us, an object"
        figures.append(over(name, _of(ones, "us"), _of(ones, "orjson_us"), what, **limits))
        if how in WAYS:
            memory = statistics.median(_of(ones, "kept"))
            text = (
                f"{memory:.0f} are kept; the whole process, imports too: {statistics.median(_of(ones, 'process')):.0f}"
            )
            limits = MEMORY_LIMIT if is_goal else {}
            name = f"{prefix}{how}, peak memory of one of {kind}"
            figures.append(median(name, _of(ones, "peak"), "bytes", reference=text, **limits))
    return figures


def beside(prefix: str, theirs: dict[str, list[dict[str, Any]]], ours: Sequence[dict[str, Any]]) -> list[Figure]:
    """The rounds of other clients over kinformer's of the same run."""
    figures = []
    for how, ones in theirs.items():
        ratios = [one["us"] / own["us"] for one, own in zip(ones, ours, strict=True)]
        us, own_us = statistics.median(_of(ones, "us")), statistics.median(_of(ours, "us"))
        text = f"{us:.1f} us of CPU, kinformer {own_us:.1f}"
        details = {"us": _of(ones, "us")}
        if "peak" in ones[0]:
            details["peak"] = _of(ones, "peak")
            memory, own = statistics.median(_of(ones, "peak")), statistics.median(_of(ours, "peak"))
            text += f"; peak memory of an object {memory:.0f} bytes, kinformer {own:.0f}"
        figures.append(median(f"{prefix}, {how}", ratios, "times kinformer", reference=text, details=details))
    return figures


async def events(rounds: Rounds, kind: str, count: int) -> list[Figure]:
    """An event at a live rate, beyond what aiohttp alone takes to drain it."""
    hows = ["drain", "least", "informer", "informer, decoded", *rounds.follows]
    if kind == "pods":
        hows.append("informer, indexed by node")
    taken: dict[str, list[dict[str, Any]]] = {how: [] for how in hows}
    for number in range(count):
        _progress(f"{kind}: events, round {number + 1} of {count}")
        for how in hows:
            taken[how].append(await rounds.follow(kind, how))
    floor = _of(taken.pop("drain"), "us")
    theirs = {how: taken.pop(how) for how in rounds.follows}
    figures = beside(f"event of {kind}", theirs, taken["informer"])
    for how, ones in taken.items():
        pairs = zip(ones, floor, strict=True)
        added = [one["us"] - alone for one, alone in pairs]
        ratios = [us / one["orjson_us"] for us, one in zip(added, ones, strict=True)]
        is_goal = how == "informer"
        rate = statistics.median(_of(ones, "rate"))
        us, orjson_us, alone_us = (statistics.median(row) for row in (_of(ones, "us"), _of(ones, "orjson_us"), floor))
        text = (
            f"an event {us:.0f} us of CPU, aiohttp alone {alone_us:.0f}, "
            f"orjson.loads of the line {orjson_us:.1f} us; {rate:.0f} a second"
        )
        details = {name: _of(ones, name) for name in ("us", "orjson_us", "rate")} | {"floor_us": floor}
        name = f"{'G17 ' if is_goal else ''}event of {kind}, {how}, beyond aiohttp"
        limits = EVENT_LIMITS[kind] if is_goal else {}
        figures.append(median(name, ratios, "x orjson.loads", reference=text, details=details, **limits))
    return figures


def measuring(options: argparse.Namespace) -> Any:
    async def measure() -> list[Figure]:
        figures = []
        async with real_cluster(options.pods, options.configmaps) as cluster:
            with tempfile.TemporaryDirectory() as folder:
                built = {name: PROGRAMS[name].build(Path(folder)) for name in options.others or ()}
                others = {name: program for name, program in built.items() if program is not None}
                rounds = Rounds(cluster, Path(folder), options.loop, others)
                for kind, objects in (("pods", options.pods), ("configmaps", options.configmaps)):
                    await rounds.sample(kind)
                    if options.only != "events":
                        figures += await lists(rounds, kind, objects, options.rounds)
                    if options.only != "lists":
                        figures += await events(rounds, kind, options.rounds)
        return figures

    return measure


def main() -> int:
    parser = argparse.ArgumentParser(description="A real kube-apiserver over TLS")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--configmaps", type=int, default=CONFIGMAPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    for name in PROGRAMS:
        parser.add_argument(f"--{name}", action="append_const", dest="others", const=name)
    parser.add_argument("--only", choices=("lists", "events"))
    options = parser.parse_args()
    if missing := lacks():
        print(f"real_server: not measured, for there is no real server here. {missing}")
        return 0
    parts = ["real_server", options.only, "" if options.loop == "asyncio" else options.loop]
    return run("_".join(filter(None, parts)), measuring(options))


if __name__ == "__main__":
    sys.exit(main())
