"""The requests of a reflector, in order, and its writes to the store, while nothing fails.

Internals: the clocks, and the mark of an object that cannot be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from kinformer import Backoff, Reflector, namespace_keyed_indexer_and_reflector
from kinformer._runtime.clock import Clock
from kinformer.exceptions import ConfigError, WatchError
from kinformer.list_watcher import ListOptions, ListPage, WatchEvent
from kinformer.objects.object import UndecodableObject
from tests.support.scripted_source import (
    HANG,
    TIMEOUT,
    ProbedSource,
    RecordingStore,
    ScriptedSource,
    Slowly,
    added,
    bookmark,
    deleted,
    end,
    modified,
    page,
    pod,
)

pytestmark = pytest.mark.virtual_time


def reflect(source: Any, store: Any = None, **options: Any) -> tuple[Reflector, RecordingStore]:
    store = store if store is not None else RecordingStore()
    options.setdefault("watch_list", False)
    options.setdefault("backoff", Backoff(jitter=0))
    return Reflector(source, store, **options), store


@asynccontextmanager
async def running(reflector: Reflector, seconds: float = 0.1) -> AsyncIterator[asyncio.Task[None]]:
    """The reflector runs for some seconds before the body, and until the end of it."""
    task = asyncio.ensure_future(reflector.run())
    try:
        await asyncio.wait([task], timeout=seconds)
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_lists_once_at_version_0_and_watches_from_there() -> None:
    source = ScriptedSource([page(pod("a", 3), pod("b", 5), rv=7)], [[[added("c", 8)], [modified("a", 9)], HANG]])
    reflector, store = reflect(source)
    async with running(reflector):
        assert source.verbs == ["list", "watch"]
        first, watch = source.asked
        assert first.options.params() == {"resourceVersion": "0", "limit": "500"}
        assert watch.rv == "7"
        assert watch.options.allow_watch_bookmarks
        assert watch.options.send_initial_events is None
        assert store.calls == [("replace", ["a", "b"], "7"), ("add", "c"), ("update", "a")]
        assert reflector.last_sync_resource_version == "9"


async def test_health_says_what_is_going_on() -> None:
    source = ScriptedSource([Slowly([1.0, [pod("a", 3)]], "7")], [[5.0, [added("c", 8)], HANG]])
    reflector, _ = reflect(source)
    assert reflector.health().state == "starting"
    async with running(reflector, 0.5):
        health = reflector.health()
        assert (health.state, health.synced, health.live, health.last_sync_age) == ("listing", False, False, None)
        await asyncio.sleep(2.0)
        health = reflector.health()
        assert (health.state, health.synced, health.live, health.watches) == ("watching", True, True, 1)
        assert health.last_event_age is None
        assert health.last_sync_age == pytest.approx(1.5)
        await asyncio.sleep(5.5)
        health = reflector.health()
        assert health.last_event_age == pytest.approx(2.0)
        assert (health.resource_version, health.relists, health.last_error) == ("8", 0, None)
    health = reflector.health()
    assert (health.state, health.live, health.synced, health.last_error) == ("stopped", False, True, None)


async def test_a_delete_reaches_the_store_and_a_bookmark_moves_the_version() -> None:
    source = ScriptedSource([page(pod("a", 3), rv=7)], [[[deleted("a", 8), bookmark(20)], 1.0]])
    reflector, store = reflect(source)
    async with running(reflector, 1.5):
        assert store.calls[1:] == [("delete", "a"), ("bookmark", "20")]
        assert source.versions("watch") == ["7", "20"]


async def test_a_store_need_not_care_for_bookmarks() -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def add(self, obj: Any) -> None:
            self.seen.append(obj.name)

        update = delete = add

        def replace(self, items: Any, resource_version: str) -> None:
            self.seen.extend(obj.name for obj in items)

        def resync(self) -> None: ...

    source = ScriptedSource([page(pod("a", 3), rv=7)], [[[bookmark(20), added("b", 21)], HANG]])
    reflector, store = reflect(source, Plain())
    async with running(reflector):
        assert store.seen == ["a", "b"]
        assert reflector.last_sync_resource_version == "21"


async def test_a_stream_that_ends_in_order_is_opened_again_at_once_without_a_list() -> None:
    source = ScriptedSource([page(rv=7)], [[1.0], [2.0, [added("a", 8)]], [1.5], [HANG]])
    failures: list[Any] = []
    reflector, _ = reflect(source, on_error=lambda _, error: failures.append(error))
    async with running(reflector, 10):
        assert source.times("watch") == [0.0, 1.0, 3.0, 4.5]
        assert source.versions("watch") == ["7", "7", "8", "8"]
        assert source.verbs.count("list") == 1
        assert reflector.health().live
    assert failures == []


async def test_each_watch_asks_for_a_random_time_of_its_own() -> None:
    source = ScriptedSource([page(rv=7)], [[1.0] for _ in range(30)])
    reflector, _ = reflect(source, watch_timeout=300)
    async with running(reflector, 25):
        seconds = [asked.options.timeout_seconds or 0 for asked in source.asked if asked.verb == "watch"]
        assert all(300 <= value <= 600 for value in seconds)
        assert len(set(seconds)) > 5


async def test_a_server_that_goes_on_after_its_own_timeout_is_left() -> None:
    source = ScriptedSource([page(rv=7)], [[5.0, [bookmark(8)]] * 20])
    reflector, _ = reflect(source, watch_timeout=10, idle_timeout=30)
    async with running(reflector, 35):
        first, second = source.times("watch")
        seconds = source.asked[1].options.timeout_seconds or 0
        assert second - first == seconds + 10
        assert reflector.health().live
        assert dict(reflector.relists) == {}


async def test_all_pages_make_one_list_and_the_version_is_that_of_the_first() -> None:
    source = ScriptedSource([page(pod("a", 3), rv=7, token="t1"), page(pod("b", 4), rv=7, token="t2"), page(rv=7)])
    reflector, store = reflect(source)
    async with running(reflector):
        assert [asked.options.params() for asked in source.asked[:3]] == [
            {"resourceVersion": "0", "limit": "500"},
            {"limit": "500", "continue": "t1"},
            {"limit": "500", "continue": "t2"},
        ]
        assert store.calls == [("replace", ["a", "b"], "7")]


@pytest.mark.parametrize(
    ("options", "in_pages", "limits"),
    [
        ({}, False, [500, None]),
        ({}, True, [500, 500, 500]),
        ({"page_size": None}, False, [500, None]),
        ({"page_size": 20}, False, [20, 20]),
    ],
)
async def test_a_relist_is_made_in_pages_if_the_first_list_came_in_pages_or_a_size_was_asked_for(
    options: dict[str, Any], in_pages: bool, limits: list[int | None]
) -> None:
    first = [page(pod("a", 3), rv=7, token="t"), page(rv=7)] if in_pages else [page(pod("a", 3), rv=7)]
    source = ScriptedSource([*first, page(rv=9)], [[WatchError("?")], [HANG]])
    reflector, _ = reflect(source, **options)
    async with running(reflector, 5):
        assert [asked.options.limit for asked in source.asked if asked.verb == "list"] == limits
        assert source.versions("list")[-1] == "7"


async def test_a_list_that_arrives_bit_by_bit_is_one_list() -> None:
    slowly = Slowly([[pod("a", 3)], 1.0, [], 1.0, [pod("b", 4), pod("c", 5)]], "7")
    source = ScriptedSource([slowly])
    reflector, store = reflect(source)
    async with running(reflector, 3):
        assert store.calls == [("replace", ["a", "b", "c"], "7")]
        assert slowly.closed


async def test_a_relist_keeps_the_objects_that_the_store_has_already() -> None:
    old, fresh_copy, changed = pod("a", 3), pod("a", 3), pod("b", 9)
    recreated = pod("c", 5, uid="another")
    source = ScriptedSource(
        [page(old, pod("b", 4), pod("c", 5), rv=7), page(fresh_copy, changed, recreated, rv=10)],
        [[WatchError("?")], [HANG]],
    )
    reflector, store = reflect(source)
    async with running(reflector, 5):
        assert store.objects["default/a"] is old
        assert store.objects["default/b"] is changed
        assert store.objects["default/c"] is recreated


async def test_a_long_list_leaves_the_loop_its_turns() -> None:
    readings = iter(range(10**6))
    clock = Clock(perf=lambda: next(readings) * 0.001)  # a slow machine: a millisecond between any two looks
    source = ScriptedSource([page(*(pod(f"p{number}", 5) for number in range(5_000)), rv=7)])
    reflector, store = reflect(source, clock=clock)
    async with running(reflector, 0):
        turns = 0
        while not store.calls:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 10
        assert len(store.objects) == 5_000


async def test_a_source_that_never_waits_leaves_the_loop_its_turns() -> None:
    events = [[modified("a", 8 + number)] for number in range(1000)]
    source = ScriptedSource([page(pod("a", 3), rv=7)], [[*events, [modified("a", 5000)] * 2000, HANG]])
    reflector, store = reflect(source)
    async with running(reflector, 0):
        turns = 0
        while len(store.calls) < 3001:
            turns += 1
            await asyncio.sleep(0)
        assert turns > 8


async def test_versions_of_a_watch_without_one_count_from_the_first_event_that_is_no_add() -> None:
    """An odd list without a version makes the server begin the watch with everything, in no order."""
    source = ScriptedSource(
        [page(rv="")],
        [[[added("b", 9)], [added("a", 3)], 1.0], [[added("b", 9), modified("a", 10)], [added("c", 11)], 1.0], [HANG]],
    )
    reflector, _ = reflect(source)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, None, "11"]


async def test_what_is_left_of_an_add_is_no_end_of_the_unordered_part_of_a_watch() -> None:
    left = [
        WatchEvent("DELETED", UndecodableObject.of("default/b", "9")),
        WatchEvent("BOOKMARK", UndecodableObject.of("", "8")),
    ]
    source = ScriptedSource([page(rv="")], [[left, [added("a", 3)], 1.0], [[modified("a", 10), *left], 1.0], [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, None, "8"]


async def test_objects_without_metadata_of_their_own_can_be_reflected() -> None:
    class Source(ScriptedSource):
        async def list(self, options: Any) -> ListPage:
            await super().list(options)
            return ListPage([{"isbn": "1"}], "7")

    class Books(RecordingStore):
        def add(self, obj: Any) -> None:
            self.calls.append(("add", obj["isbn"]))

        def replace(self, items: list[Any], resource_version: str) -> None:
            self.calls.append(("replace", [book["isbn"] for book in items], resource_version))

    source = Source([page(rv=7)], [[[WatchEvent("ADDED", {"isbn": "2"})], HANG]])
    reflector, store = reflect(source, Books())
    async with running(reflector):
        assert store.calls == [("replace", ["1"], "7"), ("add", "2")]
        assert reflector.last_sync_resource_version == "7"


async def test_dicts_carry_their_version_in_their_metadata() -> None:
    obj = {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "12"}}
    source = ScriptedSource([page(rv=7)], [[[WatchEvent("ADDED", obj)], 1.0]])
    indexer, reflector = namespace_keyed_indexer_and_reflector(source, watch_list=False)
    async with running(reflector, 1.5):
        assert indexer.list_keys() == ["default/a"]
        assert indexer.by_index("namespace", "default") == [obj]
        assert source.versions("watch") == ["7", "12"]


# --- WatchList ----------------------------------------------------------------------------------------------------


async def test_the_list_comes_as_a_stream_that_goes_on_as_the_watch() -> None:
    source = ScriptedSource(
        watches=[[[added("b", 9), added("a", 3)], [modified("a", 10), deleted("b", 11), end(12), added("c", 13)], HANG]]
    )
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector):
        assert source.verbs == ["watch"]
        params = source.asked[0].options.params()
        params.pop("timeoutSeconds")
        assert params == {
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
            "allowWatchBookmarks": "true",
        }
        assert store.calls == [("replace", ["a"], "12"), ("add", "c")]
        assert store.objects["default/a"].resource_version == "10"
        assert reflector.last_sync_resource_version == "13"
        assert (reflector.health().state, reflector.health().synced) == ("watching", True)


async def test_nothing_of_an_initial_stream_is_seen_before_its_end_bookmark() -> None:
    source = ScriptedSource(
        watches=[[[added("a", 3)], 5.0, [bookmark(8), bookmark(9, end="false")], 5.0, [end(9)], HANG]]
    )
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 9):
        assert store.calls == []
        assert reflector.last_sync_resource_version == ""
        assert (reflector.health().state, reflector.health().live) == ("listing", False)
        await asyncio.sleep(2)
        assert store.calls == [("replace", ["a"], "9")]


async def test_a_relist_by_stream_asks_for_nothing_older_than_what_was_seen() -> None:
    old = pod("a", 3)
    source = ScriptedSource(
        watches=[[[WatchEvent("ADDED", old)], [end(9)], WatchError("?")], [[added("a", 3)], [end(12)], HANG]]
    )
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, "9"]
        assert store.objects["default/a"] is old
        assert store.named("replace") == [("replace", ["a"], "9"), ("replace", ["a"], "12")]
        assert dict(reflector.relists) == {"watch_error": 1}


async def test_after_an_initial_stream_the_next_watch_goes_on_from_its_last_event() -> None:
    source = ScriptedSource(watches=[[[added("a", 3), end(9)], [modified("a", 10)], 1.0], [HANG]])
    reflector, _ = reflect(source, watch_list=None)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, "10"]
        assert source.asked[1].options.send_initial_events is None


async def test_a_source_can_say_that_it_does_not_know_of_initial_streams() -> None:
    class Simple(ScriptedSource):
        supports_watch_list = False

    source = Simple([page(rv=7)])
    reflector, _ = reflect(source, watch_list=None)
    async with running(reflector):
        assert source.verbs == ["list", "watch"]


# --- resync, refresh, end -----------------------------------------------------------------------------------------


async def test_resync_replays_the_store_beside_the_watch() -> None:
    source = ScriptedSource([page(rv=7)], [[25.0]])
    reflector, store = reflect(source, resync_period=10)
    async with running(reflector, 35):
        assert store.named("resync") == [("resync",)] * 3
        assert source.verbs == ["list", "watch", "watch"]


async def test_a_relist_starts_the_resync_period_again() -> None:
    source = ScriptedSource([page(rv=7)], [[9.0, WatchError("?")], [HANG]])
    reflector, store = reflect(source, resync_period=10)
    async with running(reflector, 15):
        assert store.named("resync") == []
        await asyncio.sleep(5)
        assert store.named("resync") == [("resync",)]


async def test_refresh_lists_at_the_version_that_is_asked_for() -> None:
    source = ScriptedSource([page(rv=7), page(pod("a", 20), rv=25)])
    reflector, store = reflect(source)
    async with running(reflector):
        reflector.refresh("20")
        reflector.refresh("15")
        await asyncio.sleep(0.1)
        assert source.versions("list") == ["0", "20"]
        assert source.versions("watch") == ["7", "25"]
        assert store.calls[-1] == ("replace", ["a"], "25")
        assert dict(reflector.relists) == {"requested": 1}
        assert reflector.health().consecutive_failures == 0


async def test_refresh_asks_nothing_if_the_store_is_there_already() -> None:
    source = ScriptedSource([page(rv=7)], [[[added("a", 30)], HANG]])
    reflector, _ = reflect(source)
    async with running(reflector):
        reflector.refresh("20")
        await asyncio.sleep(0.1)
        assert source.verbs.count("list") == 1


async def test_refresh_during_a_list_makes_another_one_after_it() -> None:
    source = ScriptedSource([Slowly([1.0], "7"), page(rv=25)])
    reflector, _ = reflect(source)
    async with running(reflector, 0.5):
        reflector.refresh("20")
        await asyncio.sleep(1)
        assert source.versions("list") == ["0", "20"]


async def test_refresh_during_a_stream_without_a_version_is_not_taken_for_answered() -> None:
    """What was asked before the write may be older than it, also where the server answers with its newest."""
    source = ScriptedSource(watches=[[1.0, [end(15)], HANG], [[added("a", 20), end(25)], HANG]])
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 0.5):
        reflector.refresh("20")
        await asyncio.sleep(1)
        assert source.versions("watch") == [None, "20"]
        assert store.calls[-1] == ("replace", ["a"], "25")


async def test_refresh_wants_a_number() -> None:
    reflector, _ = reflect(ScriptedSource([page(rv=7)]))
    with pytest.raises(ValueError, match="abc"):
        reflector.refresh("abc")


@pytest.mark.parametrize(
    ("lists", "watches"),
    [
        ([HANG], []),
        ([Slowly([[pod("a", 1)], HANG], "7")], []),
        ([page(rv=7)], [HANG]),
        ([page(rv=7)], [[[added("a", 8)], HANG]]),
        ([page(rv=7)], [ConnectionError("refused")]),
    ],
    ids=["list head", "list items", "watch head", "watch", "backoff"],
)
async def test_cancelling_closes_what_is_open_wherever_it_is(lists: list[Any], watches: list[Any]) -> None:
    source = ScriptedSource(lists, watches)
    reflector, _ = reflect(source)
    async with running(reflector, 0.3) as task:
        assert not task.done()
    assert task.cancelled()
    assert source.open == 0
    assert reflector.health().state == "stopped"
    if isinstance(lists[0], Slowly):
        assert lists[0].closed


async def test_it_runs_once_at_a_time_and_may_run_again() -> None:
    source = ScriptedSource([page(rv=7)])
    reflector, _ = reflect(source)
    async with running(reflector):
        with pytest.raises(RuntimeError, match="already running"):
            await reflector.run()
    async with running(reflector):
        assert source.verbs == ["list", "watch", "watch"]
        assert reflector.health().live


@pytest.mark.parametrize(
    ("option", "value"),
    [("watch_timeout", 0), ("idle_timeout", -1), ("resync_period", -1), ("page_size", 0)],
)
async def test_an_option_that_cannot_work_is_refused_by_name(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=option):
        reflect(ScriptedSource(), **{option: value})


async def test_the_cluster_is_asked_for_once_beside_the_first_watch() -> None:
    class Source(ProbedSource):
        asked_for_cluster = 0

        async def cluster(self) -> str:
            self.asked_for_cluster += 1
            await asyncio.sleep(1)
            return "cluster-1"

    source = Source([page(rv=7)], [[TIMEOUT], [HANG]], rv="7")
    reflector, _ = reflect(source, watch_timeout=4)
    async with running(reflector, 0.5):
        assert reflector.health().live
        await asyncio.sleep(10)
        assert source.asked_for_cluster == 1
        assert source.tips == []


async def test_of_many_reflectors_that_start_together_one_asks_in_each_turn_of_the_loop() -> None:
    turn, asked_in = 0, []

    async def count_turns() -> None:
        nonlocal turn
        while turn < 200:
            turn += 1
            await asyncio.sleep(0)

    class CountingSource(ScriptedSource):
        async def list(self, options: ListOptions) -> ListPage:
            asked_in.append(turn)
            return await super().list(options)

    reflectors = [reflect(CountingSource([page(rv=7)], [[HANG]]))[0] for _ in range(20)]
    async with AsyncExitStack() as stack:
        counting = asyncio.create_task(count_turns())
        await asyncio.gather(*(stack.enter_async_context(running(reflector)) for reflector in reflectors))
        await counting
        assert len(asked_in) == len(set(asked_in)) == 20
        assert all(reflector.health().synced for reflector in reflectors)
