"""The known errors of client-go, by number, and the behaviour here."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from kinformer import (
    ConfigError,
    DeltaFIFO,
    Reflector,
    SharedInformer,
    SharedInformerFactory,
    WatchEvent,
    meta_namespace_key,
)
from kinformer.exceptions import ExpiredError, InvalidError, ServerError, TooManyRequestsError
from kinformer.testing import faults
from kinformer.workqueue import DelayingQueue, WorkQueue
from tests.support.fault_scene import EVEN, HANG, Reply, event, listed, mark, scene, wire
from tests.support.http_server import line
from tests.support.kube import config_map
from tests.support.memory_source import MemorySource
from tests.support.scripted_source import HANG as SILENCE
from tests.support.scripted_source import RecordingStore, ScriptedSource, added, page, pod

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]


async def run_for(seconds: float, source: ScriptedSource, **options: Any) -> Reflector:
    reflector = Reflector(source, RecordingStore(), **{"backoff": EVEN} | options)
    task = asyncio.ensure_future(reflector.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait([task])
    return reflector


async def test_trap_01_backoff_in_a_long_outage() -> None:
    """The backoff falls back to its first delay every two minutes in an outage.

    It stays at its maximum for as long as the outage lasts.
    """
    source = ScriptedSource([ServerError(500)])
    await run_for(3600, source, watch_list=False)
    delays = [later - sooner for sooner, later in pairwise(source.times("list"))]
    assert len(delays) > 100
    assert min(delays[6:]) >= 29.9


async def test_trap_02_an_initial_stream_that_never_works() -> None:
    """A failing WatchList is retried without end, sometimes without a delay.

    After 30 s of silence or three failures it lists, with backoff between.
    """
    broken = [[added("a", 3)], ConnectionResetError("reset")]
    source = ScriptedSource([page(pod("a", 3), rv=7)], [broken, broken, broken, [SILENCE]])
    reflector = await run_for(10, source)
    assert source.verbs == ["watch", "watch", "watch", "list", "watch"]
    assert source.times("watch")[:3] == [0.0, 0.8, 2.4]
    assert reflector.last_sync_resource_version == "7"


async def test_trap_03_cancelling_while_it_waits_to_be_let_in() -> None:
    """The wait after a 429 to a WatchList cannot be cancelled.

    Every wait ends at once when it is cancelled.
    """
    for error in (TooManyRequestsError(429, retry_after=30), ConnectionRefusedError("refused")):
        source = ScriptedSource(watches=[error] * 9)
        task = asyncio.ensure_future(Reflector(source, RecordingStore()).run())
        await asyncio.sleep(0.1)
        before = asyncio.get_running_loop().time()
        task.cancel()
        await asyncio.wait([task])
        assert asyncio.get_running_loop().time() == before
        assert task.cancelled()


async def test_trap_04_a_delete_of_what_was_never_seen() -> None:
    """A DELETED event of an unknown object calls `OnDelete`.

    No call: no handler knows the object.
    """
    async with wire([listed(rv=7)], [Reply([event("DELETED", "x", 8) + event("ADDED", "a", 9), HANG])]) as w:
        await w.until(lambda: bool(w.mirror.calls))
        assert w.mirror.calls == [("add", "a", "9")]
        assert w.informer.last_sync_resource_version == "9"


def _no_b(document: dict[str, Any]) -> dict[str, Any]:
    if document["metadata"]["name"] == "b" and document["data"]["v"] == "bad":
        raise ValueError("cannot take it")
    return document


@pytest.mark.parametrize("path", ["list", "watch list", "watch", "relist"])
async def test_trap_05_a_transform_that_fails(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """A failing transform loses an object, hides it or stops the sync, depending on its path.

    That object is left out on every path, a cached one deleted, counted and logged once.
    """
    options: dict[str, Any] = {"transform": _no_b, "watch_list": None if path == "watch list" else False}
    async with scene("a", synced=False, **options) as s:
        if "list" in path and path != "relist":
            s.put("b", "bad")
        await s.informer.wait_synced(timeout=10)
        if path in ("watch", "relist"):
            s.put("b", "good")
            await s.in_step()
        if path == "relist":
            s.server.faults.add(faults.expired(), verb="watch", times=1)
        if path in ("watch", "relist"):
            s.put("b", "bad")
        s.put("c")
        await s.until(lambda: "default/c" in s.cached)
        await s.check_mirror()
        assert s.cached.keys() == {"default/a", "default/c"}
        assert s.mirror.of("delete") == (["b"] if path in ("watch", "relist") else [])
        assert s.informer.statistics().transform_errors == 1
        assert s.informer.last_sync_resource_version == s.server.resource_version
        assert s.health.live
        assert caplog.text.count("cannot take it") >= 1
        assert [record.levelname for record in caplog.records].count("ERROR") == 1


async def test_trap_06_objects_of_equal_versions() -> None:
    """Two states of equal or empty versions count as a resync, so handlers miss changes.

    A replay is known by its cause. Only handlers that asked for a resync get it.
    """
    calls: dict[str, list[str]] = {"plain": [], "resyncing": []}
    first, second = (config_map("a", rv="", uid="1", data={"v": value}) for value in "12")
    source = ScriptedSource([page(first, rv="")], [[1.0, [WatchEvent("MODIFIED", second)], SILENCE]])
    async with SharedInformer(source, watch_list=False) as informer:
        for name, period in (("plain", 0), ("resyncing", 100)):
            informer.add_event_handler(
                on_update=lambda old, new, name=name: calls[name].append(old["data"]["v"] + new["data"]["v"]),
                resync_period=period,
                name=name,
            )
        await asyncio.sleep(90)
        assert calls == {"plain": ["12"], "resyncing": ["12"]}
        await asyncio.sleep(60)
        assert calls == {"plain": ["12"], "resyncing": ["12", "22"]}


async def test_trap_07_a_server_that_says_500_at_once() -> None:
    """The loop around a 500 has no delay.

    Every failure is followed by a backoff or the server's delay.
    """
    source = ScriptedSource([page(rv=7)], [[ServerError(500, "InternalError", "etcd")] for _ in range(1000)])
    await run_for(60, source, watch_list=False)
    times = sorted(source.times("watch") + source.times("list"))
    assert len(times) < 20
    assert max(times.count(moment) for moment in times) <= 2, "a list and the watch behind it"


def _by_value(obj: Any) -> list[str]:
    if obj["data"]["v"] == "bad":
        raise KeyError("no such thing")
    return [obj["data"]["v"]]


@pytest.mark.parametrize("watch_list", [None, False])
async def test_trap_08_an_index_function_that_fails(watch_list: bool | None) -> None:
    """A failing index function panics in the write to the store.

    The object is stored and left out of that index, counted in `index_errors`.
    """
    async with scene("a", indexers={"v": _by_value}, watch_list=watch_list, synced=False) as s:
        s.put("listed", "bad")
        await s.informer.wait_synced(timeout=10)
        s.put("watched", "bad")
        s.put("a", "good")
        await s.in_step()
        assert s.cached.keys() == {"default/a", "default/listed", "default/watched"}
        assert s.informer.indexer.index_keys("v", "good") == ["default/a"]
        assert s.informer.statistics().index_errors == 2
        s.put("watched", "good")
        await s.in_step()
        assert sorted(s.informer.indexer.index_keys("v", "good")) == ["default/a", "default/watched"]


@pytest.mark.parametrize("drain", [True, False])
async def test_trap_09_removing_a_handler(drain: bool) -> None:
    """Removing a handler drops its waiting calls.

    `remove_event_handler(registration, drain=True)` delivers them first.
    """
    source = MemorySource()
    seen: list[str] = []

    async def slow(obj: Any) -> None:
        await asyncio.sleep(1)
        seen.append(obj.name)

    async with SharedInformer(source) as informer:
        await informer.wait_synced()
        registration = informer.add_event_handler(on_add=slow)
        for number in range(5):
            source.set(f"m{number}")
        await asyncio.sleep(0.5)
        await informer.remove_event_handler(registration, drain=drain)
        await asyncio.sleep(10)
        assert len(seen) == (5 if drain else 1)


async def test_trap_10_errors_inside_a_watch() -> None:
    """Errors inside a stream never reach the error handler.

    `on_error` gets every error that ends a request or stream.
    """
    async with scene("a", watch_timeout=5) as s:
        s.server.faults.add(faults.status(500), verb="watch", after_events=0, times=1)
        await s.until(lambda: not s.health.live)
        assert s.health.last_error is s.errors[-1]
        await s.in_step()
        s.server.faults.add(faults.garble(), verb="watch", times=1)
        s.put("b")
        await s.in_step()
        s.server.faults.add(faults.expired(), verb="watch", times=1)
        await s.until(lambda: len(s.kinds) == 3)
        assert s.kinds == ["ServerError", "DecodeError", "ExpiredError"]
        await s.in_step()
        assert s.health.last_error is None


async def test_trap_11_a_fall_back_that_is_forgotten() -> None:
    """A server without WatchList is asked again at each relist.

    That is remembered for an hour, per informer.
    """
    expired = [ExpiredError(410, "Expired")]
    refused = InvalidError(422, "Invalid", "sendInitialEvents is forbidden")
    source = ScriptedSource([page(rv=7)], [refused, *[expired] * 10, [3500.0, *expired], [SILENCE]])
    await run_for(2000, source, idle_timeout=7200, watch_timeout=7200)
    assert [asked.options.send_initial_events for asked in source.asked if asked.verb == "watch"].count(True) == 1
    assert source.verbs.count("list") == 11


async def test_trap_12_a_drain_that_leaves_things_behind() -> None:
    """`ShutDownWithDrain` leaves what is queued and drops what is delayed.

    It waits for what is queued too, and for delayed keys if it is asked to.
    """
    done: list[str] = []

    async def work(queue: WorkQueue[str]) -> None:
        while queue.shutting_down is False or len(queue) or queue.statistics().delayed:
            key = await queue.get()
            await asyncio.sleep(1)
            done.append(key)
            queue.done(key)

    queue: WorkQueue[str] = WorkQueue()
    for key in "abc":
        queue.add(key)
    worker = asyncio.ensure_future(work(queue))
    await queue.shut_down_with_drain(timeout=10)
    assert done == ["a", "b", "c"]
    await worker
    for wait in (True, False):
        done.clear()
        delaying: DelayingQueue[str] = DelayingQueue()
        delaying.add("now")
        delaying.add_after("later", 60)
        worker = asyncio.ensure_future(work(delaying))
        await delaying.shut_down_with_drain(timeout=100, wait_for_delayed=wait)
        assert done == (["now", "later"] if wait else ["now"])
        await worker


async def test_trap_13_synced_before_it_is_processed() -> None:
    """`HasSynced` of a DeltaFIFO is true when the last item is taken.

    It is true when the last initial item has been processed.
    """
    fifo: DeltaFIFO = DeltaFIFO(meta_namespace_key)
    fifo.replace([pod("a", 1), pod("b", 2)], "2")
    seen: list[bool] = []

    async def process(deltas: Any, is_in_initial_list: bool) -> None:
        await asyncio.sleep(1)
        seen.append(fifo.has_synced)
        if len(seen) == 2:
            raise ValueError("cannot take it")

    await fifo.pop(process)
    with pytest.raises(ValueError, match="cannot take it"):
        await fifo.pop(process)
    assert seen == [False, False]
    assert fifo.has_synced


async def test_trap_14_switches_that_switch_nothing() -> None:
    """Documented options do nothing any more (`DisableChunking`, `ErrRequeue`).

    An unknown option is refused by name. An error of `process` comes out of `pop`.
    """
    factory = SharedInformerFactory(None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="disable_chunking"):
        factory.for_resource("v1/pods", disable_chunking=True)
    with pytest.raises(TypeError, match="disable_chunking"):
        Reflector(MemorySource(), RecordingStore(), disable_chunking=True)  # type: ignore[call-arg]
    fifo: DeltaFIFO = DeltaFIFO(meta_namespace_key)
    fifo.add(pod("a", 1))

    def requeue(deltas: Any, is_in_initial_list: bool) -> None:
        raise LookupError("again, please")

    with pytest.raises(LookupError):
        await fifo.pop(requeue)
    assert len(fifo) == 0


async def test_trap_15_an_event_that_is_skipped() -> None:
    """An object of a wrong type is skipped and the version stays. An unknown event is skipped and it advances.

    Both cause a relist. One unreadable object is left out, and the version advances.
    """
    secret = {**config_map("x", rv=9), "kind": "Secret"}
    for skipped in (line("ADDED", secret), event("FOO", "x", 9)):
        lists = [listed(rv=7), listed(config_map("a", rv=8), rv=20)]
        async with wire(lists, [Reply([event("ADDED", "a", 8) + skipped, HANG])]) as w:
            await w.until(lambda w=w: w.relists == {"watch_error": 1} and w.health.live)
            assert w.informer.last_sync_resource_version == "20"
            assert w.cached.keys() == {"default/a"}
    poison = config_map("x", rv=30)
    poison["metadata"]["labels"] = {"a": 7}
    async with wire([listed(rv=7)], [Reply([line("ADDED", poison), 2.0]), Reply([mark(31), HANG])]) as w:
        await w.until(lambda: w.informer.last_sync_resource_version == "31")
        assert [query["resourceVersion"] for query in w.asked("watch")] == ["7", "30"]
        assert (w.relists, w.informer.statistics().decode_errors) == ({}, 1)
