"""Each rule for problems has objects on which it fires, and objects on which all rules are quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.problems import RULES, Problem, Problems
from kinformer.testing import APIServer
from tests.contrib.problem_scenes import DEFINITION, LATER, SCENES, Object, event, make, node, pod, resource, waiting

ELSEWHERE = {"hangs", "informer"}  # these need deletes and faults, so they have tests of their own

FIRES = [(rule, name, make) for rule, scene in SCENES.items() for name, make in scene.fires.items()]
QUIET = [(rule, name, make) for rule, scene in SCENES.items() for name, make in scene.quiet.items()]


@asynccontextmanager
async def looking(client: Client, **options: Any) -> AsyncIterator[Problems]:
    """Look at a server, a day after its objects were made."""
    options = {"clock": lambda: LATER, "resources": ["example.com/v1/widgets"], **options}
    async with SharedInformerFactory(client) as factory, Problems(factory, **options) as problems:
        await problems.wait_synced(20)
        yield problems


@pytest.fixture
def initial_objects() -> list[Object]:
    return [DEFINITION]


def test_every_rule_has_scenes() -> None:
    assert {rule.name for rule in RULES} == set(SCENES) | ELSEWHERE
    assert all(scene.fires and scene.quiet for scene in SCENES.values())


@pytest.mark.parametrize(("rule", "name", "objects"), FIRES, ids=[f"{rule}-{name}" for rule, name, _ in FIRES])
async def test_a_rule_fires(
    server: APIServer, client: Client, rule: str, name: str, objects: Callable[[], list[Object]]
) -> None:
    made = [server.create(obj) for obj in objects()]
    async with looking(client) as problems:
        [found] = problems.lister.list()
    assert found.rule == rule
    assert found.message
    assert found.reason
    assert found.key in {_key(obj) for obj in made}
    assert found.severity == next(one.severity for one in RULES if one.name == rule)
    assert "\n" not in found.message


@pytest.mark.parametrize(("rule", "name", "objects"), QUIET, ids=[f"{rule}-{name}" for rule, name, _ in QUIET])
async def test_a_rule_is_quiet(
    server: APIServer, client: Client, rule: str, name: str, objects: Callable[[], list[Object]]
) -> None:
    for obj in objects():
        server.create(obj)
    async with looking(client) as problems:
        assert problems.lister.list() == []


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


# --- deletions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Pod", "Widget", "PersistentVolumeClaim"])
async def test_a_deletion_that_hangs_names_its_finalizers(server: APIServer, client: Client, kind: str) -> None:
    scenes: dict[str, Object] = {
        "Pod": pod(),
        "Widget": resource("a"),
        "PersistentVolumeClaim": SCENES["volume-lost"].quiet["bound"]()[0],
    }
    obj = scenes[kind]
    obj["metadata"]["finalizers"] = ["example.com/protected"]
    server.create(obj)
    plural = {"Pod": "v1/pods", "Widget": "example.com/v1/widgets"}.get(kind, "v1/persistentvolumeclaims")
    server.delete(plural, "shop", obj["metadata"]["name"])
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert (found.rule, found.resource, found.reason) == ("hangs", plural, "Terminating")
        assert "example.com/protected" in found.message
    async with looking(client, clock=lambda: LATER - 86400 + 60) as problems:
        assert problems.lister.list() == []


async def test_a_namespace_that_hangs_says_what_is_left(server: APIServer, client: Client) -> None:
    content = {"type": "NamespaceContentRemaining", "status": "True", "message": "Some resources remain: widgets."}
    server.create(make("Namespace", "old", namespace="", metadata={"finalizers": ["example.com/x"]}))
    server.delete("v1/namespaces", None, "old")
    found = server.get("v1/namespaces", None, "old")
    assert found is not None
    server.update({**found, "status": {"phase": "Terminating", "conditions": [content]}})
    async with looking(client) as problems:
        [problem] = [one for one in problems.lister.list() if one.resource == "v1/namespaces"]
        assert (problem.rule, problem.owner.kind, problem.owner.name) == ("hangs", "Namespace", "old")
        assert problem.message == "Some resources remain: widgets."


# --- events -----------------------------------------------------------------------------------------------


async def test_the_newest_warning_explains_a_problem(server: APIServer, client: Client) -> None:
    stuck = server.create(pod(phase="Pending", state=waiting("ContainerCreating")))
    server.create(event(stuck, "FailedMount", 'MountVolume.SetUp failed: secret "tls" not found'))
    server.create(event(stuck, "Scheduled", "assigned", kind="Normal"))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert 'secret "tls" not found' in found.message
        assert "FailedMount" in found.message


async def test_a_warning_that_comes_later_is_in_the_message(server: APIServer, client: Client) -> None:
    stuck = server.create(pod(phase="Pending", state=waiting("ContainerCreating")))
    async with looking(client) as problems, problems.events() as changes:
        assert (await anext(changes)).type == "ADDED"
        server.create(event(stuck, "FailedMount", "no such volume"))
        changed = await asyncio.wait_for(anext(changes), 10)
        found: Any = changed.object
        assert changed.type == "UPDATED"
        assert isinstance(found, Problem)
        assert "no such volume" in found.message


async def test_long_messages_are_cut_and_have_no_line_breaks(server: APIServer, client: Client) -> None:
    server.create(pod(phase="Pending", state=waiting("ErrImagePull", "a\nb " * 5000)))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert len(found.message) <= 300
        assert "\n" not in found.message


# --- odd objects ------------------------------------------------------------------------------------------


async def test_a_control_plane_pod_of_a_node_is_its_own_owner(server: APIServer, client: Client) -> None:
    host = server.create(node("node-1"))
    server.create(pod("etcd-node-1", owner=host, last={"terminated": {"exitCode": 1}}, restarts=5))
    async with looking(client) as problems:
        [found] = problems.lister.list()
        assert (found.owner.kind, found.owner.name) == ("Pod", "etcd-node-1")
