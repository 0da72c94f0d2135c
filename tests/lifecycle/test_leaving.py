"""Leaving a factory: within its deadline, with every task gone, whatever is going on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import SharedInformerFactory
from kinformer.testing import APIServer, faults
from tests.support.kube import config_map
from tests.support.waiting import until

DEADLINE = 3.0  # seconds: the factory's, and far above what any of these needs
RESOURCES = ("v1/configmaps", "v1/pods", "v1/secrets")


@asynccontextmanager
async def leaving(server: APIServer, deadline: float = DEADLINE) -> AsyncIterator[SharedInformerFactory]:
    """A factory on `server`; its leaving is what is looked at."""
    loop = asyncio.get_running_loop()
    async with server.client() as client:
        before = asyncio.all_tasks()
        async with SharedInformerFactory(client, shutdown_timeout=deadline) as factory:
            yield factory
            began = loop.time()
        assert loop.time() - began < deadline + 1.5  # a second for what is cancelled to clean up after itself
        kept = {task for task in asyncio.all_tasks() - before if task.get_name().startswith("kinformer")}
        assert not kept
        assert [informer.health().state for informer in factory.informers] == ["stopped"] * len(factory.informers)


@pytest.mark.parametrize("watch_list", [False, True])
async def test_under_load_what_was_received_is_delivered_first(server: APIServer, watch_list: bool) -> None:
    async def write() -> None:
        for number in range(1_000_000):
            server.create(config_map(f"c-{number}"))
            if number % 20 == 0:
                await asyncio.sleep(0)

    heard: set[str] = set()

    async def hear(obj: Any) -> None:
        heard.add(obj.key)
        if len(heard) % 50 == 0:
            await asyncio.sleep(0)

    async with leaving(server) as factory:
        informer = factory.for_resource("v1/configmaps", watch_list=watch_list)
        informer.add_event_handler(on_add=hear, queue_size=1_000_000)
        await factory.wait_for_cache_sync(timeout=10)
        writing = asyncio.create_task(write())
        await until(lambda: len(heard) > 500)
    writing.cancel()
    assert heard == {obj.key for obj in informer.lister}


@pytest.mark.parametrize("fault", [faults.stall, faults.close_mid_line, lambda: faults.delay(30)])
async def test_in_the_middle_of_a_list(server: APIServer, fault: Callable[[], Any]) -> None:
    for number in range(2000):
        server.create(config_map(f"c-{number}", data={"text": "x" * 1000}))
    handle = server.faults.add(fault(), resource="v1/configmaps")
    async with leaving(server) as factory:
        informer = factory.for_resource("v1/configmaps", watch_list=False)
        await until(lambda: handle.hits)
        assert not informer.has_synced


async def _cancelled_once(obj: Any) -> None:
    await asyncio.Event().wait()


async def _cleans_up(obj: Any) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("stuck", [_cancelled_once, _cleans_up])
async def test_with_a_handler_that_never_returns(server: APIServer, stuck: Callable[[Any], Awaitable[None]]) -> None:
    server.create(config_map("c"))
    async with leaving(server, deadline=0.3) as factory:
        informer = factory.for_resource("v1/configmaps")
        informer.add_event_handler(on_add=stuck)
        await factory.wait_for_cache_sync(timeout=10)


async def test_with_a_server_that_is_gone(server: APIServer) -> None:
    async with leaving(server) as factory:
        informers = [factory.for_resource(resource) for resource in RESOURCES]
        await factory.wait_for_cache_sync(timeout=10)
        server.pause()
        server.faults.add(faults.reset())
        await server.restart()
        await until(lambda: all(informer.health().last_error is not None for informer in informers))
    server.resume()


async def test_with_a_server_that_never_answered(server: APIServer) -> None:
    server.faults.add(faults.stall())
    async with leaving(server) as factory:
        for resource in RESOURCES:
            factory.for_resource(resource)
        await until(lambda: len(server.requests) >= len(RESOURCES))
