"""Server-side apply of owned objects: a request if something differs, and none if nothing does.

Internals: the comparison of owned fields, for any fields; and a limit, which is patched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from kinformer import Client, ConfigError, ConflictError, KubeObject, ListWatch, SharedInformer
from kinformer.controller import Applier
from kinformer.controller.applier import owned_fields, projection
from kinformer.exceptions import KeyFuncError
from kinformer.testing import APIServer
from tests.support.lagging_source import LaggingSource

DEPLOYMENTS = "apps/v1/deployments"


def deployment(replicas: int | None = 2, image: str = "web:1", **labels: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", **labels}},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image, "ports": [{"containerPort": 80}]}]},
            },
        },
    }
    if replicas is not None:
        document["spec"]["replicas"] = replicas
    return document


@dataclass
class Scene:
    server: APIServer
    client: Client
    informer: SharedInformer
    source: LaggingSource
    applier: Applier

    def now(self) -> dict[str, Any]:
        return self.server.get(DEPLOYMENTS, "default", "web")

    async def seen(self, document: dict[str, Any]) -> None:
        """The cache has this state, or a later one."""
        await self.informer.wait_for_resource_version(document["metadata"]["resourceVersion"], timeout=5)

    async def change(self, change: Any) -> None:
        document = self.now()
        change(document)
        await self.seen(self.server.update(document))


@pytest_asyncio.fixture
async def scene() -> AsyncIterator[Scene]:
    async with APIServer() as server, server.client() as client:
        source = LaggingSource(ListWatch(client, DEPLOYMENTS))
        async with SharedInformer(source) as informer:
            await informer.wait_synced(5)
            applier = Applier(client, DEPLOYMENTS, informer, field_manager="test")
            yield Scene(server, client, informer, source, applier)
            source.gate.set()


async def test_what_is_missing_is_made_and_then_nothing_is_asked_any_more(scene: Scene) -> None:
    made = await scene.applier.apply(deployment())
    assert made.uid
    await scene.seen(scene.now())
    for _ in range(3):
        found = await scene.applier.apply(deployment())
        assert found.resource_version == made.resource_version
    assert scene.applier.requests == 1


async def test_a_change_of_what_is_wanted_is_applied_and_what_is_no_longer_said_goes(scene: Scene) -> None:
    await scene.applier.apply(deployment(tier="front"))
    await scene.seen(scene.now())
    await scene.applier.apply(deployment(3))
    assert scene.now()["spec"]["replicas"] == 3
    assert "tier" not in scene.now()["metadata"]["labels"]
    assert scene.applier.requests == 2


async def test_drift_in_its_own_fields_is_seen_in_the_cache_and_put_right(scene: Scene) -> None:
    await scene.applier.apply(deployment())
    await scene.seen(scene.now())
    for change in (
        lambda document: document["spec"].update(replicas=9),
        lambda document: document["spec"]["template"]["spec"]["containers"][0].update(image="evil:1"),
        lambda document: document["metadata"]["labels"].pop("app"),
    ):
        await scene.change(change)
        before = scene.applier.requests
        await scene.applier.apply(deployment())
        assert scene.applier.requests == before + 1
        await scene.seen(scene.now())
        await scene.applier.apply(deployment())
        assert scene.applier.requests == before + 1
    assert scene.now()["spec"]["replicas"] == 2
    assert scene.now()["spec"]["template"]["spec"]["containers"][0]["image"] == "web:1"
    assert scene.now()["metadata"]["labels"]["app"] == "web"


async def test_what_others_do_with_their_own_fields_is_no_drift(scene: Scene) -> None:
    await scene.applier.apply(deployment(None))
    await scene.seen(scene.now())
    sidecar = {"name": "sidecar", "image": "proxy:1"}
    for change in (
        lambda document: document["spec"].update(replicas=9),  # it never said how many
        lambda document: document["metadata"]["labels"].update(team="x"),
        lambda document: document["spec"]["template"]["spec"]["containers"].insert(0, sidecar),
        lambda document: document.update(status={"replicas": 9}),
    ):
        await scene.change(change)
        await scene.applier.apply(deployment(None))
    assert scene.applier.requests == 1


async def test_a_cache_that_has_not_seen_the_last_apply_is_no_drift(scene: Scene) -> None:
    await scene.applier.apply(deployment(1))
    await scene.seen(scene.now())
    scene.source.gate.clear()
    answer = await scene.applier.apply(deployment(2))
    assert scene.informer.lister.get("web", namespace="default").path("spec.replicas") == 1  # type: ignore[union-attr]
    assert (await scene.applier.apply(deployment(2))).resource_version == answer.resource_version
    assert scene.applier.requests == 2
    scene.source.gate.set()
    await scene.seen(scene.now())
    await scene.applier.apply(deployment(2))
    assert scene.applier.requests == 2


async def test_an_object_that_was_just_made_and_is_not_in_the_cache_yet_is_not_made_again(scene: Scene) -> None:
    scene.source.gate.clear()
    await scene.applier.apply(deployment())
    await scene.applier.apply(deployment())
    assert scene.applier.requests == 1
    scene.source.gate.set()


async def test_an_object_that_somebody_deleted_or_replaced_is_made_anew(scene: Scene) -> None:
    first = await scene.applier.apply(deployment())
    await scene.seen(scene.now())
    scene.server.delete(DEPLOYMENTS, "default", "web")
    async with asyncio.timeout(5):
        async with scene.informer.events() as events:
            async for event in events:
                if event.type == "DELETED" or not len(scene.informer.lister):
                    break
    second = await scene.applier.apply(deployment())
    assert second.uid != first.uid
    assert scene.applier.requests == 2


async def test_an_object_that_came_and_went_before_the_cache_heard_of_it_is_made_anew(scene: Scene) -> None:
    scene.source.gate.clear()
    await scene.applier.apply(deployment())
    scene.server.delete(DEPLOYMENTS, "default", "web")
    marker = {**deployment(), "metadata": {"name": "marker", "namespace": "default"}}
    made = scene.server.create(marker)
    scene.source.gate.set()
    await scene.seen(made)
    await scene.applier.apply(deployment())
    assert scene.applier.requests == 2
    assert scene.now()


async def test_a_value_that_the_server_writes_in_its_own_way_is_no_drift(scene: Scene) -> None:
    """Whatever the server makes of it is what is compared from then on; here of a quantity."""

    def limits(document: dict[str, Any]) -> dict[str, Any]:
        return (
            document["spec"]["template"]["spec"]["containers"][0].setdefault("resources", {}).setdefault("limits", {})
        )

    wanted = deployment()
    limits(wanted)["cpu"] = "1000m"
    await scene.applier.apply(wanted)
    assert limits(scene.now()) == {"cpu": "1"}
    await scene.seen(scene.now())
    await scene.change(lambda document: document["metadata"].update(annotations={"touched": "yes"}))
    await scene.applier.apply(wanted)
    assert scene.applier.requests == 1
    await scene.change(lambda document: limits(document).update(cpu="2"))
    await scene.applier.apply(wanted)
    assert scene.applier.requests == 2


async def test_an_owner_is_named_and_can_be_told_from_another(scene: Scene) -> None:
    metadata = {"name": "x", "namespace": "default", "uid": "u-1"}
    foo = KubeObject.from_dict({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata})
    made = await scene.applier.apply(deployment(), owner=foo)
    assert made.owner_references[0].uid == "u-1"
    await scene.seen(scene.now())
    await scene.applier.apply(deployment(), owner=foo)
    assert scene.applier.requests == 1


async def test_without_force_a_field_of_another_manager_is_a_conflict(scene: Scene) -> None:
    await scene.applier.apply(deployment(2))
    polite = Applier(scene.client, DEPLOYMENTS, scene.informer, field_manager="polite", force=False)
    with pytest.raises(ConflictError):
        await polite.apply(deployment(5))
    await Applier(scene.client, DEPLOYMENTS, scene.informer, field_manager="rude").apply(deployment(5))
    assert scene.now()["spec"]["replicas"] == 5


async def test_what_was_forgotten_is_asked_for_again(scene: Scene) -> None:
    await scene.applier.apply(deployment())
    await scene.seen(scene.now())
    scene.applier.forget("default/web")
    before = scene.now()["metadata"]["resourceVersion"]
    await scene.applier.apply(deployment())
    assert scene.applier.requests == 2
    assert scene.now()["metadata"]["resourceVersion"] == before, "an apply that changes nothing writes nothing"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Applier looks for deleted objects among its memories from 3 on, rather than 1000, which take seconds."""
    monkeypatch.setattr("kinformer.controller.applier._SPARE", 3)


