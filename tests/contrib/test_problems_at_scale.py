"""A healthy cluster of 5,000 pods that never rests has no problems."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.problems import Problems
from kinformer.testing import APIServer
from tests.contrib.problem_scenes import (
    CRON,
    DEFINITION,
    LATER,
    Object,
    claim,
    condition,
    deployment,
    ended,
    job,
    make,
    node,
    pod,
    resource,
    storage_class,
    unschedulable,
    waiting,
    workload,
    written,
)
from tests.support.cli import CommandLine, Ended

pytestmark = pytest.mark.search

DEPLOYMENTS, REPLICAS = 500, 10
SECONDS = 12.0


def just_now() -> float:
    """The age, for the builders of objects, of what happens now."""
    return LATER - time.time()


def errors_of(ended: Ended) -> list[str]:
    """The lines on stderr, but for those that say that all is well, or that the machine is slow.

    The command has an event loop in a thread of this process. On a busy machine one loop waits for the other's GIL.
    """
    expected = ("is still waiting for its first sync", "No problems in 13 resources.", "blocked the event loop for")
    return [line for line in ended.err.splitlines() if not any(words in line for words in expected)]


class Cluster:
    """A cluster in which everything goes well, and something is always under way."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self._chance = random.Random(7)
        self._numbers = itertools.count()
        self._pods: dict[str, tuple[str, Object]] = {}  # by name: the deployment and the replica set
        self._tops: dict[str, Object] = {}
        self.steps = 0

    def fill(self) -> Iterator[None]:
        """Create everything, in steps."""
        self._server.create(DEFINITION)
        self._server.create(CRON)
        self._server.create(storage_class("late", "WaitForFirstConsumer"))
        self._server.create(claim("unused", "Pending", storage_class="late"))
        for number in range(50):
            self._server.create(node(f"node-{number}", condition("Ready", "True", just_now() + 9000)))
            self._server.create(workload("DaemonSet", f"agent-{number}", age=just_now() + 9000))
            self._server.create(workload("StatefulSet", f"db-{number}", age=just_now() + 9000))
            self._server.create(resource(f"widget-{number}", condition("Ready", "True", just_now() + 9000)))
            self._server.create(job(f"done-{number}", condition("Complete", "True", just_now() + 9000)))
        for number in range(DEPLOYMENTS):
            name = f"app-{number}"
            self._tops[name] = self._server.create(self._deployment(name, REPLICAS))
            below = self._replica_set(name)
            for _ in range(REPLICAS):
                self._start(name, below, age=just_now() + 9000)
            yield

    def _deployment(self, name: str, ready: int, *, available: bool = True) -> Object:
        now = just_now()
        conditions = [
            condition("Available", str(available), now),
            condition("Progressing", "True", now, reason="ReplicaSetUpdated"),
        ]
        return deployment(name, wanted=REPLICAS, ready=ready, conditions=conditions)

    def _replica_set(self, name: str) -> Object:
        spec = {**deployment(name)["spec"], "replicas": REPLICAS}
        status = {"replicas": REPLICAS, "readyReplicas": self._chance.randint(0, REPLICAS)}
        below = make(
            "ReplicaSet",
            f"{name}-{next(self._numbers)}",
            api="apps/v1",
            owner=self._tops[name],
            spec=spec,
            status=status,
        )
        return self._server.create(below)

    def _start(self, name: str, below: Object, age: float) -> None:
        pod_name = f"{below['metadata']['name']}-{next(self._numbers)}"
        self._server.create(pod(pod_name, ready=True, age=age, owner=below, node=f"node-{self._chance.randrange(50)}"))
        self._pods[pod_name] = name, below

    # --- what goes on -------------------------------------------------------------------------

    def step(self) -> None:
        """Do one of the things that happen in a healthy cluster."""
        self.steps += 1
        self._chance.choice(
            (self._roll, self._roll, self._roll, self._evict, self._run_job, self._begin_pod, self._roll_others)
        )()

    def _roll(self) -> None:
        """Replace some pods of a deployment: one terminates, one is created, one waits for its image."""
        name = self._chance.choice(list(self._tops))
        self._server.update(
            self._deployment(name, self._chance.randint(0, REPLICAS), available=self._chance.random() < 0.5)
        )
        below = self._replica_set(name)
        for old in [one for one, (top, _) in self._pods.items() if top == name][:3]:
            found = self._server.get("v1/pods", "shop", old)
            assert found is not None
            del self._pods[old]
            if self._chance.random() < 0.5:
                self._server.update({**found, "metadata": {**found["metadata"], "finalizers": ["example.com/drain"]}})
            self._server.delete("v1/pods", "shop", old)
            self._begin_pod(name, below)

    def _begin_pod(self, name: str | None = None, below: Object | None = None) -> None:
        name = name or self._chance.choice(list(self._tops))
        below = below or self._replica_set(name)
        pod_name, now = f"{below['metadata']['name']}-{next(self._numbers)}", just_now()
        states: tuple[Callable[[], Object], ...] = (
            lambda: pod(pod_name, phase="Pending", state=waiting("ContainerCreating"), age=now, owner=below),
            lambda: pod(pod_name, phase="Pending", state=waiting("ErrImagePull"), age=now, owner=below),
            lambda: pod(pod_name, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=1, age=now, owner=below),
            lambda: pod(pod_name, age=now, owner=below),
            lambda: {**unschedulable(pod_name, now)},
        )
        self._server.create(self._chance.choice(states)())
        self._pods[pod_name] = name, below

    def _evict(self) -> None:
        name = self._chance.choice(list(self._pods))
        _, below = self._pods.pop(name)
        found = pod(name, phase="Failed", age=just_now(), owner=below, status={"reason": "Evicted"})
        if self._server.get("v1/pods", "shop", name) is not None:
            self._server.update(found)

    def _run_job(self) -> None:
        name = f"job-{next(self._numbers)}"
        running = self._server.create(job(name, created=just_now()))
        self._server.create(pod(f"{name}-a", phase="Failed", state=ended(1), age=just_now(), owner=running))
        self._server.create(pod(f"{name}-b", phase="Succeeded", state=ended(0), age=just_now(), owner=running))
        if self._chance.random() < 0.5:
            self._server.update(job(name, condition("Complete", "True", just_now()), created=just_now()))

    def _roll_others(self) -> None:
        number, now = self._chance.randrange(50), just_now()
        self._server.update(workload("StatefulSet", f"db-{number}", ready=2, age=now))
        self._server.update(workload("DaemonSet", f"agent-{number}", ready=0, age=now))
        self._server.update(written(resource(f"widget-{number}", condition("Ready", "False", now)), now))
        self._server.update(node(f"node-{number}", condition("Ready", "False", now)))


