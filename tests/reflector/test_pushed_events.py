"""An event that comes alone is stored in the callback in which it arrives, and nothing else differs by that.

The store knows whether an event was pushed: no task runs while it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import Client, ListWatch
from kinformer.list_watcher import ListOptions, WatchEvent
from kinformer.reflector import Reflector
from tests.support.fault_scene import EVEN, HANG, Piece, Reply, event, listed, mark
from tests.support.http_server import HttpServer
from tests.support.waiting import until

ALONE = 0.01  # seconds of silence before an event, after which it has come alone
TASK_OF_A_USER: ContextVar[str] = ContextVar("TASK_OF_A_USER", default="nobody's")


def changed(version: int) -> bytes:
    return event("MODIFIED", "a", version)


def watches_of(server: HttpServer) -> list[Mapping[str, str]]:
    return [request.query for request in server.requests if "watch" in request.query]


class Versions:
    """A store that keeps the versions it was given, and whether a task gave them."""

    def __init__(self) -> None:
        self.found: list[int] = []
        self.pushed: list[bool] = []
        self.contexts: set[str] = set()
        self.fails_at = 0

    def update(self, obj: Any) -> None:
        version = int(obj.resource_version)
        self.found.append(version)
        self.pushed.append(asyncio.current_task() is None)
        self.contexts.add(TASK_OF_A_USER.get())
        if version == self.fails_at:
            raise LookupError(f"no room for {version}")

    add = update

    def delete(self, obj: Any) -> None:
        raise AssertionError(obj)

    def replace(self, items: list[Any], resource_version: str) -> None:
        del items, resource_version

    def resync(self) -> None:
        pass


@asynccontextmanager
async def following(
    pieces: Sequence[Piece], store: Any, source: type[ListWatch] = ListWatch, **options: Any
) -> AsyncIterator[tuple[asyncio.Task[None], Reflector, HttpServer]]:
    """A reflector of a server that lists nothing at version 1, and sends these pieces to the first watch."""
    watches = [Reply(pieces)]

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return await listed(rv=1).give(request)
        return await (watches.pop() if watches else Reply([HANG])).give(request)

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        reflector = Reflector(source(client, "v1/configmaps"), store, backoff=EVEN, watch_list=False, **options)
        running = asyncio.create_task(reflector.run())
        try:
            yield running, reflector, server
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_an_event_that_comes_alone_is_stored_without_waking_the_task() -> None:
    store = Versions()
    pieces = [mark(2), *(piece for version in range(3, 9) for piece in (ALONE, changed(version))), HANG]
    async with following(pieces, store):
        await until(lambda: store.found == list(range(3, 9)))
    # The first event of a kind is decoded by the rules for any form of an event, in the task.
    assert store.pushed == [False, True, True, True, True, True]


async def test_an_event_that_comes_alone_in_parts_is_stored_without_waking_the_task() -> None:
    """A kube-apiserver writes one of 8 KB in two parts, and the end of its HTTP chunk in a third."""
    store = Versions()
    pieces: list[Piece] = [changed(2)]
    for version in range(3, 9):
        line = changed(version)
        pieces += [ALONE, line[:40], 0.001, line[40:70], 0.001, line[70:]]
    async with following([*pieces, HANG], store):
        await until(lambda: store.found == list(range(2, 9)))
    assert store.pushed == [False, True, True, True, True, True, True]


async def test_an_event_in_parts_that_only_the_task_can_decode_is_read_whole_by_it() -> None:
    store = Versions()
    odd = changed(3).replace(b'{"type"', b'{ "type"')
    pieces = [changed(2), ALONE, odd[:50], ALONE, odd[50:], ALONE, changed(4), HANG]
    async with following(pieces, store):
        await until(lambda: store.found == [2, 3, 4])
    assert store.pushed == [False, False, True]


@pytest.mark.virtual_time
async def test_a_part_of_an_event_is_a_sign_of_life(arrival: str) -> None:
    del arrival
    store = Versions()
    line = changed(3)
    parts = [piece for at in range(50) for piece in (60.0, line[at : at + 1])]
    async with following([changed(2), *parts, line[50:], HANG], store, watch_timeout=3600, idle_timeout=90) as (
        _,
        _,
        server,
    ):
        await asyncio.sleep(50 * 60 + 10)
        assert store.found == [2, 3]
        assert len(watches_of(server)) == 1


async def test_events_that_come_together_are_read_by_the_task() -> None:
    store = Versions()
    together = b"".join(changed(version) for version in range(4, 9))
    half = changed(9)
    pieces = [
        changed(2),
        ALONE,
        changed(3),
        ALONE,
        together,
        ALONE,
        half[:50],
        ALONE,
        half[50:] + changed(10),
        ALONE,
        changed(11),
        HANG,
    ]
    async with following(pieces, store):
        await until(lambda: store.found == list(range(2, 12)))
    assert [store.pushed[1], any(store.pushed[2:9]), store.pushed[9]] == [True, False, True]


async def test_an_event_of_another_form_is_read_by_the_task() -> None:
    store = Versions()
    odd = changed(3).replace(b'{"type"', b'{ "type"')
    pieces = [changed(2), ALONE, odd, ALONE, b"\n", ALONE, changed(4).replace(b"\n", b"\r\n"), ALONE, changed(5), HANG]
    async with following(pieces, store):
        await until(lambda: store.found == [2, 3, 4, 5])
    assert store.pushed == [False, False, False, True]


@pytest.mark.parametrize("arrival", ["pulled"], indirect=True)
async def test_without_what_pushing_needs_of_aiohttp_the_task_reads_all(arrival: str) -> None:
    del arrival
    store = Versions()
    async with following([changed(2), ALONE, changed(3), ALONE, changed(4), HANG], store):
        await until(lambda: store.found == [2, 3, 4])
    assert not any(store.pushed)


class Doubling(ListWatch):
    """A source of a user's own, which tells every event twice."""

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def twice(stream: AsyncIterator[list[WatchEvent]]) -> AsyncIterator[list[WatchEvent]]:
            async for events in stream:
                yield events + events

        async with super().watch(options) as stream:
            yield twice(stream)


