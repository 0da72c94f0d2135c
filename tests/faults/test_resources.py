"""Faults of the resource: a namespace or a definition that is deleted, edited, made again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import NotFoundError, NotSyncedError
from kinformer.conditions import is_deleted
from kinformer.testing import APIServer, faults
from tests.support.fault_scene import Scene, scene
from tests.support.kube import widget, widget_definition

pytestmark = pytest.mark.virtual_time

WIDGETS = "example.com/v1/widgets"
DEFINITION = widget_definition()


@pytest.fixture(autouse=True)
def widgets_are_defined(server: APIServer) -> None:
    server.register_crd(DEFINITION)


def define(s: Scene, **changes: Any) -> None:
    s.server.register_crd({**DEFINITION, "spec": {**DEFINITION["spec"], **changes}})


async def test_fault_25_the_namespace_is_deleted() -> None:
    """The watched namespace is deleted, and later created again.

    Deletes, then an empty cache that is synced and live.
    """
    async with scene("a", "b") as s:
        s.server.delete("v1/namespaces", None, "default")
        await s.in_step()
        assert s.cached == {}
        assert sorted(s.mirror.of("delete")) == ["a", "b"]
        assert (s.health.live, s.health.synced, s.relists, s.errors) == (True, True, {}, [])
        s.put("c")
        await s.in_step()


async def test_fault_26_the_definition_is_deleted(server: APIServer) -> None:
    """The CustomResourceDefinition is deleted with its objects.

    Deletes, then the state `absent`, not live, with a 404 as `last_error`, until the resource is back. A reader that
    was away gets the deletes once the removal is [proved](#a-collection-that-answers-404).
    """
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS) as s:
        server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "widgets.example.com")
        await s.until(lambda: s.health.state == "absent")
        assert isinstance(s.health.last_error, NotFoundError)
        assert (s.health.live, s.health.synced) == (False, True)
        await asyncio.sleep(60)
        assert (s.cached, s.mirror.of("delete")) == ({}, ["a"])
        assert s.kinds == ["NotFoundError"]


async def test_fault_26_a_proxy_says_404(server: APIServer) -> None:
    """See above: a 404 that discovery does not confirm. The cache stays, for as long as it takes."""
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS, watch_timeout=5) as s:
        handle = server.faults.add(faults.status(404, "404 page not found"), resource=WIDGETS)
        await s.until(lambda: s.health.state == "absent")
        await asyncio.sleep(600)
        assert (s.cached.keys(), s.mirror.of("delete")) == ({"default/a"}, [])
        handle.remove()
        await s.in_step(90)
        assert s.relists == {"absent": 1}


async def test_fault_26_the_definition_is_deleted_while_nobody_watches(server: APIServer) -> None:
    """See above: nobody saw the deletes. When the server has lacked the resource twice, the cache empties."""
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS) as s:
        handle = server.faults.add(faults.status(503), verb="watch")
        server.faults.add(faults.reset(), verb="watch", times=1)
        server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "widgets.example.com")
        handle.remove()
        await s.until(lambda: s.health.state == "absent")
        assert s.cached.keys() == {"default/a"}
        await asyncio.sleep(30)
        assert s.cached.keys() == {"default/a"}
        await s.until(lambda: not s.cached, 60)
        await s.check_mirror()
        assert s.mirror.calls[-1] == ("delete", "a", True)


async def test_fault_26_all_of_a_server_is_behind_a_proxy_that_says_404(server: APIServer) -> None:
    """See above: discovery and the definition are 404 too, which proves nothing."""
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS, watch_timeout=5) as s:
        server.faults.add(faults.status(404, "404 page not found"))
        await s.until(lambda: s.health.state == "absent")
        await asyncio.sleep(600)
        assert (s.cached.keys(), s.mirror.of("delete")) == ({"default/a"}, [])
        server.faults.clear()
        await s.in_step(90)


@pytest.mark.parametrize("may_read", [True, False], ids=["readable", "forbidden"])
async def test_fault_26_the_definition_may_not_be_read(may_read: bool) -> None:
    """See above: a user who may not read definitions has the answer of discovery."""
    rules = [("reader", "*", WIDGETS)]
    rules += [("reader", "get", "apiextensions.k8s.io/v1/customresourcedefinitions")] if may_read else []
    async with APIServer(users={"token": "reader"}, rules=rules) as server:
        server.register_crd(DEFINITION)
        server.create(widget("a"))
        async with scene(server=server, user="reader", resource=WIDGETS, watch_timeout=5) as s:
            define(s, versions=[{**DEFINITION["spec"]["versions"][0], "served": False}])
            await s.until(lambda: s.health.state == "absent")
            await asyncio.sleep(600)
            assert (s.cached.keys() == {"default/a"}) == may_read
            assert s.mirror.of("delete") == ([] if may_read else ["a"])


async def test_fault_27_the_definition_is_made_again(server: APIServer) -> None:
    """The CustomResourceDefinition is deleted and created again, with other objects.

    Adds, from one relist with the cause `absent`.
    """
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS) as s:
        server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "widgets.example.com")
        await s.until(lambda: s.health.state == "absent")
        await asyncio.sleep(30)
        server.register_crd(DEFINITION)
        server.create(widget("a"))
        server.create(widget("b"))
        await s.in_step(90)
        calls = [call[:2] for call in s.mirror.calls]
        assert calls[:2] == [("add", "a"), ("delete", "a")]
        assert sorted(calls[2:]) == [("add", "a"), ("add", "b")]
        assert s.relists == {"absent": 1}


async def test_fault_28_the_definition_is_edited(server: APIServer, caplog: pytest.LogCaptureFixture) -> None:
    """The CustomResourceDefinition is edited: watches end, and the next get 429 and 410.

    Nothing to do: no warning, one relist at most, no call for unchanged objects.
    """
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS) as s:
        server.faults.add(faults.status(429, "storage is (re)initializing", retry_after=1), verb="watch", times=1)
        server.faults.add(faults.expired(), verb="watch", times=1)
        define(s, names={"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]})
        await s.until(lambda: bool(s.errors))
        server.create(widget("b"))
        await s.in_step()
        assert s.mirror.of("add") == ["a", "b"]
        assert s.relists in ({}, {"expired": 1})
        assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


async def test_fault_29_the_definition_is_not_there_yet() -> None:
    """The resource does not exist at the start, and comes later.

    State `absent`. `wait_synced(timeout)` names the nearest resource. It syncs when the resource comes. With
    `optional=True` it counts as synced.
    """
    async with APIServer() as server:
        async with scene(server=server, resource="apps/v1/deploymentz", synced=False) as s:
            with pytest.raises(NotSyncedError, match="nearest: apps/v1/deployments"):
                await s.informer.wait_synced(timeout=10)
            assert (s.health.state, s.health.synced) == ("absent", False)
        async with scene(server=server, resource=WIDGETS, synced=False) as s:
            await asyncio.sleep(20)
            assert (s.health.state, s.health.synced) == ("absent", False)
            server.register_crd(DEFINITION)
            server.create(widget("a"))
            await s.in_step(60)
            assert s.relists == {}
        async with scene(server=server, resource="example.com/v1/gadgets", optional=True, synced=False) as s:
            await s.informer.wait_synced(timeout=10)
            assert s.health.state == "absent"


V1 = DEFINITION["spec"]["versions"][0]
ALPHA = {**V1, "name": "v1alpha1", "storage": False}


async def test_fault_54_a_version_is_no_longer_served() -> None:
    """A version that is followed is no longer served, and the objects go on in another one.

    State `absent`, not live, and no deletes: the cache stays as it was. `last_error` names the version that is served.
    """
    async with APIServer() as server:
        server.register_crd({**DEFINITION, "spec": {**DEFINITION["spec"], "versions": [ALPHA, V1]}})
        server.register("other.example.com/v1", "Widget", "widgets", namespaced=True)  # of another group
        server.create(widget("a"))
        async with scene(server=server, resource="example.com/v1alpha1/widgets", watch_timeout=5) as s:
            define(s, versions=[{**ALPHA, "served": False}, V1])
            await s.until(lambda: s.health.state == "absent")
            await asyncio.sleep(600)
            assert (s.cached.keys(), s.mirror.of("delete")) == ({"default/a"}, [])
            assert (s.health.live, s.health.synced) == (False, True)
            assert isinstance(s.health.last_error, NotFoundError)
            assert s.health.last_error.nearest == WIDGETS
            with pytest.raises(NotFoundError, match=WIDGETS):
                await s.client.wait_for("example.com/v1alpha1/widgets", "default/a", is_deleted(), timeout=600)
            define(s, versions=[ALPHA, V1])
            server.create(widget("b"))
            await s.until(lambda: s.health.live, 90)
            assert (s.mirror.of("add"), s.mirror.of("delete"), s.relists) == (["a", "b"], [], {"absent": 1})


async def test_fault_54_no_version_is_served(server: APIServer) -> None:
    """See above: the definition exists, so its objects do."""
    server.create(widget("a"))
    async with scene(server=server, resource=WIDGETS, watch_timeout=5) as s:
        define(s, versions=[{**V1, "served": False}])
        await s.until(lambda: s.health.state == "absent")
        await asyncio.sleep(600)
        assert (s.cached.keys(), s.mirror.of("delete")) == ({"default/a"}, [])
