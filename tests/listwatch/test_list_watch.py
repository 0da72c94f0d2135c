from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ListWatch
from kinformer.exceptions import (
    APIError,
    ConfigError,
    ConnectError,
    DecodeError,
    ExpiredError,
    NotFoundError,
    ServerError,
    WatchError,
)
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, ServerProbe, WatchEvent
from tests.support.http_server import Handler, HttpServer, hang, json_answer, line, send_chunks, status_answer
from tests.support.kube import config_map
from tests.support.log_records import Said, said


def config_map_list(count: int, *, rv: str = "99", token: str = "") -> bytes:
    """A list of a built-in type, whose items come without apiVersion and kind."""
    items = [
        {
            key: value
            for key, value in config_map(f"m{number}", rv=number + 1).items()
            if key not in ("apiVersion", "kind")
        }
        for number in range(count)
    ]
    metadata = {"resourceVersion": rv, **({"continue": token} if token else {})}
    document = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items}
    return json.dumps(document, separators=(",", ":")).encode()


async def read(page: ListPage) -> list[Any]:
    return [item async for items in page.items for item in items]  # type: ignore[union-attr]


def cut(data: bytes, seed: int) -> list[bytes]:
    """`data` in pieces of random sizes, some of one byte."""
    chooser = random.Random(seed)
    pieces = []
    while data:
        size = chooser.choice((1, 2, 7, 40, 300))
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def serving(pieces: list[bytes], **options: Any) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        return await send_chunks(request, pieces, **options)

    return answer


class Fixture:
    def __init__(self, server: HttpServer, client: Client) -> None:
        self.server = server
        self.client = client

    def list_watch(self, **options: Any) -> ListWatch:
        return ListWatch(self.client, "v1/configmaps", namespace="default", **options)


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler], Any]]:
    """Makes a server of a handler, and a client of it, both for the time of the test."""
    from contextlib import AsyncExitStack

    async with AsyncExitStack() as stack:

        async def make(handler: Handler) -> Fixture:
            server = await stack.enter_async_context(HttpServer(handler))
            return Fixture(server, await stack.enter_async_context(Client.from_url(server.url)))

        yield make


