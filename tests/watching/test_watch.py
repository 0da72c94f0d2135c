"""A stream of all changes, without a cache."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import Any

import pytest
from aiohttp import web

from kinformer import (
    Backoff,
    Client,
    ConfigError,
    ConnectError,
    KubeObject,
    ListOptions,
    ListPage,
    ListWatch,
    NotFoundError,
    WatchEvent,
    watch,
)
from kinformer.exceptions import DecodeError, ExpiredError, ResourceVersionTooLargeError
from kinformer.list_watcher import ServerTip
from kinformer.testing import APIServer, faults
from kinformer.watching import StreamEvent, WatchStream
from tests.support.fault_scene import Reply, listed
from tests.support.http_server import HttpServer, line, status_answer
from tests.support.kube import config_map, entry
from tests.support.memory_source import MemorySource
from tests.support.scripted_source import HANG, ScriptedSource, added, bookmark, deleted, end, modified, page
from tests.support.waiting import settle, until

pytestmark = pytest.mark.virtual_time


def names(*events: StreamEvent) -> list[str]:
    """The events in short: `+a`, `~a`, `-a`; `x` before the name if there is no object."""
    signs = {"ADDED": "+", "UPDATED": "~", "DELETED": "-"}
    return [f"{signs[one.type]}{'' if one.object else 'x'}{one.key.partition('/')[2]}" for one in events]


async def read(stream: WatchStream, count: int, seconds: float = 600) -> list[StreamEvent]:
    async with asyncio.timeout(seconds):
        return [await anext(stream) for _ in range(count)]


async def silent(stream: WatchStream, seconds: float = 5) -> None:
    """Check that nothing comes; the `anext` that is cancelled loses nothing."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(stream), seconds)


@asynccontextmanager
async def synced(source: Any, count: int, **options: Any) -> AsyncIterator[WatchStream]:
    """A stream whose initial objects have been read, and which watches."""
    async with watch(source, **options) as events:
        assert [one.type for one in await read(events, count)] == ["ADDED"] * count
        await silent(events, 1)
        assert events.has_synced
        yield events


def source_of(*objects: str) -> MemorySource:
    source = MemorySource()
    for name in objects:
        source.set(name)
    return source


# --- what it tells ------------------------------------------------------------------------------------


@pytest.mark.parametrize("watch_list", [None, False])
async def test_it_tells_the_objects_that_exist_and_then_each_change(watch_list: bool | None) -> None:
    source = source_of("a", "b")
    async with watch(source, watch_list=watch_list) as events:
        first = await read(events, 2)
        assert names(*first) == ["+a", "+b"]
        assert [one.is_in_initial_list for one in first] == [True, True]
        await silent(events, 1)
        for value in ("1", "2", "3"):
            source.set("a", data={"x": value})
        source.set("c")
        source.delete("b")
        changes = await read(events, 5)
        assert names(*changes) == ["~a", "~a", "~a", "+c", "-b"]
        assert [one.object["data"].get("x") for one in changes[:3]] == ["1", "2", "3"]
        assert not any(one.is_in_initial_list for one in changes)
        assert changes[4].uid == first[1].uid == changes[4].object.uid
        assert events.objects == 2


async def test_a_late_delete_of_an_earlier_object_of_a_name_is_no_event() -> None:
    first, second = entry("a", rv=5, uid="1"), entry("a", rv=7, uid="2")
    changes = [WatchEvent("DELETED", first), WatchEvent("ADDED", second)]
    late = [WatchEvent("DELETED", first), WatchEvent("ADDED", entry("b", rv=8))]
    source = ScriptedSource([ListPage([first], "5")], [[changes, 1.0, late, HANG]])
    async with watch(source, watch_list=False) as events:
        assert names(*await read(events, 4)) == ["+a", "-a", "+a", "+b"]
        assert events.objects == 2


async def test_from_now_on_tells_no_object_that_exists_but_what_becomes_of_it() -> None:
    source = source_of("a", "b", "c")
    async with watch(source, initial=False) as events:
        await silent(events)
        assert events.has_synced
        assert events.objects == 3
        source.set("a", data={})
        source.delete("b")
        assert names(*await read(events, 2)) == ["~a", "-b"]
        source.delete("c")
        source.expire()
        assert names(*await read(events, 1)) == ["-xc"]


async def test_another_object_of_the_same_name_is_a_delete_and_an_add() -> None:
    source = source_of("a")
    async with synced(source, 1) as events:
        source.history.clear()  # the delete is not seen
        source.set("a", uid="another")
        gone, new = await read(events, 2)
        assert names(gone, new) == ["-xa", "+a"]
        assert (gone.uid, new.uid) == ("uid-2", "another")


