"""The log of changes: what became of what, without the noise of status, in bounded memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from kinformer import Client, SharedInformer, SharedInformerFactory
from kinformer.contrib.changes import ABSENT, Change, Changes, Difference
from kinformer.testing import APIServer
from tests.contrib.problem_scenes import (
    DEFINITION,
    Object,
    condition,
    deployment,
    make,
    node,
    pod,
    resource,
    waiting,
)
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

RESOURCES = ("v1/pods", "apps/v1/deployments", "v1/nodes", "v1/secrets", "v1/configmaps")
LEASES = "coordination.k8s.io/v1/leases"
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tls", "namespace": "shop"}}


@pytest.fixture
async def factory(client: Client) -> AsyncIterator[SharedInformerFactory]:
    async with SharedInformerFactory(client) as factory:
        for name in (*RESOURCES, LEASES):
            factory.for_resource(name)
        await factory.wait_for_cache_sync(20)
        yield factory


@pytest.fixture
async def changes(factory: SharedInformerFactory) -> AsyncIterator[Changes]:
    async with Changes(factory) as changes:
        yield changes


async def follow(changes: Changes, server: APIServer, *states: Object) -> list[Change]:
    """Write states of one object, and return the changes of it, after the first."""
    server.create(states[0])
    await changes.wait(0, 10)
    for state in states[1:]:
        server.update(state)
    server.create(config_map("last", namespace="marker"))
    await until(lambda: changes.list(name="last"))
    return [one for one in changes.list() if one.name != "last"][1:]


def with_image(image: str) -> Object:
    found = deployment()
    found["spec"]["template"]["spec"]["containers"][0]["image"] = image
    return found


def lease(renewed: str, holder: str = "a") -> Object:
    spec = {"holderIdentity": holder, "renewTime": renewed}
    return make("Lease", "leader", api="coordination.k8s.io/v1", spec=spec)


CHANGES = [
    ("replicas 3 to 5", deployment(wanted=3), deployment(wanted=5)),
    ("image 1.2 to 1.3", with_image("registry.example:5000/web:1.2"), with_image("registry.example:5000/web:1.3")),
    ("image web:1 to api:1", with_image("web:1"), with_image("api:1")),
    ("ready true to false", pod(ready=True), pod(ready=False)),
    ("restarts 1 to 2", pod(restarts=1), pod(restarts=2)),
    ("phase Pending to Running", pod(phase="Pending"), pod(phase="Running")),
    ("ready false to true", node("n", condition("Ready", "False")), node("n", condition("Ready", "True"))),
    ("unschedulable true", node("n"), {**node("n"), "spec": {"unschedulable": True}}),
    ("label app a to b", config_map(labels={"app": "a"}), config_map(labels={"app": "b"})),
    ("data.color red to blue", config_map(data={"color": "red"}), config_map(data={"color": "blue"})),
    ("data.size removed", config_map(data={"size": "1", "v": "1"}), config_map(data={"v": "1"})),
    ("phase Pending to Running, ready false to true", pod(phase="Pending", state=waiting("X")), pod(ready=True)),
    ("available true", deployment(), deployment(conditions=[condition("Available", "True")])),
    ("holderIdentity a to b", lease("2026-01-05T10:00:00.000000Z"), lease("2026-01-05T10:00:00.000000Z", "b")),
]


@pytest.mark.parametrize(("summary", "old", "new"), CHANGES, ids=[summary for summary, _, _ in CHANGES])
async def test_a_change_in_words(server: APIServer, changes: Changes, summary: str, old: Object, new: Object) -> None:
    [found] = await follow(changes, server, old, new)
    assert found.summary == summary
    assert (found.type, found.kind, found.name) == ("changed", old["kind"], old["metadata"]["name"])
    assert found.differences


async def test_the_most_telling_differences_come_first(server: APIServer, changes: Changes) -> None:
    old = pod(ready=True)
    new = pod(state=waiting("CrashLoopBackOff"), restarts=1)
    [found] = await follow(changes, server, old, new)
    assert found.summary.startswith("ready true to false, restarts 0 to 1, main waiting CrashLoopBackOff")
    assert Difference("status.conditions[Ready].status", "True", "False") in found.differences


async def test_creation_and_deletion_are_changes(server: APIServer, changes: Changes) -> None:
    server.create(pod("web-1"))
    await changes.wait(0, 10)
    server.delete("v1/pods", "shop", "web-1")
    await changes.wait(1, 10)
    made, gone = changes.list()
    assert [one.summary for one in (made, gone)] == ["created", "deleted"]
    assert (made.resource, made.key, made.namespace, made.differences) == ("v1/pods", "shop/web-1", "shop", ())


async def test_what_exists_at_the_start_is_no_change(server: APIServer, factory: SharedInformerFactory) -> None:
    server.create(pod("web-1"))
    await until(lambda: factory.informers[0].lister.list())
    before = datetime.now(UTC)
    async with Changes(factory) as changes:
        assert before <= changes.since <= datetime.now(UTC)
        server.create(pod("web-2"))
        await changes.wait(0, 10)
        assert [one.name for one in changes.list()] == ["web-2"]


# --- noise ------------------------------------------------------------------------------------------------


def beat(second: int) -> Object:
    heartbeat = {"lastHeartbeatTime": f"2026-01-05T10:00:{second:02d}Z"}
    return node("n", {"type": "Ready", "status": "True", **heartbeat})


NOISE = [
    ("a heartbeat", beat(1), beat(2)),
    ("a renewal", lease("2026-01-05T10:00:00.000000Z"), lease("2026-01-05T10:00:10.000000Z")),
    ("counts", deployment(ready=3), deployment(ready=2)),
    ("a generation", deployment(observedGeneration=1), deployment(observedGeneration=2)),
]


@pytest.mark.parametrize(("name", "old", "new"), NOISE, ids=[name for name, _, _ in NOISE])
async def test_noise_is_left_out_unless_it_is_wanted(
    server: APIServer, factory: SharedInformerFactory, name: str, old: Object, new: Object
) -> None:
    async with Changes(factory) as changes, Changes(factory, noise=True) as loud:
        assert await follow(changes, server, old, new) == []
        [found] = [one for one in loud.list(noise=True) if one.is_noise]
        assert found.noise
        assert found.differences == ()
        assert found.as_dict()["noise"][0]["path"] == found.noise[0].path
        assert loud.list() == [one for one in loud.list(noise=True) if not one.is_noise]


async def test_reasons_of_conditions_are_noise_while_the_status_is_the_same(
    server: APIServer, changes: Changes
) -> None:
    states = [
        pod(ready=True, conditions=[{"type": "Initialized", "status": status, "reason": reason, "message": reason}])
        for status, reason in (("False", "Starting"), ("False", "Waiting"), ("True", "Done"))
    ]
    [found] = await follow(changes, server, *states)
    assert Difference("status.conditions[Initialized].reason", "Waiting", "Done") in found.differences
    assert found.summary == "initialized false to true"


async def test_events_are_noise_unless_their_resource_or_kind_is_asked_for(server: APIServer, client: Client) -> None:
    named = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"}}
    async with SharedInformerFactory(client) as factory:
        factory.for_resource("v1/events")
        await factory.wait_for_cache_sync(20)
        async with Changes(factory) as changes:
            server.create({**named, "reason": "Started", "involvedObject": {"kind": "Pod", "namespace": "shop"}})
            await changes.wait(0, 10)
            assert changes.list() == []
            assert [one.name for one in changes.list(resource="v1/events")] == ["e"]
            assert changes.list(kind="Event") == changes.list(noise=True) == changes.list(resource="v1/events")


async def test_conditions_of_custom_resources_are_no_noise(server: APIServer, client: Client) -> None:
    server.create(DEFINITION)
    async with SharedInformerFactory(client) as factory:
        widgets = factory.for_resource("example.com/v1/widgets")
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(20)
        async with Changes(factory) as changes:
            states = (condition("Stalled", status, 10) for status in ("False", "True"))
            old, new = (resource("a", state, observedGeneration=1) for state in states)
            [found] = await follow(changes, server, old, new)
            assert (found.summary, found.resource) == ("stalled false to true", widgets.name)


# --- secrets, authors, bounds -----------------------------------------------------------------------------


async def test_the_values_of_secrets_are_hidden_unless_asked_for(
    server: APIServer, factory: SharedInformerFactory
) -> None:
    old, new = ({**SECRET, "data": {"key": value}} for value in ("c2VjcmV0", "bW9yZQ=="))
    async with Changes(factory) as changes, Changes(factory, show_secrets=True) as open_log:
        [found] = await follow(changes, server, old, new)
        assert found.differences == (Difference("data.key", "(hidden)", "(hidden)"),)
        assert found.summary == "data.key changed"
        assert "bW9yZQ" not in str(found)
        [shown] = [one for one in open_log.list(name="tls") if one.type == "changed"]
        assert shown.differences == (Difference("data.key", "c2VjcmV0", "bW9yZQ=="),)


async def test_who_changed_it_is_known_from_managed_fields_alone(server: APIServer, client: Client) -> None:
    patch = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": "2"}}
    path = "/api/v1/namespaces/default/configmaps/a?fieldManager=mallory&force=true"
    server.create(config_map("a"))
    async with SharedInformerFactory(client) as factory:
        informers = {
            "kept": factory.for_resource("v1/configmaps", keep_managed_fields=True),
            "not": factory.for_resource("v1/configmaps"),
        }
        await factory.wait_for_cache_sync(20)
        async with Changes(informers) as changes:
            headers = {"Content-Type": "application/apply-patch+yaml"}
            await client.request("PATCH", path, body=patch, headers=headers)
            await changes.wait(1, 10)
            assert {one.resource: one.by for one in changes.list()} == {"kept": "mallory", "not": ""}


async def test_the_log_is_bounded_and_says_since_when(client: Client) -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with Changes({"v1/configmaps": informer}, limit=100) as changes:
            begun = changes.since
            for number in range(250):
                source.set(f"a-{number}")
                if number % 50 == 0:
                    await asyncio.sleep(0.01)
            await changes.wait(249, 10)
            assert len(changes) == 100
            assert [one.number for one in changes.list()] == list(range(151, 251))
            assert begun < changes.since <= changes.list()[0].time


async def test_long_values_are_cut(client: Client) -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with Changes({"v1/configmaps": informer}, size=50_000) as changes:
            source.set("a", data={"x": "1" * 100_000})
            source.set("a", data={"x": "2" * 100_000})
            source.set("a", data={f"k{number}": "3" * 300 for number in range(1000)})
            await changes.wait(2, 10)
            found = changes.list()
            assert len(found) <= 3
            assert sum(len(str(one)) for one in found) < 100_000
            assert found[-1].differences[-1].path == "<901 more>"


async def test_an_object_that_cannot_be_compared_is_still_a_change(client: Client) -> None:
    source = MemorySource()
    old, new = (json.loads('{"n":' * 600 + leaf + "}" * 600) for leaf in ("1", "2"))
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with Changes({"v1/configmaps": informer}) as changes:
            source.set("a", data=old)
            source.set("a", data=new)
            await changes.wait(1, 10)
            assert changes.list()[-1].summary == "unreadable"


# --- reading ----------------------------------------------------------------------------------------------


async def test_changes_are_filtered(server: APIServer, changes: Changes) -> None:
    server.create(pod("web-1"))
    server.create(config_map("web-1", namespace="shop"))
    server.create(config_map("web-1", namespace="other"))
    await changes.wait(2, 10)
    assert len(changes.list(name="web-1")) == 3
    assert [one.kind for one in changes.list(namespace="shop", kind="Pod")] == ["Pod"]
    assert [one.namespace for one in changes.list(resource="v1/configmaps", namespace="other")] == ["other"]
    assert [one.number for one in changes.list(after=2)] == [3]


async def test_a_stream_yields_each_change_as_it_comes(server: APIServer, changes: Changes) -> None:
    stream = changes.stream()
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    server.create(pod("web-1"))
    assert (await asyncio.wait_for(first, 10)).name == "web-1"
    server.create(pod("web-2"))
    assert (await asyncio.wait_for(anext(stream), 10)).name == "web-2"
    assert [change.name async for change in _some(changes.stream(after=0), 2)] == ["web-1", "web-2"]


async def _some(stream: AsyncIterator[Change], count: int) -> AsyncIterator[Change]:
    for _ in range(count):
        yield await anext(stream)


async def test_an_object_made_again_is_deleted_and_created(client: Client) -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with Changes({"v1/configmaps": informer}) as changes:
            source.set("a", uid="one")
            await changes.wait(0, 10)
            source.set("a", uid="two")
            await changes.wait(2, 10)
            assert [one.type for one in changes.list()] == ["created", "deleted", "created"]


async def test_nothing_is_kept_of_a_resource_that_is_no_longer_followed(
    server: APIServer, factory: SharedInformerFactory, changes: Changes
) -> None:
    await changes.unfollow("v1/pods")
    assert "v1/pods" not in changes.resources
    server.create(pod("web-1"))
    server.create(config_map("a"))
    await changes.wait(0, 10)
    assert [one.kind for one in changes.list()] == ["ConfigMap"]
    changes.follow("v1/pods", factory.for_resource("v1/pods"))
    server.create(pod("web-2"))
    await changes.wait(1, 10)
    assert changes.list()[-1].name == "web-2"


async def test_json_has_what_differs_and_no_absent_values(server: APIServer, changes: Changes) -> None:
    [found] = await follow(changes, server, config_map(data={"a": "1"}), config_map(data={"b": "2"}))
    document = found.as_dict()
    assert document["differences"] == [{"path": "data.a", "old": "1"}, {"path": "data.b", "new": "2"}]
    assert document["change"] == found.summary
    assert set(document) >= {"time", "resource", "namespace", "name", "change", "type", "kind", "by"}
    assert repr(ABSENT) == "ABSENT"


def test_a_log_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="limit"):
        Changes({}, limit=0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 2}, [(".a", 1, 2)]),
        ({"a": {"b": 1}}, {"a": {}}, [(".a.b", 1, ABSENT)]),
        ({}, {"a": {"b": 0}}, [(".a", ABSENT, {"b": 0})]),
        ({"a": [1, 2]}, {"a": [1]}, [(".a", [1, 2], [1])]),
        (
            {"a": [{"name": "x", "v": 1}]},
            {"a": [{"name": "y"}, {"name": "x", "v": 2}]},
            [(".a[x].v", 1, 2), (".a[y]", ABSENT, {"name": "y"})],
        ),
        ({"a": [{"name": "x"}, {"name": "x"}]}, {"a": []}, [(".a", [{"name": "x"}, {"name": "x"}], [])]),
        ({"a.b/c": 1}, {"a.b/c": 2}, [("[a.b/c]", 1, 2)]),
        ({"a": 1}, {"a": True}, [(".a", 1, True)]),
        ({"a": "x"}, {"a": {"b": 1}}, [(".a", "x", {"b": 1})]),
    ],
)
async def test_differences_name_the_deepest_place(
    old: Object, new: Object, expected: list[tuple[str, object, object]]
) -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with Changes({"v1/configmaps": informer}) as changes:
            source.set("a", data={"of": old})
            source.set("a", data={"of": new})
            await until(lambda: changes.last == 2)
            [found] = changes.list(after=1)
    assert {(one.path, str(one.old), str(one.new)) for one in found.differences} == {
        (f"data.of{path}", str(was), str(now)) for path, was, now in expected
    }