def memories(applier: Applier) -> int:
    """How many objects it remembers, which nothing public tells."""
    return len(applier._applied)


@pytest.mark.usefixtures("forgetful")
async def test_objects_that_are_gone_are_not_remembered_for_ever(scene: Scene) -> None:
    for number in range(8):
        made = await scene.applier.apply(
            {**deployment(), "metadata": {"name": f"web-{number}", "namespace": "default"}}
        )
        await scene.seen(made.to_dict())
        await scene.applier.apply({**deployment(), "metadata": {"name": f"web-{number}", "namespace": "default"}})
        scene.server.delete(DEPLOYMENTS, "default", f"web-{number}")
        marker = {**deployment(), "metadata": {"name": "marker", "namespace": "default"}}
        await scene.seen(scene.server.create(marker))
        scene.server.delete(DEPLOYMENTS, "default", "marker")
    assert memories(scene.applier) < 7


@pytest.mark.usefixtures("forgetful")
async def test_objects_that_were_applied_once_and_are_gone_are_not_remembered_for_ever(scene: Scene) -> None:
    for number in range(8):
        run = {**deployment(), "metadata": {"name": f"run-{number}", "namespace": "default"}}
        await scene.applier.apply(run)
        scene.server.delete(DEPLOYMENTS, "default", f"run-{number}")
        marker = {**deployment(), "metadata": {"name": "marker", "namespace": "default"}}
        await scene.seen(scene.server.create(marker))
        scene.server.delete(DEPLOYMENTS, "default", "marker")
    assert memories(scene.applier) < 7