async def test_an_event_that_was_told_is_not_told_again() -> None:
    script = ScriptedSource(
        [page(rv=5)], [[[added("a", 6)], [added("a", 6), modified("a", 7), modified("a", 7)], HANG]]
    )
    async with watch(script, watch_list=False) as events:
        assert names(*await read(events, 2)) == ["+a", "~a"]
        await silent(events)


async def test_events_of_a_source_of_ones_own_are_objects() -> None:
    class Documents:
        async def list(self, options: ListOptions) -> ListPage:
            return ListPage([config_map("a", rv=2, uid="u")], "2")

        @asynccontextmanager
        async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
            async def events() -> AsyncIterator[list[WatchEvent]]:
                yield [WatchEvent("MODIFIED", config_map("a", rv=3, uid="u"))]
                await asyncio.Event().wait()

            yield events()

    async with watch(Documents(), watch_list=False) as events:
        found = await read(events, 2)
    assert names(*found) == ["+a", "~a"]
    assert all(isinstance(one.object, KubeObject) for one in found)


# --- faults ------------------------------------------------------------------------------------


async def change_everything(source: MemorySource) -> None:
    source.set("changed", data={"x": "new"})
    source.delete("gone")
    source.delete("replaced")
    source.set("replaced", uid="another")
    source.set("new")


@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("watch_list", [None, False])
async def test_after_a_410_it_tells_the_difference_deletes_included(watch_list: bool | None, initial: bool) -> None:
    source = source_of("same", "changed", "gone", "replaced")
    async with watch(source, watch_list=watch_list, initial=initial) as events:
        told = await read(events, 4 if initial else 0)
        await silent(events, 1)
        uids = {one.key: one.uid for one in told}
        source.fail_with = OSError("away")
        source.cut()
        await asyncio.sleep(1)
        await change_everything(source)
        source.expire()
        source.fail_with = None
        difference = await read(events, 5)
        assert sorted(names(*difference)) == ["+new", "+replaced", "-xgone", "-xreplaced", "~changed"]
        at = names(*difference)
        assert at.index("-xreplaced") + 1 == at.index("+replaced")
        for one in difference if initial else ():
            if one.type == "DELETED":
                assert one.uid == uids[one.key]
        await silent(events, 100)
        assert events.health().live
        assert events.health().relists == 1


async def test_a_restart_of_the_server_is_followed(server: APIServer, client: Client) -> None:
    for name in ("a", "b", "c"):
        server.create(config_map(name))
    async with synced(ListWatch(client, "v1/configmaps", namespace="default"), 3) as events:
        restarting = asyncio.ensure_future(server.restart(downtime=10))
        await asyncio.sleep(5)
        assert not events.health().live
        server.delete("v1/configmaps", "default", "b")
        server.update(config_map("c", data={"x": "new"}))
        await restarting
        gone, changed = sorted(await read(events, 2), key=lambda event: event.key)
        assert (gone.type, gone.key, changed.type, changed.key) == ("DELETED", "default/b", "UPDATED", "default/c")
        await silent(events, 100)
        assert events.health().live


@pytest.mark.parametrize("fault", ["silent_close", "close_mid_line", "reset", "duplicate_event", "garble", "stall"])
async def test_a_cut_stream_loses_nothing_and_tells_nothing_twice(
    server: APIServer, client: Client, fault: str
) -> None:
    truth: dict[str, str] = {}
    async with synced(ListWatch(client, "v1/configmaps", namespace="default"), 0) as events:
        kind = getattr(faults, fault)()
        server.faults.add(kind, verb="watch", resource="v1/configmaps", after_events=2, times=3)
        seen: dict[str, str] = {}

        async def reading() -> None:
            async for one in events:
                if one.type == "DELETED":
                    del seen[one.key]
                else:
                    assert seen.get(one.key) != one.object.resource_version
                    assert (one.type == "ADDED") == (one.key not in seen)
                    seen[one.key] = one.object.resource_version

        reader = asyncio.ensure_future(reading())
        for number in range(30):
            document = server.create(config_map(f"m-{number}"))
            truth[f"default/m-{number}"] = document["metadata"]["resourceVersion"]
            if number % 3 == 0:
                server.delete("v1/configmaps", "default", f"m-{number}")
                del truth[f"default/m-{number}"]
            await asyncio.sleep(10)
        await until(lambda: seen == truth, 600)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader


async def test_a_server_that_goes_back_in_time_is_told_as_it_is(server: APIServer, client: Client) -> None:
    server.create(config_map("old"))
    async with synced(ListWatch(client, "v1/configmaps", namespace="default"), 1) as events:
        server.create(config_map("lost"))
        assert names(*await read(events, 1)) == ["+lost"]
        server.faults.add(faults.rewind(1), times=1)
        await server.restart(downtime=5)
        assert names(*await read(events, 1)) == ["-xlost"]


