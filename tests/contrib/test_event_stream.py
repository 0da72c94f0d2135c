"""Server-sent events to a browser, even after it was away, was slow, or the server is about to end.

Internals: the log and the folding, whose limits and sharing no browser sees, and the informer with a model.
"""

from __future__ import annotations

import asyncio
import json
import signal
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kinformer import KubeObject, SelectorError, SharedInformer
from kinformer.contrib.event_log import EventLog
from kinformer.contrib.event_source import Sight, folded
from kinformer.contrib.fastapi import EventSourceResponse, close_event_streams, sse_response
from kinformer.informer.typed import ModelInformer
from tests.support.bare_http import connected
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.sockets import connections_from
from tests.support.waiting import until
from tests.support.web_server import EventReader, reading, serving


@asynccontextmanager
async def streaming(source: MemorySource, **options: Any) -> AsyncIterator[tuple[SharedInformer, str]]:
    """An informer of `source`, and the URL of its event stream."""
    informer = SharedInformer(source)

    async def events(request: Request) -> Response:
        return sse_response(informer, request.query_params.get("selector"), **options)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with informer:
            yield

    async with serving(Starlette(routes=[Route("/events", events)], lifespan=lifespan)) as url:
        yield informer, f"{url}/events"


def filled(count: int, **fields: Any) -> MemorySource:
    source = MemorySource()
    for number in range(count):
        source.set(f"map-{number}", **fields)
    return source


def names(events: list[Any]) -> set[str]:
    return {event.data["metadata"]["name"] for event in events}


async def test_a_browser_gets_all_objects_and_then_every_change() -> None:
    source = filled(3)
    async with streaming(source) as (_, url), reading(url) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.answer.headers["cache-control"] == "no-store"
        first = await stream.take(3)
        assert {event.type for event in first} == {"ADDED"}
        assert names(first) == {"map-0", "map-1", "map-2"}
        source.set("map-1", data={"a": "b"})
        source.delete("map-2")
        source.set("new")
        changes = await stream.take(3)
        assert [(event.type, event.data["metadata"]["name"]) for event in changes] == [
            ("UPDATED", "map-1"),
            ("DELETED", "map-2"),
            ("ADDED", "new"),
        ]
        assert changes[0].data["data"] == {"a": "b"}


async def test_of_a_snapshot_only_the_last_event_has_an_id_and_of_changes_each() -> None:
    source = filled(3)
    async with streaming(source) as (_, url), reading(url) as stream:
        assert [event.id is not None for event in await stream.take(3)] == [False, False, True]
        epoch, number, version = stream.last_id.split("-")
        assert epoch
        source.set("map-0", data={"a": "b"})
        assert (await stream.next()).id == f"{epoch}-{int(number) + 1}-{int(version) + 1}"


async def test_an_empty_cache_gives_an_id_without_an_event() -> None:
    source = MemorySource()
    async with streaming(source) as (informer, url), reading(url) as stream:
        await informer.wait_synced(5)
        await until(lambda: source.watches)
        source.set("a")
        event = await stream.next()
        assert (event.type, event.data["metadata"]["name"]) == ("ADDED", "a")
        assert event.id is not None


async def test_who_comes_back_goes_on_after_the_last_id() -> None:
    source = filled(2)
    async with streaming(source) as (informer, url):
        async with reading(url) as stream:
            await stream.take(2)
            seen = stream.last_id
        source.set("map-0", data={"a": "b"})
        source.set("late")
        await until(lambda: len(informer.lister) == 3)
        async with reading(url, last_id=seen) as stream:
            missed = await stream.take(2)
            assert [(event.type, event.data["metadata"]["name"]) for event in missed] == [
                ("UPDATED", "map-0"),
                ("ADDED", "late"),
            ]
        async with reading(f"{url}?last-event-id={missed[0].id}") as stream:  # as a page says it that opens anew
            event = await stream.next()
            assert event.data["metadata"]["name"] == "late"


@pytest.mark.parametrize("last_id", ["nonsense", "000000000000-1", "-", "", "0" * 40, "{epoch}-999999", "{epoch}--1"])
async def test_an_id_that_says_nothing_gives_a_fresh_snapshot(last_id: str) -> None:
    async with streaming(filled(2)) as (_, url):
        async with reading(url) as stream:
            await stream.take(2)
            epoch = stream.last_id.partition("-")[0]
        async with reading(url, last_id=last_id.format(epoch=epoch)) as stream:
            assert (await stream.next()).type == "RESET"
            assert names(await stream.take(2)) == {"map-0", "map-1"}


