"""The collection of problems: one line for each cause, grace times, and what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Client, Collection, ForbiddenError, KubeObject, SharedInformerFactory, derive
from kinformer.contrib.problems import Owner, Problem, Problems, by_severity
from kinformer.sharding import Shard
from kinformer.testing import APIServer, faults
from tests.contrib.problem_scenes import (
    BRIEFLY,
    CRON,
    DEFINITION,
    LATER,
    Object,
    ago,
    condition,
    deployment,
    ended,
    job,
    make,
    node,
    pod,
    resource,
    waiting,
    workload,
    written,
)
from tests.support.waiting import until

Clock = Callable[[], float]


@pytest.fixture
async def clock() -> Clock:
    """A wall clock that goes with the loop's."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    return lambda: LATER + loop.time() - begun


@asynccontextmanager
async def looking(client: Client, **options: Any) -> AsyncIterator[Problems]:
    options = {"clock": lambda: LATER, **options}
    async with SharedInformerFactory(client) as factory, Problems(factory, **options) as problems:
        await problems.wait_synced(60)
        yield problems


def crashing(name: str, owner: Object | None = None, restarts: int = 5, **options: Any) -> Object:
    return pod(name, state=waiting("CrashLoopBackOff"), last=ended(1), restarts=restarts, owner=owner, **options)


def rollout(server: APIServer, name: str = "web", wanted: int = 5, **status: Any) -> tuple[Object, Object]:
    """Create a Deployment and its ReplicaSet."""
    top = server.create(deployment(name, wanted=wanted, **status))
    below = make("ReplicaSet", f"{name}-1", api="apps/v1", owner=top, spec=deployment(name)["spec"])
    return top, server.create(below)


async def test_a_deployment_with_five_crashing_pods_is_one_problem(server: APIServer, client: Client) -> None:
    stuck = condition("Progressing", "False", reason="ProgressDeadlineExceeded")
    _, below = rollout(server, ready=0, conditions=[stuck, condition("Available", "False")])
    for number in range(5):
        server.create(crashing(f"web-1-{number}", below))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert found.owner == Owner("Deployment", "shop", "web", "apps")
        assert (found.count, found.unit, found.rule) == (5, "pods", "crashes")
        assert (found.resource, found.key) == ("v1/pods", "shop/web-1-0")
        assert found.namespace == "shop"
        assert problems.lister.list(namespace="shop") == [found]
        assert problems.lister.list(namespace="default") == []


async def test_two_causes_of_a_deployment_are_two_problems(server: APIServer, client: Client) -> None:
    _, below = rollout(server, ready=0, conditions=[condition("Available", "False")])
    server.create(crashing("web-1-0", below))
    server.create(pod("web-1-1", phase="Pending", state=waiting("ImagePullBackOff"), owner=below))
    async with looking(client) as problems:
        found = by_severity(problems.lister.list())
        assert [one.rule for one in found] == ["crashes", "image"]
        assert {one.owner.name for one in found} == {"web"}


async def test_the_rest_of_a_cause_is_shown_when_a_pod_is_well_again(server: APIServer, client: Client) -> None:
    _, below = rollout(server, ready=4, conditions=[condition("Available", "False")])
    server.create(crashing("web-1-0", below))
    async with looking(client) as problems:
        assert [one.rule for one in problems.lister.list()] == ["crashes"]
        server.update(pod("web-1-0", ready=True, owner=below))
        [found] = await until(
            lambda: [one for one in problems.lister.list() if one.rule == "replicas"], what="the symptom"
        )
        assert (found.count, found.unit, found.message) == (1, "replicas", "4 of 5 replicas ready")
        assert len(problems.lister) == 1


async def test_the_pod_of_a_cron_job_belongs_to_the_cron_job(server: APIServer, client: Client) -> None:
    cron = server.create(CRON)
    once = server.create(job("backup-1", owner=cron))
    server.create(crashing("backup-1-x", once))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert found.owner == Owner("CronJob", "shop", "backup", "batch")


async def test_a_broken_node_owns_what_its_pods_suffer(server: APIServer, client: Client) -> None:
    server.create(node("node-1", condition("Ready", "Unknown", 600, message="Kubelet stopped posting node status.")))
    _, below = rollout(server, wanted=3)
    for number in range(3):
        server.create(pod(f"web-1-{number}", owner=below))
    server.create(pod("web-1-9", owner=below, node="node-2", ready=True))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert (found.owner, found.rule, found.severity) == (Owner("Node", "", "node-1"), "node", "critical")
        assert (found.count, found.unit) == (3, "pods")
        assert found.message == "Kubelet stopped posting node status."
        assert found.resource == "v1/nodes"
        server.update(node("node-1", condition("Ready", "True", 1)))
        await until(lambda: {one.owner.kind for one in problems.lister.list()} == {"Deployment"})


