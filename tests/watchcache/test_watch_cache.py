"""The watch cache answers lists, reads and watches as the server behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kinformer import Client, ListOptions, SharedInformer, SharedInformerFactory
from kinformer.exceptions import ConfigError
from kinformer.testing import APIServer, faults
from kinformer.watchcache import WatchCache
from tests.support.kube import config_map, pod
from tests.support.waiting import until

NOT_OLDER = "NotOlderThan"
STREAMED = f"watch=1&sendInitialEvents=1&resourceVersionMatch={NOT_OLDER}&timeoutSeconds=1&"


class Front:
    """A watch cache of pods behind an HTTP server, and a session for it."""

    def __init__(
        self, cache: WatchCache, informer: SharedInformer[Any], url: str, session: aiohttp.ClientSession
    ) -> None:
        self.cache, self.informer, self.url, self.session = cache, informer, url, session

    async def get(self, query: str = "", path: str = "", accept: str = "") -> tuple[int, Any]:
        headers = {"Accept": accept} if accept else {}
        async with self.session.get(f"{self.url}/pods{path}?{query}", headers=headers) as response:
            return response.status, json.loads(await response.read() or b"null")

    async def status(self, query: str, path: str) -> int:
        async with self.session.get(f"{self.url}/pods{path}?{query}") as response:
            return response.status

    async def watch(self, query: str, count: int) -> list[tuple[str, str, str]]:
        """Return the type, name and version of the first events of a watch."""
        found = []
        async with self.session.get(f"{self.url}/pods?watch=1&{query}") as response:
            async for line in response.content:
                event = json.loads(line)
                metadata = event["object"].get("metadata", {})
                name = metadata.get("name", event["object"].get("reason", ""))
                found.append((event["type"], name, metadata.get("resourceVersion", "")))
                if len(found) == count:
                    break
        return found


@pytest.fixture
def initial_objects() -> list[Mapping[str, Any]]:
    return [pod("web-1"), pod("web-2"), pod("web-3")]


@pytest.fixture
async def front(server: APIServer, client: Client) -> AsyncIterator[Front]:
    async with SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        async with WatchCache(pods, client=client) as cache:
            await pods.wait_synced()

            async def handle(request: web.Request) -> web.StreamResponse:
                name = request.match_info.get("name", "")
                found = await cache.respond(request, namespace="default" if name else "", name=name)
                return found if found is not None else web.Response(status=406)

            app = web.Application()
            app.router.add_get("/pods", handle)
            app.router.add_get("/pods/{name}", handle)
            runner = web.AppRunner(app, shutdown_timeout=1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            async with aiohttp.ClientSession() as session:
                yield Front(cache, pods, f"http://127.0.0.1:{runner.addresses[0][1]}", session)
            await runner.cleanup()


def names(body: Any) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


async def test_a_list_has_the_objects_and_the_version_of_the_server(server: APIServer, front: Front) -> None:
    status, body = await front.get("resourceVersion=0")
    assert (status, body["kind"], names(body)) == (200, "PodList", ["web-1", "web-2", "web-3"])
    assert body["metadata"]["resourceVersion"] == server.resource_version


async def test_a_list_without_a_version_is_never_stale(server: APIServer, front: Front) -> None:
    for number in range(20):
        server.create(pod(f"new-{number}"))
        status, body = await front.get()
        assert status == 406 or f"new-{number}" in names(body)


async def test_pages_are_of_one_state(server: APIServer, front: Front) -> None:
    version = server.resource_version
    _, first = await front.get(f"limit=2&resourceVersion={version}")
    server.create(pod("web-4"))
    await until(lambda: front.cache.storage.revision > int(version))
    _, second = await front.get(f"limit=2&continue={first['metadata']['continue']}")
    assert names(first) + names(second) == ["web-1", "web-2", "web-3"]
    assert second["metadata"]["resourceVersion"] == str(version)


async def test_a_page_that_the_server_began_is_left_to_it(server: APIServer, front: Front) -> None:
    async def begun() -> str:
        async with front.session.get(f"{server.url}/api/v1/pods?limit=2") as response:
            return str((await response.json())["metadata"]["continue"])

    before = await begun()
    server.create(config_map("of-another-resource"))  # of which the cache hears only by its next proof
    assert front.cache.storage.revision < int(server.resource_version)
    ahead = await begun()
    assert (await front.get(f"limit=2&continue={ahead}"))[0] == 406
    assert names((await front.get(f"limit=2&continue={before}"))[1]) == ["web-3"]
    lost = server.faults.add(faults.drop_event(), verb="watch", resource="v1/pods", times=1)
    server.create(pod("web-4"))
    await until(lambda: lost.hits == 1)
    server.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)
    await until(lambda: front.informer.statistics().relists)
    await until(lambda: not front.cache.storage.is_frozen)  # type: ignore[attr-defined]
    assert (await front.get(f"limit=2&continue={before}"))[0] == 406  # its history begins after it


async def test_a_watch_goes_on_from_the_version_of_a_list(server: APIServer, front: Front) -> None:
    version = server.resource_version
    server.create(pod("web-4"))
    server.delete("v1/pods", "default", "web-1")
    events = await front.watch(f"resourceVersion={version}", 2)
    assert [event[:2] for event in events] == [("ADDED", "web-4"), ("DELETED", "web-1")]
    assert events[1][2] == server.resource_version


async def test_a_streaming_list_ends_with_its_bookmark(front: Front) -> None:
    query = "resourceVersion=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await front.watch(query, 4)
    assert [event[0] for event in events] == ["ADDED", "ADDED", "ADDED", "BOOKMARK"]


async def test_a_version_older_than_the_ring_is_expired(front: Front) -> None:
    assert (await front.watch("resourceVersion=1", 1))[0][:2] == ("ERROR", "Expired")


async def test_differences_that_a_list_has_found_end_watches_with_410_and_expire_their_versions(
    server: APIServer, front: Front
) -> None:
    version = server.resource_version
    watching = asyncio.ensure_future(front.watch(f"resourceVersion={version}", 99))
    lost = server.faults.add(faults.drop_event(), verb="watch", resource="v1/pods", times=1)
    server.create(pod("web-4"))
    await until(lambda: lost.hits == 1)
    server.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)
    assert [event[:2] for event in await asyncio.wait_for(watching, 20)] == [("ERROR", "Expired")]
    assert (await front.watch(f"resourceVersion={version}", 1))[0][:2] == ("ERROR", "Expired")
    assert "web-4" in names((await front.get("resourceVersion=0"))[1])


async def test_a_list_that_found_no_difference_does_not_end_watches(server: APIServer, front: Front) -> None:
    watching = asyncio.ensure_future(front.watch(f"resourceVersion={server.resource_version}", 1))
    listed = server.faults.add(faults.expired(), verb="watch", resource="v1/pods", times=1)
    await until(lambda: front.informer.statistics().relists)
    assert listed.hits == 1
    server.create(pod("web-4"))
    assert [event[:2] for event in await asyncio.wait_for(watching, 20)] == [("ADDED", "web-4")]


async def test_listed_objects_are_sent_with_their_type_in_a_watch(server: APIServer, front: Front) -> None:
    query = "watch=1&resourceVersion=0&timeoutSeconds=1"
    async with front.session.get(f"{front.url}/pods?{query}") as response:
        events = [json.loads(line) async for line in response.content]
    assert [(event["object"]["apiVersion"], event["object"]["kind"]) for event in events] == [("v1", "Pod")] * 3


@pytest.mark.parametrize("path", ["", "/web-1"])
@pytest.mark.parametrize("query", ["", "limit=2&", STREAMED])
async def test_a_version_that_the_server_gave_is_never_too_large(
    server: APIServer, front: Front, query: str, path: str
) -> None:
    server.create(config_map("of-another-resource"))  # of which no event tells the cache
    query = f"{query if not path else ''}resourceVersion={server.resource_version}"
    assert front.cache.storage.revision < int(server.resource_version)
    assert await front.status(query, path) == 406  # is left to the server
    await front.informer.confirm()
    assert await front.status(query, path) == 200


async def test_nor_is_it_for_an_informer_of_the_same_process(server: APIServer, front: Front) -> None:
    server.create(config_map("of-another-resource"))
    source = front.cache.source()
    page = await source.list(ListOptions(resource_version=server.resource_version, resource_version_match=NOT_OLDER))
    assert (len(page.items), page.resource_version) == (3, server.resource_version)
    server.create(config_map("another"))
    newest = ListOptions(
        resource_version=server.resource_version, resource_version_match=NOT_OLDER, send_initial_events=True
    )
    async with source.watch(newest) as stream:
        assert [event.type for event in await anext(stream)][:3] == ["ADDED"] * 3


@pytest.mark.parametrize("query", ["", "limit=2&", "resourceVersionMatch=Exact&"])
async def test_a_version_that_the_server_does_not_have_is_left_to_it(front: Front, query: str) -> None:
    assert (await front.get(f"{query}resourceVersion=99999"))[0] == 406


async def test_selectors_of_labels_and_names_are_answered(front: Front) -> None:
    assert names((await front.get("resourceVersion=0&fieldSelector=metadata.name%3Dweb-2"))[1]) == ["web-2"]
    assert names((await front.get("resourceVersion=0&labelSelector=none"))[1]) == []


async def test_metadata_and_tables_are_answered_and_protobuf_is_not(front: Front) -> None:
    partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    status, body = await front.get("resourceVersion=0", accept=partial)
    assert (status, body["kind"], "spec" in body["items"][0]) == (200, "PartialObjectMetadataList", False)
    status, body = await front.get("resourceVersion=0", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert (status, body["columnDefinitions"][1]["name"], body["rows"][0]["cells"][0]) == (200, "Ready", "web-1")
    assert (await front.get("resourceVersion=0", accept="application/vnd.kubernetes.protobuf"))[0] == 406


@pytest.mark.parametrize("query", ["limit=x", "labelSelector=%21%21", "resourceVersion=x", "continue=x"])
async def test_a_bad_query_is_refused_as_by_the_server(server: APIServer, front: Front, query: str) -> None:
    async with front.session.get(f"{server.url}/api/v1/pods?{query}") as response:
        assert (response.status, await response.json()) == await front.get(query)


async def test_one_object_is_read(front: Front) -> None:
    assert (await front.get("resourceVersion=0", "/web-1"))[1]["metadata"]["name"] == "web-1"
    assert (await front.get("resourceVersion=0", "/none"))[0] == 404


async def test_an_informer_with_a_selector_is_refused(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(ConfigError, match="watch cache"):
            WatchCache(factory.for_resource("v1/pods", label_selector="app=web"))


async def test_a_scan_for_fields_leaves_the_loop_its_turns(server: APIServer, client: Client) -> None:
    for number in range(3000):
        server.create(pod(f"scanned-{number}"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    informer = SharedInformerFactory(client).for_resource("v1/pods")
    async with WatchCache(informer) as cache:
        source = cache.source(field_selector="spec.nodeName=none")
        await source.list(ListOptions(limit=1))
        for stored in cache.storage.collection("objects").objects.values():
            stored.fields = None  # which is what takes time
        running = asyncio.create_task(others())
        assert (await source.list(ListOptions(resource_version="0"))).items == []
        running.cancel()
        assert turns >= 5
