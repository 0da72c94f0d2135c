"""The work queue: each key waits once, is never with two workers, and is never lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import ConfigError, StoppedError
from kinformer.workqueue import LOW_PRIORITY, WorkQueue
from tests.support.metrics_sink import MemoryMetrics
from tests.support.virtual_time import VirtualTimeLoop
from tests.support.waiting import settle


def taken(queue: WorkQueue[str]) -> str:
    """The next key of a queue that has one: such a `get` never suspends."""
    try:
        queue.get().send(None)
    except StopIteration as stop:
        return str(stop.value)
    raise AssertionError("get suspended while keys were waiting")


def all_taken(queue: WorkQueue[str]) -> list[str]:
    keys = []
    while len(queue):
        keys.append(taken(queue))
        queue.done(keys[-1])
    return keys


# --- each key once ------------------------------------------------------------------------------------------


def test_keys_come_out_in_the_order_of_their_first_add_each_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("b", "a", "b", "c", "a"):
        queue.add(key)
    assert len(queue) == 3
    assert all_taken(queue) == ["b", "a", "c"]
    assert queue.statistics().adds == 3


def test_any_number_of_adds_during_a_run_are_one_more_run_after_it() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert taken(queue) == "a"
    for _ in range(3):
        queue.add("a")
    assert len(queue) == 0, "it is with a worker: nobody else may have it"
    queue.done("a")
    assert len(queue) == 1
    assert "a" in queue
    assert all_taken(queue) == ["a"]


def test_done_of_a_key_that_no_worker_has_changes_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.done("never seen")
    queue.add("a")
    queue.done("a")
    assert all_taken(queue) == ["a"]


async def test_a_worker_that_waits_gets_the_key_that_comes() -> None:
    queue: WorkQueue[str] = WorkQueue()
    worker = asyncio.ensure_future(queue.get())
    await settle()
    assert not worker.done()
    queue.add("a")
    assert await worker == "a"


def test_an_empty_queue_is_true_so_that_an_optional_queue_can_be_tested_for() -> None:
    assert WorkQueue()


# --- priority ------------------------------------------------------------------------------------------------


def test_live_changes_go_before_the_backlog_of_a_start() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("old-1", priority=LOW_PRIORITY)
    queue.add("old-2", priority=LOW_PRIORITY)
    queue.add("new")
    queue.add("urgent", priority=10)
    assert all_taken(queue) == ["urgent", "new", "old-1", "old-2"]


def test_a_waiting_key_is_raised_to_the_end_of_the_higher_class_and_never_lowered() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("b")
    queue.add("a")
    queue.add("b", priority=LOW_PRIORITY)
    assert len(queue) == 2
    assert all_taken(queue) == ["b", "a"]
    assert queue.statistics().adds == 2, "raising a key is no further add"


def test_a_key_added_during_its_run_waits_with_the_highest_priority_asked_for() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert taken(queue) == "a"
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("a", priority=5)
    queue.add("a", priority=LOW_PRIORITY)
    queue.add("b")
    queue.done("a")
    assert all_taken(queue) == ["a", "b"]


@pytest.mark.virtual_time
async def test_what_has_waited_too_long_gets_every_fourth_turn_and_no_more() -> None:
    queue: WorkQueue[str] = WorkQueue(ageing=10)
    for number in range(3):
        queue.add(f"old-{number}", priority=LOW_PRIORITY)
    for number in range(12):
        queue.add(f"new-{number}")
    order = [taken(queue) for _ in range(4)]
    assert order == ["new-0", "new-1", "new-2", "new-3"], "nothing is overdue yet"
    await asyncio.sleep(10)
    order = [taken(queue) for _ in range(11)]
    expected = "new-4 new-5 new-6 old-0 new-7 new-8 new-9 old-1 new-10 new-11 old-2"
    assert order == expected.split()


def test_a_worker_can_ask_how_urgent_its_key_was() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("low", priority=LOW_PRIORITY)
    queue.add("plain")
    assert [taken(queue), taken(queue)] == ["plain", "low"]
    assert (queue.priority("plain"), queue.priority("low")) == (0, LOW_PRIORITY)
    queue.add("low")
    queue.done("low")
    assert queue.priority("low") == 0
    assert taken(queue) == "low"
    assert queue.priority("low") == 0, "it was raised by the add during its run"


def test_an_ageing_that_is_no_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="ageing"):
        WorkQueue(ageing=-1)


# --- cancellation --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("add_at", range(6))
async def test_a_get_that_is_cancelled_at_any_point_loses_no_key(turns: int, add_at: int) -> None:
    """The key goes to the cancelled worker or to the other one, or it waits: whatever the loop does in between."""
    queue: WorkQueue[str] = WorkQueue()
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    for turn in range(6):
        if turn == add_at:
            queue.add("a")
        if turn == turns:
            first.cancel()
        await asyncio.sleep(0)
    await settle()
    got = [worker.result() for worker in (first, second) if worker.done() and not worker.cancelled()]
    assert got == ["a"]
    assert len(queue) == 0
    for worker in (first, second):
        worker.cancel()
    await asyncio.wait({first, second})


async def test_a_get_that_is_cancelled_when_its_key_is_there_already_wakes_the_next() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await settle()
    queue.add("a")  # `first` is woken, and cancelled before it runs
    first.cancel()
    assert await second == "a"
    assert first.cancelled()


async def test_a_get_whose_timeout_passes_takes_nothing() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.001)
    queue.add("a")
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    assert queue.statistics().processing == 1


# --- the end ----------------------------------------------------------------------------------------------


async def test_after_a_shutdown_what_waits_is_handed_out_and_then_it_is_over() -> None:
    queue: WorkQueue[str] = WorkQueue(name="things")
    queue.add("a")
    queue.shut_down()
    queue.add("b")
    assert await queue.get() == "a"
    with pytest.raises(StoppedError, match="things"):
        await queue.get()


async def test_a_shutdown_ends_every_get_that_waits() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await settle()
    queue.shut_down()
    for worker in workers:
        with pytest.raises(StoppedError):
            await worker


async def test_a_key_added_again_before_the_shutdown_is_handed_out_after_its_run() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.shut_down()
    queue.done("a")
    assert await queue.get() == "a"


async def test_a_drain_waits_for_keys_that_wait_and_for_keys_that_workers_have() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "ab":
        queue.add(key)
    await queue.get()
    drain = asyncio.ensure_future(queue.shut_down_with_drain())
    await settle()
    queue.done("a")
    await settle()
    assert not drain.done(), "b still waits"
    assert await queue.get() == "b"
    await settle()
    assert not drain.done(), "b is still with its worker"
    queue.done("b")
    await drain


@pytest.mark.virtual_time
async def test_a_drain_that_takes_too_long_says_what_is_left_and_the_queue_stays_shut_down() -> None:
    queue: WorkQueue[str] = WorkQueue(name="things")
    for key in "abc":
        queue.add(key)
    await queue.get()
    with pytest.raises(TimeoutError, match="things has not drained after 5 s: 2 waiting, 1 being processed"):
        await queue.shut_down_with_drain(timeout=5)
    assert queue.shutting_down
    queue.add("d")
    assert len(queue) == 2


async def test_a_drain_of_a_queue_with_nothing_in_it_is_over_at_once() -> None:
    await WorkQueue().shut_down_with_drain(timeout=0.01)


async def test_what_waits_can_be_taken_out_which_ends_a_drain() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("low", priority=LOW_PRIORITY)
    for key in "ab":
        queue.add(key)
    queue.add("high", priority=1)
    assert queue.clear() == ["high", "a", "b", "low"]
    assert len(queue) == 0
    queue.add("a")
    drain = asyncio.ensure_future(queue.shut_down_with_drain(timeout=1))
    await settle()
    assert queue.clear() == ["a"]
    await drain


# --- metrics -------------------------------------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_metrics_have_the_names_and_the_meaning_that_dashboards_know() -> None:
    metrics = MemoryMetrics()
    queue: WorkQueue[str] = WorkQueue(name="things", metrics=metrics)
    await asyncio.sleep(0)
    for key in "abba":
        queue.add(key)
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    queue.add("a")
    await asyncio.sleep(1)
    values = metrics.values(name="things")
    assert values["workqueue_adds_total"] == 3
    assert values["workqueue_depth"] == 0
    assert values["workqueue_queue_duration_seconds"] == [2, 5]
    assert values["workqueue_unfinished_work_seconds"] == 5
    assert values["workqueue_longest_running_processor_seconds"] == 4
    queue.done("a")
    queue.done("b")
    values = metrics.values(name="things")
    assert values["workqueue_work_duration_seconds"] == [4, 1]
    assert values["workqueue_depth"] == 1
    assert values["workqueue_retries_total"] == 0
    assert values["workqueue_longest_running_processor_seconds"] == 0


async def test_gauges_of_a_queue_that_has_drained_are_given_back() -> None:
    metrics = MemoryMetrics()
    queue: WorkQueue[str] = WorkQueue(name="things", metrics=metrics)
    queue.add("a")
    queue.shut_down()
    assert "workqueue_depth" in metrics.values(name="things")
    queue.done(await queue.get())
    assert "workqueue_depth" not in metrics.values(name="things")


# --- invariants ----------------------------------------------------------------------------------------------


OPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("abcd"), st.sampled_from([0, 0, LOW_PRIORITY, 7])),
    st.tuples(st.sampled_from(["take", "done"]), st.integers(0, 3), st.just(0)),
)


@given(st.lists(OPS, max_size=60))
def test_a_key_is_in_one_place_and_nothing_that_was_added_is_lost(ops: list[tuple[str, Any, int]]) -> None:
    """Against a model that keeps sets: what waits, what workers have, what is to come again."""
    queue: WorkQueue[str] = WorkQueue()
    waiting: dict[str, int] = {}
    processing: list[str] = []
    again: dict[str, int] = {}
    for op, argument, priority in ops:
        if op == "add":
            queue.add(argument, priority=priority)
            held = again if argument in processing else waiting
            held[argument] = max(priority, held.get(argument, priority))
        elif op == "take" and waiting:
            key = taken(queue)
            assert key not in processing, "two workers on one key"
            highest = max(waiting.values())
            assert waiting.pop(key) == highest, "nothing is overdue, so the highest class comes first"
            processing.append(key)
        elif op == "done" and processing:
            key = processing.pop(argument % len(processing))
            queue.done(key)
            if key in again:
                waiting[key] = again.pop(key)
        assert len(queue) == len(waiting)
        assert all(key in queue for key in waiting)
    for key in processing:
        queue.done(key)
    left = all_taken(queue)
    assert sorted(left) == sorted({*waiting, *again})
    by_priority = [{**waiting, **again}[key] for key in left]
    assert by_priority == sorted(by_priority, reverse=True), "nothing is overdue, so classes come in their order"


class Crew:
    """Workers that take random times, are cancelled at random, and record what they do."""

    def __init__(self, queue: WorkQueue[str], pauses: list[int]) -> None:
        self.queue = queue
        self.pauses = iter(pauses * 50)
        self.version: Counter[str] = Counter()  # of the key's desired state; each add raises it first
        self.seen: Counter[str] = Counter()  # the version that the last finished run of the key has seen
        self.running: set[str] = set()
        self.runs = 0

    def change(self, key: str, priority: int) -> None:
        self.version[key] += 1
        self.queue.add(key, priority=priority)

    async def work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except StoppedError:
                return
            assert key not in self.running, "two workers on one key"
            self.running.add(key)
            version = self.version[key]
            try:
                for _ in range(next(self.pauses, 0)):
                    await asyncio.sleep(0)
                self.seen[key] = version
                self.runs += 1
            except asyncio.CancelledError:
                self.queue.add(key)  # what a careful program does with what it could not finish
                raise
            finally:
                self.running.discard(key)
                self.queue.done(key)


EVENTS = st.one_of(
    st.tuples(st.just("change"), st.sampled_from("abcdef"), st.sampled_from([0, LOW_PRIORITY])),
    st.tuples(st.just("pass"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("replace"), st.integers(0, 2), st.just(0)),
)


async def live_through(events: list[tuple[str, Any, int]], pauses: list[int]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    crew = Crew(queue, pauses)
    workers = [asyncio.ensure_future(crew.work()) for _ in range(3)]
    gone = []
    changes = 0
    for event, argument, priority in events:
        if event == "change":
            crew.change(argument, priority)
            changes += 1
        elif event == "pass":
            for _ in range(argument):
                await asyncio.sleep(0)
        else:
            workers[argument].cancel()
            gone.append(workers[argument])
            workers[argument] = asyncio.ensure_future(crew.work())
    await settle()  # a worker that was cancelled last gives its key back in its next step
    await queue.shut_down_with_drain(timeout=60)
    assert crew.seen == crew.version, "each key's last change was seen by a run that began after it"
    assert crew.runs <= changes + len(gone)
    await asyncio.gather(*workers, *gone, return_exceptions=True)
    for worker in (*workers, *gone):
        assert worker.cancelled() or worker.exception() is None


@settings(max_examples=200)
@given(st.lists(EVENTS, max_size=40), st.lists(st.integers(0, 5), min_size=1, max_size=10))
def test_with_workers_that_come_and_go_every_change_is_seen(
    events: list[tuple[str, Any, int]], pauses: list[int]
) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(events, pauses))
