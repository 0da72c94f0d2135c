"""The parts that are added to a factory: derived collections and fleets, which start, sync and stop with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kinformer import Fleet, NotSyncedError, SharedInformerFactory
from kinformer.derived import filtered, mapped
from kinformer.testing import APIServer, faults
from tests.derived.test_own_collection import OwnCollection
from tests.support.kube import config_map
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time

MAPS = "v1/configmaps"


@asynccontextmanager
async def scene(**options: Any) -> AsyncIterator[tuple[APIServer, SharedInformerFactory]]:
    async with APIServer() as server, server.client() as client:
        for name in "abc":
            server.create(config_map(name, labels={"mine": "yes"}))
        yield server, SharedInformerFactory(client, label_selector="mine=yes", **options)


class Slow:
    """A handler whose every call takes some seconds."""

    def __init__(self, seconds: float) -> None:
        self.done: list[str] = []
        self.cancelled = False
        self._seconds = seconds

    async def on_add(self, obj: Any, *, key: str) -> None:
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.done.append(key)


class Stubborn:
    """A handler that goes on for some seconds, even if it is cancelled."""

    async def on_add(self, obj: Any) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + 30
        while loop.time() < end:
            try:
                await asyncio.sleep(end - loop.time())
            except asyncio.CancelledError:
                continue


def tasks_of_kinformer() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("kinformer")}


async def test_waiting_for_the_caches_waits_for_added_parts_too() -> None:
    async with scene() as (server, factory), factory:
        maps = factory.for_resource(MAPS)
        await factory.wait_for_cache_sync(10)
        handle = server.faults.add(faults.status(503), resource="v1/secrets")
        later = factory.for_resource("v1/secrets")
        names = factory.add(mapped(later, lambda one: one.name, name="names"))
        fleet = factory.add(Fleet({"east": server.client()}))
        everywhere = fleet.union("v1/secrets")
        with pytest.raises(NotSyncedError) as caught:
            await factory.wait_for_cache_sync(2)
        assert list(caught.value.unsynced) == ["fleet", "names", "v1/secrets"]
        handle.remove()
        await factory.wait_for_cache_sync(60)
        assert maps.has_synced
        assert names.has_synced
        assert fleet.has_synced
        assert everywhere.has_synced


async def test_waiting_for_the_handlers_waits_for_those_of_added_parts() -> None:
    async with scene() as (_, factory), factory:
        maps = factory.for_resource(MAPS)
        names = factory.add(mapped(maps, lambda one: one.name, name="names"))
        slow = Slow(4)
        names.add_event_handler(slow)
        await factory.wait_for_cache_sync(60, handlers=True)
        assert len(slow.done) == 3


async def test_all_parts_have_one_shutdown_time_and_drain_beside_one_another() -> None:
    loop = asyncio.get_running_loop()
    async with scene(shutdown_timeout=10) as (server, factory):
        async with factory:
            maps = factory.for_resource(MAPS)
            parts = [factory.add(filtered(maps, lambda _: True, name=name)) for name in ("x", "y", "z")]
            fleet = factory.add(Fleet({"east": server.client()}, label_selector="mine=yes"))
            everywhere = fleet.union(MAPS)
            await factory.wait_for_cache_sync(60)
            slow = [Slow(3) for _ in range(4)]
            stuck = Slow(1000)
            of_cluster = Slow(3)
            for part, handler in zip([*parts, everywhere], slow, strict=True):
                part.add_event_handler(handler)
            for one in (parts[-1], everywhere):
                one.add_event_handler(stuck)
            await fleet["east"].factory.for_resource(MAPS).wait_synced(10)
            fleet["east"].factory.for_resource(MAPS).add_event_handler(of_cluster)
            await settle()
            started = loop.time()
        assert loop.time() - started == pytest.approx(10, abs=0.5)
        assert [len(one.done) for one in slow] == [3, 3, 3, 3]
        assert stuck.cancelled
        assert not stuck.done
    assert tasks_of_kinformer() == set()


async def test_the_time_that_is_left_is_that_of_a_fleets_clusters() -> None:
    async with scene(shutdown_timeout=30) as (server, factory):
        async with factory:
            fleet = factory.add(Fleet({"east": server.client()}, label_selector="mine=yes", shutdown_timeout=1))
            await factory.wait_for_cache_sync(10)
            maps = fleet["east"].factory.for_resource(MAPS)
            await maps.wait_synced(10)
            slow = Slow(8)
            maps.add_event_handler(slow)
            await settle()
        assert len(slow.done) == 3
    assert tasks_of_kinformer() == set()


async def test_handlers_that_ignore_their_cancellation_are_all_given_up_at_once() -> None:
    loop = asyncio.get_running_loop()
    async with scene(shutdown_timeout=2) as (_, factory):
        async with factory:
            maps = factory.for_resource(MAPS)
            parts = [factory.add(filtered(maps, lambda _: True, name=name)) for name in "uvwxyz"]
            await factory.wait_for_cache_sync(60)
            for part in (*parts, maps):
                part.add_event_handler(Stubborn())
            await settle()
            started = loop.time()
        assert loop.time() - started < 4
        await asyncio.sleep(100)  # the handlers end by themselves
    assert tasks_of_kinformer() == set()


async def test_leaving_that_is_cancelled_leaves_no_part_behind() -> None:
    async with scene(shutdown_timeout=1000) as (server, factory):
        running = asyncio.Event()

        async def program() -> None:
            async with factory:
                maps = factory.for_resource(MAPS)
                one = factory.add(filtered(maps, lambda _: True, name="one"))
                factory.add(filtered(OwnCollection(maps), lambda _: True, name="own"))
                fleet = factory.add(Fleet({"east": server.client(), "west": server.client()}))
                unions = [fleet.union(MAPS), fleet.union("v1/namespaces")]
                await factory.wait_for_cache_sync(60)
                for part in (one, *unions, fleet["east"].factory.for_resource(MAPS)):
                    part.add_event_handler(Slow(2000))
                await settle()
                running.set()

        task = asyncio.create_task(program())
        await running.wait()
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        await settle()
        assert tasks_of_kinformer() == set()


async def test_a_fleet_that_is_left_and_cancelled_leaves_no_part_behind() -> None:
    async with scene() as (server, _):
        fleet = Fleet({"east": server.client(), "west": server.client()}, shutdown_timeout=1000)
        async with fleet:
            unions = [fleet.union(MAPS), fleet.union("v1/namespaces")]
            await fleet.wait_synced(60)
            for part in (*unions, fleet["east"].factory.for_resource(MAPS)):
                part.add_event_handler(Slow(2000))
            await settle()
            leaving = asyncio.create_task(fleet.__aexit__(None, None, None))
            await asyncio.sleep(5)
            leaving.cancel()
            await asyncio.wait({leaving})
            await settle()
            assert tasks_of_kinformer() == set()
            await until(lambda: not len(fleet))