async def test_a_gap_in_the_log_gives_a_fresh_snapshot() -> None:
    source = filled(2)
    informer = SharedInformer(source)
    async with informer:
        log = EventLog({"maps": informer}, events=4)
        log.start()
        await log.wait_synced()
        seen = log.name_of(log.last)
        assert await log.resume(seen) == log.last
        for turn in range(10):
            source.set("map-0", data={"turn": str(turn)})
        await until(lambda: log.last == 12)
        assert await log.resume(seen) is None
        assert log.since(2) is None
        assert [change.number for change in log.since(9) or ()] == [10, 11, 12]
        assert log.since(12) == ()
        await log.close()


async def test_the_bytes_that_a_log_may_hold_are_those_of_states_that_the_cache_has_no_more() -> None:
    source = filled(20, data={"fill": "x" * 1000})
    async with SharedInformer(source) as informer:
        log = EventLog({"maps": informer}, size=5000)
        log.start()
        await log.wait_synced()
        await until(lambda: log.last == 20)
        assert log.since(0) is not None, "the first states cost nothing more"
        for number in range(20):
            source.set(f"map-{number}")
        await until(lambda: log.last == 40)
        assert log.since(36) is not None
        assert log.since(30) is None
        await log.close()


async def test_a_selector_shows_what_enters_and_leaves_it_as_adds_and_deletes() -> None:
    source = MemorySource()
    source.set("a", labels={"app": "web"})
    source.set("b", labels={"app": "db"})
    async with streaming(source) as (_, url), reading(url, selector="app=web") as stream:
        assert names(await stream.take(1)) == {"a"}
        source.set("b", labels={"app": "db"}, data={"quiet": "1"})  # not for this reader
        source.set("b", labels={"app": "web"})
        seen = await stream.take(1)
        source.set("a", labels={"app": "db"})
        seen += await stream.take(1)
        source.set("b", labels={"app": "web"}, data={"x": "y"})
        seen += await stream.take(1)
        assert [(event.type, event.data["metadata"]["name"]) for event in seen] == [
            ("ADDED", "b"),
            ("DELETED", "a"),
            ("UPDATED", "b"),
        ]


async def test_a_bad_selector_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(SelectorError):
        sse_response(SharedInformer(MemorySource()), "app in (")


async def test_a_new_object_of_an_old_name_is_a_delete_and_an_add() -> None:
    source = filled(1)
    async with streaming(source) as (_, url), reading(url) as stream:
        await stream.take(1)
        source.set("map-0", uid="another")
        kinds = [event.type for event in await stream.take(2)]
        assert kinds == ["DELETED", "ADDED"]


async def test_the_bytes_of_an_object_are_passed_on_as_they_are() -> None:
    raw = b'{"metadata":{"name":"odd","uid":"u","resourceVersion":"9"},\n  "n": 1.0, "big": 12345678901234567890123}'
    obj = KubeObject.from_json(raw)
    source = MemorySource()
    source.objects["odd"] = obj
    source.version = 9
    async with streaming(source) as (informer, url):
        await informer.wait_synced(5)
        async with httpx.AsyncClient(timeout=60) as client, client.stream("GET", url) as answer:
            text = ""
            async for piece in answer.aiter_text():
                text += piece
                if "12345678901234567890123" in text:
                    break
    data = "\n".join(line[6:] for line in text.splitlines() if line.startswith("data: "))
    assert data.encode() == raw
    assert json.loads(data)["n"] == 1.0


async def test_a_typed_cache_of_packed_objects_is_passed_on_as_json() -> None:
    informer = ModelInformer(SharedInformer(filled(2, data={"a": "b"}), compact=True), dict)

    async def events(request: Request) -> Response:
        return sse_response(informer)

    async with informer, serving(Starlette(routes=[Route("/", events)])) as url, reading(url) as stream:
        assert [event.data["data"] for event in await stream.take(2)] == [{"a": "b"}] * 2


async def test_nothing_but_comments_comes_before_the_first_list_and_while_nothing_happens() -> None:
    source = filled(1)
    source.hang = True
    async with streaming(source, heartbeat=0.02) as (_, url), reading(url) as stream:
        waiting = asyncio.create_task(stream.next())
        await until(lambda: stream.comments > 2)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_heartbeat_notes_that_changes_were_not_for_this_reader() -> None:
    source = MemorySource()
    source.set("a", labels={"app": "web"})
    async with streaming(source, heartbeat=0.02) as (_, url), reading(url, selector="app=web") as stream:
        await stream.take(1)
        before = stream.last_id
        source.set("b", labels={"app": "db"})
        reader = asyncio.create_task(stream.next())
        await until(lambda: stream.last_id != before)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