async def test_a_list_that_is_made_again_tells_no_initial_object_twice() -> None:
    lists = [
        page(added("a", 3).object, added("b", 4).object, rv=9, token="next"),
        ConnectError("cut"),
        page(added("b", 4).object, added("c", 5).object, rv=10, token="next"),
        ExpiredError(410, "Expired", "token"),
        page(added("b", 4).object, added("c", 8).object, rv=11),
    ]
    async with watch(ScriptedSource(lists, []), watch_list=False, page_size=2) as events:
        told = await read(events, 5)
        assert names(*told) == ["+a", "+b", "+c", "~c", "-xa"]
        await silent(events)
        assert events.has_synced
        assert events.resource_version == "11"


async def test_a_first_list_that_is_made_again_is_the_newest_even_if_it_is_older() -> None:
    lists = [
        page(added("a", 9).object, added("b", 8).object, rv=9, token="next"),
        ConnectError("cut"),
        page(added("a", 4).object, rv=5),
    ]
    source = ScriptedSource(lists, [])
    async with watch(source, watch_list=False, page_size=2) as events:
        told = await read(events, 4)
        assert names(*told) == ["+a", "+b", "~a", "-xb"]
        assert told[2].object.resource_version == "4"
        await silent(events)
        assert events.resource_version == "5"
    assert source.versions("list") == ["0", None, None]


@pytest.mark.parametrize("relist", [False, True])
async def test_a_late_repetition_in_an_initial_stream_is_no_event(relist: bool) -> None:
    late = [[added("a", 5), added("b", 4)], [modified("a", 7), modified("a", 5), added("c", 8), end(8)], HANG]
    before = [[added("a", 5), added("b", 4), end(5)], ExpiredError(410, "Expired", "old")]
    async with watch(ScriptedSource([], [before, late] if relist else [late])) as events:
        told = await read(events, 4)
        assert names(*told) == ["+a", "+b", "~a", "+c"]
        assert told[2].object.resource_version == "7"
        await silent(events)


async def test_an_initial_stream_that_is_made_again_is_the_newest_even_if_it_is_older() -> None:
    first = [[added("a", 9)], ConnectError("cut")]
    again = [[added("b", 2)], [bookmark(2), added("a", 4), end(4)], HANG]
    async with watch(ScriptedSource([], [first, again])) as events:
        told = await read(events, 3)
        assert names(*told) == ["+a", "+b", "~a"]
        assert told[2].object.resource_version == "4"
        await silent(events)


async def test_an_object_that_goes_while_the_initial_stream_comes_is_told() -> None:
    stream = [[added("a", 3), added("b", 4)], [deleted("a", 7), modified("b", 8), bookmark(8), end(8)], HANG]
    async with watch(ScriptedSource([], [stream])) as events:
        assert names(*await read(events, 4)) == ["+a", "+b", "-a", "~b"]
        assert events.objects == 1
        await silent(events)
        assert events.resource_version == "8"


async def test_an_absent_resource_is_told_as_deletes() -> None:
    class Removed(MemorySource):
        async def presence(self) -> bool:
            return False

    source = Removed()
    source.set("a")
    async with synced(source, 1) as events:
        source.fail_with = NotFoundError(404, "NotFound", "no such resource")
        source.cut()
        assert names(*await read(events, 1)) == ["-xa"]


