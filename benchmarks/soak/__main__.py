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
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from benchmarks.soak.blocking_follower import BlockingFollower
from benchmarks.soak.chaos import EmbeddedChaos, RealChaos
from benchmarks.soak.followers import SHAPES, STREAMS, Follower
from benchmarks.soak.stream_follower import StreamFollower
from benchmarks.soak.writers import NAMESPACES, Writers
from kinformer import AlreadyExistsError, Client
from kinformer.testing import APIServer, ControlPlane

_ROUND = 10.0  # seconds between two checkpoints
_SETTLED = 60.0  # seconds that all have to come to agree once nothing is wrong any more
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


class Disagreement(AssertionError):
    """At a checkpoint a follower had not seen the truth."""


class Soak:
    """All that runs at once.

    Args:
        server: Where.
        client: With all rights.
        seed: Of every choice.
        rate: Changes a second.
    """

    def __init__(self, server: APIServer | ControlPlane, client: Client, seed: int, rate: float) -> None:
        self.writers = Writers(client, rate=rate, seed=seed)
        chaos: Any = EmbeddedChaos if isinstance(server, APIServer) else RealChaos
        self.chaos: EmbeddedChaos | RealChaos = chaos(server, client, self.writers, seed)
        real = isinstance(server, ControlPlane)
        connect = {"kubeconfig": server.kubeconfig(server.folder / "soak")} if real else {"url": server.url}
        self.followers: list[Follower | BlockingFollower | StreamFollower] = [
            *(Follower(client, shape, seed + number) for number, shape in enumerate(SHAPES)),
            BlockingFollower(connect, seed + len(SHAPES)),
            *(
                StreamFollower(client, shape, seed + 100 + number, lambda: self.chaos.rewinds)
                for number, shape in enumerate(STREAMS)
            ),
        ]
        self.checkpoints = 0

    async def run(self, seconds: float) -> None:
        """Rounds of `_ROUND` seconds, each with a checkpoint at its end."""
        end = time.monotonic() + seconds
        async with AsyncExitStack() as stack:
            for follower in self.followers:
                await stack.enter_async_context(follower)
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self.writers.run())
                while time.monotonic() < end:
                    await self._round(group, min(_ROUND, max(1.0, end - time.monotonic())))
                writing.cancel()

    async def _round(self, group: asyncio.TaskGroup, seconds: float) -> None:
        restless = {group.create_task(follower.come_and_go()) for follower in self.followers}
        restless.add(group.create_task(self.chaos.run()))
        await asyncio.sleep(seconds)
        for task in restless:
            task.cancel()
        await asyncio.wait(restless)
        self.chaos.heal()
        async with self.writers.held():
            await self._checkpoint()

    async def _checkpoint(self) -> None:
        contents = {kind: await self.writers.contents(kind) for kind in self.writers.truths}
        deadline = time.monotonic() + _SETTLED
        while any(follower.behind(self.writers.truths[follower.shape.kind]) for follower in self.followers):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        wrong: list[str] = []
        for follower in self.followers:
            await asyncio.wait_for(follower.handlers_synced(), _SETTLED)
            wrong += follower.faults(self.writers.truths[follower.shape.kind], contents[follower.shape.kind])
        if wrong:
            raise Disagreement("\n".join(wrong[:20]))
        for follower in self.followers:
            follower.forget()
        for truth in self.writers.truths.values():
            truth.forget()
        await self.chaos.tidy()
        self.checkpoints += 1

    @property
    def faults(self) -> int:
        """Faults that have struck."""
        return sum(self.chaos.counts.values())

    def line(self) -> str:
        """The state of the run."""
        changes = sum(truth.changes for truth in self.writers.truths.values())
        relists = sum(follower.relists for follower in self.followers)
        resumed = sum(follower.resumed for follower in self.followers if isinstance(follower, StreamFollower))
        return (
            f"{self.checkpoints} checkpoints, {changes} changes ({self.writers.unsure} unsure), {self.faults} faults, "
            f"{relists} relists, {resumed} streams resumed, {resident():.0f} MB, {free():.0f} MB of them free"
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
        one = Soak(server, client, options.seed, options.rate)
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
            print(f"seed {options.seed}: after {one.line()}:\n{found.exceptions[0]}")
            return 1
    print(f"seed {options.seed}: all agreed at {one.line()}")
    print(", ".join(f"{name} {count}" for name, count in sorted(one.chaos.counts.items())))
    growth = last_third(samples)
    print(f"memory in use at the end is {growth:.3f} of that at the start of the last third")
    return 1 if options.minutes >= 20 and growth > _GROWTH else 0


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
