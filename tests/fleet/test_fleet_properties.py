"""Any history of clusters that come, change, go and are away ends in the truth, with no call that does not fit."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import ConnectError, Fleet, SharedInformer, group_by
from kinformer.fleet import Cluster
from tests.derived.test_derived_properties import Told, state, states
from tests.fleet.clusters import kubeconfig
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop, no_jump_before_threads_end

pytestmark = pytest.mark.slow

SERVERS = 4
STEPS = st.tuples(
    st.sampled_from(["set", "set", "delete", "secret", "secret", "break", "forget", "away", "cut", "expire", "hub"]),
    st.sampled_from(["east", "west", "north"]),
    st.integers(0, SERVERS - 1),
    st.sampled_from("ab"),
    st.sampled_from(["none", "beat", "beats", "wait", "long"]),
)


class World:
    """Servers in memory, and the Secrets of a hub that name them."""

    def __init__(self) -> None:
        self.secrets = MemorySource()
        self.servers = [MemorySource() for _ in range(SERVERS)]
        self.wanted: dict[str, int] = {}  # the server that the Secret of each cluster names; -1: it is broken

    def client_url(self, number: int) -> str:
        return f"http://127.0.0.1:{number + 1}"

    def informer_of(self, cluster: Cluster) -> SharedInformer[Any]:
        number = int(cluster.client.server.rpartition(":")[2]) - 1
        return cluster.factory.add(SharedInformer(self.servers[number], name=f"pods of {cluster.name}"))

    def write_secret(self, name: str, number: int) -> None:
        self.wanted[name] = number
        text = "not: [yaml" if number < 0 else json.dumps(kubeconfig({"it": self.client_url(number)}))
        self.secrets.set(name, data={"kubeconfig": base64.b64encode(text.encode()).decode()})

    def expected(self) -> dict[str, Any]:
        return {
            f"{name}/{key}": state(obj)
            for name, number in self.wanted.items()
            for key, obj in self.servers[number].objects.items()
        }

    async def step(self, step: str, name: str, number: int, obj: str, pause: str) -> None:
        server = self.servers[number]
        if step == "set":
            known = f"default/{obj}" in server.objects
            uid = None if known else f"{number}-{server.version}"  # no two clusters have objects of the same uid
            server.set(obj, data={"v": str(server.version)}, uid=uid)
        elif step == "delete" and f"default/{obj}" in server.objects:
            server.delete(obj)
        elif step in ("secret", "break"):
            self.write_secret(name, number if step == "secret" else -1)
        elif step == "forget" and name in self.wanted:
            del self.wanted[name]
            self.secrets.delete(name)
        elif step == "away":
            server.fail_with = None if server.fail_with else ConnectError("connection refused")
            server.cut()
        elif step == "cut":
            server.cut()
        elif step == "expire":
            server.expire()
        elif step == "hub":
            self.secrets.expire()
        if pause in ("wait", "long"):
            await asyncio.sleep(60 if pause == "long" else 3)
        elif pause != "none":
            for _ in range(20 if pause == "beats" else 1):
                await asyncio.sleep(0)

    async def heal(self) -> None:
        for server in self.servers:
            server.fail_with = None
        for name, number in list(self.wanted.items()):
            if number < 0:
                self.write_secret(name, 0)
        await asyncio.sleep(900)


async def live_through(steps: list[Any]) -> None:
    world = World()
    world.servers[0].set("a")
    world.write_secret("east", 0)
    secrets: SharedInformer[Any] = SharedInformer(world.secrets, name="secrets")
    async with secrets, Fleet.from_secrets(secrets) as fleet:
        pods = fleet.union_of(world.informer_of, name="pods")
        told = Told()
        pods.add_event_handler(told)
        async with group_by(pods, "metadata.name") as groups:
            for step in steps:
                await world.step(*step)
            later = fleet.union_of(world.informer_of, name="later")
            await world.heal()
            await fleet.wait_synced(900)
            expected = world.expected()
            for union in (pods, later):
                assert {key: state(obj) for key, obj in union.by_key.items()} == expected
                assert set(union.members) == set(world.wanted) == set(fleet)
                assert union.health().live
            assert told.wrong == []
            assert {key: state(obj) for key, obj in told.values.items()} == expected
            assert {obj for members in groups.lister for obj in states(members)} == set(expected.values())
            figures = fleet.statistics()
            assert figures.clusters == figures.joined - figures.left == len(world.wanted)
            assert all(health.live and health.last_error is None for health in fleet.health().values())
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.search
@pytest.mark.timeout(600)  # 150 histories
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=30))
def test_any_history_of_clusters_ends_in_the_truth(steps: list[Any]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner, no_jump_before_threads_end(runner.get_loop()):
        runner.run(live_through(steps))
