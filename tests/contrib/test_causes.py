"""Changes of one cause are one entry, which says what has come of it.

Internals: the cluster of `kinformer serve`, in simulated time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import Client, KubeObject, SharedInformerFactory
from kinformer.cli.commands.serving.population import Population
from kinformer.cli.living import cluster, contents
from kinformer.cli.living.cluster import DEPLOYMENTS, NAMESPACES, LivingCluster
from kinformer.client import discover
from kinformer.conditions import is_deployment_rolled_out
from kinformer.contrib.changes import ABSENT, Change, Changes, Difference
from kinformer.contrib.changes.causes import Causes, grouped
from kinformer.testing import APIServer
from tests.contrib.living_day import DayLoop, generated_times
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


def play(story: Any, times: dict[str, Any] | None = None) -> Any:
    """Run a story in virtual time, in which generated objects have the times of the loop."""
    with asyncio.Runner(loop_factory=DayLoop) as runner, ExitStack() as stack:
        loop = runner.get_loop()
        assert isinstance(loop, DayLoop)
        for each in generated_times(loop):
            stack.enter_context(each)
        if times is not None:
            stack.enter_context(patch.multiple(cluster, **times))
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


def test_the_rest_of_a_rollout_is_not_an_outage_that_comes_in_between() -> None:
    async def story() -> None:
        async with scene(web(4)) as it:
            it.change("apps/v1/deployments", "shop", "web", template=template("app:2"))
            await asyncio.sleep(3)
            it.server.update(contents.node("n-1", ready="Unknown"))
            rollout, outage = await it.settled()
            assert (rollout.kind, rollout.summary) == ("Deployment", "image 1 to 2, 4 of 4 pods replaced")
            assert outage.kind == "Node"

    play(story())


def test_each_run_of_a_cron_job_is_an_entry_and_takes_old_runs_away() -> None:
    async def story() -> None:
        schedule = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job("nightly")["spec"]["template"]}}}
        metadata = {"name": "nightly", "namespace": "shop"}
        cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata, "spec": schedule}
        async with scene() as it:
            owner = it.server.create(cron)
            for number in range(3):
                run = job(f"nightly-{number}", owner=owner)
                del run["status"]
                it.server.create(run)
                await asyncio.sleep(20)
                if number == 2:
                    it.server.delete("batch/v1/jobs", "shop", "nightly-0")
                await asyncio.sleep(10)
            entries = await it.settled()
            assert [(entry.name, entry.summary) for entry in entries if entry.kind == "Job"] == [
                ("nightly-0", "created, complete, 1 pod created"),
                ("nightly-1", "created, complete, 1 pod created"),
                ("nightly-2", "created, complete, 1 pod created"),
            ]
            assert len(entries) == 3

    play(story())


def test_what_is_deleted_with_a_namespace_follows_from_that() -> None:
    causes = Causes()
    namespace = KubeObject.from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    dying = (Difference("metadata.deletionTimestamp", ABSENT, "2027-01-15T00:00:00Z"),)
    first = replace(single(1), kind="Namespace", namespace="", name="shop", type="changed", differences=dying)
    assert causes.cause_of(first, namespace) == 0
    for number, place in ((2, "shop"), (3, "shop"), (4, "default")):
        settings = KubeObject.from_dict(config_map(f"settings-{number}", namespace=place))
        deleted = replace(single(number), namespace=place, type="deleted")
        assert causes.cause_of(deleted, settings) == (1 if place == "shop" else 0)


def test_a_job_that_has_failed_for_a_long_reason_has_failed() -> None:
    async def story() -> None:
        async with scene() as it:
            once = job("once")
            del once["status"]
            once["spec"]["parallelism"] = 0
            made = it.server.create(once)
            await asyncio.sleep(1)
            failed = [{"type": kind, "status": "True", "message": "no " * 300} for kind in ("FailureTarget", "Failed")]
            it.server.update({**made, "status": {"conditions": failed}})
            entries = await it.settled()
            assert [entry.summary for entry in entries] == ["created, failed"]

    play(story())


def test_pods_that_are_not_followed_are_not_counted() -> None:
    async def story() -> None:
        async with scene(web(2), resources=("apps/v1/deployments",)) as it:
            it.change("apps/v1/deployments", "shop", "web", template=template("app:2"))
            [entry] = await it.settled()
            assert "pod" not in entry.summary
            assert entry.summary.startswith("image 1 to 2")

    play(story())


def test_an_entry_is_whole_if_any_of_its_changes_is_asked_for() -> None:
    async def story() -> None:
        async with scene(web(2)) as it:
            it.server.create(config_map("settings"))
            it.change("apps/v1/deployments", "shop", "web", template=template("app:2"))
            rollout = max(await it.settled(), key=lambda entry: len(entry.members))
            assert rollout.kind == "Deployment"
            assert it.changes.list(grouped=True, kind="Pod") == [rollout]
            assert it.changes.list(grouped=True, namespace="shop") == [rollout]
            assert it.changes.list(grouped=True, after=rollout.members[-1].number - 1) == [rollout]
            assert it.changes.list(grouped=True, kind="Node") == []

    play(story())


# --- any history ----------------------------------------------------------------------------------------------------


numbers = st.lists(st.integers(0, 12), max_size=30)


@given(causes=numbers, cut=st.integers(0, 30))
def test_groups_are_the_same_however_the_log_is_cut(causes: list[int], cut: int) -> None:
    log = [single(number, cause if 0 < cause < number else 0) for number, cause in enumerate(causes, 1)]
    whole, rest = (
        [[head.number, *(member.number for member in head.members)] for head in grouped(part)]
        for part in (log, log[cut:])
    )
    assert sorted(number for group in whole for number in group) == [change.number for change in log]
    assert sorted(rest) == sorted([kept for group in whole if (kept := [number for number in group if number > cut])])


def single(number: int, cause: int = 0) -> Change:
    when = datetime.fromtimestamp(number, UTC)
    return Change(
        number=number,
        time=when,
        type="created",
        resource="v1/configmaps",
        kind="ConfigMap",
        namespace="shop",
        name=f"settings-{number}",
        summary="created",
        cause=cause,
    )


@pytest.mark.search
@pytest.mark.timeout(300)
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


@pytest.mark.search
@pytest.mark.timeout(300)
def test_an_hour_of_rollouts_and_an_outage_is_at_most_forty_entries_and_each_is_true() -> None:
    rollouts: list[tuple[str, str]] = []
    removed: list[str] = []

    class Recorded(APIServer):
        """A server that notes which pods are deleted."""

        def delete(self, resource: Any, namespace: str | None, name: str) -> Object:
            removed.extend([f"{namespace}/{name}"] if str(resource) == "v1/pods" else [])
            return super().delete(resource, namespace, name)

    async def roll_out(server: APIServer, client: Client, turn: int) -> None:
        (namespace, name), replicas = sorted(DEPLOYMENTS.items())[turn % len(DEPLOYMENTS)]
        obj = server.get("apps/v1/deployments", namespace, name)
        assert obj is not None
        container = obj["spec"]["template"]["spec"]["containers"][0]
        words = f"image {container['image'].rpartition(':')[2]} to 2.{turn}, {replicas} of {replicas} pods replaced"
        container["image"] = f"registry.example/{name}:2.{turn}"
        server.update(obj)
        rollouts.append((f"{namespace}/{name}", words))
        await client.wait_for("apps/v1/deployments", f"{namespace}/{name}", is_deployment_rolled_out)
        await asyncio.sleep(170)

    async def lose_node(server: APIServer, name: str) -> int:
        server.update(contents.node(name, ready="Unknown"))
        await asyncio.sleep(1)
        lost = [pod["metadata"] for pod in server.list("v1/pods") if pod["spec"].get("nodeName") == name]
        lost = [pod for pod in lost if pod["namespace"] in NAMESPACES]
        for pod in lost:
            server.delete("v1/pods", pod["namespace"], pod["name"])
        await asyncio.sleep(100)
        server.update(contents.node(name))
        await asyncio.sleep(100)
        return len(lost)

    async def story() -> tuple[list[Change], int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, DayLoop)
        chance = random.Random(5)
        async with Recorded() as server, server.client() as client, SharedInformerFactory(client) as factory:
            living = LivingCluster(server, chance, pause=(1e6, 2e6))
            await living.start()
            people = Population(server, chance, has_controllers=True)
            async for _ in people.add({(await discover(client)).find("v1/pods"): 20}):
                pass
            for resource in RESOURCES:
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(20)
            async with Changes(factory, limit=100_000, clock=loop.wall) as changes:
                life = [asyncio.create_task(living.run()), asyncio.create_task(people.churn(0.5))]
                removed.clear()
                for turn in range(18):
                    await roll_out(server, client, turn)
                lost = await lose_node(server, "node-2")
                for task in life:
                    task.cancel()
                await asyncio.wait(life)
                await changes.wait(changes.last, 1)
                return list(changes.list(grouped=True)), lost

    entries, lost = play(story(), {"_UNTIL_OUTAGE": (1e6, 2e6)})
    assert [(entry.key, entry.summary) for entry in entries if entry.kind == "Deployment"] == rollouts
    [outage] = [entry for entry in entries if entry.kind == "Node"]
    assert outage.summary == f"ready true to unknown, {lost} pods deleted, {lost} pods created, {lost} ready"
    gone = [
        change.key
        for entry in entries
        for change in (entry, *entry.members)
        if change.type == "deleted" and change.kind == "Pod" and entry.kind != "Deployment"
    ]
    assert sorted(gone) == sorted(removed)
    replaced = [entry for entry in entries if entry.kind == "Pod"]
    assert {entry.namespace for entry in replaced}.isdisjoint(NAMESPACES)
    for entry in replaced:  # pods of one ReplicaSet, of which those have longer names that its controller has created
        pods = [change for change in (entry, *entry.members) if change.kind == "Pod"]
        assert len({tuple(pod.name.split("-")[:2]) for pod in pods}) == 1
    assert len(entries) - len(replaced) <= 40
