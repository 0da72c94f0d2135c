"""Statuses, written in the ways that operators write them."""

from __future__ import annotations

from typing import Any

from kubernetes_asyncio.client import ApiException, CustomObjectsApi

from kinformer import Client, Controller, KubeObject, Request, Result, SharedInformer, SharedInformerFactory
from kinformer.controller import write_status
from kinformer.objects import Condition, with_conditions
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import definition
from tests.explore.operators.external import Cloud
from tests.explore.operators.sites import (
    PAGES_PATH,
    SITES,
    SITES_PATH,
    Main,
    Reconcile,
    each_site_has_its_page,
    page_of,
    reconciling,
    size_of,
    steps,
)


def each_site_says_its_size(state: ClusterState) -> None:
    for one in state.list(SITES):
        assert one["status"]["size"] == str(one["spec"]["size"]), one["status"]


def declare(world: World, main: Main) -> None:
    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world))
    world.script(world.patch(SITES, "default/a", {"status": {"address": "10.0.0.1"}}))  # another controller's
    world.eventually(each_site_says_its_size)


async def patched(world: World) -> None:
    """A merge patch of one's own field, made from the spec alone."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                await client.request(
                    "PATCH", f"{SITES_PATH}/{site.name}/status", body={"status": {"size": size_of(site)}}
                )

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def put_with_the_cached_version(world: World) -> None:
    """The whole status from the cache, with the version that it was read with: a conflict is tried again."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                status = {**site.path("status", {}), "size": size_of(site)}
                if status != site.path("status"):
                    body = {**site.to_dict(), "status": status}
                    await client.request("PUT", f"{SITES_PATH}/{site.name}/status", body=body)

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def read_and_put_by_another_library(world: World) -> None:
    """kubernetes_asyncio reads the object, changes a field, and puts it with that version."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> Result | None:
                api, place = CustomObjectsApi(client.api_client), ("example.com", "v1", "default", "sites", site.name)
                try:
                    body = await api.get_namespaced_custom_object(*place)
                    wanted = {**body.get("status", {}), "size": str(body["spec"]["size"])}
                    if wanted != body.get("status"):
                        await api.replace_namespaced_custom_object_status(*place, {**body, "status": wanted})
                except ApiException as error:
                    if error.status != 404:
                        return Result(requeue_after=1)
                return None

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def with_conditions_and_generation(world: World) -> None:
    """Conditions that keep their time while they do not change, and the generation that they are about."""

    async def main(client: Client) -> None:
        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                conditions = with_conditions(site, Condition("Ready", True, "Measured", size_of(site)))
                status = {"conditions": conditions, "observedGeneration": site.generation, "size": size_of(site)}
                await write_status(client, SITES, site, status)

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def after_the_page(world: World) -> None:
    """The page comes first, and the status says so only when the cache has the page."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(site: KubeObject) -> None:
                page = pages.by_key.get(site.key)
                if page is None:
                    await client.request("POST", PAGES_PATH, body=page_of(site))
                elif page.owner_references[0].uid == site.uid:
                    if page.path("data.size") != size_of(site):
                        body = {"metadata": {"uid": page.uid}, "data": {"size": size_of(site)}}
                        await client.request("PATCH", f"{PAGES_PATH}/{site.name}", body=body)
                    await write_status(client, SITES, site, {"size": size_of(site), "page": page.uid})

            return reconcile

        await reconciling(client, make)

    declare(world, main)
    world.eventually(each_site_has_its_page)


async def polled_until_ready(world: World) -> None:
    """A thing in a cloud that becomes ready in its own time: the operator asks again, until it may say so."""
    cloud = Cloud()
    asked: dict[str, int] = {}

    async def main(client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites = factory.for_resource(SITES)

            async def reconcile(request: Request) -> Result | None:
                site = sites.by_key.get(request.key)
                if site is None:
                    return None
                if cloud.buckets.get(site.uid) != size_of(site):
                    await cloud.make(site.uid, size_of(site))
                    asked[site.uid] = 0
                asked[site.uid] += 1
                if asked[site.uid] < 3:
                    return Result(requeue_after=5)
                await write_status(client, SITES, site, {"size": size_of(site)})
                return None

            await Controller(reconcile).for_(sites).run()

    declare(world, main)


async def counted_from_another_kind(world: World) -> None:
    """A summary of all Sites in one object of the operator, which is put with its version."""
    path = f"{PAGES_PATH}/summary"

    async def main(client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites = factory.for_resource(SITES)
            summaries = factory.for_resource("v1/configmaps", field_selector="metadata.name=summary")

            async def reconcile(_: Request) -> None:
                data = {one.name: size_of(one) for one in sites.lister}
                summary = summaries.by_key.get("default/summary")
                body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "summary"}}
                if summary is None:
                    await client.request("POST", PAGES_PATH, body={**body, "data": data})
                elif summary.path("data", {}) != data:
                    body["metadata"]["resourceVersion"] = summary.resource_version
                    await client.request("PUT", path, body={**body, "data": data})

            every = lambda one: ["default/summary"]  # noqa: E731
            await Controller(reconcile).watches(sites, every).watches(summaries, every).run()

    def the_summary_is_right(state: ClusterState) -> None:
        summary = state.get("v1/configmaps", "default/summary")
        data = summary.get("data", {}) if summary else {}
        assert data == {one["metadata"]["name"]: str(one["spec"]["size"]) for one in state.list(SITES)}

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world))
    world.eventually(the_summary_is_right)


CORRECT = [
    patched,
    put_with_the_cached_version,
    read_and_put_by_another_library,
    with_conditions_and_generation,
    after_the_page,
    polled_until_ready,
    counted_from_another_kind,
]