async def test_a_node_that_is_down_is_one_problem_whatever_has_pods_there(server: APIServer, client: Client) -> None:
    server.create(node("node-1", condition("Ready", "Unknown", 600)))
    for kind in ("DaemonSet", "StatefulSet"):
        top = server.create(written(workload(kind, kind.lower(), wanted=3, ready=2), 600))
        server.create(pod(f"{kind.lower()}-1", owner=top, age=600))
        server.create(pod(f"{kind.lower()}-2", owner=top, ready=True, node="node-2"))
    async with looking(client) as problems:
        [problem] = problems.lister.list()
        assert (problem.owner, problem.rule, problem.count) == (Owner("Node", "", "node-1"), "node", 2)


async def test_a_workload_that_lacks_more_than_its_pods_on_dead_nodes_has_its_own_problem(
    server: APIServer, client: Client
) -> None:
    server.create(node("node-1", condition("Ready", "Unknown", 600)))
    top = server.create(written(workload("StatefulSet", "db", wanted=3, ready=1), 600))
    server.create(pod("db-1", owner=top, age=600))
    async with looking(client) as problems:
        assert {problem.rule for problem in problems.lister.list()} == {"node", "replicas"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("rule", ["not-ready", "starting"])
async def test_a_node_has_its_grace_time_whatever_its_pods_were_before(
    server: APIServer, client: Client, clock: Clock, rule: str
) -> None:
    state: Object = {} if rule == "not-ready" else {"phase": "Pending", "state": waiting("ContainerCreating")}
    server.create(node("node-1", condition("Ready", "False", 2)))
    server.create(pod("web-1", age=7200, **state))
    async with looking(client, clock=clock) as problems:
        [problem] = problems.lister.list()
        assert (problem.owner.kind, problem.rule) == ("Pod", rule)
        await asyncio.sleep(60)
        [problem] = problems.lister.list()
        assert (problem.owner.kind, problem.rule, problem.count) == ("Node", "node", 1)
        server.update(node("node-1", condition("Ready", "True", -60)))
        await until(lambda: [one.owner.kind for one in problems.lister.list()] == ["Pod"])


@pytest.mark.virtual_time
async def test_a_container_that_runs_for_ten_minutes_no_longer_crashes(
    server: APIServer, client: Client, clock: Clock
) -> None:
    server.create(pod("web-1", state={"running": {"startedAt": ago(200)}}, last=ended(1), restarts=3, age=7200))
    async with looking(client, clock=clock) as problems:
        assert [problem.rule for problem in problems.lister.list()] == ["crashes"]
        await asyncio.sleep(410)
        assert [problem.rule for problem in problems.lister.list()] == ["not-ready"]


async def test_the_worst_and_the_widest_come_first(server: APIServer, client: Client) -> None:
    server.create(node("node-2", condition("Ready", "False")))
    server.create(pod("slow"))
    _, below = rollout(server, ready=0)
    server.create(crashing("alone"))
    for number in range(2):
        server.create(crashing(f"web-1-{number}", below))
    async with looking(client) as problems:
        found = by_severity(problems.lister.list())
        assert [one.owner.name for one in found] == ["node-2", "web", "alone", "slow"]


# --- times ------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_a_problem_is_shown_when_its_grace_time_ends(server: APIServer, client: Client, clock: Clock) -> None:
    server.create(pod(age=BRIEFLY))
    async with looking(client, clock=clock) as problems, problems.events() as changes:
        assert problems.lister.list() == []
        begun = clock()
        event = await asyncio.wait_for(anext(changes), 600)
        assert event.type == "ADDED"
        assert clock() - begun == pytest.approx(300 - BRIEFLY, abs=2)
        assert event.object.since.strftime("%Y-%m-%dT%H:%M:%SZ") == ago(BRIEFLY)  # type: ignore[attr-defined]
        server.update(pod(ready=True))
        assert (await asyncio.wait_for(anext(changes), 10)).type == "DELETED"


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_start_shorter_than_the_grace_time_is_never_shown(
    server: APIServer, client: Client, clock: Clock
) -> None:
    async with looking(client, clock=clock) as problems, problems.events() as changes:
        for _ in range(2):
            server.create(pod(age=LATER - clock() + BRIEFLY))
            await asyncio.sleep(200)
            server.update(pod(ready=True))
            await asyncio.sleep(400)
            server.delete("v1/pods", "shop", "web-1")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(changes), 600)


