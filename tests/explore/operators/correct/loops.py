"""Operators without a controller: loops, queues and watches of their own."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, NoReturn

from kinformer import (
    APIError,
    Client,
    ConflictError,
    ConnectError,
    KubeObject,
    ListWatch,
    NotFoundError,
    SharedInformerFactory,
    watch,
)
from kinformer.exceptions import KinformerError
from kinformer.testing.explore import ClusterState, World
from kinformer.workqueue import WorkQueue
from tests.explore.operators.custom import definition
from tests.explore.operators.external import Cloud
from tests.explore.operators.sites import APPLY, PAGES, PAGES_PATH, SITES, SITES_PATH, declare, page_of, size_of, steps

FAILED = (APIError, ConnectError, TimeoutError)


async def apply_page(client: Client, site: KubeObject) -> None:
    params = {"fieldManager": "loop", "force": "true"}
    await client.request("PATCH", f"{PAGES_PATH}/{site.name}", body=page_of(site), params=params, headers=APPLY)


async def lists_each_quarter(world: World) -> None:
    """All Sites are listed each fifteen seconds, and each page is applied."""

    async def main(client: Client) -> NoReturn:
        while True:
            try:
                for one in (await client.request("GET", SITES_PATH))["items"]:
                    site = await client.request("GET", f"{SITES_PATH}/{one['metadata']['name']}")
                    assert isinstance(site, KubeObject)
                    await apply_page(client, site)
            except FAILED:
                pass  # in the next round
            await asyncio.sleep(15)

    declare(world, main)


async def follows_a_watch(world: World) -> None:
    """A stream of events, and all once more after each failure."""

    async def main(client: Client) -> NoReturn:
        while True:
            try:
                async with watch(ListWatch(client, SITES)) as events:
                    async for event in events:
                        if event.type != "DELETED" and isinstance(event.object, KubeObject):
                            await apply_page(client, event.object)
            except KinformerError:
                await asyncio.sleep(1)

    declare(world, main)


async def works_off_a_queue(world: World) -> None:
    """Handlers put keys into a queue, two workers take them, and failures come back later."""

    async def main(client: Client) -> None:
        queue: WorkQueue[str] = WorkQueue()
        async with SharedInformerFactory(client) as factory:
            sites, pages = factory.for_resource(SITES), factory.for_resource(PAGES)
            for informer in (sites, pages):
                informer.add_event_handler(
                    on_add=lambda obj: queue.add(obj.key),
                    on_update=lambda old, new: queue.add(new.key),
                    on_delete=lambda obj: queue.add(obj.key),
                )
            await factory.wait_for_cache_sync(timeout=600)

            async def work() -> None:
                while True:
                    key = await queue.get()
                    site, page = sites.by_key.get(key), pages.by_key.get(key)
                    try:
                        if site is not None and (
                            page is None or page.path("data.size") != size_of(site) or not owns(site, page)
                        ):
                            await apply_page(client, site)
                    except FAILED:
                        asyncio.get_running_loop().call_later(2, queue.add, key)
                    queue.done(key)

            async with asyncio.TaskGroup() as group:
                group.create_task(work())
                group.create_task(work())

    def owns(site: KubeObject, page: KubeObject) -> bool:
        return any(owner.uid == site.uid for owner in page.owner_references)

    declare(world, main)


async def remembers_for_half_a_minute(world: World) -> None:
    """The answer of a cloud is kept for thirty seconds by a monotonic clock, and compared each ten."""
    cloud = Cloud()

    async def main(client: Client) -> NoReturn:
        known: dict[str, tuple[float, str]] = {}
        clock = time.monotonic

        async def lookup(site: KubeObject) -> str:
            at, size = known.get(site.uid, (-100.0, ""))
            if clock() - at > 30:
                await cloud.make(site.uid, size_of(site))
                size = cloud.buckets[site.uid]
                known[site.uid] = (clock(), size)
            return size

        async with SharedInformerFactory(client) as factory:
            sites = factory.for_resource(SITES)
            while True:
                for site in list(sites.lister):
                    size = await lookup(site)
                    if site.path("status.size") != size:
                        with contextlib.suppress(*FAILED):
                            body = {"status": {"size": size}}
                            await client.request("PATCH", f"{SITES_PATH}/{site.name}/status", body=body)
                await asyncio.sleep(10)

    def each_site_says_its_size(state: ClusterState) -> None:
        for one in state.list(SITES):
            assert one["status"]["size"] == str(one["spec"]["size"]), one["status"]

    world.apply(definition("Site"))
    world.run(main)
    world.script(*steps(world))
    world.eventually(each_site_says_its_size)


async def counts_with_the_version_it_read(world: World) -> None:
    """A number of calls, which two programs add to in one object: read, add, put, and again after a conflict."""

    async def add_one(client: Client, part: str) -> None:
        path = f"{PAGES_PATH}/numbers"
        while True:
            try:
                found: dict[str, Any] = (await client.request("GET", path)).to_dict()  # type: ignore[union-attr]
                data = found.get("data") or {}
                if int(data.get(part, "0")) >= 3:
                    return
                data[part] = str(int(data.get(part, "0")) + 1)
                await client.request("PUT", path, body={**found, "data": data})
            except NotFoundError:
                body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "numbers"}}
                with contextlib.suppress(*FAILED):
                    await client.request("POST", PAGES_PATH, body=body)
            except (ConflictError, *FAILED):
                pass
            await asyncio.sleep(1)

    async def red(client: Client) -> None:
        while True:
            await add_one(client, "red")
            await asyncio.sleep(5)

    async def blue(client: Client) -> None:
        while True:
            await add_one(client, "blue")
            await asyncio.sleep(5)

    def both_have_counted(state: ClusterState) -> None:
        numbers = state.get(PAGES, "default/numbers")
        assert numbers is not None
        assert numbers["data"] == {"red": "3", "blue": "3"}

    world.run(red)
    world.run(blue)
    world.script(world.patch(PAGES, "default/numbers", {"metadata": {"labels": {"seen": "yes"}}}))
    world.eventually(both_have_counted)


CORRECT = [
    lists_each_quarter,
    follows_a_watch,
    works_off_a_queue,
    remembers_for_half_a_minute,
    counts_with_the_version_it_read,
]
