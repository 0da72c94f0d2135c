"""Clients of Kubernetes side by side: the same bytes, the same server, and the cost of an event of a watch for each.

Their work differs: kinformer keeps a cache and an index, and decodes what the handler reads (a row has the
whole object read, as a dict); the others decode the whole object always, and keep nothing, except the
informer of `kubernetes`. A client that is not installed has a row that says so (the dependency group `peers` has all).
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from importlib.metadata import version
from importlib.util import find_spec

from benchmarks.harness import RESULTS, Figure, loads_us, median, run, serving
from benchmarks.peer import PEERS, PODS_ONLY, WARM
from benchmarks.watch import lines_of

ROUNDS = 5
OBJECTS = 1000
EVENTS = {  # of a round, by what they cost
    "pods": {
        "kubernetes_asyncio, typed": 300,
        "kubernetes, typed": 500,
        "kubernetes.aio, typed": 500,
        "kubernetes, its informer": 500,
        "kubernetes_asyncio, dict": 1000,
        "kr8s, wrapped": 100,
    },
    "configmaps": {
        "kinformer": 8000,
        "kinformer, handler decodes to a dict": 8000,
        "aiohttp and json.loads": 8000,
        "aiohttp, kinformer's decoder and a dict": 8000,
        "kubernetes_asyncio, typed": 2000,
        "kubernetes, typed": 2000,
        "kubernetes.aio, typed": 2000,
        "kubernetes, its informer": 2000,
        "kr8s, wrapped": 500,
    },
}
MANY = 4000
# Times as many events per second of CPU as kubernetes_asyncio: (kind, peer) -> (name, must, aim)
LIMITS = {
    ("pods", "kubernetes_asyncio, typed"): ("typed pods", 45.0, 60.0),
    ("configmaps", "kubernetes_asyncio, typed"): ("typed 1 KB", 30.0, 45.0),
    ("pods", "kubernetes_asyncio, dict"): ("dict pods", 15.0, 20.0),
}


def package_of(peer: str) -> str:
    """The package that a client is in."""
    return peer.partition(",")[0].partition(" ")[0].partition(".")[0]


def is_installed(peer: str) -> bool:
    """True if its package is installed."""
    return find_spec(package_of(peer)) is not None


async def event_us(url: str, peer: str, kind: str, events: int) -> float:
    command = [sys.executable, "-m", "benchmarks.peer", "--peer", peer, "--url", url]
    command += ["--kind", kind, "--events", str(events)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=RESULTS.parent.parent)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{peer} did not follow the server; its output is above")
    return float(output)


async def side_by_side(kind: str) -> list[Figure]:
    wanted = [peer for peer in PEERS if kind == "pods" or peer not in PODS_ONLY]
    present = [peer for peer in wanted if is_installed(peer)]
    for peer in wanted:
        if peer not in present:
            print(f"  {kind}: {peer}: not installed")
    lines = lines_of(kind, OBJECTS)
    costs: dict[str, list[float]] = {peer: [] for peer in present}
    ratios: dict[str, list[float]] = {peer: [] for peer in present}
    total = ROUNDS * sum(WARM + EVENTS[kind].get(peer, MANY) for peer in present)
    async with serving(kind, OBJECTS, total) as url:
        for number in range(ROUNDS):
            shift = number * 2 % len(present)  # no client is always first, or behind the same other
            for peer in present[shift:] + present[:shift]:
                reference = loads_us(lines)
                try:
                    cost = await event_us(url, peer, kind, EVENTS[kind].get(peer, MANY))
                except RuntimeError as error:
                    if peer == "kinformer" or costs[peer]:
                        raise
                    print(f"  {kind}: {peer}: left out, {error}")
                    present.remove(peer)
                    continue
                costs[peer].append(cost)
                ratios[peer].append(cost / reference)
    figures = []
    for peer in present:
        text = f"an event {statistics.median(costs[peer]):.1f} us of CPU"
        package = package_of(peer)
        details = {"kind": kind, "peer": peer, "cost_us": costs[peer], "version": f"{package} {version(package)}"}
        figures.append(median(f"{kind}: {peer}", ratios[peer], "x orjson.loads", reference=text, details=details))
    for (of, peer), (name, must, aim) in LIMITS.items():
        if of == kind and peer in costs:
            times = [theirs / ours for theirs, ours in zip(costs[peer], costs["kinformer"], strict=True)]
            title = f"G3 events per second of CPU, kinformer over kubernetes_asyncio, {name}"
            figures.append(median(title, times, "x", limit=must, aim=aim, least=True))
    return figures


async def measure() -> list[Figure]:
    return [*await side_by_side("pods"), *await side_by_side("configmaps")]


if __name__ == "__main__":
    sys.exit(run("peers", measure))
