"""A watch cache takes all objects anew in slices, and serves what happened meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import aiohttp
import pytest

from kinformer import GroupVersionResource, ListOptions, SharedInformer
from kinformer.exceptions import StoppedError
from kinformer.watchcache import WatchCache
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.watchcache.front import answering

OBJECTS = 20_000
LIMIT = 0.010  # seconds


class Source(MemorySource):
    """All objects, without selectors."""

    resource = GroupVersionResource("", "v1", "configmaps")
    selects_all = True


def filled(objects: int = OBJECTS) -> Source:
    source = Source(watch_list=False)
    numbers = list(range(objects))
    random.Random(7).shuffle(numbers)
    for number in numbers:
        source.set(f"web-{number % 100}-{number}", namespace=f"ns-{number % 10}")
    return source


async def listed(cache: WatchCache) -> list[str]:
    page = await cache.source().list(ListOptions(resource_version="0"))
    assert isinstance(page.items, list)
    return [f"{obj.key} {obj.resource_version}" for obj in page.items]


def true(source: Source) -> list[str]:
    return [f"{key} {source.objects[key].resource_version}" for key in sorted(source.objects)]


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["a change", "a watch"])
async def test_objects_that_were_taken_anew_are_those_of_the_server(lost: str) -> None:
    source = filled()
    informer: SharedInformer[Any] = SharedInformer(source)
    async with WatchCache(informer) as cache:
        await informer.wait_synced()
        assert await listed(cache) == true(source)
        if lost == "a change":
            source.history.clear()
        source.set("web-1-1", namespace="ns-1")
        source.delete("web-2-2", namespace="ns-2")
        source.expire()
        await until(lambda: informer.statistics().relists)
        for number in range(50):  # while the cache takes what the list has found
            source.set(f"late-{number}")
            if number % 5 == 0:
                source.delete(f"late-{number}")
                await asyncio.sleep(0.001)
        await informer.wait_for_resource_version(str(source.version))
        assert await listed(cache) == true(source)


@pytest.mark.slow
async def test_a_watch_from_the_version_of_a_list_gets_the_changes_during_a_rebuild() -> None:
    source = filled()
    informer: SharedInformer[Any] = SharedInformer(source)
    async with WatchCache(informer) as cache, answering(cache) as url, aiohttp.ClientSession() as session:
        await informer.wait_synced()
        version = source.version
        source.set("first")
        source.set("second")
        query = f"watch=1&resourceVersion={version}"
        async with session.get(f"{url}/?{query}") as response:
            lines = [await response.content.readline() for _ in range(2)]
        assert [b'"first"' in lines[0], b'"second"' in lines[1]] == [True, True]


@pytest.mark.slow
async def test_a_relist_of_many_objects_does_not_stall_the_event_loop() -> None:
    source = filled()
    informer: SharedInformer[Any] = SharedInformer(source)
    async with WatchCache(informer) as cache:
        await informer.wait_synced()
        await listed(cache)
        steps: list[float] = []
        for _ in range(3):  # the machine may stall by itself
            source.set("web-1-1", namespace="ns-1")
            source.expire()
            steps.append(await _longest_step(cache, source))
        assert min(steps) < LIMIT


async def _longest_step(cache: WatchCache, source: Source) -> float:
    """Return the CPU seconds of the longest turn of the event loop until the cache has taken the list."""
    longest, at = 0.0, time.process_time()
    while cache.storage.revision < source.version:
        await asyncio.sleep(0)
        now = time.process_time()
        longest, at = max(longest, now - at), now
    return longest


async def test_a_rebuild_ends_with_its_cache() -> None:
    source = filled(3_000)
    informer: SharedInformer[Any] = SharedInformer(source)
    async with WatchCache(informer) as cache:
        await informer.wait_synced()
    with pytest.raises(StoppedError, match="exited"):
        await listed(cache)