@pytest.mark.virtual_time
async def test_a_state_without_a_time_counts_from_when_it_was_seen(
    server: APIServer, client: Client, clock: Clock
) -> None:
    short = make(
        "StatefulSet",
        "db",
        api="apps/v1",
        spec={**deployment("db")["spec"], "serviceName": "db"},
        status={"observedGeneration": 1, "replicas": 3, "readyReplicas": 1},
    )
    server.create(short)
    async with looking(client, clock=clock) as problems:
        await asyncio.sleep(250)
        assert problems.lister.list() == []
        await asyncio.sleep(60)
        [found] = problems.lister.list()
        assert (found.rule, found.count) == ("replicas", 2)
        assert 299 <= clock() - found.since.timestamp() <= 320


@pytest.mark.virtual_time
async def test_an_object_made_again_begins_again(server: APIServer, client: Client, clock: Clock) -> None:
    short = deployment(ready=0)
    async with looking(client, clock=clock) as problems:
        for number in range(4):
            short["metadata"]["uid"] = f"uid-{number}"
            server.create(short)
            await asyncio.sleep(200)
            server.delete("apps/v1/deployments", "shop", "web")
            await asyncio.sleep(1)
            assert problems.lister.list() == []


async def test_grace_may_be_chosen(server: APIServer, client: Client) -> None:
    server.create(pod(age=BRIEFLY))
    server.create(deployment("api", ready=0))
    async with looking(client, grace=0) as problems:
        assert {one.owner.name for one in problems.lister.list()} == {"web-1", "api"}
    async with looking(client, grace=BRIEFLY + 1) as problems:
        assert problems.lister.list() == []


# --- what cannot be read ----------------------------------------------------------------------------------


@pytest.mark.virtual_time
@pytest.mark.parametrize("resource", ["v1/events", "v1/nodes", "apps/v1/replicasets", "v1/persistentvolumeclaims"])
async def test_a_resource_that_cannot_be_read_hides_nothing_of_the_others(
    server: APIServer, client: Client, resource: str
) -> None:
    server.faults.add(faults.status(403), resource=resource)
    server.create(crashing("web-1"))
    async with looking(client) as problems:
        assert isinstance(problems.unread()[resource], ForbiddenError)
        assert set(problems.unread()) == {resource}
        assert [one.rule for one in problems.lister.list()] == ["crashes"]


@pytest.mark.virtual_time
async def test_a_slow_list_is_waited_for(server: APIServer, client: Client) -> None:
    server.create(crashing("web-1"))
    server.faults.add(faults.delay(20), resource="v1/pods", verb="list", times=1)
    async with looking(client) as problems:
        assert [one.rule for one in problems.lister.list()] == ["crashes"]
        assert problems.unread() == {}


@pytest.mark.virtual_time
async def test_an_informer_that_does_not_follow_is_a_problem(server: APIServer, client: Client, clock: Clock) -> None:
    server.create(deployment())
    async with looking(client, clock=clock) as problems:
        fault = server.faults.add(faults.status(403), resource="apps/v1/deployments")
        server.faults.add(faults.reset(), resource="apps/v1/deployments", verb="watch", times=1)
        [found] = await until(problems.lister.list, 2000)
        assert (found.rule, found.severity, found.resource) == ("informer", "critical", "apps/v1/deployments")
        assert (found.owner.kind, found.owner.name) == ("Informer", "apps/v1/deployments")
        assert "forbidden" in found.message
        fault.remove()
        await until(lambda: not problems.lister.list(), 400)


# --- informers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"label_selector": "app=other"},
        {"field_selector": "spec.nodeName=other"},
        {"namespace": "other"},
        {"metadata_only": True},
        {"fields": ["spec.nodeName"]},
        {"transform": lambda obj: KubeObject.from_dict({**obj.to_dict(), "status": {}})},
        {"shard": Shard(0, 2)},
        {"tweak_list_options": lambda options: options},
    ],
    ids=lambda options: next(iter(options)),
)
async def test_an_informer_of_a_part_is_not_looked_at(
    server: APIServer, client: Client, options: dict[str, Any]
) -> None:
    for number in range(8):  # some in each shard
        server.create(crashing(f"web-{number}"))
    async with SharedInformerFactory(client) as factory:
        part = factory.for_resource("v1/pods", **options)
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            assert len(problems.lister) == 8
        assert factory.informers == (part,)


