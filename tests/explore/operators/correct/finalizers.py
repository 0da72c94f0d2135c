"""Operators that clean up: things in a cloud, and objects that no owner reference can reach."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from kinformer import (
    AlreadyExistsError,
    Client,
    Controller,
    KubeObject,
    NotFoundError,
    Request,
    Result,
    SharedInformerFactory,
)
from kinformer.controller import Finalizer
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import definition, names
from tests.explore.operators.external import Cloud
from tests.explore.operators.sites import PAGES_PATH, SITES, SITES_PATH, site, steps

NAME = "example.com/cloud"
PREDECESSOR = "a predecessor"
FAR_PATH = "/api/v1/namespaces/far/configmaps"
Work = Callable[[KubeObject], Awaitable[object]]


async def keeping(client: Client, make: Work, clean: Work) -> None:
    """Make something for each Site, after its finalizer, and clean up before that is removed."""
    finalizer = Finalizer(client, SITES, NAME)
    async with SharedInformerFactory(client) as factory:
        sites = factory.for_resource(SITES)

        async def reconcile(request: Request) -> None:
            one = sites.by_key.get(request.key)
            if one is None:
                return
            if one.deletion_timestamp is None:
                await make(await finalizer.add(one))
            elif finalizer.is_on(one):
                await clean(one)
                await finalizer.remove(one)

        await Controller(reconcile).for_(sites).run()


def declare(world: World, main: Callable[[Client], Awaitable[object]], cloud: Cloud) -> None:
    def the_cloud_has_what_people_want(state: ClusterState) -> None:
        wanted = {one["metadata"]["name"]: one["metadata"]["uid"] for one in state.list(SITES)}
        found = {name: owner for name, owner in cloud.buckets.items() if owner != PREDECESSOR}
        assert found == wanted, found

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world))
    world.eventually(the_cloud_has_what_people_want)


async def cleaned_up_in_a_cloud(world: World) -> None:
    """A bucket under the Site's name."""
    cloud = Cloud()

    async def main(client: Client) -> None:
        await keeping(client, lambda one: cloud.make(one.name, one.uid), lambda one: cloud.delete(one.name))

    declare(world, main, cloud)


async def adopted_in_a_cloud(world: World) -> None:
    """A bucket that a predecessor left is adopted, and cleaned up only by the Site that has it."""
    cloud = Cloud()
    cloud.buckets["a"] = PREDECESSOR

    async def main(client: Client) -> None:
        async def clean(one: KubeObject) -> None:
            if cloud.buckets.get(one.name) == one.uid:
                await cloud.delete(one.name)

        await keeping(client, lambda one: cloud.make(one.name, one.uid), clean)

    declare(world, main, cloud)


async def finalized_by_hand(world: World) -> None:
    """The finalizers are put as a whole, with the version that they were read with."""
    cloud = Cloud()

    async def main(client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites = factory.for_resource(SITES)

            async def put(one: KubeObject, finalizers: list[str]) -> None:
                metadata = {"finalizers": finalizers, "resourceVersion": one.resource_version}
                with contextlib.suppress(NotFoundError):
                    await client.request("PATCH", f"{SITES_PATH}/{one.name}", body={"metadata": metadata})

            async def reconcile(request: Request) -> None:
                one = sites.by_key.get(request.key)
                held = [] if one is None else list(one.path("metadata.finalizers", ()))
                if one is None or (one.deletion_timestamp is not None and NAME not in held):
                    return
                if one.deletion_timestamp is not None:
                    await cloud.delete(one.name)
                    await put(one, [name for name in held if name != NAME])
                elif NAME in held:
                    await cloud.make(one.name, one.uid)
                else:
                    await put(one, [*held, NAME])

            await Controller(reconcile).for_(sites).run()

    declare(world, main, cloud)


async def beside_the_finalizer_of_others(world: World) -> None:
    """A Site that others hold back as well, for ever."""
    cloud = Cloud()

    async def main(client: Client) -> None:
        async def clean(one: KubeObject) -> None:
            await cloud.delete(one.name)

        async def make(one: KubeObject) -> None:
            if "example.net/of-others" not in one.path("metadata.finalizers"):
                await cloud.make(one.name, one.uid)

        await keeping(client, make, clean)

    def the_others_are_served(state: ClusterState) -> None:
        held = [one for one in state.list(SITES) if "example.net/of-others" in one["metadata"].get("finalizers", ())]
        assert set(cloud.buckets) == names(state.list(SITES)) - names(held)

    held = site("held")
    held["metadata"]["finalizers"] = ["example.net/of-others"]
    world.apply(definition("Site"))
    world.run(main)
    world.script(world.create(held), *steps(world), world.delete(SITES, "default/held"))
    world.eventually(the_others_are_served)


async def kept_in_another_namespace(world: World) -> None:
    """An object in another namespace, which has no owner that the garbage collector would accept."""

    async def main(client: Client) -> None:
        async def make(one: KubeObject) -> None:
            metadata = {"name": one.name, "labels": {"site": one.uid}}
            with contextlib.suppress(AlreadyExistsError):
                await client.request(
                    "POST", FAR_PATH, body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                )

        async def clean(one: KubeObject) -> None:
            with contextlib.suppress(NotFoundError):
                await client.request("DELETE", f"{FAR_PATH}/{one.name}")

        await looked_after(client, make, clean)

    def each_has_one_far_away(state: ClusterState) -> None:
        assert names(far_away(state)) == names(state.list(SITES))

    world.apply(definition("Site"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "far"}})
    world.run(main)
    world.script(*steps(world))
    world.eventually(each_has_one_far_away)