def open_streams() -> int:
    return sum(task.get_name() == "kinformer event stream" for task in asyncio.all_tasks())


async def test_a_browser_that_leaves_is_noticed_at_once() -> None:
    async with streaming(filled(1)) as (_, url):
        async with reading(url) as stream:
            await stream.take(1)
            assert open_streams() == 1
        await until(lambda: open_streams() == 0, 5)


async def test_a_slow_browser_gets_the_last_state_and_costs_no_memory() -> None:
    """It reads nothing while 20,000 changes of 50 large objects go by; then it gets to the truth soon."""
    source = filled(50, data={"fill": "x" * 2000})
    async with streaming(source) as (informer, url), reading(url) as stream:
        await stream.take(50)
        for turn in range(400):
            for number in range(50):
                source.set(f"map-{number}", data={"fill": "x" * 2000, "turn": str(turn)})
            await asyncio.sleep(0)
        await until(lambda: informer.last_sync_resource_version == str(source.version), 30)
        last: dict[str, str] = {}
        events = 0
        while len(last) < 50 or set(last.values()) != {"399"}:
            event = await stream.next(30)
            if event.type == "RESET":
                last.clear()
                continue
            events += 1
            last[event.data["metadata"]["name"]] = event.data["data"].get("turn", "")
        assert events < 10_000, "nothing was folded"
        assert int(stream.last_id.split("-")[1]) > 20_000


async def test_the_stream_ends_when_the_informer_is_left() -> None:
    informer = SharedInformer(filled(1))

    async def events(request: Request) -> Response:
        return sse_response(informer)

    await informer.__aenter__()
    async with serving(Starlette(routes=[Route("/events", events)])) as url, reading(f"{url}/events") as stream:
        await stream.take(1)
        await informer.__aexit__(None, None, None)
        with pytest.raises(StopAsyncIteration):
            await stream.next()


async def test_the_stream_of_an_informer_that_never_synced_ends_with_it() -> None:
    source = MemorySource()
    source.hang = True
    informer = SharedInformer(source)

    async def events(request: Request) -> Response:
        return sse_response(informer)

    await informer.__aenter__()
    async with serving(Starlette(routes=[Route("/events", events)])) as url, reading(f"{url}/events") as stream:
        await until(lambda: open_streams() == 1)
        await informer.__aexit__(None, None, None)
        with pytest.raises(StopAsyncIteration):
            await stream.next()


async def test_streams_can_be_ended_by_hand() -> None:
    async with streaming(filled(1)) as (_, url), reading(url) as stream:
        await stream.take(1)
        close_event_streams()
        with pytest.raises(StopAsyncIteration):
            await stream.next()


async def test_streams_end_when_uvicorn_is_told_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        should_exit = False

        def handle_exit(self, number: int, frame: object) -> None:
            self.should_exit = True

    server = Server()
    before = signal.signal(signal.SIGTERM, server.handle_exit)
    try:
        async with streaming(filled(1)) as (_, url), reading(url) as stream:
            await stream.take(1)
            server.should_exit = True
            with pytest.raises(StopAsyncIteration):
                await stream.next()
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_ten_streams_share_one_mailbox_of_the_informer() -> None:
    source = filled(2)
    async with streaming(source) as (informer, url), asyncio.TaskGroup() as group:

        async def one() -> None:
            async with reading(url) as stream:
                await stream.take(2)
                await barrier.wait()
                event = await stream.next()
                assert event.type == "ADDED"

        barrier = asyncio.Barrier(11)
        for _ in range(10):
            group.create_task(one())
        await barrier.wait()
        assert list(informer.statistics().pending) == ["event log"]
        source.set("late")


async def test_a_server_without_a_browser_behind_it_ends_in_order() -> None:
    """The ASGI contract itself: a disconnect ends the answer, and nothing is sent after it."""
    sent: list[Any] = []
    gone = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async with SharedInformer(filled(1)) as informer:
        await informer.wait_synced(5)
        answer = sse_response(informer)
        assert isinstance(answer, EventSourceResponse)
        task = asyncio.create_task(answer({"type": "http", "headers": [], "query_string": b""}, receive, send))
        await until(lambda: len(sent) == 2)
        gone.set()
        await asyncio.wait_for(task, 5)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[1]["more_body"]


