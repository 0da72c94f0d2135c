"""Programs that go wrong when a process, a watch or a lead ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NoReturn

from kinformer import (
    AlreadyExistsError,
    APIError,
    Client,
    ConnectError,
    KubeObject,
    ListOptions,
    ListWatch,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.exceptions import WatchError
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import definition, names
from tests.explore.operators.sites import (
    PAGES,
    PAGES_PATH,
    SITES,
    SITES_PATH,
    Reconcile,
    declare,
    page_of,
    reconciling,
    site,
    size_of,
    steps,
)
from tests.explore.operators.two_leaders import Lease


async def removed_by_an_event(world: World) -> None:
    """A page without an owner is removed when the Site's deletion is seen, and stays if no process sees it."""

    async def main(client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            sites = factory.for_resource(SITES)

            async def make(one: KubeObject) -> None:
                metadata = {"name": f"{one.name}-page"}
                with contextlib.suppress(AlreadyExistsError):
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                    await client.request("POST", PAGES_PATH, body=body)

            async def remove(one: Any) -> None:
                with contextlib.suppress(NotFoundError):
                    await client.request("DELETE", f"{PAGES_PATH}/{one.name}-page")

            sites.add_event_handler(on_add=make, on_delete=remove)
            await asyncio.get_running_loop().create_future()

    world.apply(definition("Site"))
    world.run(main)
    world.script(world.create(site("a")), world.create(site("b")), world.delete(SITES, "default/a"))


async def ends_with_a_missing_object(world: World) -> None:
    """A loop that patches what it has just listed, and ends if that is gone."""

    async def main(client: Client) -> NoReturn:
        while True:
            with contextlib.suppress(ConnectError):
                sites = await listed(client)
                for name, size in sites.items():
                    body = {"status": {"size": size}}
                    await client.request("PATCH", f"{SITES_PATH}/{name}/status", body=body, retries=20)
            await asyncio.sleep(4)

    async def listed(client: Client) -> dict[str, str]:
        try:
            items = (await client.request("GET", SITES_PATH))["items"]
        except APIError:
            return {}
        return {one["metadata"]["name"]: str(one["spec"]["size"]) for one in items}

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world))


async def watches_on_after_a_410(world: World) -> None:
    """A watch that is too old starts again from now, without a list: what happened in between is never seen."""

    async def main(client: Client) -> NoReturn:
        sites = ListWatch(client, SITES)
        version = (await sites.list(ListOptions())).resource_version
        while True:
            try:
                async with sites.watch(ListOptions(resource_version=version, timeout_seconds=60)) as batches:
                    async for event in each(batches):
                        if event.type in ("ADDED", "MODIFIED"):
                            await apply(client, event.object)
                        version = event.object.resource_version or version
            except WatchError:
                with contextlib.suppress(APIError, ConnectError):
                    version = (await sites.list(ListOptions())).resource_version
            except (APIError, ConnectError):
                await asyncio.sleep(1)

    async def apply(client: Client, one: KubeObject) -> None:
        params, headers = {"fieldManager": "m", "force": "true"}, {"Content-Type": "application/apply-patch+yaml"}
        path = f"{PAGES_PATH}/{one.name}"
        for _ in range(20):
            with contextlib.suppress(APIError, ConnectError):
                await client.request("PATCH", path, body=page_of(one), params=params, headers=headers)
                return
            await asyncio.sleep(3)

    async def each(batches: Any) -> AsyncIterator[Any]:
        async for batch in batches:
            for one in batch:
                yield one

    declare(world, main)


async def remembers_names(world: World) -> None:
    """Sites that were served are remembered by their names: one that is made again has no page."""

    async def main(client: Client) -> None:
        served: dict[str, str] = {}

        def make(*_: SharedInformer) -> Reconcile:
            async def reconcile(one: KubeObject) -> None:
                if served.get(one.name) == size_of(one):
                    return
                with contextlib.suppress(AlreadyExistsError):
                    await client.request("POST", PAGES_PATH, body=page_of(one))
                await client.request("PATCH", f"{PAGES_PATH}/{one.name}", body={"data": {"size": size_of(one)}})
                served[one.name] = size_of(one)

            return reconcile

        await reconciling(client, make)

    declare(world, main, world.delete(SITES, "default/a"), world.create(site("a", size=2)))


async def leads_under_one_name(world: World) -> None:
    """Both replicas take the Lease under the same name, so that each of them takes it for its own."""

    async def main(client: Client) -> None:
        lease = Lease(client, "operator")
        async with asyncio.TaskGroup() as group:
            group.create_task(lease.keep())
            await lease.held.wait()
            await work(client)

    async def work(client: Client) -> NoReturn:
        number = 0
        while True:
            with contextlib.suppress(APIError, ConnectError):
                sites = (await client.request("GET", SITES_PATH))["items"]
                pages = (await client.request("GET", PAGES_PATH))["items"]
                for name in {one["metadata"]["name"] for one in sites} - set(map(str, labelled(pages))):
                    metadata = {"generateName": f"{name}-", "labels": {"site": name}}
                    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                    await client.request("POST", PAGES_PATH, body=body)
            number += 1
            await asyncio.sleep(2)

    def labelled(pages: list[dict[str, Any]]) -> list[str]:
        return [one["metadata"]["labels"]["site"] for one in pages if "site" in one["metadata"].get("labels", {})]

    def each_site_has_one_page(state: ClusterState) -> None:
        found = labelled(state.list(PAGES))
        assert len(found) == len(set(found)), f"pages of {found}"

    def all_have_one(state: ClusterState) -> None:
        assert names(state.list(SITES)) <= set(labelled(state.list(PAGES)))

    world.apply(definition("Site"))
    world.run(main, replicas=2)
    world.script(world.create(site("a")), world.create(site("b")))
    world.always(each_site_has_one_page)
    world.eventually(all_have_one)


BUGS = [
    (removed_by_an_event, "is left behind by"),
    (ends_with_a_missing_object, "ended with"),
    (watches_on_after_a_410, "each_site_has_its_page"),
    (remembers_names, "each_site_has_its_page"),
    (leads_under_one_name, "each_site_has_one_page|had taken the Lease"),
]
