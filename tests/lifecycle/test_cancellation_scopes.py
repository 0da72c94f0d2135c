"""Deadlines of anyio and of asyncio around one call, at any time of it: each ends what it is around, and nothing else.

Both cancel the task, and each has to know its own cancellation again, also if the other one came while the call was
ending because of the first.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kinformer import (
    Client,
    Controller,
    LeaderElector,
    ListOptions,
    ListWatch,
    Manager,
    Reflector,
    Request,
    SharedInformer,
    SharedInformerFactory,
    Store,
    meta_namespace_key,
    wait_for,
)
from kinformer.contrib.fastapi import sse_response
from kinformer.controller import EventRecorder
from kinformer.sharding import Shard
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource

pytestmark = [pytest.mark.virtual_time, pytest.mark.slow]

ROUNDS = 50

Chance = random.Random
Use = Callable[[Client, Chance], Awaitable[object]]


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a"), config_map("b")]


async def scope_outside(use: Awaitable[object], scope: float, timeout: float) -> str:
    with anyio.move_on_after(scope):
        try:
            async with asyncio.timeout(timeout):
                await use
        except TimeoutError:
            return "timeout"
        return "neither"
    return "scope"


async def scope_inside(use: Awaitable[object], scope: float, timeout: float) -> str:
    try:
        async with asyncio.timeout(timeout):
            with anyio.move_on_after(scope):
                await use
                return "neither"
            return "scope"
    except TimeoutError:
        return "timeout"


async def slow_end(chance: Chance) -> None:
    """Wait for ever; take some time to end, as a handler or a reconcile may."""
    try:
        await asyncio.sleep(chance.choice([0.001, 0.03, 3600]))
    finally:
        await asyncio.sleep(chance.choice([0, 0.001, 0.02]))


async def use_controller(client: Client, chance: Chance) -> None:
    source = MemorySource()
    source.set("a")

    async def reconcile(request: Request) -> None:
        controller.trigger(request)
        await slow_end(chance)

    async with SharedInformer(source) as informer:
        timeout = chance.choice([0.01, 0.03, 0.2])
        controller = Controller(reconcile, name="test", shutdown_timeout=timeout).for_(informer)
        await controller.run()


async def use_informer(client: Client, chance: Chance) -> None:
    source = MemorySource()
    source.set("a")

    async def handle(obj: Any) -> None:
        await slow_end(chance)

    async with SharedInformer(source, shutdown_timeout=chance.choice([0.01, 0.03, 0.2])) as informer:
        informer.add_event_handler(on_add=handle)
        if chance.random() < 0.5:
            async with informer.events() as stream:
                async for _ in stream:
                    await slow_end(chance)
        await wait_for(informer, "default/none", lambda obj: obj is not None)


async def use_factory(client: Client, chance: Chance) -> None:
    async def handle(obj: Any) -> None:
        await slow_end(chance)

    async with SharedInformerFactory(client, shutdown_timeout=chance.choice([0.01, 0.03, 0.2])) as factory:
        factory.for_resource("v1/configmaps").add_event_handler(on_add=handle)
        factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(handlers=True)
        await slow_end(chance)


async def use_elector(client: Client, chance: Chance) -> None:
    elector = LeaderElector(client, namespace="default", name="lock", retry_period=0.01)
    await elector.run(lambda: slow_end(chance))


async def use_manager(client: Client, chance: Chance) -> None:
    source = MemorySource()
    source.set("a")

    async def reconcile(request: Request) -> None:
        controller.trigger(request)
        await slow_end(chance)

    def elector(client: Client) -> LeaderElector:
        return LeaderElector(client, namespace="default", name="manager", retry_period=0.01)

    async with Manager(client, elector=elector, signals=(), shutdown_timeout=0.2) as manager:
        maps = manager.factory.for_resource("v1/configmaps")
        controller = Controller(reconcile, name="test", shutdown_timeout=0.05).for_(maps)
        manager.add(controller)
        await manager.run()


async def use_shard(client: Client, chance: Chance) -> None:
    async with (
        Shard.claim(client, name="team", count=2, namespace="default", retry_period=0.01) as shard,
        SharedInformerFactory(client) as factory,
    ):
        factory.for_resource("v1/configmaps", shard=shard)
        await slow_end(chance)


async def use_event_recorder(client: Client, chance: Chance) -> None:
    obj = await client.request("GET", "/api/v1/namespaces/default/configmaps/a")
    async with EventRecorder(client, controller="test", shutdown_timeout=chance.choice([0.01, 0.05])) as recorder:
        while True:
            recorder.record(obj, "Tested", str(chance.random()))
            await asyncio.sleep(0.005)


async def use_reflector(client: Client, chance: Chance) -> None:
    await Reflector(ListWatch(client, "v1/configmaps"), Store(meta_namespace_key)).run()


async def use_client(client: Client, chance: Chance) -> None:
    async with Client.from_url(client.server) as own:
        await own.request("GET", "/version")
        async with ListWatch(own, "v1/configmaps").watch(ListOptions(resource_version="1")) as stream:
            async for _ in stream:
                await slow_end(chance)


async def use_event_stream(client: Client, chance: Chance) -> None:
    source = MemorySource()
    source.set("a")

    async def receive() -> dict[str, Any]:
        await slow_end(chance)
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        source.set("a")
        await slow_end(chance)

    async with SharedInformer(source) as informer:
        await sse_response(informer)({"type": "http", "headers": []}, receive, send)


USES: list[Use] = [
    use_client,
    use_controller,
    use_elector,
    use_event_recorder,
    use_event_stream,
    use_factory,
    use_informer,
    use_manager,
    use_reflector,
    use_shard,
]


@pytest.mark.parametrize("order", [scope_outside, scope_inside])
@pytest.mark.parametrize("use", USES)
async def test_two_deadlines_end_what_they_are_around_and_not_the_task(
    server: APIServer, client: Client, use: Use, order: Callable[..., Awaitable[str]]
) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(ROUNDS):
        chance = Chance(number)
        first = chance.uniform(0.005, 0.06)
        second = chance.choice([first, first + chance.uniform(0, 0.03), chance.uniform(0.005, 0.06)])
        deadlines = chance.sample([first, second], 2)

        async def rounds(chance: Chance = chance, deadlines: list[float] = deadlines) -> str:
            outcome = await order(use(client, chance), *deadlines)
            await asyncio.sleep(0.001)  # nothing of it comes later
            return outcome

        task = asyncio.create_task(rounds())
        await asyncio.wait({task})
        what = f"round {number}, scope {deadlines[0]:g}, timeout {deadlines[1]:g}"
        assert not task.cancelled(), f"{what}: the task was ended"
        assert task.exception() is None, what
        assert task.cancelling() == 0, what
        outcomes[task.result()] += 1
    assert outcomes["scope"] >= 3
    assert outcomes["timeout"] >= 3