async def test_an_object_whose_new_state_cannot_be_decoded_is_told_as_gone() -> None:
    bad = config_map("a", rv=8)
    bad["metadata"]["labels"] = {"a": 7}

    async def answer(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/configmaps"):
            return status_answer(404, "NotFound")
        if "watch" in request.query:
            return await Reply([line("MODIFIED", bad), line("ADDED", config_map("c", rv=9)), HANG]).give(request)
        return await listed(config_map("a", rv=7), config_map("b", rv=6), rv=7).give(request)

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        source = ListWatch(client, "v1/configmaps", namespace="default")
        async with watch(source, watch_list=False) as events:
            assert names(*await read(events, 4)) == ["+a", "+b", "-xa", "+c"]


@pytest.mark.parametrize("watch_list", [None, False])
@pytest.mark.parametrize("seed", range(8))
async def test_any_history_is_told_so_that_its_reader_ends_in_the_truth(seed: int, watch_list: bool | None) -> None:
    chance = random.Random(seed)
    source = source_of(*(f"m-{number}" for number in range(chance.randrange(20))))
    seen: dict[str, tuple[str, str]] = {}

    def told(event: StreamEvent) -> None:
        before = seen.pop(event.key, None)
        assert (event.type == "ADDED") == (before is None), event
        if event.type == "DELETED":
            assert before is not None
            assert event.uid == before[0]
            return
        seen[event.key] = (event.uid, event.object.resource_version)
        assert event.uid == event.object.uid
        assert seen[event.key] != before
        assert event.type == "ADDED" or (before and before[0] == event.uid)

    async with watch(source, watch_list=watch_list, queue_size=chance.choice([1, 3, 1024])) as events:
        for _ in range(300):
            name = f"m-{chance.randrange(20)}"
            match chance.choice(
                ["set", "set", "set", "delete", "delete", "replace", "read", "read", "cut", "away", "410"]
            ):
                case "set":
                    source.set(name, data={"x": str(chance.random())})
                case "delete" if f"default/{name}" in source.objects:
                    source.delete(name)
                case "replace":
                    source.set(name, uid=f"uid-{chance.random()}")
                case "cut":
                    source.cut()
                case "away":
                    source.fail_with = OSError("away") if source.fail_with is None else None
                    source.cut()
                case "410":
                    source.expire()
                case "read":
                    for _ in range(chance.randrange(8)):
                        with suppress(TimeoutError):
                            told(await asyncio.wait_for(anext(events), chance.choice([0, 0.1, 5])))
        source.fail_with = None
        truth = {obj.key: (obj.uid, obj.resource_version) for obj in source.objects.values()}
        with suppress(TimeoutError):
            while True:
                told(await asyncio.wait_for(anext(events), 300))
        assert seen == truth
        assert events.objects == len(truth)
        assert events.resource_version == str(source.version)


class Torn(MemorySource):
    """Lists of which each is cut at a random object, until `whole`; between two tries objects change, come and go."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.whole = False
        self.tries = 0

    def change(self) -> None:
        for _ in range(self.chance.randrange(4)):
            name = f"m-{self.chance.randrange(60)}"
            if f"default/{name}" in self.objects and self.chance.random() < 0.6:
                self.delete(name)
            else:
                self.set(name, data={"x": str(self.chance.random())})

    def _until_cut(self) -> list[KubeObject]:
        self.tries += 1
        objects = sorted(self.objects.values(), key=lambda obj: obj.key)
        return objects if self.whole else objects[: self.chance.randrange(1 + len(objects))]

    async def list(self, options: ListOptions) -> ListPage:
        async def items() -> AsyncIterator[list[KubeObject]]:
            for obj in self._until_cut():
                yield [obj]
            if not self.whole:
                self.change()
                raise ConnectError("cut")

        return ListPage(items(), str(self.version))

    async def events(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        if self.whole or not options.send_initial_events:
            async for events in super().events(options):
                yield events
        else:
            for obj in self._until_cut():
                yield [WatchEvent("ADDED", obj)]
            gone = self.chance.choice([*self.objects])
            yield [WatchEvent("DELETED", self.objects[gone])]
            self.change()


@pytest.mark.parametrize("initial", [True, False])
@pytest.mark.parametrize("watch_list", [True, False])
@pytest.mark.parametrize("seed", range(6))
async def test_lists_that_are_cut_leave_nothing_behind_in_the_difference_of_the_one_that_is_whole(
    seed: int, watch_list: bool, initial: bool
) -> None:
    source = Torn(random.Random(seed))
    for number in range(0, 60, 2):
        source.set(f"m-{number}")
    source.whole = True
    before = {obj.key: (obj.uid, obj.resource_version) for obj in source.objects.values()}
    quick = Backoff(initial=0.01, factor=1, maximum=0.01)
    async with watch(source, watch_list=watch_list, initial=initial, backoff=quick) as events:
        await read(events, len(before) if initial else 0)
        for relist in (1, 2, 3):
            await silent(events, 60)
            source.whole, tries = False, source.tries
            source.expire()
            source.change()
            await until(lambda tries=tries: source.tries >= tries + 5, 600)  # type: ignore[misc]
            assert events.pending == 0  # nothing is told of a list that is not whole
            source.whole = True
            await until(lambda relist=relist: events.health().relists == relist, 600)  # type: ignore[misc]
            after = {obj.key: (obj.uid, obj.resource_version) for obj in source.objects.values()}
            assert events.objects == len(after)
            told = []
            while events.pending:
                with suppress(TimeoutError):
                    told.append(await asyncio.wait_for(anext(events), 1))
            expected = [("DELETED", key, uid) for key, (uid, _) in before.items() if after.get(key, ("",))[0] != uid]
            for key, (uid, version) in after.items():
                if before.get(key, ("",))[0] != uid:
                    expected.append(("ADDED", key, uid))
                elif before[key][1] != version:
                    expected.append(("UPDATED", key, uid))
            assert sorted((one.type, one.key, one.uid) for one in told) == sorted(expected)
            assert events.objects == len(after)
            before = after


# --- resuming ------------------------------------------------------------------------------------


async def test_a_stream_is_resumed_from_the_version_that_the_program_kept() -> None:
    source = source_of("a", "b", "c")
    async with watch(source) as events:
        await read(events, 3)
        await silent(events, 1)
        source.set("a", data={"x": "1"})
        source.set("b", data={"x": "1"})
        await read(events, 1)
        kept = events.resource_version
    assert kept == source.objects["default/a"].resource_version
    source.delete("c")
    source.set("d")
    source.set("d", data={"x": "2"})
    source.delete("d")
    async with watch(source, resource_version=kept) as events:
        assert names(*await read(events, 5)) == ["~b", "-c", "+d", "~d", "-d"]
        assert events.resource_version == str(source.version)
        source.set("a", data={"x": "2"})
        assert names(*await read(events, 1)) == ["~a"]
        source.delete("a")
        source.expire()
        assert names(*await read(events, 1)) == ["-xa"]
        assert events.objects == 1


@pytest.mark.parametrize("stop_after", range(7))
async def test_streams_that_are_resumed_at_any_event_tell_together_what_one_tells(stop_after: int) -> None:
    source = source_of("a", "b")
    async with watch(source) as events:
        await read(events, 2)
        await silent(events, 1)
        source.set("c")
        source.set("a", data={})
        source.delete("a")
        source.set("a", uid="again")
        source.delete("b")
        source.set("b")
        told = await read(events, stop_after)
        kept = events.resource_version
    async with watch(source, resource_version=kept) as events:
        told += await read(events, 6 - stop_after)
        await silent(events)
    assert names(*told) == ["+c", "~a", "-a", "+a", "-b", "+b"]


async def test_a_stream_that_is_left_within_a_difference_is_resumed_before_it() -> None:
    old = page(added("a", 5).object, added("b", 5).object, rv=5)
    new = page(added("a", 6).object, added("b", 7).object, rv=7)
    async with watch(ScriptedSource([old, new], [[DecodeError("garbage")], [HANG]]), watch_list=False) as events:
        assert names(*await read(events, 3)) == ["+a", "+b", "~a"]
        assert (events.resource_version, events.pending) == ("5", 1)
        assert names(*await read(events, 1)) == ["~b"]
        assert (events.resource_version, events.pending) == ("5", 1)
        kept = events.resource_version
        await silent(events)
        assert (events.resource_version, events.pending) == ("7", 0)
    source = ScriptedSource([new], [[[modified("a", 6), modified("b", 7)], HANG]])
    async with watch(source, resource_version=kept, watch_list=False) as events:
        assert names(*await read(events, 2)) == ["~a", "~b"]


async def test_an_event_that_is_repeated_before_the_stream_has_caught_up_is_told_once() -> None:
    changes = [modified("a", 6), deleted("b", 7), added("b", 8), modified("a", 9)]
    twice = [each for change in changes for each in (change, change)]
    script = ScriptedSource(
        [page(added("a", 9).object, added("b", 8).object, rv=9)], [[twice[:5], twice[5:], [modified("a", 10)], HANG]]
    )
    async with watch(script, resource_version="5", watch_list=False) as events:
        assert names(*await read(events, 5)) == ["~a", "-b", "+b", "~a", "~a"]
        await silent(events)
        assert events.resource_version == "10"


async def test_a_version_that_the_server_has_forgotten_is_an_error_and_no_silent_loss() -> None:
    source = source_of("a")
    kept = str(source.version)
    source.delete("a")
    source.expire()
    async with watch(source, resource_version=kept) as events:
        with pytest.raises(ExpiredError, match=rf"changes since resourceVersion {kept} are lost; start without"):
            await read(events, 1)
        assert events.health().state == "stopped"


async def test_a_list_that_is_needed_before_the_stream_has_caught_up_is_an_error() -> None:
    script = ScriptedSource(
        [page(added("b", 8).object, rv=9), page(rv=10)], [[[modified("b", 6)], DecodeError("garbage")]]
    )
    async with watch(script, resource_version="5", watch_list=False) as events:
        assert names(*await read(events, 1)) == ["~b"]
        with pytest.raises(ExpiredError, match="since resourceVersion 6 are lost"):
            await read(events, 1)


async def test_the_error_of_a_resumed_stream_comes_behind_what_it_has_told_and_only_before_it_has_caught_up() -> None:
    answers = [page(added("a", 8).object, rv=9), page(added("a", 9).object, rv=10)]
    watches: list[Any] = [
        [[modified("b", 6), modified("b", 7)], ConnectError("cut")],
        ExpiredError(410, "Expired", "old"),
    ]
    async with watch(ScriptedSource(answers, watches), resource_version="5", watch_list=False) as events:
        await asyncio.sleep(60)  # the failure has come; the events before it wait
        assert events.health().state == "stopped"
        assert names(*await read(events, 2)) == ["~b", "~b"]
        with pytest.raises(ExpiredError, match="old; changes since resourceVersion 7 are lost; start without"):
            await read(events, 1)
        assert events.resource_version == "7"
    watches = [[[modified("b", 6), modified("a", 9)], ConnectError("cut")], ExpiredError(410, "Expired", "old"), [HANG]]
    answers = [page(added("a", 9).object, added("b", 6).object, rv=9), page(added("a", 12).object, rv=12)]
    async with watch(ScriptedSource(answers, watches), resource_version="5", watch_list=False) as events:
        assert names(*await read(events, 4)) == ["~b", "~a", "~a", "-xb"]
        assert events.objects == 1
        await silent(events)


async def test_a_version_of_another_server_is_an_error() -> None:
    async with watch(source_of("a"), resource_version="1000000") as events:
        with pytest.raises(ResourceVersionTooLargeError):
            await read(events, 1)


async def test_the_version_is_that_of_what_has_been_read() -> None:
    source = source_of("a", "b")
    async with watch(source) as events:
        await read(events, 1)
        assert events.resource_version == ""
        assert not events.has_synced
        await read(events, 1)
        await silent(events, 1)
        assert events.resource_version == str(source.version)
        source.set("a", data={})
        source.set("b", data={})
        await settle()
        await read(events, 1)
        assert events.resource_version == str(source.version - 1)


# --- slow readers ------------------------------------------------------------------------------------


class Endless(MemorySource):
    """Counts the batches that are read of it; a watch has `batches` of ten events each."""

    def __init__(self, batches: int) -> None:
        super().__init__(watch_list=False)
        self.batches = batches
        self.read = 0

    async def tip(self) -> ServerTip:
        return ServerTip("100000")

    async def events(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        start = int(options.resource_version or 0) - 1
        for number in range(start // 10, self.batches):
            self.read += 1
            yield [added(f"{number}-{one}", 2 + number * 10 + one) for one in range(10)]
        await asyncio.Event().wait()


async def test_no_more_is_read_from_the_server_than_the_reader_can_hold() -> None:
    source = Endless(1000)
    async with watch(source, queue_size=50) as events:
        await asyncio.sleep(1)
        assert source.read == 5
        assert events.pending == 50
        await asyncio.sleep(100_000)  # no idle timeout, no deadline lets in more
        assert events.pending <= 60
        assert events.health().consecutive_failures == 0
        await read(events, 24)
        await asyncio.sleep(1)
        assert events.pending <= 36
        await read(events, 2)
        await until(lambda: 50 <= events.pending <= 60)
        assert len(await read(events, 9_000)) == 9_000


@pytest.mark.parametrize("watch_list", [None, False])
async def test_a_reader_that_is_slow_during_the_first_list_gets_all_of_it_in_the_end(
    server: APIServer, client: Client, watch_list: bool | None
) -> None:
    for number in range(300):
        server.create(config_map(f"m-{number:03}"))
    source = ListWatch(client, "v1/configmaps", namespace="default")
    async with watch(source, queue_size=10, watch_list=watch_list) as events:
        seen = []
        for _ in range(300):
            seen += await read(events, 1)
            await asyncio.sleep(1)
        assert names(*seen) == [f"+m-{number:03}" for number in range(300)]
        server.create(config_map("new"))
        assert names(*await read(events, 1)) == ["+new"]


class Hasty(MemorySource):
    """Cuts every list, or initial stream, that has not been read for a minute."""

    def __init__(self) -> None:
        super().__init__()
        self.cuts = 0

    def _each(self) -> Iterator[KubeObject]:
        began = asyncio.get_running_loop().time()
        for obj in sorted(self.objects.values(), key=lambda obj: obj.key):
            if asyncio.get_running_loop().time() - began > 60:
                self.cuts += 1
                raise ConnectError("cut: it was not read")
            yield obj

    async def list(self, options: ListOptions) -> ListPage:
        async def items() -> AsyncIterator[list[KubeObject]]:
            for obj in self._each():
                yield [obj]

        return ListPage(items(), str(self.version))

    async def events(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
        if options.send_initial_events:
            for obj in self._each():
                yield [WatchEvent("ADDED", obj)]
        async for events in super().events(options):
            yield events


@pytest.mark.parametrize("watch_list", [None, True, False])
async def test_a_reader_that_is_cut_during_a_list_for_its_slowness_is_told_the_rest_by_the_next_ones(
    watch_list: bool | None,
) -> None:
    source = Hasty()
    for number in range(40):
        source.set(f"m-{number:02}")
    errors: list[Exception] = []
    options: dict[str, Any] = {"queue_size": 4, "watch_list": watch_list, "backoff": Backoff(initial=0.1, maximum=1)}
    async with watch(source, on_error=lambda _, error: errors.append(error), **options) as events:
        told = []
        for number in range(40):
            told += await read(events, 1)
            if number == 10:
                source.delete("m-03")  # which has been told
                source.set("m-05", data={"x": "new"})
                source.set("m-39", data={"x": "new"})  # which has not
            await asyncio.sleep(20)
        told += await read(events, 2)
        assert sorted(names(*told)) == sorted([*(f"+m-{number:02}" for number in range(40)), "~m-05", "-xm-03"])
        assert source.cuts >= 5
        assert {str(error) for error in errors} >= {"cut: it was not read"}
        await silent(events)
        assert events.has_synced
        assert events.health().live
        assert events.objects == 39
        source.set("m-00", data={"x": "new"})
        assert names(*await read(events, 1)) == ["~m-00"]


async def test_a_reader_that_is_away_for_a_day_is_told_the_difference() -> None:
    source = source_of("a", "b")
    async with synced(source, 2, queue_size=4) as events:
        for number in range(10):
            source.set("a", data={"x": str(number)})
        await asyncio.sleep(3600)
        source.delete("b")
        source.set("c")
        source.expire()
        await asyncio.sleep(86400)
        told = await read(events, 12)
        assert names(*told)[:10] == ["~a"] * 10
        assert sorted(names(*told)[10:]) == ["+c", "-xb"]


async def test_a_difference_is_read_in_slices_that_let_others_run() -> None:
    source = MemorySource()
    for number in range(3000):
        source.set(f"m-{number}")
    async with synced(source, 3000) as events:
        source.objects.popitem()
        source.expire()
        await until(lambda: events.pending)
        turns, told = 0, []
        while events.pending:
            reading = asyncio.ensure_future(anext(events))
            while events.pending and not reading.done():
                turns += 1
                await asyncio.sleep(0)
            if reading.done():
                told.append(reading.result())
            reading.cancel()
            await asyncio.wait([reading])
        assert names(*told) == ["-xm-2999"]
        assert turns > 20


# --- life ------------------------------------------------------------------------------------


async def test_a_cancelled_read_loses_nothing() -> None:
    source = source_of()
    async with synced(source, 0) as events:
        told: list[StreamEvent] = []
        for number in range(50):
            source.set(f"m-{number}")
            reading = asyncio.ensure_future(anext(events))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
            if not reading.cancelled():
                told.append(reading.result())
        told += await read(events, 50 - len(told))
        assert names(*told) == [f"+m-{number}" for number in range(50)]


async def test_leaving_with_unread_events_ends_everything_at_once() -> None:
    before = asyncio.all_tasks()
    source = source_of(*(f"m-{number}" for number in range(5000)))
    async with watch(source, queue_size=10) as events:
        await read(events, 1)
        assert events.pending >= 9
    assert asyncio.all_tasks() == before
    assert (events.pending, events.objects) == (0, 0)
    assert events.health().state == "stopped"
    with pytest.raises(StopAsyncIteration):
        await anext(events)


async def test_leaving_ends_the_iteration_of_another_task() -> None:
    async def reading() -> int:
        return len([one async for one in events])

    async with watch(source_of("a")) as events:
        reader = asyncio.ensure_future(reading())
        await asyncio.sleep(1)
    assert await reader == 1


async def test_one_task_reads_at_a_time_and_a_stream_is_entered_once() -> None:
    events = watch(source_of())
    with pytest.raises(RuntimeError, match="is not open"):
        await anext(events)
    assert events.health().state == "starting"
    async with events:
        reader = asyncio.ensure_future(anext(events))
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="is being read by another task"):
            await anext(events)
        reader.cancel()
    with pytest.raises(RuntimeError, match="has already been entered"):
        await events.__aenter__()


async def test_health_is_that_of_an_informer(server: APIServer, client: Client) -> None:
    async with synced(ListWatch(client, "v1/configmaps"), 0) as events:
        health = events.health()
        assert (health.state, health.synced, health.live) == ("watching", True, True)
        server.faults.add(faults.status(403), resource="v1/configmaps")
        await server.restart()
        await until(lambda: events.health().state == "forbidden", 60)
        assert not events.health().live
        server.faults.clear()
        await until(lambda: events.health().live, 120)


async def test_errors_are_reported_and_one_that_is_raised_ends_the_stream() -> None:
    reported: list[tuple[str, str]] = []

    def on_error(stream: WatchStream, error: Exception) -> None:
        reported.append((stream.name, str(error)))
        if len(reported) == 3:
            raise LookupError("enough")

    source = source_of("a")
    source.fail_with = OSError("away")
    async with watch(source, on_error=on_error, name="maps", watch_list=False) as events:
        with pytest.raises(LookupError, match="enough"):
            await read(events, 1)
        with pytest.raises(LookupError):
            await anext(events)
    assert reported == [("maps", "away")] * 3


async def test_what_was_received_is_read_before_the_error_that_ended_the_stream() -> None:
    def on_error(stream: WatchStream, error: Exception) -> None:
        raise error

    script = ScriptedSource([page(added("a", 3).object, rv=3)], [[[modified("a", 4)], OSError("cut")]])
    async with watch(script, on_error=on_error, watch_list=False) as events:
        await asyncio.sleep(1)
        assert names(*await read(events, 2)) == ["+a", "~a"]
        with pytest.raises(OSError, match="cut"):
            await anext(events)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue_size": 0}, "queue_size=0"),
        ({"resource_version": "0"}, "resource_version='0': pass a version from a stream"),
        ({"resource_version": "latest"}, "resource_version='latest'"),
        ({"resource_version": 5}, "resource_version=5"),
        ({"idle_timeout": 0}, "idle_timeout=0"),
    ],
)
def test_an_option_that_cannot_work_is_named(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        watch(MemorySource(), **options)


# --- memory ------------------------------------------------------------------------------------


async def test_no_object_is_kept_once_it_has_been_read() -> None:
    source = source_of("a", "b")
    async with synced(source, 2) as events:
        source.set("a", data={"x": "1"})
        (event,) = await read(events, 1)
        raw = event.object.raw
        del event
        source.objects.clear()
        source.history.clear()
        source.set("another")  # the source and the reflector have moved on, too
        await read(events, 1)
        gc.collect()
        nowhere_else = raw + b" "
        assert sys.getrefcount(raw) == sys.getrefcount(nowhere_else)


MANY = 20_000


class Generated:
    """Makes each object as it is listed, and keeps none."""

    name = "v1/pods"

    def __init__(self) -> None:
        self._expired = asyncio.Event()

    def expire(self) -> None:
        """End the open watch with a 410."""
        self._expired.set()

    def made(self) -> Iterable[KubeObject]:
        for number in range(MANY):
            uid = f"6ba7b810-9dad-41d1-80b4-{number:012}"
            key = {"name": f"web-7d9c5b6f4-{number:05x}", "namespace": f"team-{number % 50:02}"}
            metadata = {**key, "uid": uid, "resourceVersion": str(1000 + number), "labels": {"app": "web"}}
            yield KubeObject.from_dict(
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"a": "b" * 900}}
            )

    async def list(self, options: ListOptions) -> ListPage:
        async def items() -> AsyncIterator[list[KubeObject]]:
            for obj in self.made():
                yield [obj]

        return ListPage(items(), str(1000 + MANY))

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[list[WatchEvent]]]:
        async def events() -> AsyncIterator[list[WatchEvent]]:
            if options.send_initial_events:
                for obj in self.made():
                    yield [WatchEvent("ADDED", obj)]
                yield [end(1000 + MANY)]
            await self._expired.wait()
            self._expired.clear()
            raise ExpiredError(410, "Expired", "too old")

        yield events()


@pytest.mark.slow
@pytest.mark.parametrize("watch_list", [True, False])
async def test_an_object_costs_at_most_150_bytes_also_while_a_list_comes(watch_list: bool) -> None:
    source = Generated()
    shared = [obj.namespace for obj in islice(source.made(), 50)]  # the interpreter's table of them does not grow
    gc.collect()
    tracemalloc.start()
    try:
        async with watch(source, watch_list=watch_list, queue_size=64) as events:
            for _ in range(MANY):
                await anext(events)
            await silent(events, 1)
            held, first = tracemalloc.get_traced_memory()
            assert events.objects == MANY
            tracemalloc.reset_peak()
            for relists in (1, 2):
                source.expire()
                await silent(events, 60)
                assert (events.health().relists, events.objects) == (relists, MANY)
            _, again = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(set(shared)) == 50
    assert 60 * MANY < held < 120 * MANY
    assert first < 150 * MANY
    assert again < 130 * MANY
