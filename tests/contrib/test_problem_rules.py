"""Each rule for problems has objects on which it fires, and objects on which all rules are quiet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Client, KubeObject, SharedInformerFactory
from kinformer.contrib.problems import RULES, Problem, Problems, Rule
from kinformer.kinds import severity_of
from kinformer.testing import APIServer
from tests.contrib.problem_scenes import DEFINITION, LATER, SCENES, Object, event, make, node, pod, resource, waiting
from tests.support.odd_json import JSON, or_odd

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


def test_the_table_of_the_documentation_is_that_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "problems.md").read_text(encoding="utf-8")
    lines = page.split("## Rules")[1].split("##")[0].strip().splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    assert rows == [
        f"| {rule.name}{' °' if rule.is_symptom else ''} | {rule.severity} | {rule.grace:g} | {', '.join(rule.kinds)} "
        f"| {rule.text} |"
        for rule in RULES
    ]


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


@pytest.mark.parametrize("objects", [make for _, _, make in FIRES + QUIET], ids=[name for _, name, _ in FIRES + QUIET])
async def test_a_row_is_red_exactly_when_there_is_a_problem(
    server: APIServer, client: Client, objects: Callable[[], list[Object]]
) -> None:
    made = [server.create(obj) for obj in objects()]
    async with looking(client) as problems:
        found = problems.lister.list()
    red = [obj for obj in made if severity_of(obj, now=LATER, since=LATER).level == "bad"]
    explained = {rule for rule in ("failed-job", "volume-pending") if rule in {one.rule for one in found}}
    assert bool(red) == bool(found) or explained, (red, found)  # other objects may explain these two


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


TIMES = or_odd("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "2026-01-05")
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": or_odd("Ready", "Stalled", "PodScheduled", "Failed", "Available", "Progressing", "SyncError"),
        "status": or_odd("True", "False", "Unknown"),
        "reason": or_odd("Unschedulable", "ProgressDeadlineExceeded"),
        "message": JSON,
        "observedGeneration": JSON,
        "lastTransitionTime": TIMES,
    },
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "waiting": st.fixed_dictionaries({"reason": or_odd("CrashLoopBackOff", "ErrImagePull")}) | JSON,
        "terminated": st.fixed_dictionaries({"exitCode": or_odd(1), "finishedAt": TIMES}) | JSON,
    },
)
CONTAINERS = st.fixed_dictionaries(
    {}, optional={"name": JSON, "ready": JSON, "restartCount": or_odd(5), "state": STATES, "lastState": STATES | JSON}
)
STATUSES = st.fixed_dictionaries(
    {},
    optional={
        "phase": or_odd("Pending", "Failed", "Running", "Lost"),
        "conditions": st.lists(CONDITIONS | JSON, max_size=3) | JSON,
        "containerStatuses": st.lists(CONTAINERS | JSON, max_size=2) | JSON,
        "initContainerStatuses": st.lists(CONTAINERS | JSON, max_size=2) | JSON,
        "observedGeneration": JSON,
        "readyReplicas": JSON,
        "desiredNumberScheduled": or_odd(3),
        "health": JSON | st.just({"status": "Degraded"}),
        "lastPhaseTransitionTime": TIMES,
    },
)


@pytest.mark.slow
@settings(max_examples=300)
@given(rule=st.sampled_from(RULES), status=STATUSES | JSON, spec=JSON | st.just({"nodeName": "n"}), data=st.data())
def test_no_rule_fails_on_an_object_of_any_shape(rule: Rule, status: Any, spec: Any, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(["Pod", "Deployment", "DaemonSet", "Node", "Widget", "Namespace"]))
    metadata = {"name": "a", "namespace": "shop", "generation": 2, "managedFields": data.draw(JSON)}
    obj = KubeObject.from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status})
    found = rule.find(obj)
    if found is not None:
        assert isinstance(found.reason, str)
        assert isinstance(found.message, str)
        assert found.since is None or datetime.fromtimestamp(found.since, UTC)
