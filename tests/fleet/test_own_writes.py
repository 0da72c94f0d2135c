"""Own writes of a controller for several clusters: each is waited for in the cluster that it went to, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import (
    Client,
    Collection,
    Controller,
    Fleet,
    ListWatch,
    Request,
    SharedInformer,
    SharedInformerFactory,
    union,
)
from kinformer.controller import ControllerStatistics
from kinformer.testing import APIServer
from tests.fleet.clusters import CONFIG_MAPS, clusters
from tests.support.kube import config_map
from tests.support.lagging_source import LaggingSource

pytestmark = pytest.mark.virtual_time

PATH = "/api/v1/namespaces/default/configmaps"
Body = Callable[[Request], Awaitable[None]]


async def reconciled(main: str, body: Body, *sources: Collection[Any]) -> ControllerStatistics:
    """Run `body` once, as the first reconcile of the key `main`, for the first source, a union; what it raises."""
    result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def reconcile(request: Request) -> None:
        if request.key != main or result.done():
            return
        try:
            await body(request)
        except BaseException as error:
            result.set_exception(error)
        else:
            result.set_result(None)

    controller = Controller(reconcile, name="test").for_(sources[0])
    for one in sources[1:]:
        controller = controller.watches(one, lambda obj: [])
    running = asyncio.create_task(controller.run())
    try:
        async with asyncio.timeout(100):
            await result
        controller.trigger(main)
        await asyncio.sleep(15)  # a wait that is in vain takes 10 s
        return controller.statistics()
    finally:
        running.cancel()
        await asyncio.wait({running})


def advance(server: APIServer, number: int = 30) -> None:
    """Have a server's versions be ahead of those of the others."""
    for one in range(number):
        server.create(config_map(f"more-{one}", namespace="kube-system"))


@asynccontextmanager
async def fleet_of(servers: dict[str, APIServer]) -> AsyncIterator[tuple[Fleet, Any]]:
    async with Fleet({name: server.client() for name, server in servers.items()}) as fleet:
        maps = fleet.union(CONFIG_MAPS, namespace="default")
        await fleet.wait_synced(10)
        yield fleet, maps


@pytest.mark.parametrize("ahead", ["east", "west"])
async def test_a_write_to_another_cluster_is_waited_for_there(ahead: str) -> None:
    async with clusters("east", "west") as servers:
        advance(servers[ahead])
        async with fleet_of(servers) as (fleet, maps):

            async def body(request: Request) -> None:
                await fleet["west"].client.request("POST", PATH, body=config_map("copy"))
                await request.caught_up()
                assert "west/default/copy" in maps.by_key

            figures = await reconciled("east/default/east", body, maps)
    assert figures.own_write_timeouts == 0


async def test_a_write_to_a_cluster_is_not_waited_for_in_the_hub(server: APIServer, client: Client) -> None:
    async with clusters("east") as servers, SharedInformerFactory(client) as factory:
        advance(servers["east"])
        hub = factory.for_resource(CONFIG_MAPS)
        await factory.wait_for_cache_sync(10)
        async with fleet_of(servers) as (fleet, maps):

            async def body(request: Request) -> None:
                await fleet["east"].client.request("POST", PATH, body=config_map("new"))
                await request.caught_up()
                assert "east/default/new" in maps.by_key

            figures = await reconciled("east/default/east", body, maps, hub)
    assert figures.own_write_timeouts == 0


async def test_a_write_to_the_hub_is_waited_for_in_the_hub_or_nowhere(server: APIServer, client: Client) -> None:
    advance(server)
    async with clusters("east") as servers, SharedInformerFactory(client) as factory:
        hub = factory.for_resource(CONFIG_MAPS)
        await factory.wait_for_cache_sync(10)
        for sources in ([], [hub]):
            async with fleet_of(servers) as (_, maps):

                async def body(request: Request, sources: list[SharedInformer[Any]] = sources) -> None:
                    await client.request("POST", PATH, body=config_map(f"new-{len(sources)}"))
                    await request.caught_up()
                    assert not sources or "default/new-1" in hub.by_key

                figures = await reconciled("east/default/east", body, maps, *sources)
            assert figures.own_write_timeouts == 0


async def test_a_client_of_the_programs_own_is_known_by_its_server() -> None:
    async with clusters("east", "west") as servers, servers["east"].client() as own:
        advance(servers["east"])
        async with fleet_of(servers) as (_, maps):

            async def body(request: Request) -> None:
                await own.request("POST", PATH, body=config_map("new"))
                await request.caught_up()
                assert "east/default/new" in maps.by_key

            figures = await reconciled("east/default/east", body, maps)
    assert figures.own_write_timeouts == 0


@pytest.mark.parametrize("writer", ["first", "second"])
async def test_one_server_under_two_names_is_waited_for_under_the_name_that_wrote(
    server: APIServer, writer: str
) -> None:
    server.create(config_map("main"))
    async with server.client() as first, server.client() as second:
        clients = {"first": first, "second": second}
        sources = {name: LaggingSource(ListWatch(one, CONFIG_MAPS)) for name, one in clients.items()}
        other = next(name for name in clients if name != writer)
        async with SharedInformer(sources["first"]) as one, SharedInformer(sources["second"]) as two:
            members = {"first": one, "second": two}
            async with union(members, name="both") as maps:
                await maps.wait_synced(10)
                sources[writer].lag = 2.0
                sources[other].gate.clear()

                async def body(request: Request) -> None:
                    await clients[writer].request("POST", PATH, body=config_map("new"))
                    await request.caught_up()
                    assert f"{writer}/default/new" in maps.by_key
                    assert f"{other}/default/new" not in maps.by_key, "it has heard of nothing, and was not waited for"

                figures = await reconciled("first/default/main", body, maps)
                sources[other].gate.set()
    assert figures.own_write_timeouts == 0
