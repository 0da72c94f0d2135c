"""Tasks that wait are woken in order, and a wake-up is neither lost nor given twice.

Internals: the queue and the latch themselves.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer._runtime.waiters import Latch, WaiterQueue
from tests.support.waiting import settle


class Waiting:
    """Tasks that wait, by number, and those of them that went on, in order."""

    def __init__(self, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._wait = wait
        self.woken: list[int] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def start(self, count: int) -> list[asyncio.Task[None]]:
        self.tasks += [
            asyncio.create_task(self._one(number)) for number in range(len(self.tasks), len(self.tasks) + count)
        ]
        await settle()
        return self.tasks

    async def _one(self, number: int) -> None:
        await self._wait()
        self.woken.append(number)


async def test_tasks_are_woken_one_at_a_time_in_the_order_in_which_they_came() -> None:
    queue = WaiterQueue()
    queue.wake()  # nothing is kept for those that come later
    waiting = Waiting(queue.wait)
    await waiting.start(3)
    assert len(queue) == 3
    assert waiting.woken == []
    queue.wake()
    await settle()
    assert waiting.woken == [0]
    queue.wake()
    queue.wake()
    await settle()
    assert waiting.woken == [0, 1, 2]
    assert not queue


async def test_all_are_woken_at_once_and_none_that_comes_later() -> None:
    queue = WaiterQueue()
    waiting = Waiting(queue.wait)
    await waiting.start(3)
    queue.wake_all()
    tasks = await waiting.start(1)
    assert waiting.woken == [0, 1, 2]
    assert not tasks[3].done()
    queue.wake()
    await settle()
    assert waiting.woken == [0, 1, 2, 3]


async def test_an_exception_reaches_each_that_waits() -> None:
    queue = WaiterQueue()
    tasks = await Waiting(queue.wait).start(2)
    queue.fail(ValueError("no more"))
    await settle()
    for task in tasks:
        with pytest.raises(ValueError, match="no more"):
            task.result()
    assert not queue


async def test_a_task_that_is_cancelled_while_it_waits_is_passed_over() -> None:
    queue = WaiterQueue()
    waiting = Waiting(queue.wait)
    tasks = await waiting.start(3)
    tasks[1].cancel()
    await settle()
    assert len(queue) == 2
    queue.wake()
    queue.wake()
    await settle()
    assert waiting.woken == [0, 2]


async def test_a_wake_up_that_meets_a_cancellation_goes_to_the_next() -> None:
    queue = WaiterQueue()
    waiting = Waiting(queue.wait)
    tasks = await waiting.start(3)
    queue.wake()
    tasks[0].cancel()
    await settle()
    assert tasks[0].cancelled()
    assert waiting.woken == [1]
    assert not tasks[2].done()
    tasks[2].cancel()
    await settle()


async def test_a_task_that_was_woken_with_all_others_and_cancelled_wakes_none_that_came_later() -> None:
    queue = WaiterQueue()
    waiting = Waiting(queue.wait)
    tasks = await waiting.start(1)
    queue.wake_all()
    tasks[0].cancel()
    await waiting.start(1)
    assert waiting.woken == []
    queue.wake()
    await settle()
    assert waiting.woken == [1]


async def test_a_failure_that_meets_a_cancellation_is_not_reported_as_never_retrieved() -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    queue = WaiterQueue()
    tasks = await Waiting(queue.wait).start(2)
    queue.fail(ValueError("no more"))
    tasks[0].cancel()
    await settle()
    assert tasks[0].cancelled()
    assert isinstance(tasks[1].exception(), ValueError)
    del tasks
    gc.collect()
    await settle()
    assert reported == []


async def test_a_coroutine_that_is_closed_while_it_waits_takes_no_wake_up_along() -> None:
    queue = WaiterQueue()
    closed = queue.wait()
    closed.send(None)
    waiting = Waiting(queue.wait)
    await waiting.start(2)
    closed.close()
    assert len(queue) == 2
    await settle()
    assert waiting.woken == []
    queue.wake_all()
    await settle()


@settings(deadline=None)
@given(st.lists(st.one_of(st.just("wait"), st.just("wake"), st.just("settle"), st.integers(0, 9)), max_size=30))
def test_as_many_go_on_as_were_woken_whatever_is_cancelled(history: list[str | int]) -> None:
    """A number cancels the task of that number. Each wake-up goes to a task that waits, while there is one."""

    async def play() -> None:
        queue = WaiterQueue()
        waiting = Waiting(queue.wait)
        given_away = 0
        for step in history:
            if step == "wait":
                await waiting.start(1)
            elif step == "wake":
                # Those that were cancelled a moment ago are no longer among the waiting ones.
                given_away += sum(1 for task in waiting.tasks if not task.done() and not task.cancelling()) > (
                    given_away - len(waiting.woken)
                )
                queue.wake()
            elif step == "settle":
                await settle()
            elif isinstance(step, int) and step < len(waiting.tasks):
                waiting.tasks[step].cancel()
                left = sum(1 for task in waiting.tasks if not task.done() and not task.cancelling())
                given_away = min(given_away, len(waiting.woken) + left)
        await settle()
        assert len(waiting.woken) == given_away
        assert waiting.woken == sorted(waiting.woken)
        queue.wake_all()
        await settle()

    asyncio.run(play())


# --- the latch -----------------------------------------------------------------------------------------


async def test_an_open_latch_lets_all_pass_those_that_wait_and_those_that_come() -> None:
    latch = Latch()
    waiting = Waiting(latch.wait)
    tasks = await waiting.start(2)
    tasks[0].cancel()
    await settle()
    assert not latch.is_open
    latch.open()
    latch.open()
    assert latch.is_open
    await waiting.start(1)
    assert waiting.woken == [1, 2]
    latch.fail(ValueError("too late"))
    await latch.wait()


async def test_a_failed_latch_raises_for_all_until_it_is_opened_after_all() -> None:
    latch = Latch()
    tasks = await Waiting(latch.wait).start(2)
    latch.fail(ValueError("stopped"))
    await settle()
    assert [str(task.exception()) for task in tasks] == ["stopped", "stopped"]
    with pytest.raises(ValueError, match="stopped"):
        await latch.wait()
    assert not latch.is_open
    latch.open()
    await latch.wait()
