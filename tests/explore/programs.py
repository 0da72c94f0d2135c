"""A small operator for tests of the exploration: each Website gets one ConfigMap."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kinformer import AlreadyExistsError, Client, Controller, KubeObject, Request, SharedInformerFactory
from kinformer.testing.explore import ClusterState, ExplorationError, World, explore

WEBSITES, CONFIG_MAPS = "example.com/v1/websites", "v1/configmaps"
Main = Callable[[Client], Awaitable[None]]
Object = dict[str, Any]

CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "websites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def website(name: str, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Website", "metadata": metadata, "spec": spec}


def config_map(site: KubeObject, **metadata: Any) -> Object:
    owner = {"apiVersion": "example.com/v1", "kind": "Website", "name": site.name, "uid": site.uid, "controller": True}
    metadata |= {"namespace": site.namespace, "labels": {"site": site.name}, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def exploring(main: Callable[[Client], Awaitable[object]], **options: Any) -> Callable[[], None]:
    """The exploration of a program in an empty cluster, for one history unless `options` say otherwise."""

    async def test(world: World) -> None:
        world.run(main)

    return explore(**{"schedules": 1, **options})(test)


def found(main: Callable[[Client], Awaitable[object]], **options: Any) -> ExplorationError:
    """What the exploration of a program in an empty cluster finds."""
    with pytest.raises(ExplorationError) as caught:
        exploring(main, **options)()
    return caught.value


async def careless(client: Client) -> None:
    """Makes a ConfigMap of any name if its cache has none: twice, if the cache does not know yet."""
    async with SharedInformerFactory(client) as factory:
        sites, maps = factory.for_resource(WEBSITES), factory.for_resource(CONFIG_MAPS)

        async def reconcile(request: Request) -> None:
            site = sites.by_key.get(request.key)
            if site is not None and not any(one.labels.get("site") == site.name for one in maps.lister):
                path = f"/api/v1/namespaces/{site.namespace}/configmaps"
                await client.request("POST", path, body=config_map(site, generateName=f"{site.name}-"))

        await Controller(reconcile).for_(sites).owns(maps, "Website").run()


async def careful(client: Client) -> None:
    """Makes a ConfigMap of one name, and takes it that another one may have been there before."""
    async with SharedInformerFactory(client) as factory:
        sites, maps = factory.for_resource(WEBSITES), factory.for_resource(CONFIG_MAPS)

        async def reconcile(request: Request) -> None:
            site = sites.by_key.get(request.key)
            if site is None or maps.by_key.get(request.key) is not None:
                return
            path = f"/api/v1/namespaces/{site.namespace}/configmaps"
            try:
                await client.request("POST", path, body=config_map(site, name=site.name))
            except AlreadyExistsError:
                return  # the event is on its way

        await Controller(reconcile).for_(sites).owns(maps, "Website").run()


def at_most_one_config_map_per_website(state: ClusterState) -> None:
    names = [one["metadata"]["labels"]["site"] for one in state.list(CONFIG_MAPS)]
    assert len(names) == len(set(names)), names


def each_website_has_its_config_map(state: ClusterState) -> None:
    wanted = {one["metadata"]["name"] for one in state.list(WEBSITES)}
    found = {one["metadata"]["labels"]["site"] for one in state.list(CONFIG_MAPS)}
    assert found == wanted, (found, wanted)


def declare(world: World, main: Main, **options: Any) -> None:
    world.apply(CRD)
    world.run(main, **options)
    world.script(
        world.create(website("a")), world.create(website("b")), world.delete("example.com/v1/websites", "default/a")
    )
    world.always(at_most_one_config_map_per_website)
    world.eventually(each_website_has_its_config_map)