async def test_a_browser_that_reads_nothing_is_let_go() -> None:
    sent: list[str] = []

    async def send(message: Any) -> None:
        sent.append(message["type"])
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()  # its window is closed

    async def receive() -> Any:
        await asyncio.Event().wait()

    async with SharedInformer(filled(1)) as informer:
        log = EventLog({"maps": informer})
        log.start()
        answer = EventSourceResponse(log, patience=0.05)
        await asyncio.wait_for(answer({"type": "http", "headers": []}, receive, send), 5)
        await log.close()
    assert sent == ["http.response.start", "http.response.body"]


async def test_the_connection_of_a_browser_that_reads_nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with SharedInformer(filled(8, data={"a": "x" * 1_000_000})) as informer:
        log = EventLog({"maps": informer})
        log.start()

        async def events(_: Request) -> Response:
            return EventSourceResponse(log, patience=0.1)

        async with serving(Starlette(routes=[Route("/events", events)])) as url:
            port = httpx.URL(url).port
            assert port is not None
            async with connected(port, 3) as readers:
                for one in readers:
                    one.writer.transport.pause_reading()
                    one.send("GET /events HTTP/1.1\nHost: localhost\n\n")
                await until(lambda: connections_from(port) == 3)
                await until(lambda: connections_from(port) == 0)
        await log.close()
    assert caplog.records == []


async def test_readers_that_stop_reading_share_what_they_are_sent_first() -> None:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def receive() -> Any:
        await asyncio.Event().wait()

    async with SharedInformer(filled(6000)) as informer:
        await informer.wait_synced(timeout=10)
        log = EventLog({"maps": informer})
        log.start()
        await until(lambda: log.last == 6000)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        scope = {"type": "http", "headers": []}
        readers = [asyncio.create_task(EventSourceResponse(log)(scope, receive, send)) for _ in range(50)]
        for _ in range(50):
            await asyncio.sleep(0.01)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await log.close()
    assert held < 50 * 256 * 1024  # a chunk and its parts each; with references of its own 400 KB more


async def test_a_snapshot_is_shared_until_the_next_change() -> None:
    source = filled(3)
    async with SharedInformer(source) as informer:
        log = EventLog({"maps": informer})
        log.start()
        await log.wait_synced()
        await until(lambda: log.last == 3)
        first = log.snapshot()
        assert log.snapshot() is first
        source.set("map-3")
        await until(lambda: log.last == 4)
        assert {obj.name for _, obj in log.snapshot()} == {"map-0", "map-1", "map-2", "map-3"}
        assert {obj.name for _, obj in first} == {"map-0", "map-1", "map-2"}
        await log.close()


# --- folding -----------------------------------------------------------------------------------------------------

Step = tuple[str, str]


def histories() -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["set", "delete", "renew"])), max_size=30)


@settings(deadline=None, max_examples=200)
@given(before=histories(), after=histories(), seen_until=st.integers(0, 30))
def test_folded_changes_lead_to_the_same_state_also_after_others_that_were_cut_off(
    before: list[Step], after: list[Step], seen_until: int
) -> None:
    truth: dict[str, KubeObject] = {}
    sights: list[Sight] = []
    versions = iter(range(1, 1000))

    def happen(steps: list[Step]) -> None:
        for name, step in steps:
            old = truth.get(name)
            if step == "delete" and old is None:
                continue
            version = next(versions)
            if old is not None and step != "set":
                del truth[name]
                sights.append(Sight("DELETED", "maps", old, version))
            if step != "delete":
                uid = old.uid if old is not None and step == "set" else f"uid-{version}"
                truth[name] = KubeObject.from_dict(config_map(name, rv=version, uid=uid))
                kind = "UPDATED" if old is not None and step == "set" else "ADDED"
                sights.append(Sight(kind, "maps", truth[name], version))

    happen(before)
    seen = {obj.uid: obj for obj in truth.values()}
    known = len(sights)
    happen(after)
    due = sights[known:]
    told = folded(due, resumed=False)
    assert [sight.number for sight in told] == sorted(sight.number for sight in told)
    assert len({sight.obj.uid for sight in told}) == len(told)
    exact = dict(seen)
    for sight in told:
        assert (sight.kind == "ADDED") == (sight.obj.uid not in exact), "a change of what the reader never had"
        tell(exact, sight)
    assert exact == {obj.uid: obj for obj in truth.values()}
    for sight in folded(due[:seen_until], resumed=False):  # all of it or a part was seen, and none of it acknowledged
        if sight.number % 2:
            tell(seen, sight)
    for sight in folded(due, resumed=True):
        tell(seen, sight)
    assert seen == exact