async def looked_after(client: Client, make: Work, clean: Work) -> None:
    """Do as `keeping` does, and again each half minute, because what is far away is not watched."""
    finalizer = Finalizer(client, SITES, NAME)
    async with SharedInformerFactory(client) as factory:
        sites = factory.for_resource(SITES)

        async def reconcile(request: Request) -> Result | None:
            one = sites.by_key.get(request.key)
            if one is None or (one.deletion_timestamp is not None and not finalizer.is_on(one)):
                return None
            if one.deletion_timestamp is None:
                await make(await finalizer.add(one))
                return Result(requeue_after=30)
            await clean(one)
            await finalizer.remove(one)
            return None

        await Controller(reconcile).for_(sites).run()


def far_away(state: ClusterState) -> list[dict[str, Any]]:
    return [one for one in state.list("v1/configmaps", "far") if "site" in one["metadata"].get("labels", {})]


async def named_like_a_deleted_pod(world: World) -> None:
    """A page for each Service. People delete a Pod of the same name, and the page stays as it should."""

    async def main(client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            services, pages = factory.for_resource("v1/services"), factory.for_resource("v1/configmaps")

            async def reconcile(request: Request) -> None:
                service = services.by_key.get(request.key)
                page = pages.by_key.get(f"{request.key}-page")
                if service is None and page is not None:
                    with contextlib.suppress(NotFoundError):
                        await client.request("DELETE", f"{PAGES_PATH}/{page.name}")
                elif (
                    service is not None
                    and page is None
                    and service.namespace == "default"
                    and service.name != "kubernetes"
                ):
                    metadata = {"name": f"{service.name}-page"}
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                    await client.request("POST", PAGES_PATH, body=body)

            def services_of(page: KubeObject) -> list[str]:
                return [page.key.removesuffix("-page")] if page.key.endswith("-page") else []

            await Controller(reconcile).for_(services).watches(pages, services_of).run()

    def each_service_has_its_page(state: ClusterState) -> None:
        wanted = {f"{name}-page" for name in names(state.list("v1/services", "default")) - {"kubernetes"}}
        assert {name for name in names(state.list("v1/configmaps", "default")) if name.endswith("-page")} == wanted

    containers = [{"name": "c", "image": "c"}]
    metadata = {"name": "a", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": 80}]}}
    world.run(main)
    world.script(world.create(pod), world.create(service), world.delete("v1/pods", "default/a"))
    world.eventually(each_service_has_its_page)


CORRECT = [
    cleaned_up_in_a_cloud,
    adopted_in_a_cloud,
    finalized_by_hand,
    beside_the_finalizer_of_others,
    kept_in_another_namespace,
    named_like_a_deleted_pod,
]
