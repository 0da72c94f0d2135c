"""Changes of one cause are one entry, which says what has come of it.

Internals: the cluster of `kinformer serve`, in simulated time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import SharedInformerFactory
from kinformer.cli.living import cluster, contents
from kinformer.cli.living.cluster import LivingCluster
from kinformer.conditions import is_deployment_rolled_out
from kinformer.contrib.changes import Change, Changes
from kinformer.testing import APIServer
from tests.contrib.living_day import DayLoop
from tests.contrib.problem_scenes import Object, deployment, job
from tests.support.kube import config_map

RESOURCES = ("v1/pods", "apps/v1/deployments", "apps/v1/replicasets", "batch/v1/jobs", "v1/nodes", "v1/configmaps")
WEB = "shop/web"


class Scene:
    """A server with controllers, and the log of what changes there."""

    def __init__(self, server: APIServer, changes: Changes) -> None:
        self.server = server
        self.changes = changes

    async def settled(self, seconds: float = 120) -> list[Change]:
        """Return the entries when nothing changes any more."""
        await asyncio.sleep(seconds)
        return list(self.changes.list(grouped=True))

    def change(self, resource: str, namespace: str | None, name: str, **spec: Any) -> None:
        obj = self.server.get(resource, namespace, name)
        assert obj is not None
        obj["spec"].update(spec)
        self.server.update(obj)


@asynccontextmanager
async def scene(*objects: Object, resources: tuple[str, ...] = RESOURCES) -> AsyncIterator[Scene]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, DayLoop)
    async with APIServer() as server, server.client() as client:
        for obj in (contents.node("n-1"), contents.node("n-2"), *objects):
            server.create(obj)
        async with server.run_controllers(startup=2, shutdown=2, runtime=5), SharedInformerFactory(client) as factory:
            await asyncio.sleep(60)
            for resource in resources:
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(20)
            async with Changes(factory, clock=loop.wall) as changes:
                yield Scene(server, changes)


def web(replicas: int) -> Object:
    made = deployment("web", wanted=replicas)
    del made["status"], made["metadata"]["uid"]
    return made


def template(image: str) -> Object:
    made = web(1)["spec"]["template"]
    made["spec"]["containers"][0]["image"] = image
    return dict(made)


def play(story: Any) -> Any:
    with asyncio.Runner(loop_factory=DayLoop) as runner:
        return runner.run(story)


@pytest.mark.parametrize("resources", [RESOURCES, ("v1/pods", "apps/v1/deployments")], ids=["all", "no replica sets"])
def test_a_rollout_is_one_entry_that_counts_its_pods(resources: tuple[str, ...]) -> None:
    async def story() -> None:
        async with scene(web(4), resources=resources) as it:
            it.change("apps/v1/deployments", "shop", "web", template=template("app:2"))
            [entry] = await it.settled()
            assert (entry.kind, entry.name) == ("Deployment", "web")
            assert entry.summary == "image 1 to 2, 4 of 4 pods replaced"
            pods = {member.key for member in entry.members if member.kind == "Pod"}
            assert len(pods) == 8

    play(story())


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [(3, 5, "replicas 3 to 5, 2 of 2 pods created"), (5, 2, "replicas 5 to 2, 3 of 3 pods deleted")],
)
def test_a_scaling_is_one_entry(before: int, after: int, words: str) -> None:
    async def story() -> None:
        async with scene(web(before)) as it:
            it.change("apps/v1/deployments", "shop", "web", replicas=after)
            [entry] = await it.settled()
            assert entry.summary == words

    play(story())


def test_a_lost_pod_and_the_one_that_replaces_it_are_one_entry() -> None:
    async def story() -> None:
        async with scene(web(3)) as it:
            pod = it.server.list("v1/pods")[0]["metadata"]
            it.server.delete("v1/pods", pod["namespace"], pod["name"])
            [entry] = await it.settled()
            assert (entry.kind, entry.name) == ("Pod", pod["name"])
            assert entry.summary.endswith(", 1 pod created, 1 ready")

    play(story())


def test_a_job_is_one_entry_with_its_result() -> None:
    async def story() -> None:
        async with scene() as it:
            once = job("once")
            del once["status"]
            it.server.create(once)
            [entry] = await it.settled()
            assert (entry.kind, entry.name) == ("Job", "once")
            assert entry.summary == "created, complete, 1 pod created"
            assert {member.kind for member in entry.members} == {"Job", "Pod"}

    play(story())


def test_what_goes_with_a_deployment_is_its_entry() -> None:
    async def story() -> None:
        async with scene(web(3)) as it:
            it.server.delete("apps/v1/deployments", "shop", "web")
            [entry] = await it.settled()
            assert entry.summary == "deleted, 3 pods deleted"

    play(story())


def test_a_node_that_goes_away_is_one_entry_with_its_pods() -> None:
    async def story() -> None:
        async with scene(web(4)) as it:
            it.server.update(contents.node("n-1", ready="Unknown"))
            await asyncio.sleep(40)
            for pod in it.server.list("v1/pods"):
                if pod["spec"].get("nodeName") == "n-1":
                    it.server.delete("v1/pods", "shop", pod["metadata"]["name"])
            [entry] = await it.settled()
            assert (entry.kind, entry.name) == ("Node", "n-1")
            assert entry.summary == "ready true to unknown, 2 pods deleted, 2 pods created, 2 ready"

    play(story())


def test_two_rollouts_are_two_entries_and_settings_are_their_own() -> None:
    async def story() -> None:
        async with scene(web(2)) as it:
            for image in ("app:2", "app:3"):
                it.change("apps/v1/deployments", "shop", "web", template=template(image))
                await asyncio.sleep(100)
            it.server.create(config_map("settings", data={"a": "1"}))
            it.server.update(config_map("settings", data={"a": "2"}))
            words = [entry.summary for entry in await it.settled()]
            assert words == [
                "image 1 to 2, 2 of 2 pods replaced",
                "image 2 to 3, 2 of 2 pods replaced",
                "created",
                "data.a 1 to 2",
            ]

    play(story())


# --- any history ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32), limit=st.integers(5, 400))
def test_grouping_loses_no_change_and_repeats_none(seed: int, limit: int) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DayLoop)
        async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
            living = LivingCluster(server, random.Random(seed), pause=(1, 5))
            await living.start()
            for resource in RESOURCES:
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(20)
            async with Changes(factory, limit=limit, clock=loop.wall) as changes:
                life = asyncio.create_task(living.run())
                await asyncio.sleep(40)
                life.cancel()
                await asyncio.wait({life})
                single = changes.list()
                heads = changes.list(grouped=True)
        told = [number for head in heads for number in (head.number, *(member.number for member in head.members))]
        assert sorted(told) == [change.number for change in single]
        assert all(head.cause in (0, head.members[0].cause) for head in heads if head.members)
        assert all(member.number > head.number for head in heads for member in head.members)

    play(story())


@pytest.mark.slow
def test_an_hour_of_rollouts_is_an_entry_for_each_and_each_is_true() -> None:
    done: list[tuple[str, str]] = []

    async def story() -> list[Change]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DayLoop)
        async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
            living = LivingCluster(server, random.Random(5), pause=(1e6, 2e6))
            await living.start()
            for resource in RESOURCES:
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(20)
            async with Changes(factory, clock=loop.wall) as changes:
                life = asyncio.create_task(living.run())
                for turn in range(20):
                    (namespace, name), replicas = sorted(cluster.DEPLOYMENTS.items())[turn % len(cluster.DEPLOYMENTS)]
                    obj = server.get("apps/v1/deployments", namespace, name)
                    assert obj is not None
                    container = obj["spec"]["template"]["spec"]["containers"][0]
                    before = container["image"].rpartition(":")[2]
                    container["image"] = f"registry.example/{name}:2.{turn}"
                    server.update(obj)
                    done.append(
                        (f"{namespace}/{name}", f"image {before} to 2.{turn}, {replicas} of {replicas} pods replaced")
                    )
                    await client.wait_for("apps/v1/deployments", f"{namespace}/{name}", is_deployment_rolled_out)
                    await asyncio.sleep(180)
                life.cancel()
                await asyncio.wait({life})
                return list(changes.list(grouped=True))

    now = patch.object(contents, "timestamp", lambda ago=0.0: "2027-01-15T00:00:00Z")
    with now, patch.object(cluster, "_UNTIL_OUTAGE", (900.0, 1200.0)):
        entries = play(story())
    rollouts = [(entry.key, entry.summary) for entry in entries if entry.kind == "Deployment"]
    assert rollouts == done
    assert len(entries) <= 40
