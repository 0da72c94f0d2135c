"""The driver: everything at once, and a checkpoint every so often."""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import logging
import random
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.soak.blocking_follower import BlockingFollower
from benchmarks.soak.followers import SHAPES, STREAMS, Follower
from benchmarks.soak.rounds import SETTLED, Disagreement, Rounds
from benchmarks.soak.shared import SharedSoak
from benchmarks.soak.stream_follower import StreamFollower
from benchmarks.soak.writers import NAMESPACES
from kinformer import AlreadyExistsError, Client
from kinformer.testing import APIServer, ControlPlane

_GROWTH = 1.05  # memory at the end over that at the start of the last third, of runs long enough to reach their size
_SAMPLE = 5.0  # seconds between two looks at the memory
_STEADY = 12  # samples whose median counts, because a single one has what a list needs while it comes

WIDGET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.soak.kinformer.dev"},
    "spec": {
        "group": "soak.kinformer.dev",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Soak(Rounds):
    """Followers of every kind in this process.

    Args:
        server, client, seed, rate: See `Rounds`.
    """

    def __init__(self, server: APIServer | ControlPlane, client: Client, seed: int, rate: float) -> None:
        super().__init__(server, client, seed, rate)
        self._followers: list[Follower | BlockingFollower | StreamFollower] = [
            *(Follower(client, shape, seed + number) for number, shape in enumerate(SHAPES)),
            BlockingFollower(self.connection(server), seed + len(SHAPES)),
            *(
                StreamFollower(client, shape, seed + 100 + number, lambda: self.chaos.rewinds)
                for number, shape in enumerate(STREAMS)
            ),
        ]

    @property
    def followers(self) -> Sequence[Follower | BlockingFollower | StreamFollower]:
        return self._followers

    def restless(self) -> list[Coroutine[Any, Any, None]]:
        return [*(follower.come_and_go() for follower in self._followers), *super().restless()]

    async def disagreements(self, contents: dict[Any, dict[str, Any]]) -> list[str]:
        deadline = time.monotonic() + SETTLED
        while any(follower.behind(self.writers.truths[follower.shape.kind]) for follower in self._followers):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        wrong: list[str] = []
        for follower in self._followers:
            await asyncio.wait_for(follower.handlers_synced(), SETTLED)
            wrong += follower.faults(self.writers.truths[follower.shape.kind], contents[follower.shape.kind])
        return wrong

    async def forget(self) -> None:
        for follower in self._followers:
            follower.forget()

    @property
    def counts(self) -> Counter[str]:
        """The faults, by name."""
        return self.chaos.counts

    def line(self) -> str:
        relists = sum(follower.relists for follower in self._followers)
        resumed = sum(follower.resumed for follower in self._followers if isinstance(follower, StreamFollower))
        return (
            f"{super().line()}, {relists} relists, {resumed} streams resumed, "
            f"{resident():.0f} MB, {free():.0f} MB of them free"
        )


class _MallInfo(ctypes.Structure):
    """What glibc says of its heaps, as in malloc.h."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    )


def free() -> float:
    """Megabytes that glibc keeps for later. Its heaps fill with such pieces for half an hour, whoever uses them."""
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return 0.0  # another system, or glibc before 2.33
    mallinfo2.restype = _MallInfo
    return int(mallinfo2().fordblks) / 1e6


def memory() -> float:
    """Megabytes in use at this moment."""
    return resident() - free()


def resident() -> float:
    """Resident megabytes at this moment; the peak, if the system does not tell."""
    try:
        with open("/proc/self/statm") as statm:  # noqa: PTH123 - no file of ours
            return int(statm.read().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


@asynccontextmanager
async def prepared(kind: str) -> AsyncIterator[tuple[APIServer | ControlPlane, Client]]:
    """A server with the namespaces and the definition, and a client."""
    server = APIServer() if kind == "embedded" else ControlPlane()
    async with server, server.client() as client:
        await server.install_crds(WIDGET_CRD)
        for name in NAMESPACES:
            try:
                await client.request(
                    "POST",
                    "/api/v1/namespaces",
                    body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
                )
            except AlreadyExistsError:
                continue
        yield server, client


async def soak(options: argparse.Namespace) -> int:
    """Run it, with a line of progress; 1 if a follower did not see the truth, or memory grew."""
    began = time.monotonic()
    async with prepared(options.server) as (server, client):
        if isinstance(server, APIServer):
            server.requests = _Bounded()  # a log of every request would be the growth that is looked for
        given = (server, client, options.seed, options.rate)
        one = SharedSoak(*given, workers=options.workers) if options.workers else Soak(*given)
        running = asyncio.create_task(one.run(options.minutes * 60))
        samples: list[float] = []
        while not running.done():
            await asyncio.wait({running}, timeout=_SAMPLE)
            passed = time.monotonic() - began
            samples.append(memory())
            print(f"[{passed:.0f} of {options.minutes * 60:.0f} s] {one.line()}", file=sys.stderr, flush=True)
        try:
            await running
        except BaseExceptionGroup as group:
            if (found := group.subgroup(Disagreement)) is None:
                raise
            print(f"seed {options.seed}: after {one.line()}:\n{found.exceptions[0]}\n{_counted(one.counts)}")
            return 1
    print(f"seed {options.seed}: all agreed at {one.line()}\n{_counted(one.counts)}")
    if options.workers:
        return 0  # their memory is that of processes which come and go
    growth = last_third(samples)
    print(f"memory in use at the end is {growth:.3f} of that at the start of the last third")
    return 1 if options.minutes >= 20 and growth > _GROWTH else 0


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def last_third(samples: list[float]) -> float:
    """Memory at the end over that at the start of the last third."""
    start = len(samples) * 2 // 3
    return statistics.median(samples[-_STEADY:]) / statistics.median(samples[max(0, start - _STEADY) : start + 1])


class _Bounded(list[Any]):
    """A log that forgets."""

    def append(self, item: Any) -> None:
        if len(self) > 1000:
            del self[:500]
        super().append(item)


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, help="of every choice; by default a random one, which is printed")
    parser.add_argument("--rate", type=float, default=100.0, help="changes a second")
    parser.add_argument("--server", choices=("embedded", "control-plane"), default="embedded")
    parser.add_argument("--workers", type=int, default=0, help="follow in so many processes that share their caches")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1_000_000)
    logging.basicConfig(level=logging.CRITICAL)
    print(f"seed {options.seed}", flush=True)
    try:
        return asyncio.run(soak(options))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