@pytest.mark.usefixtures("forgetful")
async def test_objects_that_the_cache_is_still_to_see_are_remembered_however_many(scene: Scene) -> None:
    scene.source.gate.clear()
    for _ in range(2):
        for number in range(8):
            await scene.applier.apply({**deployment(), "metadata": {"name": f"web-{number}", "namespace": "default"}})
    assert scene.applier.requests == 8
    scene.source.gate.set()


async def test_wrong_arguments_are_refused(scene: Scene) -> None:
    with pytest.raises(ConfigError, match="field_manager"):
        Applier(scene.client, DEPLOYMENTS, scene.informer, field_manager="")
    with pytest.raises(KeyFuncError):
        await scene.applier.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}})


# --- which fields are whose ------------------------------------------------------------------------------------


TREE = {
    "f:spec": {
        "f:replicas": {},
        "f:args": {},
        "f:containers": {'k:{"name":"a"}': {".": {}, "f:image": {}, "f:name": {}}},
        "f:finalizers": {'v:"x"': {}},
        "f:places": {"i:1": {}},
    }
}
STATE = {
    "spec": {
        "replicas": 2,
        "args": ["x", "y"],
        "containers": [{"name": "a", "image": "i", "tty": True}, {"name": "b", "image": "j"}],
        "finalizers": ["w", "x"],
        "places": [0, 1],
    }
}


def changed(path: str, value: Any) -> dict[str, Any]:
    spec = {**STATE["spec"], path: value}
    return {"spec": spec}


@pytest.mark.parametrize(
    ("state", "differs"),
    [
        (changed("replicas", 3), True),
        (changed("args", ["y", "x"]), True),
        (changed("args", ["x", "y", "z"]), True),
        (changed("containers", [{"name": "b"}, {"name": "a", "image": "i"}]), False),
        (changed("containers", [{"name": "a", "image": "other"}]), True),
        (changed("containers", [{"name": "b", "image": "i"}]), True),
        (changed("containers", "no list"), True),
        (changed("finalizers", ["x", "new"]), False),
        (changed("finalizers", ["w"]), True),
        (changed("places", [9, 1]), False),
        (changed("places", [0]), True),
        (changed("new", 1), False),
        ({"spec": None}, True),
        ({}, True),
    ],
)
def test_a_difference_counts_if_it_is_in_an_owned_field(state: dict[str, Any], differs: bool) -> None:
    assert (projection(TREE, state) != projection(TREE, STATE)) == differs


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("abc"), children, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_tree_can_be_laid_over_any_value(value: Any) -> None:
    projection({"f:a": {'k:{"a":1}': {"f:b": {}}, 'v:"a"': {}, "i:0": {".": {}}}}, value)
    assert projection({}, value) == value


def test_ownership_is_that_of_the_manager_by_apply_and_of_the_whole_object() -> None:
    entries = [
        {"manager": "test", "operation": "Update", "fieldsV1": {"f:wrong": {}}},
        {"manager": "other", "operation": "Apply", "fieldsV1": {"f:wrong": {}}},
        {"manager": "test", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:wrong": {}}},
        {"manager": "test", "operation": "Apply", "fieldsV1": {"f:right": {}}},
    ]
    assert owned_fields({"metadata": {"managedFields": entries}}, "test") == {"f:right": {}}
    assert owned_fields({"metadata": {"managedFields": entries[:3]}}, "test") is None
    assert owned_fields({}, "test") is None