def tell(reader: dict[str, KubeObject], sight: Sight) -> None:
    if sight.kind == "DELETED":
        reader.pop(sight.obj.uid, None)
    else:
        reader[sight.obj.uid] = sight.obj


class SlowBrowser:
    """A connection by hand, and what the page behind it holds: uid to name. It takes a chunk when it is let."""

    def __init__(self) -> None:
        self.page: dict[str, str] = {}
        self.last_id = ""
        self.text = ""
        self._let = asyncio.Semaphore(0)

    @asynccontextmanager
    async def connected(self, answer: Response) -> AsyncIterator[None]:
        left = asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                await self._let.acquire()
                self._read(message["body"].decode())

        async def receive() -> Any:
            await left.wait()
            return {"type": "http.disconnect"}

        headers = [(b"last-event-id", self.last_id.encode())] if self.last_id else []
        task = asyncio.create_task(answer({"type": "http", "headers": headers}, receive, send))
        yield
        left.set()
        await task
        self._let = asyncio.Semaphore(0)

    async def take(self, chunks: int) -> None:
        await asyncio.sleep(0.1)  # the changes so far are in the log
        for _ in range(chunks):
            self._let.release()
        await asyncio.sleep(0.1)

    def _read(self, text: str) -> None:
        self.text += text
        for block in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line)
            self.last_id = fields.get("id", self.last_id)
            if "event" in fields:
                metadata = json.loads(fields["data"])["metadata"]
                self.page.pop(metadata["uid"], None)
                if fields["event"] != "DELETED":
                    self.page[metadata["uid"]] = metadata["name"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("selector", [None, "app=web"])
async def test_who_was_cut_off_from_folded_changes_is_told_of_what_is_gone_since(selector: str | None) -> None:
    source = filled(1, labels={"app": "web"})
    browser = SlowBrowser()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(5)
        async with browser.connected(sse_response(informer, selector)):
            await browser.take(1)
            source.set("map-0", labels={"app": "web"}, data={"a": "b"})
            await asyncio.sleep(0.1)  # its chunk is not taken, while there are more changes than are sent one by one
            for number in range(100):
                source.set(f"new-{number}", labels={"app": "web"}, data={"fill": "x" * 2000})
            await browser.take(2)
            assert 1 < len(browser.page) < 101
        for number in range(100):
            if number % 2:
                source.delete(f"new-{number}")
            else:
                source.set(f"new-{number}", labels={"app": "db"})
        await asyncio.sleep(0.1)
        async with browser.connected(sse_response(informer, selector)):
            await browser.take(1000)
        expected = {obj.uid: obj.name for obj in informer.lister.list(selector)}
    assert browser.page == expected


@pytest.mark.virtual_time
async def test_a_delete_that_was_folded_names_the_object_that_the_reader_has() -> None:
    source = filled(2)
    browser = SlowBrowser()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(5)
        async with browser.connected(sse_response(informer)):
            await browser.take(1)
            source.set("map-1", data={"a": "b"})
            await asyncio.sleep(0.1)
            source.delete("map-0")
            source.set("map-0")
            source.delete("map-0")
            for turn in range(100):
                source.set("map-1", data={"turn": str(turn)})
            await browser.take(1000)
    assert list(browser.page.values()) == ["map-1"]


@pytest.mark.virtual_time
async def test_a_heartbeat_comes_also_while_others_are_told_of_changes() -> None:
    source = filled(1)
    browser = SlowBrowser()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(5)
        async with browser.connected(sse_response(informer, "app=none", heartbeat=15)):
            await browser.take(1000)
            for turn in range(60):
                source.set("map-0", data={"turn": str(turn)})
                await asyncio.sleep(1)
    assert browser.text.count(": still here") in (3, 4)
    assert "event:" not in browser.text


async def test_readers_are_not_held_to_the_type_of_reader(capfd: pytest.CaptureFixture[str]) -> None:
    """A stream that ends leaves no complaint of the server behind."""
    async with streaming(filled(1)) as (_, url), reading(url) as stream:
        assert isinstance(stream, EventReader)
        await stream.take(1)
    assert "ASGI" not in capfd.readouterr().err
