"""Watching the embedded server: where streams start, what they tell, when they end.

Internals: the length of a history, which is patched, since 102,400 events take many seconds.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from kinformer.testing import APIServer
from tests.support.apiserver_http import Exchange, Reply, ask, watch
from tests.support.kube import config_map, pod

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
END = "k8s.io/initial-events-end"
WATCH_LIST = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def version(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def everything(server: APIServer, path: str) -> Reply:
    return await ask(server.url, "GET", path)


async def test_a_watch_from_a_version_gets_each_later_change_once_and_in_order(server: APIServer) -> None:
    first = server.create(config_map("a"))
    server.create(config_map("b"))
    changed = server.update(config_map("a", labels={"app": "x"}))
    server.delete("v1/configmaps", "default", "b")
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={version(first)}")
    events = [await stream.event() for _ in range(3)]
    assert [(kind, obj["metadata"]["name"]) for kind, obj in events] == [
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("DELETED", "b"),
    ]
    assert events[1][1] == changed
    assert version(events[2][1]) > version(events[1][1]), "a DELETED carries the revision of the deletion"
    server.create(config_map("c"))
    assert (await stream.event())[1]["metadata"]["name"] == "c"
    await stream.close()


async def test_a_selector_turns_changes_into_added_and_deleted_with_the_old_content(server: APIServer) -> None:
    server.create(config_map("a", labels={"app": "x"}))
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}&labelSelector=app%3Dx")
    server.update(config_map("a", labels={"app": "y"}))
    server.update(config_map("a", labels={"app": "z"}))
    server.update(config_map("a", labels={"app": "x"}))
    server.update(config_map("a", labels={"app": "x", "more": "1"}))
    left, entered, changed = [await stream.event() for _ in range(3)]
    assert (left[0], left[1]["metadata"]["labels"]) == ("DELETED", {"app": "x"})
    assert (entered[0], changed[0]) == ("ADDED", "MODIFIED")
    assert version(left[1]) == version(entered[1]) - 2, "it has the revision of the change that made it leave"
    await stream.close()


async def test_a_field_selector_follows_a_pod_to_its_node(server: APIServer) -> None:
    server.create(pod("a"))
    path = f"/api/v1/pods?watch=1&resourceVersion={server.resource_version}&fieldSelector=spec.nodeName%3Dn1"
    stream = await watch(server.url, path)
    server.update(pod("a", node="n1"))
    server.update(pod("a", node="n1", phase="Failed"))
    assert [(await stream.event())[0] for _ in range(2)] == ["ADDED", "MODIFIED"]
    await stream.close()


async def test_a_streaming_list_comes_in_key_order_and_ends_with_a_bookmark(server: APIServer) -> None:
    for name in ("b", "c", "a"):
        server.create(config_map(name))
    stream = await watch(server.url, f"/api/v1/configmaps?{WATCH_LIST}")
    names = [(await stream.event())[1]["metadata"]["name"] for _ in range(3)]
    kind, mark = await stream.event()
    assert names == ["a", "b", "c"]
    assert (kind, mark["metadata"]["annotations"]) == ("BOOKMARK", {END: "true"})
    assert mark["metadata"]["resourceVersion"] == server.resource_version
    server.create(config_map("d"))
    assert (await stream.event())[1]["metadata"]["name"] == "d"
    await stream.close()


async def test_what_changes_while_a_streaming_list_is_sent_comes_behind_it(server: APIServer) -> None:
    for number in range(1500):
        server.create(config_map(f"a-{number:04}"))
    stream = await Exchange.open(server.url, "GET", f"{MAPS}?{WATCH_LIST}")
    await stream.head()
    assert (await stream.event())[0] == "ADDED"
    server.delete("v1/configmaps", "default", "a-1400")
    kinds = [await stream.event() for _ in range(1501)]
    assert [kind for kind, _ in kinds] == ["ADDED"] * 1499 + ["BOOKMARK", "DELETED"]
    assert int(kinds[-1][1]["metadata"]["resourceVersion"]) > version(kinds[-2][1])
    await stream.close()


@pytest.mark.virtual_time
async def test_bookmarks_come_every_minute_and_two_seconds_before_the_end_but_only_with_progress(
    server: APIServer,
) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    path = f"{MAPS}?watch=1&resourceVersion={server.resource_version}&timeoutSeconds=190&allowWatchBookmarks=true"
    stream = await watch(server.url, path)
    loop.call_later(30, server.create, pod("elsewhere"))
    loop.call_later(150, server.create, pod("elsewhere-2"))
    seen = []
    while line := await stream.line():
        seen.append((round(loop.time() - start), json.loads(line)["type"]))
    assert seen == [(60, "BOOKMARK"), (180, "BOOKMARK")]
    assert round(loop.time() - start) == 190
    assert stream.reply.clean
    await stream.close()


@pytest.mark.virtual_time
async def test_a_watch_without_a_timeout_ends_after_half_an_hour_to_an_hour(server: APIServer) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
    assert await stream.line() == b""
    assert stream.reply.clean
    assert 1800 <= loop.time() - start <= 3600
    await stream.close()


async def test_a_watch_from_a_compacted_version_is_told_410_inside_the_stream(server: APIServer) -> None:
    old = version(server.create(config_map("a")))
    tip = version(server.create(config_map("b")))
    await server.compact()
    reply = await everything(server, f"{MAPS}?watch=1&resourceVersion={old}")
    assert (reply.status, reply.clean) == (200, True)
    [event] = reply.lines
    assert event["type"] == "ERROR"
    assert event["object"]["code"] == 410
    assert event["object"]["message"] == f"too old resource version: {old} ({tip})"
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={tip}")
    server.create(config_map("c"))
    assert (await stream.event())[0] == "ADDED", "who is at the tip goes on"
    await stream.close()


async def test_a_resource_that_nobody_has_touched_forgets_too(server: APIServer) -> None:
    old = version(server.create(config_map("a")))
    server.create(config_map("b"))
    for forget, path in ((server.compact, "/api/v1/secrets"), (server.restart, "/api/v1/services")):
        await forget()
        reply = await everything(server, f"{path}?watch=1&resourceVersion={old}&timeoutSeconds=1")
        assert [event["object"]["code"] for event in reply.lines] == [410]


async def test_what_a_restart_made_the_server_forget_stays_forgotten(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The real one is 102,400 events, which take many seconds.
    monkeypatch.setattr("kinformer.apiserver.storage.HISTORY_MAXIMUM", 10)
    versions = [version(server.create(config_map(f"before-{number}"))) for number in range(8)]
    await server.restart()
    for number in range(4):
        server.create(config_map(f"after-{number}"))
    reply = await everything(server, f"{MAPS}?watch=1&resourceVersion={versions[-2]}&timeoutSeconds=1")
    assert [event["object"]["code"] for event in reply.lines] == [410]


@pytest.mark.virtual_time
async def test_a_version_from_the_future_is_silent_on_a_watch_and_504_on_a_list(server: APIServer) -> None:
    future = int(server.resource_version) + 2
    loop = asyncio.get_running_loop()
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={future}")
    for name in ("a", "b", "c"):
        server.create(config_map(name))
    assert (await stream.event())[1]["metadata"]["name"] == "c"
    await stream.close()
    start = loop.time()
    reply = await everything(server, f"{MAPS}?resourceVersion=99999")
    assert (reply.status, reply.headers["retry-after"]) == (504, "1")
    assert 3 <= loop.time() - start < 3.2
    reply = await everything(server, f"{MAPS}?{WATCH_LIST}&resourceVersion=99999")
    assert (reply.status, reply.lines[0]["object"]["code"]) == (200, 504)


@pytest.mark.virtual_time
async def test_a_list_waits_for_a_version_that_is_about_to_come(server: APIServer) -> None:
    loop = asyncio.get_running_loop()
    wanted = int(server.resource_version) + 1
    loop.call_later(2, server.create, config_map("a"))
    reply = await everything(server, f"{MAPS}?resourceVersion={wanted}")
    assert [item["metadata"]["name"] for item in reply.json["items"]] == ["a"]


async def test_pages_show_one_snapshot_though_the_collection_changes(server: APIServer) -> None:
    for number in range(5):
        server.create(config_map(f"a-{number}"))
    first = (await everything(server, "/api/v1/configmaps?limit=2")).json
    token = first["metadata"]["continue"]
    inside = json.loads(base64.urlsafe_b64decode(token + "=="))
    assert inside == {"v": "meta.k8s.io/v1", "rv": int(server.resource_version), "start": "/default/a-1\0"}
    server.delete("v1/configmaps", "default", "a-3")
    server.create(config_map("a-2x"))
    rest = (await everything(server, f"/api/v1/configmaps?limit=9&continue={token}")).json
    assert [item["metadata"]["name"] for item in rest["items"]] == ["a-2", "a-3", "a-4"]
    assert rest["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


async def test_an_expired_page_is_410_with_a_token_that_goes_on_at_the_newest_version(server: APIServer) -> None:
    for number in range(4):
        server.create(config_map(f"a-{number}"))
    token = (await everything(server, f"{MAPS}?limit=2")).json["metadata"]["continue"]
    server.create(config_map("a-9"))
    await server.compact()
    gone = await everything(server, f"{MAPS}?limit=9&continue={token}")
    assert (gone.status, gone.json["reason"]) == (410, "Expired")
    on = (await everything(server, f"{MAPS}?limit=9&continue={gone.json['metadata']['continue']}")).json
    assert [item["metadata"]["name"] for item in on["items"]] == ["a-2", "a-3", "a-9"]
    assert on["metadata"]["resourceVersion"] == server.resource_version


async def test_a_limit_at_version_zero_is_ignored_and_a_selector_counts_no_rest(server: APIServer) -> None:
    for number in range(4):
        server.create(config_map(f"a-{number}", labels={"app": "x"}))
    assert len((await everything(server, f"{MAPS}?limit=2&resourceVersion=0")).json["items"]) == 4
    page = (await everything(server, f"{MAPS}?limit=2&labelSelector=app%3Dx")).json
    assert page["metadata"].keys() == {"resourceVersion", "continue"}
    assert (await everything(server, f"{MAPS}?limit=2")).json["metadata"]["remainingItemCount"] == 2


async def test_an_exact_list_shows_the_past_until_it_is_compacted(server: APIServer) -> None:
    then = version(server.create(config_map("a", labels={"app": "old"})))
    server.update(config_map("a", labels={"app": "new"}))
    server.create(config_map("b"))
    past = (await everything(server, f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")).json
    assert [item["metadata"]["labels"] for item in past["items"]] == [{"app": "old"}]
    await server.compact()
    gone = await everything(server, f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")
    assert (gone.status, gone.json["message"]) == (410, "The resourceVersion for the provided list is too old.")


async def test_a_restart_keeps_port_and_data_cuts_streams_and_forgets_what_watches_missed(server: APIServer) -> None:
    old = version(server.create(config_map("a")))
    tip = version(server.create(config_map("b")))
    url = server.url
    stream = await watch(url, f"{MAPS}?watch=1&resourceVersion={tip}")
    await server.restart()
    assert await stream.line() == b""
    assert not stream.reply.clean, "the body was cut, not ended"
    await stream.close()
    assert server.url == url
    assert len((await everything(server, MAPS)).json["items"]) == 2
    assert (await everything(server, f"{MAPS}?watch=1&resourceVersion={old}")).lines[0]["object"]["code"] == 410
    again = await watch(url, f"{MAPS}?watch=1&resourceVersion={tip}")
    server.create(config_map("c"))
    assert (await again.event())[0] == "ADDED"
    await again.close()


@pytest.mark.virtual_time
async def test_nobody_answers_during_the_downtime_of_a_restart(server: APIServer) -> None:
    restart = asyncio.create_task(server.restart(downtime=5))
    await asyncio.sleep(1)
    with pytest.raises(ConnectionRefusedError):
        await everything(server, MAPS)
    await restart
    assert (await everything(server, MAPS)).status == 200


@pytest.mark.virtual_time
async def test_a_paused_server_accepts_and_says_nothing_until_it_is_resumed(server: APIServer) -> None:
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
    server.pause()
    server.create(config_map("a"))
    waiting = asyncio.create_task(everything(server, MAPS))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(stream.line()), 10)
    assert not waiting.done()
    server.resume()
    server.resume()
    assert len((await waiting).json["items"]) == 1
    await stream.close()


@pytest.mark.virtual_time
async def test_one_stalled_reader_does_not_hold_up_another_and_is_let_go_in_the_end(server: APIServer) -> None:
    path = f"{MAPS}?watch=1&resourceVersion={server.resource_version}"
    stalled, reading = await watch(server.url, path), await watch(server.url, path)
    large = config_map("large") | {"data": {"k": "x" * 200_000}}
    server.create(large)
    for number in range(60):  # more than the sockets' buffers hold
        large["metadata"]["labels"] = {"n": str(number)}
        server.update(large)
    for _ in range(61):
        await reading.event()
    await asyncio.sleep(1.1)
    for number in range(1100):  # more than a watcher may leave unread
        server.create(config_map(f"small-{number}"))
    received = (await stalled.rest()).lines
    assert stalled.reply.clean, "it ends without a word, as a real one does"
    assert 0 < len(received) < 1161
    names = [(await reading.event())[1]["metadata"]["name"] for _ in range(1100)]
    assert names[-1] == "small-1099"
    await stalled.close()
    await reading.close()


async def test_leaving_the_server_ends_what_hangs_in_it() -> None:
    async with APIServer() as server:
        stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
        server.pause()
        hanging = await Exchange.open(server.url, "GET", MAPS)
        await asyncio.sleep(0.01)
    assert await stream.line() == b""
    assert not stream.reply.clean
    await stream.close()
    await hanging.close()


async def test_metadata_and_tables_are_watched_too(server: APIServer) -> None:
    accept = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
    server.create(config_map("a"))
    stream = await watch(server.url, f"{MAPS}?{WATCH_LIST}", headers=accept)
    _, obj = await stream.event()
    assert (obj["kind"], "data" in obj) == ("PartialObjectMetadata", False)
    assert (await stream.event())[1]["kind"] == "PartialObjectMetadata"
    server.delete("v1/configmaps", "default", "a")
    assert (await stream.event())[0] == "DELETED"
    await stream.close()
    server.create(pod("p"))
    table = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    rows = await watch(server.url, f"{PODS}?watch=1", headers=table)
    _, first = await rows.event()
    server.update(pod("p", phase="Failed"))
    _, second = await rows.event()
    assert [column["name"] for column in first["columnDefinitions"]][:3] == ["Name", "Ready", "Status"]
    assert second["columnDefinitions"] is None
    assert second["rows"][0]["cells"][2] == "Failed"
    await rows.close()


async def test_a_large_list_is_zipped_for_who_asks_and_indented_for_curl(server: APIServer) -> None:
    import gzip

    for number in range(300):
        server.create(config_map(f"a-{number}") | {"data": {"k": "x" * 500}})
    zipped = await ask(server.url, "GET", MAPS, headers={"Accept-Encoding": "gzip"})
    plain = await ask(server.url, "GET", MAPS)
    curl = await ask(server.url, "GET", f"{MAPS}/a-1", headers={"User-Agent": "curl/8"})
    weighed = await ask(server.url, "GET", MAPS, headers={"Accept-Encoding": "deflate, gzip;q=1"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(zipped.body) == weighed.body == plain.body
    assert len(zipped.body) < len(plain.body) / 5
    assert curl.body.startswith(b'{\n  "kind": "ConfigMap"')