async def test_an_informer_of_whole_objects_is_shared(server: APIServer, client: Client) -> None:
    server.create(crashing("web-1"))
    async with SharedInformerFactory(client) as factory:
        factory.for_resource("v1/pods", keep_managed_fields=True, max_event_bytes=1_000_000)
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            assert len(problems.lister) == 1
            assert len([informer for informer in factory.informers if informer.name == "v1/pods"]) == 1


async def test_the_options_of_the_factory_hide_no_part(server: APIServer, client: Client) -> None:
    server.create(crashing("web-1"))
    async with SharedInformerFactory(client, metadata_only=True) as factory:
        factory.for_resource("v1/pods")
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            assert len(problems.lister) == 1


@pytest.mark.virtual_time
@pytest.mark.parametrize("owner_is_known", [True, False], ids=["known", "known later"])
async def test_an_owner_counts_as_soon_as_its_kind_is_followed(
    server: APIServer, client: Client, owner_is_known: bool
) -> None:
    server.create(DEFINITION)
    top = server.create(resource("top"))
    below = server.create({**resource("below"), "metadata": {**make("Widget", "below", owner=top)["metadata"]}})
    server.create(crashing("web-1", below))
    async with SharedInformerFactory(client) as factory:
        if owner_is_known:
            factory.for_resource("example.com/v1/widgets")
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            if not owner_is_known:
                assert [problem.owner.name for problem in problems.lister.list()] == ["below"]
                factory.for_resource("example.com/v1/widgets")
            await until(lambda: [problem.owner.name for problem in problems.lister.list()] == ["top"], 20)


async def test_custom_resources_that_the_program_follows_are_looked_at(server: APIServer, client: Client) -> None:
    server.create(DEFINITION)
    server.create(resource("a", condition("Ready", "False", reason="NoSecret")))
    async with SharedInformerFactory(client) as factory:
        factory.for_resource("example.com/v1/widgets")
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            [found] = problems.lister.list()
            assert found.owner == Owner("Widget", "shop", "a", "example.com")
            assert found.reason == "Ready=False"


@pytest.mark.virtual_time
async def test_a_resource_that_is_followed_later_is_looked_at_until_it_is_released(
    server: APIServer, client: Client
) -> None:
    server.create(DEFINITION)
    server.create(resource("a", condition("Ready", "False")))
    async with SharedInformerFactory(client) as factory, Problems(factory, clock=lambda: LATER) as problems:
        await problems.wait_synced(20)
        assert problems.lister.list() == []
        widgets = factory.for_resource("example.com/v1/widgets")
        [found] = await until(problems.lister.list)
        assert found.owner.kind == "Widget"
        await factory.release(widgets)
        await until(lambda: not problems.lister.list())
        await until(lambda: "example.com/v1/widgets" not in problems.resources)


@pytest.mark.virtual_time
async def test_an_informer_that_the_program_releases_is_requested_again(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            await factory.release(pods)
            server.create(crashing("web-1"))
            assert await until(problems.lister.list, 30)
        assert factory.informers == ()


async def test_informers_are_shared_and_given_back(server: APIServer, client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        async with Problems(factory, clock=lambda: LATER) as problems:
            await problems.wait_synced(20)
            assert len([one for one in factory.informers if one.name == "v1/pods"]) == 1
            assert "v1/nodes" in problems.resources
        assert factory.informers == (pods,)


async def test_one_namespace_is_looked_at_alone(server: APIServer, client: Client) -> None:
    server.create(crashing("web-1"))
    server.create(crashing("other", metadata={"namespace": "shop"}))
    server.create(node("node-1", condition("Ready", "False")))
    async with looking(client, namespace="default") as problems:
        assert problems.lister.list() == []
        assert "v1/nodes" not in problems.resources
    async with looking(client, namespace="shop") as problems:
        assert len(problems.lister) == 2


async def test_it_is_a_collection(server: APIServer, client: Client) -> None:
    server.create(crashing("web-1"))
    async with looking(client) as problems:
        assert isinstance(problems, Collection)
        calls: list[Problem] = []
        handler = problems.add_event_handler(on_add=calls.append)
        await until(lambda: calls)
        await problems.remove_event_handler(handler)
        async with derive(problems, lambda one, fetch: one.severity) as severities:
            await severities.wait_synced(10)
            assert list(severities.by_key.values()) == ["error"]
        assert calls[0].as_dict() == {
            "severity": "error",
            "rule": "crashes",
            "owner": {"kind": "Pod", "namespace": "shop", "name": "web-1"},
            "resource": "v1/pods",
            "key": "shop/web-1",
            "count": 1,
            "unit": "pods",
            "reason": "CrashLoopBackOff",
            "message": "container main ended with exit code 1, restarted 5 times",
            "since": ago(7200),
        }