class TestList:
    @pytest.mark.parametrize("seed", range(4))
    async def test_items_come_whole_wherever_the_chunks_are_cut(self, serve: Any, seed: int) -> None:
        fixture = await serve(serving(cut(config_map_list(40, token="more"), seed)))
        list_watch = fixture.list_watch()
        page = await list_watch.list(ListOptions(limit=40))
        items = await read(page)
        assert [item.key for item in items] == [f"default/m{number}" for number in range(40)]
        assert {(item.api_version, item.kind) for item in items} == {("v1", "ConfigMap")}
        assert items[0].raw.startswith(b'{"kind":"ConfigMap","apiVersion":"v1"')
        assert (page.resource_version, page.continue_token) == ("99", "more")
        assert list_watch.stats.bytes == len(config_map_list(40, token="more"))

    async def test_a_chunk_that_completes_no_item_gives_an_empty_list_as_a_sign_of_life(self, serve: Any) -> None:
        gate = asyncio.Event()
        body = config_map_list(1)

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(body[:20])
            await gate.wait()
            await response.write(body[20:])
            return response

        fixture = await serve(answer)
        page = await fixture.list_watch().list(ListOptions())
        pieces = aiter(page.items)  # type: ignore[arg-type]
        assert await anext(pieces) == []
        gate.set()
        assert [len(piece) async for piece in pieces] == [1]

    async def test_options_and_selectors_reach_the_server_and_tweaks_have_the_last_word(self, serve: Any) -> None:
        fixture = await serve(serving([config_map_list(0)]))
        seen = []

        def tweak(options: ListOptions) -> ListOptions:
            seen.append(options)
            return options.replace(label_selector="b", extra={"pretty": "false"})

        list_watch = fixture.list_watch(label_selector="a", field_selector="metadata.name=x", tweak_list_options=tweak)
        assert await read(await list_watch.list(ListOptions(resource_version="0", limit=5))) == []
        request = fixture.server.requests[0]
        assert request.path == "/api/v1/namespaces/default/configmaps"
        assert dict(request.query) == {
            "labelSelector": "b",
            "fieldSelector": "metadata.name=x",
            "resourceVersion": "0",
            "limit": "5",
            "pretty": "false",
        }
        assert seen[0].label_selector == "a"
        assert request.headers["Accept"] == "application/json;drop=metadata.managedFields,application/json"

    async def test_metadata_alone_is_asked_for_as_a_list_and_as_objects(self, serve: Any) -> None:
        fixture = await serve(serving([config_map_list(0)]))
        list_watch = fixture.list_watch(metadata_only=True)
        await read(await list_watch.list(ListOptions()))
        async with list_watch.watch(ListOptions()):
            pass
        accepted = [request.headers["Accept"].partition(",")[2] for request in fixture.server.requests]  # without drop=
        assert accepted == [
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        ]

    @pytest.mark.parametrize("end", [True, False])
    async def test_a_list_cut_short_is_an_error_and_never_a_short_list(self, serve: Any, end: bool) -> None:
        fixture = await serve(serving([config_map_list(20)[:-300]], end=end))
        page = await fixture.list_watch().list(ListOptions())
        with pytest.raises((DecodeError, ConnectError)):
            await read(page)
        assert page.resource_version == ""

    async def test_a_failure_is_raised_by_list_itself(self, serve: Any) -> None:
        async def answer(request: web.Request) -> web.Response:
            return status_answer(410, "Expired")

        with pytest.raises(ExpiredError):
            await (await serve(answer)).list_watch().list(ListOptions())

    async def test_a_page_of_html_with_status_200_is_an_error(self, serve: Any) -> None:
        fixture = await serve(serving([b" <html>Sign in"], content_type="application/json"))
        page = await fixture.list_watch().list(ListOptions())
        with pytest.raises(DecodeError, match="a proxy is answering"):
            await read(page)

    async def test_an_item_that_cannot_be_decoded_is_left_out_counted_and_logged_once(
        self, serve: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = config_map("good", rv=1)
        poison = config_map("bad", labels={"a": "b"}, rv=1)
        poison["metadata"]["labels"]["a"] = 7
        document = {
            "kind": "ConfigMapList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9"},
            "items": [poison, good],
        }
        fixture = await serve(serving([json.dumps(document, separators=(",", ":")).encode()]))
        list_watch = fixture.list_watch()
        for _ in range(2):
            page = await list_watch.list(ListOptions())
            assert [item.name for item in await read(page)] == ["good"]
            assert page.resource_version == "9"
        assert list_watch.stats.decode_errors == 2
        assert len(caplog.records) == 1
        assert said(caplog, "decode_error") == [Said("ERROR", "kinformer.list_watch", "v1/configmaps", "default/bad")]

    async def test_a_reader_that_is_cancelled_closes_the_connection(self, serve: Any) -> None:
        fixture = await serve(hang)
        page = await fixture.list_watch().list(ListOptions())
        task = asyncio.create_task(read(page))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fixture.server.until_idle()

    async def test_a_page_that_is_closed_or_dropped_unread_closes_the_connection(self, serve: Any) -> None:
        fixture = await serve(hang)
        page = await fixture.list_watch().list(ListOptions())
        await page.items.aclose()
        await fixture.server.until_idle()
        page = await fixture.list_watch().list(ListOptions())
        del page
        await fixture.server.until_idle()  # without any collection
        gc.collect()

    async def test_a_404_names_the_resource_that_was_probably_meant(self, serve: Any) -> None:
        async def answer(request: web.Request) -> web.Response:
            if request.path == "/api":
                return json_answer({"kind": "APIVersions", "versions": ["v1"]})
            if request.path == "/apis":
                return json_answer({"kind": "APIGroupList", "groups": []})
            if request.path == "/api/v1":
                pods = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]}
                return json_answer({"kind": "APIResourceList", "groupVersion": "v1", "resources": [pods]})
            return web.Response(status=404, text="404 page not found\n")

        fixture = await serve(answer)
        with pytest.raises(NotFoundError, match="404 page not found: the server has no v1/pod; the nearest is v1/pods"):
            await ListWatch(fixture.client, "v1/pod").list(ListOptions())

    async def test_a_server_that_ignores_the_shard_selector_is_named_once(
        self, serve: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        fixture = await serve(serving([config_map_list(1)]))
        list_watch = fixture.list_watch(shard_selector="shardRange(object.metadata.uid,'0x0','0x8')")
        for _ in range(2):
            await read(await list_watch.list(ListOptions()))
        assert said(caplog, "shards_ignored") == [Said("WARNING", "kinformer.list_watch", "v1/configmaps")]

    async def test_a_long_list_does_not_hold_the_loop(self, serve: Any) -> None:
        fixture = await serve(serving([config_map_list(20_000)]))

        async def longest_share() -> float:
            """The longest turn of the loop, over the time that the whole list takes."""
            page = await fixture.list_watch().list(ListOptions())
            reading, turns = asyncio.create_task(read(page)), [time.perf_counter()]
            while not reading.done():
                await asyncio.sleep(0)
                turns.append(time.perf_counter())
            assert len(await reading) == 20_000
            return max(later - earlier for earlier, later in pairwise(turns)) / (turns[-1] - turns[0])

        # Seen: 0.03, and 0.9 if all is decoded at once. The best of five: a busy machine may stop anywhere.
        assert min([await longest_share() for _ in range(5)]) < 0.4


class TestWatch:
    @pytest.mark.parametrize("seed", range(4))
    async def test_events_come_whole_and_in_order_wherever_the_chunks_are_cut(self, serve: Any, seed: int) -> None:
        lines = b"".join(line("MODIFIED", config_map("ä\u0085\u2028", rv=number)) for number in range(1, 30))
        fixture = await serve(serving(cut(lines, seed)))
        found: list[WatchEvent] = []
        async with fixture.list_watch().watch(ListOptions(resource_version="1")) as events:
            async for batch in events:
                found += batch
        assert [event.object.resource_version for event in found] == [str(number) for number in range(1, 30)]
        query = fixture.server.requests[0].query
        assert (query["watch"], query["resourceVersion"]) == ("true", "1")
        assert fixture.server.requests[0].headers["Accept-Encoding"] == "identity"

    async def test_only_the_beginning_of_a_stream_can_be_a_page_of_html(self, serve: Any) -> None:
        lines = line("ADDED", config_map("a", data={"page": "<html>"}, rv=1))
        at = lines.index(b"<")
        fixture = await serve(serving([lines[:at], lines[at:]]))
        async with fixture.list_watch().watch(ListOptions()) as events:
            found = [event async for batch in events for event in batch]
        assert found[0].object["data"] == {"page": "<html>"}

    async def test_a_fragment_at_the_end_is_dropped_and_a_cut_connection_is_an_end(self, serve: Any) -> None:
        whole, half = line("ADDED", config_map("a", rv=1)), line("ADDED", config_map("b", rv=1))[:-40]
        for end in (True, False):
            fixture = await serve(serving([whole, half], end=end))
            found: list[WatchEvent] = []
            async with fixture.list_watch().watch(ListOptions()) as events:
                async for batch in events:
                    found += batch
            assert [event.object.name for event in found] == ["a"]

    async def test_what_came_before_an_error_is_given_before_it(self, serve: Any) -> None:
        gone = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}
        fixture = await serve(serving([line("ADDED", config_map("a", rv=1)) + line("ERROR", gone)]))
        async with fixture.list_watch().watch(ListOptions()) as events:
            assert [event.object.name for event in await anext(events)] == ["a"]
            with pytest.raises(ExpiredError, match="too old"):
                await anext(events)

    async def test_a_malformed_line_fails_the_stream_after_what_came_before_it(self, serve: Any) -> None:
        fixture = await serve(serving([line("ADDED", config_map("a", rv=1)) + b"{nonsense}\n"]))
        async with fixture.list_watch().watch(ListOptions()) as events:
            assert len(await anext(events)) == 1
            with pytest.raises(DecodeError):
                await anext(events)

    async def test_an_object_that_cannot_be_decoded_becomes_a_delete_of_its_key_and_version(
        self, serve: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        poison = config_map("bad", rv=8)
        poison["metadata"]["labels"] = {"a": 7}
        pieces = (
            line("ADDED", config_map("a", rv=7)) + line("MODIFIED", poison) * 2 + line("ADDED", config_map("c", rv=9))
        )
        fixture = await serve(serving([pieces]))
        list_watch = fixture.list_watch()
        async with list_watch.watch(ListOptions()) as events:
            batch = await anext(events)
        assert [event.type for event in batch] == ["ADDED", "DELETED", "DELETED", "ADDED"]
        assert (batch[1].object.key, batch[1].object.name, batch[1].object.namespace) == (
            "default/bad",
            "bad",
            "default",
        )
        assert batch[1].object.to_dict() == {
            "metadata": {"namespace": "default", "name": "bad", "resourceVersion": "8"}
        }
        assert [event.object.resource_version for event in batch] == ["7", "8", "8", "9"]
        assert list_watch.stats.decode_errors == 2
        assert said(caplog, "decode_error") == [Said("ERROR", "kinformer.list_watch", "v1/configmaps", "default/bad")]

    async def test_an_object_whose_name_cannot_be_read_becomes_a_bookmark_of_its_version(self, serve: Any) -> None:
        poison = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": 7, "resourceVersion": "8"}}
        fixture = await serve(serving([line("MODIFIED", poison)]))
        list_watch = fixture.list_watch()
        async with list_watch.watch(ListOptions()) as events:
            (event,) = await anext(events)
        assert (event.type, event.object.resource_version, event.object.key) == ("BOOKMARK", "8", "")
        assert list_watch.stats.decode_errors == 1

    async def test_an_object_of_another_kind_fails_the_stream_until_the_next_list(self, serve: Any) -> None:
        secret = {**config_map("b", rv=8), "kind": "Secret"}
        bodies = {"": config_map_list(2), "true": line("ADDED", config_map("a", rv=7)) + line("ADDED", secret)}

        async def answer(request: web.Request) -> web.StreamResponse:
            return await send_chunks(request, [bodies[request.query.get("watch", "")]])

        fixture = await serve(answer)
        list_watch = fixture.list_watch()
        for _ in range(2):
            await read(await list_watch.list(ListOptions()))
            async with list_watch.watch(ListOptions()) as events:
                assert [event.object.name for event in await anext(events)] == ["a"]
                with pytest.raises(WatchError, match="in default: expected ConfigMap of v1, got Secret of v1 'b'"):
                    await anext(events)

    async def test_an_object_without_even_a_version_fails_the_stream(self, serve: Any) -> None:
        fixture = await serve(serving([line("ADDED", {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}})]))
        async with fixture.list_watch().watch(ListOptions()) as events:
            with pytest.raises(WatchError):
                await anext(events)

    @pytest.mark.parametrize(
        ("body", "content_type"),
        [(b"\n <!DOCTYPE html>", "application/json"), (b"Sign in", "text/html; charset=utf-8")],
    )
    async def test_a_login_page_with_status_200_is_a_watch_error(
        self, serve: Any, body: bytes, content_type: str
    ) -> None:
        fixture = await serve(serving([body], content_type=content_type))
        async with fixture.list_watch().watch(ListOptions()) as events:
            with pytest.raises(WatchError, match="a proxy is answering"):
                await anext(events)

    async def test_an_event_above_the_cap_is_an_error_that_says_so(self, serve: Any) -> None:
        fixture = await serve(serving([line("ADDED", config_map("a", data={"x": "y" * 5000}, rv=1))]))
        async with fixture.list_watch(max_event_bytes=4096).watch(ListOptions()) as events:
            with pytest.raises(DecodeError, match="max_event_bytes=4096"):
                _ = [batch async for batch in events]

    async def test_leaving_and_cancelling_in_mid_stream_close_the_connection(self, serve: Any) -> None:
        fixture = await serve(hang)
        async with fixture.list_watch().watch(ListOptions()):
            assert fixture.server.open == 1
        await fixture.server.until_idle()
        entered = asyncio.Event()

        async def follow() -> None:
            async with fixture.list_watch().watch(ListOptions()) as events:
                entered.set()
                await anext(events)

        task = asyncio.create_task(follow())
        await entered.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fixture.server.until_idle()
        gc.collect()


