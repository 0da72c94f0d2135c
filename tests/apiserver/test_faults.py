"""Each fault of the embedded server does on the wire what its name says, and only there."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kinformer import ConfigError
from kinformer.testing import APIServer, faults
from tests.support.apiserver_http import Exchange, ask, watch
from tests.support.kube import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
RESOURCE = "v1/configmaps"
END = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [config_map("a")]


async def from_now(server: APIServer) -> Exchange:
    return await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")


async def test_a_status_is_answered_as_often_as_asked_and_only_where_it_fits(server: APIServer) -> None:
    handle = server.faults.add(faults.status(503, retry_after=7), verb="list", resource=RESOURCE, times=1)
    assert (await ask(server.url, "GET", f"{MAPS}/a")).status == 200
    assert (await ask(server.url, "GET", "/api/v1/pods")).status == 200
    failed = await ask(server.url, "GET", MAPS)
    assert (failed.status, failed.json["reason"], failed.headers["retry-after"]) == (503, "ServiceUnavailable", "7")
    assert (await ask(server.url, "GET", MAPS)).status == 200
    assert handle.hits == 1
    assert server.requests[-2].status == 503


async def test_a_status_takes_a_body_of_its_own_as_json_or_text(server: APIServer) -> None:
    one = server.faults.add(faults.status(429, "slow down", retry_after=1))
    text = await ask(server.url, "GET", "/api")
    assert (text.status, text.body, text.headers["content-type"]) == (429, b"slow down", "text/plain; charset=utf-8")
    one.remove()
    server.faults.add(faults.status(500, {"message": "mine"}))
    assert (await ask(server.url, "GET", "/version")).json == {"message": "mine"}
    server.faults.clear()
    assert (await ask(server.url, "GET", "/version")).status == 200


async def test_a_namespace_selects_requests(server: APIServer) -> None:
    server.faults.add(faults.status(403), namespace="kube-system")
    assert (await ask(server.url, "GET", "/api/v1/namespaces/kube-system/pods")).status == 403
    assert (await ask(server.url, "GET", MAPS)).status == 200


async def test_expired_is_410_on_a_list_and_an_error_line_on_a_watch(server: APIServer) -> None:
    server.faults.add(faults.expired(), verb="list", times=1)
    gone = await ask(server.url, "GET", MAPS)
    assert (gone.status, gone.json["reason"]) == (410, "Expired")
    server.faults.add(faults.expired(), verb="watch", resource=RESOURCE, times=1)
    stream = await from_now(server)
    assert (await stream.event())[1]["code"] == 410
    assert await stream.line() == b""
    assert stream.reply.clean
    await stream.close()
    again = await from_now(server)
    server.create(config_map("b"))
    assert (await again.event())[0] == "ADDED"
    await again.close()


async def test_a_fault_strikes_behind_so_many_events_and_an_open_watch_too(server: APIServer) -> None:
    stream = await from_now(server)
    handle = server.faults.add(faults.silent_close(), verb="watch", after_events=2)
    for name in ("b", "c", "d"):
        server.create(config_map(name))
    names = [(await stream.event())[1]["metadata"]["name"] for _ in range(2)]
    assert names == ["b", "c"]
    assert await stream.line() == b""
    assert stream.reply.clean
    assert handle.hits == 1
    await stream.close()


async def test_a_status_behind_events_is_an_error_line(server: APIServer) -> None:
    server.faults.add(faults.status(500), verb="watch", after_events=1)
    stream = await from_now(server)
    server.create(config_map("b"))
    assert [(await stream.event())[0] for _ in range(2)] == ["ADDED", "ERROR"]
    assert await stream.line() == b""
    await stream.close()


async def test_close_mid_line_leaves_half_a_line_and_half_a_body(server: APIServer) -> None:
    server.faults.add(faults.close_mid_line(), verb="watch", times=1)
    stream = await from_now(server)
    server.create(config_map("b"))
    half = await stream.line()
    assert half.startswith(b'{"type":"ADDED"')
    assert not half.endswith(b"}}")
    assert not stream.reply.clean
    await stream.close()
    server.faults.add(faults.close_mid_line(), verb="list", times=1)
    reply = await ask(server.url, "GET", MAPS)
    assert (reply.status, reply.clean) == (200, False)
    assert 0 < len(reply.body) < len((await ask(server.url, "GET", MAPS)).body)


async def test_a_reset_is_a_reset(server: APIServer) -> None:
    stream = await from_now(server)
    server.faults.add(faults.reset(), verb="watch", times=1)
    with pytest.raises(ConnectionResetError):
        await stream.byte()
    await stream.close()
    server.faults.add(faults.reset(), verb="list", times=1)
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await ask(server.url, "GET", MAPS)
    assert server.requests[-1].status == 0, "it never got an answer"


async def test_a_silent_close_of_a_list_is_a_connection_without_an_answer(server: APIServer) -> None:
    server.faults.add(faults.silent_close(), verb="list", times=1)
    with pytest.raises(asyncio.IncompleteReadError):
        await ask(server.url, "GET", MAPS)


@pytest.mark.virtual_time
async def test_a_stall_sends_nothing_more_and_keeps_the_connection(server: APIServer) -> None:
    handle = server.faults.add(faults.stall(), verb="watch", after_events=1, times=1)
    stream = await from_now(server)
    server.create(config_map("b"))
    server.create(config_map("c"))
    assert (await stream.event())[1]["metadata"]["name"] == "b"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream.line(), 1000)
    assert handle.hits == 1
    await stream.close()


async def test_garble_spoils_one_line_and_the_stream_goes_on(server: APIServer) -> None:
    server.faults.add(faults.garble(), verb="watch", times=1)
    stream = await from_now(server)
    server.create(config_map("b"))
    server.create(config_map("c"))
    with pytest.raises(ValueError, match=r"."):
        json.loads(await stream.line())
    assert (await stream.event())[1]["metadata"]["name"] == "c"
    await stream.close()
    server.faults.add(faults.garble(), verb="list", times=1)
    reply = await ask(server.url, "GET", MAPS)
    with pytest.raises(ValueError, match=r"."):
        json.loads(reply.body)


async def test_a_proxy_without_a_backend_speaks_html(server: APIServer) -> None:
    server.faults.add(faults.html_502())
    reply = await ask(server.url, "GET", f"{MAPS}?watch=1")
    assert (reply.status, reply.headers["content-type"]) == (502, "text/html")
    assert b"<h1>502 Bad Gateway</h1>" in reply.body


async def test_events_are_dropped_and_doubled(server: APIServer) -> None:
    server.faults.add(faults.drop_event(), verb="watch", times=1)
    server.faults.add(faults.duplicate_event(), verb="watch", after_events=2, times=1)
    stream = await from_now(server)
    for name in ("b", "c", "d"):
        server.create(config_map(name))
    names = [(await stream.event())[1]["metadata"]["name"] for _ in range(3)]
    assert names == ["c", "d", "d"], "an event that was dropped counts as sent"
    await stream.close()


@pytest.mark.virtual_time
async def test_a_delay_holds_back_an_answer_or_a_line(server: APIServer) -> None:
    loop = asyncio.get_running_loop()
    server.faults.add(faults.delay(7), verb="list", times=1)
    start = loop.time()
    await ask(server.url, "GET", MAPS)
    assert loop.time() - start >= 7
    stream = await from_now(server)
    server.faults.add(faults.delay(5), verb="watch", after_events=0, times=1)
    start = loop.time()
    server.create(config_map("b"))
    await stream.event()
    assert 5 <= loop.time() - start < 6
    await stream.close()


@pytest.mark.virtual_time
async def test_the_end_of_the_initial_events_is_withheld(server: APIServer) -> None:
    handle = server.faults.add(faults.no_initial_events_end(), times=1)
    stream = await watch(server.url, f"{MAPS}?watch=1&{END}")
    assert (await stream.event())[0] == "ADDED"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(stream.line(), 20)
    server.create(config_map("b"))
    assert (await stream.event())[0] == "ADDED"
    assert handle.hits == 1
    await stream.close()


async def test_a_rewind_takes_back_objects_and_versions_and_cuts_open_watches(server: APIServer) -> None:
    before = server.resource_version
    server.create(config_map("b"))
    server.update(config_map("a", data={"k": "changed"}))
    server.delete(RESOURCE, "default", "b")
    stream = await from_now(server)
    server.faults.add(faults.rewind(3), verb="list")
    reply = await ask(server.url, "GET", MAPS)
    assert [(item["metadata"]["name"], item["data"]) for item in reply.json["items"]] == [("a", {"v": "1"})]
    assert reply.json["metadata"]["resourceVersion"] == before == server.resource_version
    assert await stream.line() == b""
    assert not stream.reply.clean
    await stream.close()
    created = server.create(config_map("c"))
    assert int(created["metadata"]["resourceVersion"]) == int(before) + 1, "versions are given out again"
    assert len((await ask(server.url, "GET", MAPS)).json["items"]) == 2, "it struck once"


async def test_a_rewind_takes_back_definitions_too_and_fails_where_history_ends(server: APIServer) -> None:
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [{"name": "v1", "storage": True}]}
    kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    before = int(server.resource_version)
    server.register_crd(kind | {"metadata": {"name": "widgets.x.io"}, "spec": spec})
    assert (await ask(server.url, "GET", "/apis/x.io/v1/widgets")).status == 200
    server.faults.add(faults.rewind(int(server.resource_version) - before), resource=RESOURCE)
    await ask(server.url, "GET", MAPS)
    assert (await ask(server.url, "GET", "/apis/x.io/v1/widgets")).status == 404
    await server.compact()
    server.create(config_map("b"))
    server.faults.add(faults.rewind(2), resource=RESOURCE)
    failed = await ask(server.url, "GET", MAPS)
    assert (failed.status, "is compacted" in failed.json["message"]) == (500, True)


def test_a_resource_that_no_request_has_is_refused() -> None:
    server = APIServer()
    for name in ("configmaps", ""):
        with pytest.raises(ConfigError, match="invalid resource"):
            server.faults.add(faults.reset(), resource=name)
        with pytest.raises(ConfigError, match="invalid resource"):
            APIServer(rules=[("alice", "list", name)])
    assert server.faults.add(faults.reset(), resource="*")


async def test_a_stale_cache_answers_reads_at_0_with_the_past_and_a_watch_tells_the_rest(server: APIServer) -> None:
    before = server.resource_version
    server.create(config_map("b"))
    server.delete(RESOURCE, "default", "a")
    server.faults.add(faults.stale(2), resource=RESOURCE)
    old = (await ask(server.url, "GET", f"{MAPS}?resourceVersion=0")).json
    assert [item["metadata"]["name"] for item in old["items"]] == ["a"]
    assert old["metadata"]["resourceVersion"] == before
    for query in ("", "?resourceVersion=1"):
        newest = (await ask(server.url, "GET", MAPS + query)).json
        assert [item["metadata"]["name"] for item in newest["items"]] == ["b"], "these ask for more than the cache has"
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion=0&{END}")
    told = [await stream.event() for _ in range(4)]
    assert [kind for kind, _ in told] == ["ADDED", "BOOKMARK", "ADDED", "DELETED"]
    assert told[1][1]["metadata"]["resourceVersion"] == before
    await stream.close()