async def test_a_source_that_changes_the_events_of_another_sees_each_of_them() -> None:
    store = Versions()
    async with following([changed(2), ALONE, changed(3), ALONE, changed(4), HANG], store, Doubling):
        await until(lambda: store.found == [2, 2, 3, 3, 4, 4])


async def test_a_store_sees_the_context_of_the_reflectors_task(arrival: str) -> None:
    store = Versions()
    TASK_OF_A_USER.set("mine")
    async with following([changed(2), ALONE, changed(3), HANG], store):
        TASK_OF_A_USER.set("another's")
        await until(lambda: store.found == [2, 3])
    assert store.contexts == {"mine"}
    assert store.pushed[1] == (arrival == "pushed")


async def test_what_a_store_raises_ends_the_reflector_and_nothing_is_written_twice(arrival: str) -> None:
    store = Versions()
    store.fails_at = 4
    unhandled: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    pieces = [changed(2), ALONE, changed(3), ALONE, changed(4), changed(5), HANG]
    async with following(pieces, store) as (running, _, server):
        with pytest.raises(LookupError, match="no room for 4"):
            await asyncio.wait_for(running, 10)
        await server.until_idle()
    assert store.found == [2, 3, 4]
    assert store.pushed[-1] == (arrival == "pushed")
    assert unhandled == []


async def test_an_event_of_an_unknown_type_is_a_failure_after_those_before_it(arrival: str) -> None:
    del arrival
    store = Versions()
    pieces = [changed(2), ALONE, changed(3), ALONE, changed(4).replace(b"MODIFIED", b"RENAMED!"), HANG]
    async with following(pieces, store) as (_, _, server):
        await until(lambda: any(request.query.get("resourceVersion") == "3" for request in server.requests))
    assert store.found == [2, 3]


@pytest.mark.virtual_time
async def test_events_and_bookmarks_are_signs_of_life(arrival: str) -> None:
    del arrival
    store = Versions()
    pieces = [piece for version in range(2, 60) for piece in (50.0, (changed, mark)[version % 2](version))]
    async with following([*pieces, HANG], store, watch_timeout=3600, idle_timeout=90) as (_, reflector, server):
        await asyncio.sleep(58 * 50 + 10)
        assert store.found == list(range(2, 60, 2))
        assert reflector.last_sync_resource_version == "59"
        assert len(watches_of(server)) == 1
        await asyncio.sleep(100)  # silent for 90 s
        assert len(watches_of(server)) == 2


async def test_after_it_was_cancelled_nothing_more_is_stored(arrival: str) -> None:
    del arrival
    store = Versions()
    pieces = [piece for version in range(2, 200) for piece in (0.002, changed(version))]
    async with following(pieces, store) as (running, _, server):
        await until(lambda: len(store.found) > 20)
        running.cancel()
        await asyncio.wait([running])
        stored = len(store.found)
        await server.until_idle()
        await asyncio.sleep(0.05)
    assert store.found == list(range(2, stored + 2))


class Narrow(Versions):
    """A store that is full after each event, until somebody has waited for room."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False
        self.overfull = 0
        self.known = None

    def write(self, events: Sequence[WatchEvent], resource_version: str) -> None:
        del resource_version
        self.overfull += self.full
        for _, obj in events:
            self.update(obj)
        self.full = True

    def sink(self) -> Any:
        raise NotImplementedError

    def is_full(self) -> bool:
        return self.full

    async def room(self) -> None:
        await asyncio.sleep(ALONE)
        self.full = False


async def test_while_the_store_is_full_nothing_is_pushed_into_it(arrival: str) -> None:
    store = Narrow()
    pieces = [piece for version in range(2, 40) for piece in (changed(version), 0.004)]
    async with following([*pieces, HANG], store):
        await until(lambda: store.found == list(range(2, 40)))
    assert store.overfull == 0
    del arrival


pauses = st.sampled_from([0.0, 0.0, 0.0005, 0.001, 0.003])


@settings(max_examples=60)
@given(cuts=st.lists(st.tuples(st.integers(1, 900), pauses), max_size=40), odd=st.sets(st.integers(0, 28)))
def test_however_events_arrive_each_is_stored_once_and_in_order(cuts: list[tuple[int, float]], odd: set[int]) -> None:
    """Of a stream that is cut anywhere, with and without pauses, in which some lines have another form."""
    lines = [changed(version) for version in range(2, 31)]
    lines = [line.replace(b":{", b" : {") if number in odd else line for number, line in enumerate(lines)]
    data = b"".join(lines)
    pieces: list[Piece] = []
    ends = {len(b"".join(lines[:number])) for number in range(len(lines))}
    at = 0
    for size, pause in cuts:
        end = min((end for end in ends if end >= at + size), default=at + size) if pause else at + size
        pieces += [data[at:end], pause] if data[at:end] else []
        at = end
    pieces += [data[at:], HANG] if data[at:] else [HANG]

    async def run() -> None:
        store = Versions()
        async with following(pieces, store) as (_, reflector, server):
            await until(lambda: len(store.found) >= 29)
            assert store.found == list(range(2, 31))
            assert reflector.last_sync_resource_version == "30"
            assert len(watches_of(server)) == 1

    asyncio.run(run())
