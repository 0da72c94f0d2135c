"""The shared informer, from a source in memory to handlers, streams and listers.

Internals: the parts of an informer, since it shows neither its slices nor the moment of a commit.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kinformer import (
    ConfigError,
    ForbiddenError,
    Indexer,
    NotFoundError,
    NotSyncedError,
    SharedInformer,
    StoppedError,
    meta_namespace_key,
)
from kinformer.exceptions import WatchError
from kinformer.processor.mailbox import Mailbox
from kinformer.processor.processor import Processor
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO
from tests.support.log_records import Said, message_of, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle

pytestmark = pytest.mark.virtual_time


class Recorder:
    """A handler that keeps a replica and every call."""

    def __init__(self, delay: float = 0.0) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.replica: dict[str, Any] = {}
        self.delay = delay

    async def on_add(self, obj: Any, *, is_in_initial_list: bool) -> None:
        await self._called("add", obj, is_in_initial_list)
        assert obj.key not in self.replica
        self.replica[obj.key] = obj

    async def on_update(self, old: Any, new: Any) -> None:
        await self._called("update", new, old.resource_version)
        assert self.replica[new.key].uid == new.uid
        self.replica[new.key] = new

    async def on_delete(self, obj: Any, *, final_state_unknown: bool) -> None:
        await self._called("delete", obj, final_state_unknown)
        del self.replica[obj.key]

    async def _called(self, what: str, obj: Any, detail: Any) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        self.calls.append((what, obj.key, obj.resource_version, detail))

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(what, key.split("/")[1]) for what, key, *_ in self.calls]


@pytest.mark.parametrize("watch_list", [True, False])
async def test_the_cache_follows_and_the_handler_hears_of_each_change(watch_list: bool) -> None:
    source = MemorySource(watch_list=watch_list)
    source.set("a")
    source.set("b")
    recorder = Recorder()
    async with SharedInformer(source) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        source.set("a")
        source.delete("b")
        source.set("c")
        await settle()
        assert {obj.key for obj in informer.lister.list()} == {"default/a", "default/c"}
    assert sorted(recorder.names[:2]) == [("add", "a"), ("add", "b")]
    assert sorted(recorder.names[2:]) == [("add", "c"), ("delete", "b"), ("update", "a")]
    assert [call[3] for call in recorder.calls[:2]] == [True, True]


async def test_the_cache_has_a_change_before_the_handler_hears_of_it() -> None:
    source = MemorySource()
    seen: list[bool] = []
    async with SharedInformer(source) as informer:
        informer.add_event_handler(
            on_add=lambda obj: seen.append(informer.lister.get(obj.name, namespace=obj.namespace) == obj),
            on_delete=lambda obj: seen.append(informer.indexer.get_by_key(obj.key) is None),
        )
        await informer.wait_synced(10)
        source.set("a")
        await settle()
        source.delete("a")
        await settle()
    assert seen == [True, True]


async def test_a_late_handler_gets_the_cache_as_adds_and_then_each_change_once() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        source.set("b")
        await settle()
        recorder = Recorder()
        registration = informer.add_event_handler(recorder)
        assert not registration.has_synced
        await registration.wait_synced(5)
        source.set("a")
        await settle()
    assert sorted(recorder.names[:2]) == [("add", "a"), ("add", "b")]
    assert recorder.names[2:] == [("update", "a")]
    assert [call[3] for call in recorder.calls][:2] == [True, True]


async def test_after_a_410_unchanged_objects_cause_no_call_and_keep_their_entry() -> None:
    source = MemorySource(watch_list=False)
    for name in "abc":
        source.set(name)
    recorder = Recorder()
    async with SharedInformer(source) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        await settle()
        kept = informer.indexer.get_by_key("default/a")
        recorder.calls.clear()
        source.hang = True
        source.cut()
        await settle()
        source.set("b")
        source.delete("c")
        source.set("d")
        source.expire()
        source.hang = False
        await asyncio.sleep(120)
        assert informer.indexer.get_by_key("default/a") is kept
        assert sum(informer.statistics().relists.values()) == 1
    assert sorted(recorder.names) == [("add", "d"), ("delete", "c"), ("update", "b")]
    assert [call[3] for call in recorder.calls if call[0] == "delete"] == [True]


async def test_the_same_name_with_a_new_uid_is_a_delete_and_an_add() -> None:
    source = MemorySource(watch_list=False)
    source.set("a")
    recorder = Recorder()
    async with SharedInformer(source) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        source.set("a", uid="another")
        await settle()
    assert recorder.names == [("add", "a"), ("delete", "a"), ("add", "a")]


async def test_replayed_and_older_events_cause_no_call() -> None:
    source = MemorySource()
    source.set("a")
    recorder = Recorder()
    async with SharedInformer(source) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        first = source.objects["default/a"]
        source.set("a")
        await settle()
        source.history.append((source.version + 1, type(source.history[0][1])("MODIFIED", first)))
        source.version += 1
        source.set("b")
        await settle()
        found = informer.indexer.get_by_key("default/a")
        assert found is not None
        assert found.resource_version != first.resource_version
    assert recorder.names == [("add", "a"), ("update", "a"), ("add", "b")]


async def test_a_slow_handler_delays_neither_the_cache_nor_another_handler() -> None:
    source = MemorySource()
    slow, fast = Recorder(delay=3600), Recorder()
    async with SharedInformer(source, shutdown_timeout=0.1) as informer:
        informer.add_event_handler(slow, queue_size=4, name="slow")
        informer.add_event_handler(fast, name="fast")
        await informer.wait_synced(10)
        for _ in range(50):
            source.set("a")
            await settle()
        assert len(fast.calls) == 50
        statistics = informer.statistics()
        assert statistics.pending["slow"] <= 4
        assert statistics.coalesced > 40


async def test_a_handler_that_raises_is_counted_and_named_and_the_rest_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("bad")
    source.set("good")
    heard: list[str] = []

    async def on_add(obj: Any) -> None:
        if obj.name == "bad":
            raise RuntimeError("cannot take it")
        heard.append(obj.name)

    with caplog.at_level(logging.ERROR):
        async with SharedInformer(source) as informer:
            registration = informer.add_event_handler(on_add=on_add, name="picky")
            await registration.wait_synced(10)
            assert informer.statistics().handler_errors == 1
    assert heard == ["good"]
    assert said(caplog, "handler_failed") == [Said("ERROR", "kinformer.handler", "v1/configmaps", "default/bad")]
    assert "handler picky " in message_of(caplog, "handler_failed")


async def test_what_a_handler_does_to_an_object_reaches_nobody_else() -> None:
    source = MemorySource()
    source.set("a")
    others: list[Any] = []

    def vandal(obj: Any) -> None:
        obj["data"]["v"] = "broken"

    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=vandal)
        informer.add_event_handler(on_add=lambda obj: others.append(obj["data"]["v"]))
        await informer.wait_synced(10)
        await settle()
        cached = informer.lister.get("a", namespace="default")
        assert cached is not None
        assert cached["data"]["v"] == "2"
    assert others == ["2"]


async def test_removing_a_handler_drops_or_delivers_what_waits_for_it() -> None:
    source = MemorySource()
    for name in "abc":
        source.set(name)
    dropped, drained = Recorder(delay=1), Recorder(delay=1)
    async with SharedInformer(source) as informer:
        one, two = informer.add_event_handler(dropped), informer.add_event_handler(drained)
        await informer.wait_synced(10)
        await asyncio.sleep(0.5)
        await informer.remove_event_handler(one)
        await informer.remove_event_handler(two, drain=True)
        await informer.remove_event_handler(one)
        assert len(drained.calls) == 3
        await asyncio.sleep(5)
        assert len(dropped.calls) == 1
        assert informer.statistics().pending == {}


async def test_waiting_for_oneself_inside_a_handler_is_refused() -> None:
    source = MemorySource()
    source.set("a")
    refused: list[str] = []
    async with SharedInformer(source) as informer:

        async def on_add(obj: Any) -> None:
            for attempt in (
                lambda: informer.remove_event_handler(registration, drain=True),
                lambda: registration.wait_synced(),
                lambda: informer.__aexit__(None, None, None),
            ):
                try:
                    await attempt()
                except RuntimeError as error:
                    refused.append(str(error))

        registration = informer.add_event_handler(on_add=on_add, name="me")
        await registration.wait_synced(10)
    assert len(refused) == 3
    assert all("me" in text for text in refused)


async def test_resync_replays_the_cache_only_to_the_handlers_that_asked() -> None:
    source = MemorySource()
    source.set("a")
    every_10, every_25, never = Recorder(), Recorder(), Recorder()
    async with SharedInformer(source, resync_period=10) as informer:
        informer.add_event_handler(every_10)
        informer.add_event_handler(every_25, resync_period=25)
        informer.add_event_handler(never, resync_period=0)
        await informer.wait_synced(5)
        await asyncio.sleep(51)
    assert [len(recorder.calls) for recorder in (every_10, every_25, never)] == [6, 3, 1]
    assert every_10.calls[-1][3] == every_10.calls[-1][2], "old and new of a resync are the same"


async def test_a_resync_goes_over_the_cache_in_slices() -> None:
    reached = 0
    reached_at: list[int] = []

    class Looked(Indexer):
        """Counts the tables that it has given."""

        def tables(self) -> Any:
            nonlocal reached
            for table in super().tables():
                reached += 1
                yield table

    class Due(ResyncSchedule):
        """A handler that is due for a replay."""

        def __init__(self, mailbox: Mailbox) -> None:
            super().__init__(queue.resync)
            self._due.append(mailbox)

    class Counting(Mailbox):
        def put(self, batch: Any, initial: int = 0) -> None:
            reached_at.append(reached)
            super().put(batch, initial)

    source = MemorySource()
    for number in range(2000):
        source.set(f"a{number}")
    indexer, mailbox = Looked(), Counting("h", queue_size=4000)
    queue = AtomicDeltaFIFO(indexer.get_by_key)
    processor = Processor(indexer, resyncs=Due(mailbox))
    queue.writer().replace(list(source.objects.values()), "7")
    queue.resync()
    await processor.apply(await queue.take() or ())
    assert {call[0] for call in mailbox.plain} == {"SYNC"}
    assert {call[1] for call in mailbox.plain} == source.objects.keys()
    assert len(mailbox) == processor.events["SYNC"] == 2000
    assert len(reached_at) == len(set(reached_at)) == 8, "each slice from the tables that come next"


async def test_streams_are_told_apart_also_where_they_were_made_before_either_was_entered() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        first, second = informer.events(), informer.events()
        async with first, second:
            assert informer.statistics().pending == {"events": 1, "events#2": 1}


async def test_events_can_be_pulled_and_a_timed_out_anext_loses_nothing() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        async with informer.events() as stream:
            first = await anext(stream)
            assert (first.type, first.object.name, first.is_in_initial_list) == ("ADDED", "a", True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 5)
            source.set("a")
            source.delete("a")
            second, third = await anext(stream), await anext(stream)
            assert (second.type, second.old.resource_version if second.old else None) == ("UPDATED", "2")
            assert (third.type, third.old) == ("DELETED", second.object)
            assert not third.final_state_unknown


async def test_a_stream_ends_when_its_informer_leaves() -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        stream = informer.events()
        await stream.__aenter__()
        reader = asyncio.create_task(_collect(stream))
        source.set("a")
        await settle()
    assert [event.object.name for event in await reader] == ["a"]
    await stream.__aexit__(None, None, None)


async def _collect(stream: Any) -> list[Any]:
    return [event async for event in stream]


async def test_a_denied_list_reads_as_that() -> None:
    source = MemorySource()
    source.fail_with = ForbiddenError(403, "Forbidden", "pods is forbidden")
    async with SharedInformer(source) as informer:
        with pytest.raises(NotSyncedError, match="pods is forbidden") as caught:
            await informer.wait_synced(2)
        assert isinstance(caught.value.unsynced["v1/configmaps"], ForbiddenError)
        assert informer.health().state == "forbidden"
        with pytest.raises(ForbiddenError):
            await informer.wait_synced(60, fail_fast=True)


async def test_an_absent_optional_resource_counts_as_synced_and_comes_later() -> None:
    source = MemorySource()
    source.fail_with = NotFoundError(404, "NotFound", "404 page not found")
    recorder = Recorder()
    async with SharedInformer(source, optional=True) as informer:
        registration = informer.add_event_handler(recorder)
        await informer.wait_synced(5)
        await registration.wait_synced(5)
        source.set("a")
        source.fail_with = None
        await asyncio.sleep(120)
        assert informer.lister.get("a", namespace="default") is not None
    assert recorder.names == [("add", "a")]


async def test_several_namespaces_share_one_cache_and_a_relist_of_one_leaves_the_others() -> None:
    sources = {name: MemorySource(namespace=name, watch_list=False) for name in ("x", "y")}
    for name, source in sources.items():
        source.set("a", namespace=name)
    recorder = Recorder()
    async with SharedInformer(sources) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        assert sorted(informer.lister.keys()) == ["x/a", "y/a"]
        sources["x"].set("b", namespace="x")
        sources["x"].expire()
        await asyncio.sleep(60)
        assert sorted(informer.lister.keys()) == ["x/a", "x/b", "y/a"]
        assert informer.lister.by_namespace("y").get("a") is not None
        with pytest.raises(ValueError, match="namespaces x, y"):
            await informer.wait_for_resource_version("5")
    assert sorted(recorder.calls) == [
        ("add", "x/a", "2", True),
        ("add", "x/b", "3", False),
        ("add", "y/a", "2", True),
    ]


async def test_a_transform_is_applied_once_and_one_that_fails_leaves_its_object_out() -> None:
    source = MemorySource()
    for name in ("plain", "poison", "unwanted"):
        source.set(name)

    def transform(obj: dict[str, Any]) -> dict[str, Any] | None:
        if obj["metadata"]["name"] == "poison":
            raise ValueError("cannot")
        if obj["metadata"]["name"] == "unwanted":
            return None
        obj["data"] = {"seen": obj["data"].get("seen", "") + "once"}
        return obj

    async with SharedInformer(source, transform=transform) as informer:
        await informer.wait_synced(10)
        source.set("plain")
        source.set("poison")
        await settle()
        (only,) = informer.lister.list()
        assert only["data"] == {"seen": "once"}
        assert informer.statistics().transform_errors == 2
        assert informer.last_sync_resource_version == str(source.version)


async def test_reading_your_own_write_waits_until_the_cache_has_it() -> None:
    source = MemorySource()
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        written = source.set("a")
        await informer.wait_for_resource_version(written.resource_version, timeout=5)
        assert informer.lister.get("a", namespace="default") == written
        with pytest.raises(ValueError, match="is not a number"):
            await informer.wait_for_resource_version("abc")


async def test_a_full_list_and_its_version_are_there_at_once_and_before_anybody_who_waits_hears_of_them() -> None:
    source = MemorySource()
    source.set("a")
    indexer = Indexer(meta_namespace_key)
    queue = AtomicDeltaFIFO(indexer.get_by_key)
    processor = Processor(indexer)
    seen: list[Any] = []

    async def wait() -> None:
        await processor.applied.wait(None, 7)
        seen.append(("waiter", processor.applied.current, len(indexer), processor.synced.is_open))

    class Hearing(Mailbox):
        def replay(self, objects: Any) -> None:
            seen.append(("handler", dict(processor.applied.current), len(indexer), processor.synced.is_open))
            super().replay(objects)

    processor.attach(Hearing("h"))
    seen.clear()
    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)
    queue.writer().replace(list(source.objects.values()), "7")
    await processor.apply(await queue.take() or ())
    await waiting
    assert seen == [("handler", {None: "7"}, 1, False), ("waiter", {None: "7"}, 1, True)]
    assert processor.synced.is_open


async def test_a_version_that_nothing_passes_is_asked_for_by_a_list() -> None:
    source = MemorySource(watch_list=False)
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        source.version += 10  # writes that this source's selector does not see
        loop = asyncio.get_running_loop()
        started = loop.time()
        await informer.wait_for_resource_version(str(source.version), timeout=60)
        assert 5 <= loop.time() - started < 30


async def test_a_rewind_ends_the_wait_for_a_version() -> None:
    source = MemorySource(watch_list=False)
    source.version = 100
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        waiting = asyncio.create_task(informer.wait_for_resource_version("150"))
        await settle()
        source.hang = True
        source.cut()
        await asyncio.sleep(60)
        source.version = 40
        source.hang = False
        with pytest.raises(WatchError, match="went back"):
            await asyncio.wait_for(waiting, 300)


async def test_an_on_error_that_raises_stops_that_informer_alone_and_every_wait_says_why() -> None:
    source = MemorySource()
    source.fail_with = ForbiddenError(403, "Forbidden", "no")

    def on_error(informer: Any, error: BaseException) -> None:
        raise LookupError("enough") from error

    with pytest.raises(LookupError, match="enough"):  # noqa: PT012 - leaving is what raises
        async with SharedInformer(source, on_error=on_error) as informer:
            with pytest.raises(LookupError):
                await informer.wait_synced(10)
            health = informer.health()
            assert (health.state, health.live) == ("stopped", False)
            assert isinstance(health.last_error, LookupError)
            with pytest.raises(LookupError):
                informer.add_event_handler(on_add=print)


async def test_a_source_that_awaits_something_cancelled_stops_its_informer_and_leaves_nobody_waiting() -> None:
    source = MemorySource()
    source.fail_with = asyncio.CancelledError()
    with pytest.raises(RuntimeError, match="ended with a CancelledError, although"):
        async with SharedInformer(source) as informer:
            await informer.wait_synced(timeout=60)


async def test_leaving_ends_within_its_deadline_with_a_stuck_handler(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    source.set("a")
    release = asyncio.Event()

    async def stubborn(obj: Any) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    loop = asyncio.get_running_loop()
    async with SharedInformer(source, shutdown_timeout=2) as informer:
        informer.add_event_handler(on_add=stubborn, name="stubborn")
        await informer.wait_synced(10)
        await settle()
        left = loop.time()
    assert 2.9 <= loop.time() - left <= 3.5
    assert said(caplog, "abandoned") == [Said("ERROR", "kinformer.tasks")]
    assert "handler stubborn " in message_of(caplog, "abandoned")
    release.set()
    await settle()


async def test_leaving_delivers_what_is_queued() -> None:
    source = MemorySource()
    recorder = Recorder(delay=0.1)
    async with SharedInformer(source) as informer:
        informer.add_event_handler(recorder)
        await informer.wait_synced(10)
        for number in range(10):
            source.set(f"n{number}")
        await settle()
    assert len(recorder.calls) == 10


async def test_leaving_while_the_server_is_dead_takes_no_time() -> None:
    source = MemorySource()
    source.hang = True
    loop = asyncio.get_running_loop()
    async with SharedInformer(source) as informer:
        await asyncio.sleep(1)
        assert not informer.has_synced
        left = loop.time()
    assert loop.time() - left < 0.1


async def test_after_leaving_the_cache_can_be_read_and_nothing_can_be_added() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
    assert informer.lister.get("a", namespace="default") is not None
    assert informer.health().state == "stopped"
    with pytest.raises(StoppedError):
        informer.add_event_handler(on_add=print)
    with pytest.raises(RuntimeError, match="create a new one"):
        await informer.__aenter__()


async def test_entering_and_leaving_in_different_tasks_works() -> None:
    source = MemorySource()
    informer = SharedInformer(source)
    await asyncio.create_task(informer.__aenter__())
    await informer.wait_synced(10)
    await asyncio.create_task(informer.__aexit__(None, None, None))


async def test_a_wrong_thread_is_refused_but_for_reads() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        await informer.wait_synced(10)
        assert len(await asyncio.to_thread(informer.lister.list)) == 1
        with pytest.raises(RuntimeError):
            await asyncio.to_thread(informer.add_event_handler, on_add=print)


async def test_a_handler_without_callbacks_is_refused() -> None:
    informer = SharedInformer(MemorySource())
    with pytest.raises(ConfigError, match="on_add"):
        informer.add_event_handler(object())
    with pytest.raises(ConfigError, match="no handler"):
        informer.add_event_handler()
