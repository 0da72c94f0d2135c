"""What a server that runs for long keeps: its history as far as etcd's compaction, in bounded bytes, and its requests.

Internals: the bytes of the history, and the bound of the log of requests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kinformer import SharedInformerFactory, wait_for
from kinformer.conditions import matches
from kinformer.testing import APIServer, faults
from kinformer.testing.http import request_log
from kinformer.testing.store import compaction
from tests.support.apiserver_http import Reply, ask, watch
from tests.support.kube import config_map

MAPS = "/api/v1/configmaps"
MINUTE = 60


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def watched(server: APIServer, since: int, path: str = MAPS) -> list[Any]:
    """Return the names in the events since a version, or the code of the error."""
    reply = await ask(server.url, "GET", f"{path}?watch=1&resourceVersion={since}&timeoutSeconds=1")
    return [event["object"].get("code") or event["object"]["metadata"]["name"] for event in reply.lines]


async def listed(server: APIServer, at: int) -> Reply:
    return await ask(server.url, "GET", f"{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")


# -- age --------------------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_history_of_less_than_five_minutes_is_there(server: APIServer) -> None:
    since = version(server.create(config_map("a")))
    server.create(config_map("b"))
    for _ in range(4):
        await asyncio.sleep(MINUTE)
        assert await watched(server, since) == ["b"]
    assert (await listed(server, since)).status == 200


@pytest.mark.virtual_time
@pytest.mark.parametrize("quiet", [True, False])
async def test_a_change_is_gone_after_ten_minutes_also_if_nothing_was_asked_meanwhile(
    server: APIServer, quiet: bool
) -> None:
    since = version(server.create(config_map("a")))
    page = (await ask(server.url, "GET", f"{MAPS}?limit=1")).json
    server.create(config_map("b"))
    token = (await ask(server.url, "GET", f"{MAPS}?limit=1")).json["metadata"]["continue"]
    tip = version(server.create(config_map("c")))
    for _ in range(11):
        await asyncio.sleep(MINUTE)
        if not quiet:
            await ask(server.url, "GET", f"{MAPS}?limit=1")
    assert "continue" not in page["metadata"]
    assert await watched(server, since) == [410]
    assert (await listed(server, since)).status == 410
    assert (await ask(server.url, "GET", f"{MAPS}?limit=1&continue={token}")).status == 410
    assert (await watched(server, tip), (await listed(server, tip)).status) == ([], 200)


@pytest.mark.virtual_time
async def test_a_write_after_an_hour_of_silence_can_be_watched_from_before_it(server: APIServer) -> None:
    tip = version(server.create(config_map("a")))
    await asyncio.sleep(60 * MINUTE)
    server.create(config_map("b"))
    assert await watched(server, tip) == ["b"]
    assert len((await listed(server, tip)).json["items"]) == 1


@pytest.mark.virtual_time
async def test_a_watch_that_missed_nothing_starts_although_other_resources_were_compacted(server: APIServer) -> None:
    tip = version(server.create(config_map("a")))
    for number in range(30):
        server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s-{number}"}})
        await asyncio.sleep(MINUTE)
    assert await watched(server, tip) == []
    assert await watched(server, tip, "/api/v1/secrets") == [410]
    assert (await listed(server, tip)).status == 410


@pytest.mark.virtual_time
async def test_an_informer_that_was_away_for_long_lists_again(server: APIServer) -> None:
    server.create(config_map("a"))
    async with server.client() as client, SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        server.faults.add(faults.status(503), verb="watch", namespace=None)
        await server.restart()
        server.update(config_map("a", data={"v": "missed"}))
        await asyncio.sleep(11 * MINUTE)
        server.faults.clear()
        await wait_for(maps, "default/a", matches("data.v", "missed"), timeout=120)


@pytest.mark.virtual_time
async def test_a_server_that_went_back_in_time_has_a_history_again(server: APIServer) -> None:
    first = version(server.create(config_map("a")))
    await asyncio.sleep(4 * MINUTE)
    for number in range(5):
        server.create(config_map(f"b-{number}"))
    server.faults.add(faults.rewind(5), verb="list", times=1)
    await ask(server.url, "GET", MAPS)
    await asyncio.sleep(2 * MINUTE)
    server.create(config_map("c"))
    assert await watched(server, first) == ["c"]


# -- bytes ------------------------------------------------------------------------------------------------------------


def kept(server: APIServer) -> int:
    """Return the bytes of JSON of past versions that the server keeps."""
    changes = (change for collection in server._storage.collections.values() for change in collection.history)
    return sum(change.new.size + sum(len(line) for line in change.lines.values()) for change in changes)  # type: ignore[arg-type, misc]


async def test_a_hundred_megabytes_of_writes_leave_less_than_32(server: APIServer) -> None:
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
    old = version(server.create(config_map("a")))
    for number in range(250):
        recent = version(server.update(config_map("a", data={"v": f"{number:06}" + "x" * 400_000})))
        if number % 8 == 0:
            await asyncio.sleep(0)
        assert kept(server) <= compaction.MOST
    assert kept(server) > compaction.MOST / 4
    await stream.close()
    assert await watched(server, old) == [410]
    server.create(config_map("b"))
    assert await watched(server, recent) == ["b"]


async def test_the_bytes_of_several_resources_count_together(server: APIServer) -> None:
    server.create(config_map("m"))
    server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    for number in range(60):
        server.update(config_map("m", data={"v": f"{number}" + "x" * 400_000}))
        metadata = {"name": "s", "annotations": {"example.com/v": f"{number:0200000}"}}
        server.update({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
        assert kept(server) <= compaction.MOST


async def test_pages_of_a_large_collection_stay_readable_while_it_is_written(server: APIServer) -> None:
    for number in range(60):
        server.create(config_map(f"m-{number:02}", data={"v": "x" * 900_000}))
    first = (await ask(server.url, "GET", f"{MAPS}?limit=5")).json
    for number in range(30):
        server.update(config_map(f"m-{number:02}", data={"v": "y" * 900_000}))
    rest = (await ask(server.url, "GET", f"{MAPS}?limit=60&continue={first['metadata']['continue']}")).json
    assert {item["data"]["v"][0] for item in rest["items"]} == {"x"}


# -- requests ---------------------------------------------------------------------------------------------------------


async def test_the_log_has_the_newest_requests_and_counts_the_others(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "MOST", 20)  # of 20,000, which take half a minute
    for number in range(30):
        await ask(server.url, "GET", f"{MAPS}?labelSelector=n%3D{number}")
    assert [entry.params["labelSelector"] for entry in server.requests] == [f"n={number}" for number in range(10, 30)]
    assert server.requests.dropped == 10
    assert server.requests[-1].params == {"labelSelector": "n=29"}
