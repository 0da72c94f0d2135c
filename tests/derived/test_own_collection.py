"""A class of the program that has the members of `Collection`, and nothing else, goes wherever a collection does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest

from kinformer import (
    Client,
    Collection,
    Controller,
    EventStream,
    Fleet,
    HandlerRegistration,
    InformerHealth,
    KubeObject,
    Lister,
    Request,
    SharedInformer,
    SharedInformerFactory,
    StoppedError,
    derive,
    group_by,
    join,
    union,
    wait_for,
)
from kinformer.derived import filtered, mapped
from kinformer.testing import APIServer
from tests.support.kube import config_map, pod
from tests.support.waiting import until


class OwnCollection:
    """The members of `Collection` and no other: by an informer here, by anything in a program."""

    def __init__(self, informer: SharedInformer) -> None:
        self.__informer = informer

    @property
    def name(self) -> str:
        return f"own {self.__informer.name}"

    @property
    def lister(self) -> Lister[KubeObject]:
        return self.__informer.lister

    @property
    def by_key(self) -> Mapping[str, KubeObject]:
        return self.__informer.by_key

    def add_event_handler(self, handler: Any = None, **options: Any) -> HandlerRegistration:
        return self.__informer.add_event_handler(handler, **options)

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        await self.__informer.remove_event_handler(registration, drain=drain)

    def events(self, **options: Any) -> EventStream:
        return self.__informer.events(**options)

    async def wait_synced(self, timeout: float | None = None) -> None:
        await self.__informer.wait_synced(timeout)

    def health(self) -> InformerHealth:
        return self.__informer.health()


@pytest.fixture
async def factory(client: Client) -> AsyncIterator[SharedInformerFactory]:
    async with SharedInformerFactory(client) as factory:
        yield factory


@pytest.fixture
async def pods(factory: SharedInformerFactory, server: APIServer) -> OwnCollection:
    for name, node in (("web-1", "node-1"), ("web-2", "node-1"), ("db-1", "node-2")):
        server.create(pod(name, node=node))
    return OwnCollection(factory.for_resource("v1/pods"))


async def test_a_class_with_these_members_is_a_collection(client: Client) -> None:
    own = OwnCollection(SharedInformerFactory(client).for_resource("v1/pods"))
    assert isinstance(own, Collection)
    assert not isinstance(object(), Collection)


async def test_every_derived_collection_follows_it(pods: OwnCollection, server: APIServer) -> None:
    async with (
        derive(pods, lambda pod, fetch: pod.name.upper()) as upper,
        filtered(pods, lambda pod: pod.name.startswith("web")) as webs,
        mapped(pods, lambda pod: pod["spec"]["nodeName"]) as nodes,
        group_by(pods, "spec.nodeName") as by_node,
        join(pods, pods, on="spec.nodeName") as pairs,
        union(pods) as everything,
        mapped(by_node, len) as counts,
    ):
        for collection in (upper, webs, nodes, by_node, pairs, everything, counts):
            await collection.wait_synced(10)
        assert dict(upper.by_key)["default/db-1"] == "DB-1"
        assert set(webs.by_key) == {"default/web-1", "default/web-2"}
        assert dict(nodes.by_key) == {"default/web-1": "node-1", "default/web-2": "node-1", "default/db-1": "node-2"}
        assert dict(counts.by_key) == {"node-1": 2, "node-2": 1}
        assert set(everything.by_key) == set(pods.by_key)

        server.create(pod("web-3", node="node-2"))
        server.delete("v1/pods", "default", "web-1")
        await until(lambda: dict(counts.by_key) == {"node-1": 1, "node-2": 2})
        assert set(webs.by_key) == {"default/web-2", "default/web-3"}
        assert set(upper.by_key) == {"default/web-2", "default/web-3", "default/db-1"}


async def test_a_function_fetches_from_it(pods: OwnCollection, factory: SharedInformerFactory) -> None:
    namespaces = factory.for_resource("v1/namespaces")
    async with derive(namespaces, lambda one, fetch: len(fetch(pods, namespace=one.name))) as sizes:
        await sizes.wait_synced(10)
        assert sizes.by_key["default"] == 3


async def test_objects_are_waited_for_in_it(pods: OwnCollection, server: APIServer) -> None:
    assert (await wait_for(pods, "default/web-1", lambda pod: pod is not None, 10)) is not None
    server.create(pod("late"))
    late = await wait_for(pods, "default/late", lambda pod: pod is not None, 10)
    assert late is not None
    assert late.name == "late"


async def test_a_controller_reconciles_its_objects(pods: OwnCollection) -> None:
    seen: set[str] = set()

    async def reconcile(request: Request) -> None:
        seen.add(request.key)

    running = asyncio.create_task(Controller(reconcile, name="own").for_(pods).run())
    await until(lambda: len(seen) == 3)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == {"default/web-1", "default/web-2", "default/db-1"}


async def test_its_keys_are_the_namespaces_of_an_informer(factory: SharedInformerFactory, server: APIServer) -> None:
    for name in ("one", "two"):
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "a"}}})
        server.create(config_map("x", namespace=name))
    own = OwnCollection(factory.for_resource("v1/namespaces", label_selector="team=a"))
    maps = factory.for_resource("v1/configmaps", namespaces=own, field_selector="metadata.name=x")
    await factory.wait_for_cache_sync(10)
    assert set(maps.by_key) == {"one/x", "two/x"}
    server.delete("v1/namespaces", "", "two")
    await until(lambda: set(maps.by_key) == {"one/x"})


async def test_a_fleet_unites_it(server: APIServer) -> None:
    server.create(pod("web-1"))
    async with Fleet({"east": server.client()}) as fleet:
        pods = fleet.union_of(lambda cluster: OwnCollection(cluster.factory.for_resource("v1/pods")), name="own")
        await fleet.wait_synced(10)
        assert set(pods.by_key) == {"east/default/web-1"}


async def test_what_it_derives_ends_with_it(server: APIServer, client: Client) -> None:
    server.create(pod("web-1"))
    async with AsyncExitStack() as leaving:
        async with SharedInformerFactory(client) as factory:
            names = mapped(OwnCollection(factory.for_resource("v1/pods")), lambda pod: pod.name)
            stream = (await leaving.enter_async_context(names)).events()
            await leaving.enter_async_context(stream)
            assert (await anext(stream)).object == "web-1"
        assert [event async for event in stream] == []  # it ends
        with pytest.raises(StoppedError, match="because own v1/pods was exited"):
            names.add_event_handler(on_add=print)
