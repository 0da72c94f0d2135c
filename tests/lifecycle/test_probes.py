"""Probes: each value is true at the moment of the look, also if the loop, the process or a task has stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kinformer import (
    Client,
    Controller,
    Fleet,
    LabelSelector,
    ListWatch,
    Manager,
    Request,
    SharedInformer,
    SharedInformerFactory,
    StoppedError,
    derive,
    watch,
)
from kinformer.contrib.backends import Backends
from kinformer.manager import readiness
from kinformer.testing import APIServer
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.waiting import until
from tests.watchcache.share.workers import workers


def stop_for(seconds: float) -> None:
    """Let time pass in which the loop does nothing, as after a SIGSTOP, or while a handler blocks it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.advance(seconds)


@pytest.mark.virtual_time
async def test_a_process_that_was_stopped_is_not_live_until_it_has_heard_of_the_server(
    server: APIServer, client: Client
) -> None:
    async with SharedInformerFactory(client) as factory, Fleet({"east": Client.from_url(server.url)}) as fleet:
        pods = factory.for_resource("v1/pods")
        names = factory.add(derive(pods, lambda obj, _: obj.name, name="names"))
        both = fleet.union("v1/pods")
        stream = watch(ListWatch(client, "v1/pods"))
        async with stream, Backends(factory, service="default/web", port="http") as pool:
            await factory.wait_for_cache_sync(10)
            await fleet.wait_synced(10)
            await pool.wait_synced(10)
            await until(lambda: stream.health().live)
            looks: dict[str, Callable[[], bool]] = {
                "informer": lambda: pods.health().live,
                "derived": lambda: names.health().live,
                "union": lambda: both.health().live,
                "fleet": lambda: fleet.health()["east"].live,
                "stream": lambda: stream.health().live,
                "pool": lambda: pool.health().live,
                "ready": lambda: readiness(factory)[0],
            }
            assert {name for name, look in looks.items() if not look()} == set()
            stop_for(600)
            assert {name for name, look in looks.items() if look()} == set()
            await asyncio.sleep(5)
            assert {name for name, look in looks.items() if not look()} == set()


@pytest.mark.slow
@pytest.mark.virtual_time
@pytest.mark.parametrize("options", [{}, {"idle_timeout": 5}, {"watch_timeout": 20}], ids=str)
async def test_a_quiet_resource_is_live_all_the_time(client: Client, options: dict[str, Any]) -> None:
    async with SharedInformer(MemorySource(), **options) as quiet, SharedInformerFactory(client, **options) as factory:
        pods = factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(10)
        await quiet.wait_synced(10)
        for _ in range(1500):
            await asyncio.sleep(1.1)
            assert quiet.health().live
            assert pods.health().live


@pytest.mark.virtual_time
async def test_a_follower_that_was_stopped_has_not_heard_its_holder(server: APIServer, tmp_path: Path) -> None:
    async with workers(server, tmp_path / "cache.sock", 2) as (_, follower):
        assert follower.maps.health().live
        stop_for(4)
        assert not follower.maps.health().live
        await until(lambda: follower.maps.health().live)
        assert follower.share.role == "follower"
    assert follower.share.role == "alone"


# --- tasks that were cancelled ----------------------------------------------------------------------------------------


def tasks_of(*words: str) -> list[asyncio.Task[Any]]:
    found = [task for task in asyncio.all_tasks() if task.get_name().startswith(f"kinformer {words[0]}")]
    return [task for task in found if all(word in task.get_name() for word in words)]


@pytest.mark.parametrize("which", ["processor", "reflector", "namespaces"])
async def test_an_informer_without_one_of_its_tasks_has_stopped_and_says_so(
    server: APIServer, client: Client, which: str
) -> None:
    factory = SharedInformerFactory(client)
    with pytest.raises(RuntimeError, match="was cancelled, but not by its owner"):
        async with factory:
            await cancel_one_of(factory, which)


async def cancel_one_of(factory: SharedInformerFactory, which: str) -> None:
    chosen = LabelSelector.parse("team=a") if which == "namespaces" else None
    pods = factory.for_resource("v1/pods", **({"namespaces": chosen} if chosen else {}))
    names = factory.add(derive(pods, lambda obj, _: obj.name, name="names"))
    await factory.wait_for_cache_sync(10)
    version = str(int(pods.last_sync_resource_version or "1") + 1000)
    waiting = asyncio.ensure_future(pods.wait_for_resource_version(version, namespace="default"))
    await asyncio.sleep(0)
    (task,) = tasks_of(which, "v1/pods")
    task.cancel()
    await until(lambda: pods.health().state == "stopped")
    for collection in (pods, names):
        assert not collection.health().live
    assert not readiness(factory)[0]
    assert "was cancelled, but not by its owner" in str(pods.health().last_error)
    if which != "namespaces":  # of which there is none, so that the version is of none
        with pytest.raises(RuntimeError, match="was cancelled, but not by its owner"):
            await waiting
    await asyncio.wait({waiting})


@pytest.mark.parametrize("which", ["feed", "dispatcher"])
async def test_a_controller_without_one_of_its_tasks_ends(which: str) -> None:
    async def reconcile(request: Request) -> None: ...

    async with SharedInformer(MemorySource()) as informer:
        controller = Controller(reconcile, name="test").for_(informer)
        running = asyncio.ensure_future(controller.run())
        await until(lambda: controller.synced)
        await asyncio.sleep(0)
        (task,) = tasks_of("controller test", which)
        task.cancel()
        with pytest.raises(RuntimeError, match="was cancelled, but not by its owner"):
            await running
        assert not controller.synced


async def test_a_manager_without_one_of_its_tasks_ends_and_is_not_ready(client: Client) -> None:
    async def reconcile(request: Request) -> None: ...

    async with Manager(client, signals=(), listen="127.0.0.1:0") as manager:
        maps = manager.factory.for_resource("v1/configmaps")
        manager.add(Controller(reconcile, name="test").for_(maps))
        running = asyncio.ensure_future(manager.run())
        await until(lambda: tasks_of("controller test", "dispatcher"))
        tasks_of("controller test", "dispatcher")[0].cancel()
        with pytest.raises(RuntimeError, match="was cancelled, but not by its owner"):
            await running


async def test_a_pool_whose_task_was_cancelled_is_not_live(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        pool = await Backends(factory, service="default/web", port="http").__aenter__()
        await pool.wait_synced(10)
        tasks_of(pool.name)[0].cancel()
        await until(lambda: not pool.health().live)
        with pytest.raises(RuntimeError, match="was cancelled"):
            await pool.__aexit__(None, None, None)


async def test_a_stream_whose_reflector_was_cancelled_ends_with_an_error(client: Client) -> None:
    async with watch(ListWatch(client, "v1/pods")) as events:
        await until(lambda: events.health().live)
        reading = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        tasks_of("reflector", "v1/pods")[0].cancel()
        with pytest.raises(StoppedError, match="its reflector was cancelled"):
            await reading
        assert (events.health().live, events.health().state) == (False, "stopped")


# --- a loop that was stopped ------------------------------------------------------------------------------------------


def test_a_loop_that_was_stopped_in_its_thread_follows_nothing() -> None:
    loop = VirtualTimeLoop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    informer = SharedInformer(MemorySource())

    def call(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    call(informer.__aenter__())
    call(informer.wait_synced())
    call(asyncio.sleep(0.1))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    assert informer.health().live
    loop.advance(600)
    assert not informer.health().live
    loop.run_until_complete(informer.__aexit__(None, None, None))
    loop.close()
