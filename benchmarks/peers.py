"""Clients of Kubernetes side by side: the same bytes, the same server, what an event of a watch costs each.

What they do for it differs: kinformer keeps a cache and an index, and decodes what the handler reads (a row has the
whole object read, as a dict); the others keep nothing, and decode the whole object always. Who is not installed is
named and left out.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
from importlib.util import find_spec

from benchmarks.harness import RESULTS, Figure, loads_us, median, run, serving
from benchmarks.peer import PEERS, WARM
from benchmarks.watch import lines_of

ROUNDS = 5
OBJECTS = 1000
EVENTS = {  # of a round, by what they cost
    "pods": {"kubernetes_asyncio, typed": 500, "kubernetes, typed": 500, "kubernetes_asyncio, dict": 1000},
    "configmaps": {"kubernetes_asyncio, typed": 2000, "kubernetes, typed": 2000},
}
MANY = 4000
# Times as many events per second of CPU as kubernetes_asyncio: (kind, peer) -> (name, must, aim)
LIMITS = {
    ("pods", "kubernetes_asyncio, typed"): ("typed pods", 45.0, 60.0),
    ("configmaps", "kubernetes_asyncio, typed"): ("typed 1 KB", 30.0, 45.0),
    ("pods", "kubernetes_asyncio, dict"): ("dict pods", 15.0, 20.0),
}


async def event_us(url: str, peer: str, kind: str, events: int) -> float:
    command = [sys.executable, "-m", "benchmarks.peer", "--peer", peer, "--url", url]
    command += ["--kind", kind, "--events", str(events)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=RESULTS.parent.parent)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{peer} did not follow the server; what it said stands above")
    return float(output)


async def side_by_side(kind: str) -> list[Figure]:
    present = [peer for peer in PEERS if find_spec(peer.partition(",")[0].partition(" ")[0]) is not None]
    missing = sorted(set(PEERS) - set(present))
    if missing:
        print(f"not installed, and left out: {', '.join(missing)}", file=sys.stderr)
    lines = lines_of(kind, OBJECTS)
    costs: dict[str, list[float]] = {peer: [] for peer in present}
    ratios: dict[str, list[float]] = {peer: [] for peer in present}
    total = ROUNDS * sum(WARM + EVENTS[kind].get(peer, MANY) for peer in present)
    async with serving(kind, OBJECTS, total) as url:
        for _ in range(ROUNDS):
            for peer in list(present):
                reference = loads_us(lines)
                try:
                    cost = await event_us(url, peer, kind, EVENTS[kind].get(peer, MANY))
                except RuntimeError as error:
                    if peer == "kinformer" or costs[peer]:
                        raise
                    print(f"left out: {error}", file=sys.stderr)
                    present.remove(peer)
                    continue
                costs[peer].append(cost)
                ratios[peer].append(cost / reference)
    figures = []
    for peer in present:
        text = f"an event {statistics.median(costs[peer]):.1f} us of CPU"
        figures.append(median(f"{kind}: {peer}", ratios[peer], "x orjson.loads", reference=text))
    for (wanted, peer), (name, must, aim) in LIMITS.items():
        if wanted == kind and peer in costs:
            times = [theirs / ours for theirs, ours in zip(costs[peer], costs["kinformer"], strict=True)]
            title = f"G3 events per second of CPU, kinformer over kubernetes_asyncio, {name}"
            figures.append(median(title, times, "x", limit=must, aim=aim, least=True))
    return figures


async def measure() -> list[Figure]:
    return [*await side_by_side("pods"), *await side_by_side("configmaps")]


if __name__ == "__main__":
    sys.exit(run("peers", measure))
