"""A deletion that is missed while no process watches: the route of a Site, in the namespace of a proxy, stays.

Deletions are handled as events alone, and an event that comes while the process is down never comes again:
zalando/postgres-operator#941; Sieve's observability gaps, as in instaclustr/cassandra-operator#398. A plain watch loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from kinformer import AlreadyExistsError, APIError, Client, ConnectError, ListOptions, ListWatch, NotFoundError
from kinformer.exceptions import WatchError
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition, names

FINDS = "each_site_has_its_route"
STORY = r"people     deletes example.com/v1/sites default/a"
SITES, ROUTES = "example.com/v1/sites", "v1/configmaps"
PATH = "/api/v1/namespaces/proxy/configmaps"


class Operator:
    def __init__(self, *, mended: bool) -> None:
        self.mended = mended

    async def run(self, client: Client) -> None:
        while True:
            try:
                await self.follow(client)
            except (APIError, ConnectError, WatchError):
                await asyncio.sleep(1)

    async def follow(self, client: Client) -> None:
        sites = ListWatch(client, SITES)
        page = await sites.list(ListOptions())
        listed = [site async for site in _each(page.items)]
        for site in listed:
            await self.route(client, site.name)
        if self.mended:
            for route in (await client.request("GET", PATH))["items"]:
                if route["metadata"]["name"] not in [site.name for site in listed]:
                    await self.unroute(client, route["metadata"]["name"])
        # A minute, then all of it again: routes are not watched, and may be gone.
        async with sites.watch(ListOptions(resource_version=page.resource_version, timeout_seconds=60)) as batches:
            async for event in _each(batches):
                if event.type == "DELETED":
                    await self.unroute(client, event.object.name)
                elif event.type == "ADDED":
                    await self.route(client, event.object.name)

    async def route(self, client: Client, name: str) -> None:
        try:
            metadata = {"name": name, "namespace": "proxy"}
            await client.request("POST", PATH, body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        except AlreadyExistsError:
            return

    async def unroute(self, client: Client, name: str) -> None:
        try:
            await client.request("DELETE", f"{PATH}/{name}")
        except NotFoundError:
            return


async def _each(batches: Any) -> AsyncIterator[Any]:
    async for batch in batches:
        for one in batch:
            yield one


def each_site_has_its_route(state: ClusterState) -> None:
    assert names(state.list(SITES)) == names(state.list(ROUTES))


def declare(world: World, *, mended: bool) -> None:
    world.apply(definition("Site"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "proxy"}})
    world.run(Operator(mended=mended).run)
    world.script(world.create(custom("Site", "a")), world.create(custom("Site", "b")))
    world.script(world.delete(SITES, "default/a"))
    world.eventually(each_site_has_its_route)
