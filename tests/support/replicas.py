"""Replicas that hold shards as real processes, and what must be true of all that they said.

    python -m tests.support.replicas URL-OR-KUBECONFIG IDENTITY COUNT

runs one. It claims one of COUNT shards of the config maps with the label app=sharded, and says on stdout what it does.
A line is `act RUN UID TIME` (on CLOCK_BOOTTIME) for each thing that a reconcile did while the shard was its own,
`done KEY VERSION` for a reconcile that ended, `share INDEX OBJECTS` now and then, and `lost` after a lost shard, upon
which it claims one again. SIGTERM leaves in order.
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

from kinformer import Client, Controller, Request, SharedInformer, SharedInformerFactory
from kinformer.exceptions import LeadershipLostError
from kinformer.leaderelection import check_fences
from kinformer.sharding import Shard
from tests.support.kube import config_map
from tests.support.line_process import LineProcess, boot_time, say
from tests.support.waiting import until

OBJECTS = 60
LEASE = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}


def sharded_config_map(number: int, value: str = "1") -> dict[str, Any]:
    return config_map(f"shared-{number}", labels={"app": "sharded"}, data={"value": value})


class Replica(LineProcess):
    """A process of this module."""

    shards = 0  # how many shards it believes that there are

    @property
    def share(self) -> tuple[int, int] | None:
        """The index of its shard and the number of objects in its cache, or None if it has no shard."""
        for line in reversed(self.lines):
            if line[0] in ("share", "lost", "left"):
                return (int(line[1]), int(line[2])) if line[0] == "share" else None
        return None


@dataclass
class Replicas:
    """All of one test.

    Args:
        server: A URL, or the path of a kubeconfig.
    """

    server: str
    all: list[Replica] = field(default_factory=list)

    async def start(self, name: str, count: int) -> Replica:
        command = (sys.executable, "-m", "tests.support.replicas", self.server, name, str(count))
        replica = await Replica.start(name, *command)
        replica.shards = count
        self.all.append(replica)
        return replica

    @property
    def shares(self) -> dict[str, tuple[int, int, int]]:
        """Return count, index and objects of those that live and have a shard, by name."""
        return {r.name: (r.shards, *r.share) for r in self.all if r.lives and r.share is not None}

    async def until_shared(self, count: int) -> None:
        """Wait until each shard of this count has a holder, and all objects are in their caches."""

        def is_shared() -> bool:
            shares = list(self.shares.values())
            parts = sorted((of, index) for of, index, _ in shares)
            every_part = parts == [(count, index) for index in range(count)]
            return every_part and sum(objects for *_, objects in shares) == OBJECTS

        await until(is_shared, 40, what=lambda: f"all shards of {count} are held: {self.shares}")

    async def until_done(self, versions: dict[str, str]) -> None:
        """Wait until each key has been reconciled at this version, or a later one."""

        def is_done() -> bool:
            seen: dict[str, int] = defaultdict(int)
            for replica in self.all:
                for line in replica.lines:
                    if line[0] == "done":
                        seen[line[1]] = max(seen[line[1]], int(line[2]))
            return all(seen[key] >= int(version) for key, version in versions.items())

        await until(is_done, 40, what="every key is reconciled at its last version")

    def check_one_owner(self) -> int:
        """Check that no two runs for one uid overlap; return how many runs there were."""
        runs: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
        for replica in self.all:
            for line in replica.lines:
                if line[0] == "act":
                    runs[line[2]][replica.name, line[1]].append(float(line[3]))
        for uid, of_uid in runs.items():
            spans = sorted((min(acts), max(acts), run) for run, acts in of_uid.items())
            for (_, end, before), (start, _, after) in pairwise(spans):
                assert end < start, f"{uid}: run {after} began {end - start:.3f} s before the last act of {before}"
        return sum(map(len, runs.values()))

    async def end(self) -> None:
        for replica in self.all:
            await replica.end()


class Cluster(Protocol):
    """The objects, `OBJECTS` of them, as a test changes them."""

    async def change(self, number: int, value: str) -> None: ...
    async def make_again(self, number: int) -> None:
        """Delete it and create it under its name; its uid is another, which may be in another shard."""

    async def versions(self) -> dict[str, str]:
        """Key -> resourceVersion."""
        ...


@contextlib.asynccontextmanager
async def churning(cluster: Cluster) -> Any:
    """Change objects all the time, and leave each of them there in the end."""

    async def churn() -> None:
        for number in itertools.count(1):
            index = number % OBJECTS
            await (cluster.change(index, str(number)) if number % 5 else cluster.make_again(index))
            await asyncio.sleep(0.02)

    task = asyncio.create_task(churn())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled(), task.exception()
    for number in range(OBJECTS):  # one may be away, deleted and not made again
        await cluster.change(number, "last")


async def come_and_go(replicas: Replicas, cluster: Cluster) -> None:
    """Replicas of three shards pause, crash, leave and come back, then two shards take their place."""
    for name in ("one", "two", "three"):
        await replicas.start(name, 3)
    await replicas.until_shared(3)
    one, two, three = replicas.all
    async with churning(cluster):
        await replicas.start("a spare", 3)
        await asyncio.sleep(0.5)
        one.stop()
        await until(lambda: len(replicas.shares) == 3, 40, what="the spare takes the shard of the stopped one")
        two.process.kill()
        three.process.terminate()
        await two.process.wait()
        await three.process.wait()
        one.go_on()
        await until(lambda: one.count("lost") == 1, 40, what="the stopped one has noticed")
        await replicas.start("four", 3)
        await until(lambda: len(replicas.shares) == 3, 40, what="all three shards are held again")
        before = [replica for replica in replicas.all if replica.lives]
        for name in ("five", "six"):
            await replicas.start(name, 2)
        await asyncio.sleep(1)
        assert {count for count, *_ in replicas.shares.values()} == {3}
        for replica in before:
            replica.process.terminate()
    await replicas.until_shared(2)
    await replicas.until_done(await cluster.versions())
    assert replicas.check_one_owner() > OBJECTS


# --- in the process ---------------------------------------------------------------------------------------------------


class Work:
    """What a replica does for its shard."""

    def __init__(self, runs: itertools.count[int], maps: SharedInformer) -> None:
        self.runs = runs
        self.maps = maps

    async def reconcile(self, request: Request) -> None:
        obj = self.maps.lister.get(request.name, namespace=request.namespace)
        if obj is None:
            return
        run = next(self.runs)
        for _ in range(4):
            now = boot_time()  # before the question: who is stopped in between has not acted
            check_fences()
            say("act", run, obj.uid, now)
            await asyncio.sleep(0.02)
        say("done", request.key, obj.resource_version)

    async def tell(self, shard: Shard) -> None:
        while True:
            say("share", shard.index, len(self.maps.lister))
            await asyncio.sleep(0.05)


async def hold(client: Client, identity: str, count: int, runs: itertools.count[int]) -> None:
    async with (
        Shard.claim(client, name="replicas", count=count, identity=identity, namespace="default", **LEASE) as shard,
        SharedInformerFactory(client, namespace="default") as factory,
    ):
        maps = factory.for_resource("v1/configmaps", label_selector="app=sharded", shard=shard)
        work = Work(runs, maps)
        telling = asyncio.create_task(work.tell(shard))
        try:
            await Controller(work.reconcile, workers=20, shutdown_timeout=0.5).for_(maps).run()
        finally:
            telling.cancel()


async def main(server: str, identity: str, count: str) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    runs = itertools.count()
    async with Client.from_url(server) if "://" in server else Client.from_kubeconfig(server) as client:
        try:
            while True:
                try:
                    await hold(client, identity, int(count), runs)
                except LeadershipLostError:
                    say("lost")
        finally:
            say("left")


if __name__ == "__main__":
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(*sys.argv[1:]))