@pytest.fixture(autouse=True)
def own_heap() -> Iterator[None]:
    """Keep what other tests have left out of full collections, which would block the loop for 0.1 s."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
async def cluster(server: APIServer) -> AsyncIterator[Cluster]:
    found = Cluster(server)
    for _ in found.fill():
        await asyncio.sleep(0)

    async def live() -> None:
        while True:
            found.step()
            await asyncio.sleep(0.02)

    living = asyncio.create_task(live())
    yield found
    assert not living.done()
    living.cancel()
    await asyncio.wait({living})


@pytest.mark.timeout(300)
async def test_a_healthy_cluster_that_never_rests_has_no_problems(
    server: APIServer, client: Client, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[Any] = []
    kinformer = CommandLine(capsys, server.url)
    async with SharedInformerFactory(client) as factory:
        factory.for_resource("example.com/v1/widgets", keep_managed_fields=True)
        async with Problems(factory) as problems:
            await problems.wait_synced(60)
            assert len(factory.for_resource("v1/pods").lister) >= DEPLOYMENTS * REPLICAS
            problems.add_event_handler(on_add=shown.append)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                ended = await kinformer("problems", "-A")
                assert (ended.status, ended.out, errors_of(ended)) == (0, "", [])
            assert problems.unread() == {}
            assert shown == []
            assert cluster.steps > 20
            # The same moment is full of what would be wrong if it lasted.
            ended = await kinformer("problems", "-A", "--grace", "0")
            assert (ended.status, errors_of(ended)) == (1, [])
            assert len(ended.out.splitlines()) > 20
