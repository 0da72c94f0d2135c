"""A default namespace is dropped for a resource without namespaces, and an explicit one is an error."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kinformer import Client, ConfigError, LabelSelector, ListWatch, SharedInformer, SharedInformerFactory
from kinformer.testing import APIServer
from kinformer.watchcache import Share

GADGETS = "example.com/v1/gadgets"


def definition(scope: str) -> dict[str, Any]:
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "example.com", "scope": scope, "names": names, "versions": [version]}
    metadata = {"name": "gadgets.example.com"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def gadget(name: str, **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name, **metadata}}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


async def test_a_default_namespace_does_not_apply_to_nodes(server: APIServer, client: Client) -> None:
    server.create(node("n-1"))
    async with SharedInformerFactory(client, namespace="default") as factory:
        nodes = factory.for_resource("v1/nodes")
        await factory.wait_for_cache_sync(5)
        found = nodes.lister.get("n-1")
        assert found is not None
        assert nodes.namespaces is None
        assert factory.for_resource("v1/nodes", namespace=None) is nodes
        assert factory.for_resource("v1/pods").namespaces == ("default",)
    assert {one.path for one in server.requests if "nodes" in one.path} == {"/api/v1/nodes"}


@pytest.mark.parametrize("default", [{"namespaces": ["a", "b"]}, {"namespaces": LabelSelector.parse("team=x")}])
async def test_nor_do_several_and_chosen_ones(server: APIServer, client: Client, default: dict[str, Any]) -> None:
    async with SharedInformerFactory(client, **default) as factory:
        nodes = factory.for_resource("v1/nodes")
        await nodes.wait_synced(5)
        assert nodes.namespaces is None


@pytest.mark.parametrize(
    "explicit",
    [{"namespace": "default"}, {"namespaces": ["default"]}, {"namespaces": LabelSelector.parse("team=x")}],
)
async def test_an_explicit_namespace_of_nodes_is_refused(client: Client, explicit: dict[str, Any]) -> None:
    factory = SharedInformerFactory(client)
    with pytest.raises(ConfigError, match="is given, but v1/nodes is cluster-scoped"):
        factory.for_resource("v1/nodes", **explicit)
    with pytest.raises(ConfigError, match="namespace='default' is given, but v1/nodes is cluster-scoped"):
        ListWatch(client, "v1/nodes", namespace="default")


async def test_a_default_namespace_is_dropped_for_a_custom_resource_without_namespaces(
    server: APIServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kinformer")
    server.create(definition("Cluster"))
    server.create(gadget("first"))
    async with SharedInformerFactory(client, namespace="default") as factory:
        gadgets = factory.for_resource(GADGETS)
        await factory.wait_for_cache_sync(5)
        assert gadgets.lister.get("first") is not None
        assert gadgets.namespaces is None
        second = server.create(gadget("second"))
        await gadgets.wait_for_resource_version(second, timeout=5)
        assert sorted(gadgets.by_key) == ["first", "second"]
        assert await gadgets.confirm(timeout=5)
        server.delete(GADGETS, None, "first")
        await gadgets.wait_for_resource_version(server.create(gadget("third")), timeout=5)
        assert sorted(gadgets.by_key) == ["second", "third"]
        assert factory.for_resource(GADGETS) is gadgets
    told = [record.message for record in caplog.records if "does not apply" in record.message]
    assert told == ["example.com/v1/gadgets has no namespaces: the default 'default' does not apply"]


async def test_no_request_is_made_for_it_where_all_is_well(server: APIServer, client: Client) -> None:
    server.create(definition("Namespaced"))
    server.create(gadget("one", namespace="default"))
    async with SharedInformerFactory(client, namespace="default") as factory:
        gadgets = factory.for_resource(GADGETS)
        await factory.wait_for_cache_sync(5)
        assert gadgets.lister.get("one") is not None
        assert gadgets.namespaces == ("default",)
        paths = {one.path for one in server.requests}
    assert not [path for path in paths if path in ("/apis", "/api", "/apis/example.com/v1")]


async def refused(wait: Callable[[], Awaitable[object]]) -> None:
    with pytest.raises(ConfigError, match=r"namespace='default' is given, but .*gadgets is cluster"):
        await wait()


async def test_an_explicit_one_raises_in_every_wait(server: APIServer, client: Client) -> None:
    server.create(definition("Cluster"))
    async with SharedInformerFactory(client) as factory:
        gadgets: SharedInformer = factory.for_resource(GADGETS, namespace="default", optional=True)
        registration = gadgets.add_event_handler(on_add=lambda obj: None)
        for fail_fast in (None, True, False):
            await refused(lambda fail_fast=fail_fast: gadgets.wait_synced(5, fail_fast=fail_fast))  # type: ignore[misc]
        await refused(lambda: factory.wait_for_cache_sync(5))
        await refused(lambda: registration.wait_synced(5))
        await refused(lambda: gadgets.confirm(timeout=5))
        assert gadgets.health().state != "absent"


async def test_a_default_namespace_is_dropped_for_processes_that_share(server: APIServer) -> None:
    server.create(definition("Cluster"))
    server.create(gadget("first"))
    with tempfile.TemporaryDirectory(prefix="kf") as folder:
        path = f"{folder}/cache.sock"
        async with (
            Client.from_url(server.url) as holding,
            SharedInformerFactory(holding, share=Share(path), namespace="default") as holder,
            Client.from_url(server.url) as following,
            SharedInformerFactory(following, share=Share(path), namespace="default") as follower,
        ):
            for factory in (holder, follower):
                gadgets = factory.for_resource(GADGETS)
                await factory.wait_for_cache_sync(10)
                assert gadgets.lister.get("first") is not None
                await gadgets.wait_for_resource_version(server.create(gadget(f"g-{id(factory)}")), timeout=5)