class Cluster:
    """Answers what `tip` and `presence` ask, and counts."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.kube_system: web.Response | None = None
        self.rv = "5"
        self.uid = "cluster-1"
        self.flow_schema = ""
        self.on_tip: asyncio.Event | None = None

    async def __call__(self, request: web.Request) -> web.Response:
        answer = await self._answer(request)
        if self.flow_schema:
            answer.headers["X-Kubernetes-PF-FlowSchema-UID"] = self.flow_schema
        return answer

    async def _answer(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        await asyncio.sleep(0)
        if request.path == "/api/v1/namespaces/kube-system":
            return self.kube_system or json_answer(
                {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": self.uid}}
            )
        assert dict(request.query) == {"limit": "1"}
        answer = json_answer({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": self.rv}})
        if self.on_tip is not None:
            self.on_tip.set()
            await asyncio.sleep(0.02)
        return answer


class TestTip:
    async def test_it_is_asked_once_for_all_who_want_it_and_without_selectors(self, serve: Any) -> None:
        cluster = Cluster()
        fixture = await serve(cluster)
        all_of_them = [fixture.list_watch(label_selector=f"a={number}") for number in range(10)]
        tips = await asyncio.gather(*(list_watch.tip() for list_watch in all_of_them))
        assert set(tips) == {("5", "cluster-1")}
        assert len(cluster.paths) == 2
        other = ListWatch(fixture.client, "v1/configmaps", namespace="other")
        assert await other.tip() == ("5", "cluster-1")
        assert len(cluster.paths) == 4

    async def test_who_asks_while_it_is_under_way_gets_the_next_one(self, serve: Any) -> None:
        cluster = Cluster()
        fixture = await serve(cluster)
        sent = asyncio.Event()
        first = asyncio.create_task(fixture.list_watch().tip())
        cluster.on_tip = sent
        await sent.wait()
        cluster.rv = "6"  # the answer that is under way has been made
        later = [asyncio.create_task(fixture.list_watch().tip()) for _ in range(3)]
        assert (await first).resource_version == "5"
        assert {(await tip).resource_version for tip in later} == {"6"}
        assert cluster.paths.count("/api/v1/namespaces/default/configmaps") == 2

    async def test_which_cluster_it_is_costs_no_list(self, serve: Any) -> None:
        cluster = Cluster()
        fixture = await serve(cluster)
        both = [fixture.list_watch(), ListWatch(fixture.client, "v1/pods")]
        assert await asyncio.gather(*(list_watch.cluster() for list_watch in both)) == ["cluster-1"] * 2
        assert cluster.paths == ["/api/v1/namespaces/kube-system"]

    async def test_a_known_flow_schema_shows_which_cluster_it_is(self, serve: Any) -> None:
        cluster = Cluster()
        cluster.flow_schema = "schema-1"
        list_watch = (await serve(cluster)).list_watch()
        assert [await list_watch.tip() for _ in range(3)] == [("5", "cluster-1")] * 3
        assert cluster.paths.count("/api/v1/namespaces/kube-system") == 1

    @pytest.mark.parametrize("schema", ["schema-2", ""])
    async def test_an_unknown_flow_schema_may_be_that_of_another_cluster(self, serve: Any, schema: str) -> None:
        cluster = Cluster()
        cluster.flow_schema = "schema-1"
        list_watch = (await serve(cluster)).list_watch()
        await list_watch.tip()
        cluster.flow_schema, cluster.uid = schema, "cluster-2"
        assert await list_watch.tip() == ("5", "cluster-2")

    async def test_an_answer_of_before_is_not_used_again(self, serve: Any) -> None:
        cluster = Cluster()
        list_watch = (await serve(cluster)).list_watch()
        await list_watch.tip()
        cluster.rv = "9"
        assert (await list_watch.tip()).resource_version == "9"

    @pytest.mark.virtual_time
    @pytest.mark.parametrize("code", [403, 404])
    async def test_a_hidden_kube_system_makes_the_cluster_unknown_for_a_minute(self, serve: Any, code: int) -> None:
        cluster = Cluster()
        cluster.kube_system = status_answer(code, "")
        list_watch = (await serve(cluster)).list_watch()
        assert await list_watch.tip() == ("5", None)
        cluster.kube_system = None
        await asyncio.sleep(30)
        assert await list_watch.tip() == ("5", None)
        await asyncio.sleep(31)
        assert await list_watch.tip() == ("5", "cluster-1")

    async def test_one_who_is_cancelled_leaves_the_others_their_answer(self, serve: Any) -> None:
        cluster = Cluster()
        list_watch = (await serve(cluster)).list_watch()
        first, second = (asyncio.create_task(list_watch.tip()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == ("5", "cluster-1")
        assert first.cancelled()

    async def test_a_failure_is_raised_and_not_remembered(self, serve: Any) -> None:
        cluster = Cluster()
        list_watch = (await serve(cluster)).list_watch()
        cluster.kube_system = status_answer(500, "InternalError")
        with pytest.raises(ServerError):
            await list_watch.tip()
        cluster.kube_system = None
        assert await list_watch.tip() == ("5", "cluster-1")


async def test_a_list_watch_is_what_its_ports_ask_for_and_names_itself(serve: Any) -> None:
    fixture = await serve(hang)
    list_watch = fixture.list_watch()
    assert isinstance(list_watch, ListerWatcher)
    assert isinstance(list_watch, ServerProbe)
    assert list_watch.name == "v1/configmaps in default"
    assert str(ListWatch(fixture.client, "apps/v1/deployments").resource) == "apps/v1/deployments"
    with pytest.raises(ConfigError):
        ListWatch(fixture.client, "configmaps")


async def test_an_api_error_on_entering_a_watch_is_raised_there(serve: Any) -> None:
    async def answer(request: web.Request) -> web.Response:
        return status_answer(429, "TooManyRequests", "storage is (re)initializing", Retry_After="1")

    with pytest.raises(APIError) as caught:
        async with (await serve(answer)).list_watch().watch(ListOptions()):
            pytest.fail("entered")
    assert caught.value.retry_after == 1.0
