"""Delayed adds, and retries that wait longer each time.

Internals: the budget of a slice, which a test uses up before the queue does.
"""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer import StoppedError
from kinformer._runtime.clock import YieldBudget
from kinformer.workqueue import LOW_PRIORITY, DelayingQueue, ExponentialFailureRateLimiter, RateLimitingQueue
from tests.support.metrics_sink import MemoryMetrics
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.virtual_time


def now() -> float:
    return asyncio.get_running_loop().time()


async def arrivals(queue: DelayingQueue[str], count: int) -> list[tuple[str, float]]:
    """The next keys and when they came, in seconds from here."""
    began = now()
    came = []
    for _ in range(count):
        key = await queue.get()
        queue.done(key)
        came.append((key, round(now() - began, 6)))
    return came


async def test_keys_come_when_they_are_due_whatever_the_order_of_asking() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    for key, delay in (("c", 30.0), ("a", 1.0), ("b", 2.5), ("now", 0.0), ("past", -1.0)):
        queue.add_after(key, delay)
    assert queue.statistics().delayed == 3
    assert await arrivals(queue, 5) == [("now", 0), ("past", 0), ("a", 1), ("b", 2.5), ("c", 30)]


async def test_of_two_delays_for_a_key_the_one_that_ends_first_counts_and_the_other_is_gone() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("a", 10)
    queue.add_after("a", 2)
    queue.add_after("a", 20)
    queue.add_after("end", 100)
    assert await arrivals(queue, 2) == [("a", 2), ("end", 100)]


async def test_a_plain_add_neither_hastens_nor_cancels_a_delayed_one() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("a", 5)
    queue.add("a")
    assert await arrivals(queue, 2) == [("a", 0), ("a", 5)]


async def test_a_key_that_comes_due_while_it_waits_or_is_worked_on_follows_the_rules_of_any_add() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add("a")
    queue.add_after("a", 1)
    await asyncio.sleep(2)
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.add_after("a", 1)
    await asyncio.sleep(2)
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"


async def test_a_delayed_key_comes_with_the_highest_priority_that_was_asked_for() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("low", 1, priority=LOW_PRIORITY)
    queue.add_after("raised", 1, priority=LOW_PRIORITY)
    queue.add_after("raised", 50, priority=1)
    queue.add_after("plain", 1)
    await asyncio.sleep(1)
    assert [key for key, _ in await arrivals(queue, 3)] == ["raised", "plain", "low"]


async def test_many_keys_that_come_due_together_leave_the_loop_its_turns() -> None:
    queue: DelayingQueue[int] = DelayingQueue()
    for number in range(20_000):
        queue.add_after(number, 1)
    sizes: list[int] = []

    async def look() -> None:
        while len(queue) < 20_000:
            sizes.append(len(queue))
            await asyncio.sleep(0)

    await asyncio.sleep(1)
    await look()
    assert any(0 < size < 20_000 for size in sizes), "they came in one go"
    assert [await queue.get() for _ in range(20_000)] == list(range(20_000))


async def test_delays_that_are_replaced_again_and_again_do_not_pile_up() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    tracemalloc.start()
    for step in range(10_000):
        queue.add_after("a", 20_000 - step)
    await asyncio.sleep(0)  # the loop lets go of cancelled timers
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000, "ten bytes for each"
    assert queue.statistics().delayed == 1
    assert await arrivals(queue, 1) == [("a", 10_001)]


