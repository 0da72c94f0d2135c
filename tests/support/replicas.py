"""Replicas of a sharded controller as real processes, and what must be true of all that they said.

    python -m tests.support.replicas URL-OR-KUBECONFIG IDENTITY

runs one, which says on stdout what it does. It shares the config maps with the label app=sharded. A line is
`act RUN KEY TIME` (on CLOCK_BOOTTIME) for each thing that a reconcile did while its slot was ours, `done KEY VERSION`
for a reconcile that ended, and `share OBJECTS DROPPED BALANCED` now and then. SIGTERM leaves in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Protocol

from kinformer import Client, Request
from kinformer.leaderelection import check_fences
from kinformer.sharding import ShardedController
from tests.support.kube import config_map
from tests.support.line_process import LineProcess, boot_time, say
from tests.support.waiting import until

OBJECTS = 60
LEASE = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}


def sharded_config_map(number: int, value: str = "1") -> dict[str, Any]:
    return config_map(f"shared-{number}", labels={"app": "sharded"}, data={"value": value})


class Replica(LineProcess):
    """A process of this module."""

    @property
    def share(self) -> tuple[int, int, bool]:
        """How many objects it holds, how many came that were not its own, and True if all is balanced."""
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
        command = (sys.executable, "-m", "tests.support.replicas", self.server, name)
        self.all.append(await Replica.start(name, *command))
        return self.all[-1]

    async def until_shared(self, objects: int) -> list[int]:
        """Wait until those that live are balanced and hold all objects, each one once; return how many each has."""

        def shared() -> bool:
            shares = [replica.share for replica in self.all if replica.lives]
            return all(balanced for _, _, balanced in shares) and sum(held for held, _, _ in shares) == objects

        await until(shared, 40, what=f"{objects} objects are shared out: {[(r.name, r.share) for r in self.all]}")
        return [replica.share[0] for replica in self.all if replica.lives]

    async def until_done(self, versions: dict[str, str]) -> None:
        """Wait until each key has been reconciled at this version, or a later one."""

        def done() -> bool:
            seen: dict[str, int] = defaultdict(int)
            for replica in self.all:
                for line in replica.lines:
                    if line[0] == "done" and line[2] != "gone":
                        seen[line[1]] = max(seen[line[1]], int(line[2]))
            return all(seen[key] >= int(version) for key, version in versions.items())

        await until(done, 40, what="every key is reconciled at its last version")

    def check_one_owner(self) -> int:
        """Check that no two runs of one key overlap; return how many runs there were."""
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
        """Delete it and create it under its name; its uid is another, which may be another replica's."""

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


# --- in the process ---------------------------------------------------------------------------------------------------


class Sharing:
    def __init__(self, client: Client, identity: str) -> None:
        self.runs = itertools.count()
        self.controller = ShardedController(
            self.reconcile,
            client,
            "v1/configmaps",
            namespace="default",
            label_selector="app=sharded",
            identity=identity,
            workers=20,
            shutdown_timeout=0.5,
            **LEASE,
        )

    async def reconcile(self, request: Request) -> None:
        run, obj = next(self.runs), self.controller.informer.lister.get(request.name, namespace=request.namespace)
        for _ in range(4):
            now = boot_time()  # before the question: who is stopped in between has not acted
            check_fences()
            say("act", run, request.key, now)
            await asyncio.sleep(0.02)
        say("done", request.key, obj.resource_version if obj is not None else "gone")

    async def tell(self) -> None:
        while True:
            informer, health = self.controller.informer, self.controller.health()
            balanced = health.balanced and informer.has_synced
            say("share", len(informer.lister), self.controller.dropped, "yes" if balanced else "no")
            await asyncio.sleep(0.05)


async def main(server: str, identity: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with Client.from_url(server) if "://" in server else Client.from_kubeconfig(server) as client:
        sharing = Sharing(client, identity)
        telling = asyncio.create_task(sharing.tell())
        try:
            await sharing.controller.run()
        finally:
            telling.cancel()
            say("left")


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(*sys.argv[1:]))
