"""Lists without a version through a watch cache: never stale, and soon answered, by the cache or the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from kinformer import Client, GroupVersionResource, ListOptions, SharedInformer, WatchEvent
from kinformer.list_watcher import MetadataList
from kinformer.testing import APIServer, faults
from kinformer.watchcache import WatchCache
from tests.support.kube import config_map, pod
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.watchcache.front import Front, answering, front_of

LIMIT = 0.3  # seconds
WATCH_LIST = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


class LateToClose(MemorySource):
    """A source whose short watches end late, with a bookmark of the version that the server had."""

    resource = GroupVersionResource("", "v1", "configmaps")
    selects_all = True

    def __init__(self) -> None:
        super().__init__(watch_list=False)
        self.told = asyncio.Event()
        self.closed = asyncio.Event()

    async def list_metadata(self, namespace: str = "", *, name: str = "", label_selector: str = "") -> MetadataList:
        return MetadataList(list(self.objects.values()), str(self.version))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        if (options.timeout_seconds or 99) > 5:
            async with super().watch(options) as events:
                yield events
            return

        async def bookmark() -> AsyncIterator[list[WatchEvent]]:
            metadata = {"resourceVersion": str(self.version)}
            yield [WatchEvent("BOOKMARK", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})]

        yield bookmark()
        self.told.set()
        await self.closed.wait()


@pytest.fixture
async def front(server: APIServer, client: Client) -> AsyncIterator[Front]:
    async with front_of(server, client) as front:
        yield front


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_an_idle_resource_beside_busy_ones_is_listed_soon_and_never_stale(
    server: APIServer, front: Front, session: aiohttp.ClientSession
) -> None:
    async def write() -> None:
        number = 0
        while True:
            server.create(config_map(f"busy-{number}"))
            number += 1
            await asyncio.sleep(0.005)

    writing = asyncio.create_task(write())
    delays = []
    loop = asyncio.get_running_loop()
    try:
        for number in range(100):
            if number % 10 == 0:
                server.create(pod(f"web-{number}"))
            expected = int(server.resource_version)
            began = loop.time()
            async with session.get(f"{front.url}/api/v1/pods") as response:
                body = json.loads(await response.read())
            delays.append(loop.time() - began)
            assert len(body["items"]) == number // 10 + 1
            assert int(body["metadata"]["resourceVersion"]) >= expected
    finally:
        writing.cancel()
    assert sorted(delays)[98] < LIMIT
    assert front.answered + front.passed == 100


def proofs(server: APIServer) -> int:
    """Return the number of requests for the version of the server's pods."""
    return sum(one.path == "/api/v1/pods" and one.params.get("limit") == "1" for one in server.requests)


@pytest.mark.virtual_time
async def test_lists_at_once_share_a_proof(server: APIServer, front: Front) -> None:
    source, before = front.caches["pods"].source(), proofs(server)
    await asyncio.gather(*(source.list(ListOptions()) for _ in range(50)))
    assert proofs(server) - before <= 2  # one for the first, which is requested at once, and one for all others


@pytest.mark.virtual_time
async def test_many_lists_are_answered_by_the_cache_with_few_proofs(
    server: APIServer, front: Front, session: aiohttp.ClientSession
) -> None:
    """A list that arrives after a proof was requested needs the next one, as do all others that arrive meanwhile."""

    async def ask() -> int:
        async with session.get(f"{front.url}/api/v1/pods") as response:
            await response.read()
            return response.status

    before = proofs(server)
    assert await asyncio.gather(*(ask() for _ in range(50))) == [200] * 50
    assert (front.answered, front.passed) == (50, 0)
    assert proofs(server) - before < 10


async def test_a_cache_that_lost_its_server_leaves_lists_without_a_version_to_it(
    server: APIServer, front: Front, session: aiohttp.ClientSession
) -> None:
    front.passes = False
    server.faults.add(faults.status(500), verb="list", resource="v1/pods")
    for query, status in (("", 406), ("?resourceVersion=0", 200)):
        async with session.get(f"{front.url}/api/v1/pods{query}") as response:
            assert response.status == status


async def test_the_bookmark_of_a_streamed_list_waits_for_a_proof(
    server: APIServer, front: Front, session: aiohttp.ClientSession
) -> None:
    server.create(pod("web"))
    for number in range(5):  # the version moves, without an event of a pod
        server.create(config_map(f"other-{number}"))
    expected = int(server.resource_version)
    async with session.get(f"{front.url}/api/v1/pods?{WATCH_LIST}") as response:
        first, mark = [json.loads(await response.content.readline()) for _ in range(2)]
    assert (first["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert int(mark["object"]["metadata"]["resourceVersion"]) >= expected
    assert (front.answered, front.passed) == (1, 0)


async def test_a_streamed_list_that_cannot_be_proved_ends_without_its_bookmark(
    server: APIServer, front: Front, session: aiohttp.ClientSession
) -> None:
    server.faults.add(faults.status(500), verb="list", resource="v1/pods")
    async with session.get(f"{front.url}/api/v1/pods?{WATCH_LIST}") as response:
        assert await response.read() == b""


@pytest.mark.slow
async def test_a_proof_from_before_the_server_went_back_is_not_held_against_it(
    session: aiohttp.ClientSession,
) -> None:
    source = LateToClose()
    source.set("web")
    informer: SharedInformer[Any] = SharedInformer(source)
    async with WatchCache(informer) as cache, answering(cache) as url:
        await informer.wait_synced()
        source.version = 100
        confirming = asyncio.create_task(informer.confirm())
        await source.told.wait()
        source.version = 49
        source.expire()  # the server was restored from a backup, and the cache is listed at version 50
        await until(lambda: informer.health().resource_version == "50")
        source.closed.set()
        async with session.get(f"{url}/?resourceVersion=90") as response:
            assert response.status == 406  # only the server can tell
        confirming.cancel()
        await asyncio.wait([confirming])