@pytest.mark.parametrize("delay", [float("nan"), float("inf")])
async def test_a_delay_that_never_ends_is_refused(delay: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        DelayingQueue().add_after("a", delay)


def test_delays_that_are_asked_for_before_there_is_a_loop_end_inside_one() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("b", 0.004)
    queue.add_after("a", 0.001)

    async def worker(*more: str) -> list[str]:
        for key in more:
            queue.add_after(key, 0.006)
        return [await queue.get() for _ in range(2 + len(more))]

    assert asyncio.run(worker()) == ["a", "b"]
    queue = DelayingQueue()
    queue.add_after("b", 0.004)
    queue.add_after("a", 0.001)
    assert asyncio.run(worker("c")) == ["a", "b", "c"]


async def test_a_delay_that_a_thread_asks_for_is_refused_and_holds_up_no_other() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    coming = asyncio.create_task(arrivals(queue, 2))
    await asyncio.sleep(0)
    queue.add_after("a", 10)
    with ThreadPoolExecutor(1) as thread, pytest.raises(RuntimeError, match="no running event loop"):
        thread.submit(queue.add_after, "lost", 1).result()
    assert queue.statistics().retries == queue.statistics().delayed == 1
    queue.add_after("b", 20)
    assert await coming == [("a", 10), ("b", 20)]


async def test_each_delayed_add_counts_as_a_retry() -> None:
    metrics = MemoryMetrics()
    queue: DelayingQueue[str] = DelayingQueue(name="things", metrics=metrics)
    queue.add_after("a", 1)
    queue.add_after("a", 2)
    queue.add("b")
    assert metrics.values(name="things")["workqueue_retries_total"] == 2
    assert queue.statistics().retries == 2
    queue.shut_down()


# --- the end ----------------------------------------------------------------------------------------------


async def test_a_shutdown_forgets_what_is_delayed_as_upstream() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add("a")
    queue.add_after("b", 10)
    queue.add_after("c", 4)
    await asyncio.sleep(1)
    queue.shut_down()
    queue.add_after("d", 1)
    assert queue.statistics().delayed == 0
    assert await queue.get() == "a"
    with pytest.raises(StoppedError):
        await queue.get()


async def test_a_drain_forgets_what_is_delayed_and_what_workers_delay_in_its_course() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add("fails")
    queue.add_after("later", 100)
    key = await queue.get()
    drain = asyncio.ensure_future(queue.shut_down_with_drain(timeout=10))
    await asyncio.sleep(1)
    queue.add_after(key, 7)
    queue.done(key)
    await drain
    assert queue.statistics().delayed == 0


async def test_a_drain_that_waits_for_delayed_keys_sees_them_done() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    runs: list[tuple[str, float]] = []
    began = now()

    async def work() -> None:
        while True:
            key = await queue.get()
            runs.append((key, now() - began))
            if len(runs) == 2:
                queue.add_after(key, 3)
            queue.done(key)

    workers = [asyncio.ensure_future(work()) for _ in range(2)]
    queue.add("a")
    queue.add_after("b", 10)
    await queue.shut_down_with_drain(timeout=100, wait_for_delayed=True)
    assert runs == [("a", 0), ("b", 10), ("b", 13)]
    for worker in workers:
        with pytest.raises(StoppedError):
            await worker


async def test_a_drain_that_waits_too_long_for_delayed_keys_forgets_them() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("a", 100)
    waiting = asyncio.ensure_future(queue.get())
    with pytest.raises(TimeoutError):
        await queue.shut_down_with_drain(timeout=10, wait_for_delayed=True)
    assert queue.statistics().delayed == 0
    with pytest.raises(StoppedError):
        await waiting


async def test_a_shutdown_during_a_drain_that_waits_for_delayed_keys_ends_the_wait() -> None:
    queue: DelayingQueue[str] = DelayingQueue()
    queue.add_after("a", 100)
    drain = asyncio.ensure_future(queue.shut_down_with_drain(wait_for_delayed=True))
    await asyncio.sleep(1)
    queue.shut_down()
    await drain
    assert queue.statistics().delayed == 0


# --- nothing lost ---------------------------------------------------------------------------------------------


STEPS = st.one_of(
    st.tuples(st.just("after"), st.sampled_from("abc"), st.integers(0, 20)),
    st.tuples(st.just("add"), st.sampled_from("abc"), st.just(0)),
    st.tuples(st.just("pass"), st.just(""), st.integers(1, 8)),
)


async def live_through(steps: list[tuple[str, str, int]], wait: bool) -> None:
    """Each key is taken at every moment at which the rule says so, and no other; the rest is forgotten."""
    queue: DelayingQueue[str] = DelayingQueue()
    began = now()
    came: list[tuple[float, str]] = []

    async def work() -> None:
        while True:
            key = await queue.get()
            came.append((now() - began, key))
            queue.done(key)

    worker = asyncio.ensure_future(work())
    due: dict[str, float] = {}
    expected: set[tuple[float, str]] = set()
    for step, key, seconds in steps:
        at = now() - began
        if step == "add":
            queue.add(key)
            expected.add((at, key))
        elif step == "after":
            queue.add_after(key, seconds)
            if seconds == 0:
                expected.add((at, key))
            else:
                due[key] = min(at + seconds, due.get(key, at + seconds))
        else:
            await asyncio.sleep(seconds)
            for name, when in list(due.items()):
                if when <= now() - began:
                    expected.add((when, name))
                    del due[name]
    await queue.shut_down_with_drain(timeout=100, wait_for_delayed=wait)
    if wait:
        expected |= {(when, name) for name, when in due.items()}
    assert queue.statistics().delayed == 0
    assert set(came) == expected
    with pytest.raises(StoppedError):
        await worker


@pytest.mark.slow
@settings(max_examples=200)
@given(st.lists(STEPS, max_size=30), st.booleans())
def test_every_delayed_key_comes_at_its_time_or_is_forgotten(steps: list[tuple[str, str, int]], wait: bool) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(steps, wait))


