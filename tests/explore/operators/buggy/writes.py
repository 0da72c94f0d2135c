"""Writes that are wrong if something else has happened since the program looked."""

from __future__ import annotations

import contextlib
from typing import Any

from kinformer import AlreadyExistsError, Client, KubeObject, SharedInformer
from kinformer.controller import Finalizer, write_status
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import definition
from tests.explore.operators.external import Cloud
from tests.explore.operators.sites import (
    PAGES_PATH,
    SITES,
    SITES_PATH,
    Reconcile,
    declare,
    each_site_has_its_page,
    page_of,
    reconciling,
    site,
    size_of,
    steps,
)


async def replaced_without_a_version(world: World) -> None:
    """A page is put as the cache has it, without its version: what others have written meanwhile is gone."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                page = pages.by_key.get(one.key)
                if page is None or page.owner_references[0].uid != one.uid:
                    with contextlib.suppress(AlreadyExistsError):
                        await client.request("POST", PAGES_PATH, body=page_of(one))
                elif page.path("data.size") != size_of(one):
                    metadata = {**page.to_dict()["metadata"], "resourceVersion": None}
                    body = {**page.to_dict(), "metadata": metadata, "data": {"size": size_of(one)}}
                    await client.request("PUT", f"{PAGES_PATH}/{one.name}", body=body)

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def port_given_twice(world: World) -> None:
    """The next free port is chosen from a cache that may be behind, by two workers."""

    async def main(client: Client) -> None:
        def make(*informers: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                if one.path("status.port") is None:
                    used = [other.path("status.port", 8000) for other in informers[0].lister]
                    body = {"status": {"port": max(used) + 1}}
                    await client.request("PATCH", f"{SITES_PATH}/{one.name}/status", body=body)

            return reconcile

        await reconciling(client, make, workers=2)

    def each_port_is_given_once(state: ClusterState) -> None:
        ports = [one["status"]["port"] for one in state.list(SITES) if "status" in one]
        assert len(ports) == len(set(ports)), f"ports {ports}"

    world.apply(definition("Site"))
    world.run(main)
    world.script(*(world.create(site(name)) for name in "abcd"))
    world.always(each_port_is_given_once)


async def noted_before_it_is_done(world: World) -> None:
    """The generation is noted as served before the page is made: a failure in between is never made good."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                if one.path("status.observedGeneration") == one.generation:
                    return
                await write_status(client, SITES, one, {"observedGeneration": one.generation})
                body: Any = page_of(one)
                try:
                    await client.request("POST", PAGES_PATH, body=body)
                except AlreadyExistsError:
                    await client.request("PATCH", f"{PAGES_PATH}/{one.name}", body=body)

            return reconcile

        await reconciling(client, make)

    declare(world, main)


async def swallows_a_failure(world: World) -> None:
    """A failure is taken for the news that the page is there already, and nothing triggers another attempt."""

    async def main(client: Client) -> None:
        def make(_: SharedInformer, pages: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                if pages.by_key.get(one.key) is None:
                    with contextlib.suppress(Exception):
                        await client.request("POST", PAGES_PATH, body=page_of(one))
                elif pages.by_key[one.key].path("data.size") != size_of(one):
                    await client.request("PATCH", f"{PAGES_PATH}/{one.name}", body=page_of(one))

            return reconcile

        await reconciling(client, make)

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world)[:2])
    world.eventually(each_site_has_its_page)


async def finalizer_after_the_bucket(world: World) -> None:
    """The bucket is made first, and the finalizer set after it: between the two a deletion leaves the bucket."""
    cloud = Cloud()

    async def main(client: Client) -> None:
        finalizer = Finalizer(client, SITES, "example.com/cloud")

        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                if one.deletion_timestamp is None:
                    await cloud.make(one.name, one.uid)
                    await finalizer.add(one)
                elif finalizer.is_on(one):
                    await cloud.delete(one.name)
                    await finalizer.remove(one)

            return reconcile

        await reconciling(client, make)

    def the_cloud_has_what_people_want(state: ClusterState) -> None:
        wanted = {one["metadata"]["name"] for one in state.list(SITES)}
        assert set(cloud.buckets) == wanted, f"{set(cloud.buckets)} instead of {wanted}"

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world)[:4])
    world.eventually(the_cloud_has_what_people_want)


BUGS = [
    (replaced_without_a_version, "undid the change of"),
    (port_given_twice, "each_port_is_given_once"),
    (noted_before_it_is_done, "each_site_has_its_page"),
    (swallows_a_failure, "each_site_has_its_page"),
    (finalizer_after_the_bucket, "the_cloud_has_what_people_want"),
]
