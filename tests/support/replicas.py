"""Replicas of a sharded controller as real processes, and what must be true of all that they said."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from tests.support.kube import config_map
from tests.support.line_process import LineProcess
from tests.support.waiting import until

OBJECTS = 60


def sharded_config_map(number: int, value: str = "1") -> dict[str, Any]:
    return config_map(f"shared-{number}", labels={"app": "sharded"}, data={"value": value})


class Replica(LineProcess):
    """A process of `replica_process`."""

    @property
    def share(self) -> tuple[int, int, bool]:
        """Objects that it holds, objects that came and were not its own, and whether all is balanced."""
        for line in reversed(self.lines):
            if line[0] == "share":
                return int(line[1]), int(line[2]), line[3] == "yes"
        return 0, 0, False


@dataclass
class Replicas:
    """All of one test.

    Args:
        server: A URL, or the path of a kubeconfig.
    """

    server: str
    all: list[Replica] = field(default_factory=list)

    async def start(self, name: str) -> Replica:
        command = (sys.executable, "-m", "tests.support.replica_process", self.server, name)
        self.all.append(await Replica.start(name, *command))
        return self.all[-1]

    async def until_shared(self, objects: int) -> list[int]:
        """Until those that live are balanced, and hold all objects, each one once; how many each has."""

        def shared() -> bool:
            shares = [replica.share for replica in self.all if replica.lives]
            return all(balanced for _, _, balanced in shares) and sum(held for held, _, _ in shares) == objects

        await until(shared, 40, what=f"{objects} objects are shared out: {[(r.name, r.share) for r in self.all]}")
        return [replica.share[0] for replica in self.all if replica.lives]

    async def until_done(self, versions: dict[str, str]) -> None:
        """Until each key has been reconciled at this version, or a later one."""

        def done() -> bool:
            seen: dict[str, int] = defaultdict(int)
            for replica in self.all:
                for line in replica.lines:
                    if line[0] == "done" and line[2] != "gone":
                        seen[line[1]] = max(seen[line[1]], int(line[2]))
            return all(seen[key] >= int(version) for key, version in versions.items())

        await until(done, 40, what="every key is reconciled at its last version")

    def check_one_owner(self) -> int:
        """Nobody acted on a key between the first and the last act of a run of another; how many runs there were."""
        runs: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
        for replica in self.all:
            for line in replica.lines:
                if line[0] == "act":
                    runs[line[2]][replica.name, line[1]].append(float(line[3]))
        for key, of_key in runs.items():
            spans = sorted((min(acts), max(acts), run) for run, acts in of_key.items())
            for (_, end, one), (start, _, other) in pairwise(spans):
                assert end < start, f"{key}: run {other} began {end - start:.3f} s before the last act of {one}"
        return sum(map(len, runs.values()))

    async def end(self) -> None:
        for replica in self.all:
            await replica.end()


class Cluster(Protocol):
    """The objects, `OBJECTS` of them, as a test changes them."""

    async def change(self, number: int, value: str) -> None: ...
    async def make_again(self, number: int) -> None:
        """Delete it, and create it under its name, with another uid, which may be another replica's."""

    async def versions(self) -> dict[str, str]:
        """Key -> resourceVersion."""
        ...


async def come_and_go(replicas: Replicas, cluster: Cluster) -> None:
    """Replicas join, pause, crash, leave and go on, while objects change: no key ever has two owners."""
    for name in ("one", "two", "three", "four"):
        await replicas.start(name)
    shares = await replicas.until_shared(OBJECTS)
    assert min(shares) > 0, shares
    one, two, three, four = replicas.all

    async def churn() -> None:
        number = 0
        while True:
            number += 1
            await (
                cluster.change(number % OBJECTS, str(number)) if number % 5 else cluster.make_again(number % OBJECTS)
            )
            await asyncio.sleep(0.02)

    churning = asyncio.create_task(churn())
    try:
        one.stop()
        await until(lambda: all(r.share[2] for r in replicas.all if r.lives), 40, what="they know that one is away")
        two.process.kill()
        three.process.terminate()
        await three.process.wait()
        await two.process.wait()
        await until(lambda: four.share[0] >= OBJECTS - 1, 40, what="the last one has everything")
        one.go_on()
        five = await replicas.start("five")
        await until(lambda: five.share[0] > 0 and one.share[0] > 0, 40, what="five and one take their shares")
    finally:
        churning.cancel()
        await asyncio.wait({churning})
    assert churning.cancelled(), churning.exception()
    for number in range(OBJECTS):  # one may be away, deleted and not made again
        await cluster.change(number, "last")
    await replicas.until_shared(OBJECTS)
    await replicas.until_done(await cluster.versions())
    assert replicas.check_one_owner() > OBJECTS