# --- rate limiting --------------------------------------------------------------------------------------------


async def test_a_key_that_fails_waits_longer_each_time_and_is_forgotten_when_it_succeeds() -> None:
    queue: RateLimitingQueue[str] = RateLimitingQueue(ExponentialFailureRateLimiter(1, 60))
    waits: list[float] = []
    for _ in range(4):
        queue.add_rate_limited("a")
        waits += [seconds for _, seconds in await arrivals(queue, 1)]
    assert waits == [1, 2, 4, 8]
    assert queue.num_requeues("a") == 4
    queue.forget("a")
    assert queue.num_requeues("a") == 0
    queue.add_rate_limited("a")
    assert await arrivals(queue, 1) == [("a", 1)]


async def test_without_a_limiter_a_queue_has_the_one_of_controllers() -> None:
    queue: RateLimitingQueue[Any] = RateLimitingQueue()
    waits = []
    for _ in range(4):
        queue.add_rate_limited("a")
        waits += [seconds for _, seconds in await arrivals(queue, 1)]
    assert waits == pytest.approx([0.005, 0.01, 0.02, 0.04])
    delays = sorted(queue.limiter.when(number) for number in range(200))
    assert delays[0] == 0.005
    assert delays[-1] == pytest.approx(10, abs=1), "past 100 at once it is ten a second for all keys together"


def test_what_is_due_comes_although_somebody_has_used_up_the_turn_of_the_loop_and_gone() -> None:
    """Nobody pauses who could begin the next turn: the timer has to do it itself, or it looks again for ever."""

    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        queue = DelayingQueue[str]()

        def use_it_up() -> None:
            budget = YieldBudget()
            while not budget.exhausted():
                pass

        # The loop is held up until both are due, so that they run in one turn, in this order.
        loop.call_later(0.001, use_it_up)
        for key in ("a", "b", "c"):
            queue.add_after(key, 0.002)
        until = time.perf_counter() + 0.004
        while time.perf_counter() < until:
            pass
        coming = asyncio.create_task(arrivals(queue, 3))
        for _ in range(100):  # turns of the loop
            await asyncio.sleep(0)
        return [key for key, _ in await coming] if coming.done() else []

    assert asyncio.run(main()) == ["a", "b", "c"]
