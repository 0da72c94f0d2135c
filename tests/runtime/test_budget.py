"""The budget of work on the event loop, and the turn that all budgets of a thread share.

Internals: the budget by a clock of its own, because what it does depends on microseconds.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from kinformer._runtime.clock import YIELD_SECONDS, Clock, YieldBudget

QUICK = 0.000_005  # seconds of a quick call
LEAST = 0.000_05  # seconds of work of each task in a turn
A = pytest.mark.parametrize


class Work:
    """A clock that goes on only while tasks work, and the turns of the loop in which they did.

    Attributes:
        turns: The calls of each task, by turn.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[dict[str, int]] = [{}]
        self._first: YieldBudget | None = None

    def budget(self) -> YieldBudget:
        budget = YieldBudget(clock=Clock(perf=lambda: self.now))
        if self._first is None:
            self._first = budget
        budget.turn = self._first.turn
        return budget

    async def calls(self, name: str, count: int, seconds: float) -> None:
        """Make calls of a length."""
        budget = self.budget()
        budget.enter()
        for _ in range(count):
            self.now += seconds
            turn = self.turns[-1]
            turn[name] = turn.get(name, 0) + 1
            if budget.exhausted():
                await budget.pause()

    async def of(self, tasks: int, count: int, seconds: float) -> list[dict[str, int]]:
        """Run tasks with calls, and return the turns."""

        async def mark_turns() -> None:
            while True:
                self.turns.append({})
                await asyncio.sleep(0)

        working = [asyncio.create_task(self.calls(str(number), count, seconds)) for number in range(tasks)]
        marking = asyncio.create_task(mark_turns())
        await asyncio.wait(working)
        marking.cancel()
        return [turn for turn in self.turns if turn]


async def test_it_is_used_up_by_time_and_a_pause_renews_it() -> None:
    work = Work()
    budget = work.budget()
    assert not budget.exhausted()
    work.now += YIELD_SECONDS * 1.01
    assert budget.exhausted()
    ran: list[int] = []
    asyncio.get_running_loop().call_soon(ran.append, 1)
    await budget.pause()
    assert ran == [1]
    assert not budget.exhausted()


@A(("others", "left"), [(0.0002, 0.0008), (0.0008, 0.0005), (1.0, 0.0005)])
async def test_what_the_loop_does_during_a_pause_counts_up_to_half_of_the_budget(others: float, left: float) -> None:
    work = Work()
    budget = work.budget()

    def read_a_socket() -> None:
        work.now += others

    asyncio.get_running_loop().call_soon(read_a_socket)
    await budget.pause()
    work.now += left * 0.99
    assert not budget.exhausted()
    work.now += left * 0.02
    assert budget.exhausted()


async def test_one_task_works_for_a_turn_and_the_others_for_a_twentieth() -> None:
    turns = await Work().of(tasks=16, count=2000, seconds=QUICK)
    for turn in turns:
        whole = sum(turn.values()) * QUICK
        assert whole <= YIELD_SECONDS + 15 * LEAST + 16 * QUICK
    most = [turn for turn in turns if len(turn) == 16]
    assert most, "no task waits for another to end"
    for turn in most:
        assert min(turn.values()) >= LEAST / QUICK - 1, "a pause for each few calls would cost more than they do"


async def test_no_task_makes_a_second_call_in_a_turn_that_slow_calls_use_up() -> None:
    turns = await Work().of(tasks=4, count=10, seconds=0.060)
    assert all(set(turn.values()) == {1} for turn in turns)


async def test_a_task_that_was_idle_begins_a_turn() -> None:
    work = Work()
    first, second = work.budget(), work.budget()
    work.now += YIELD_SECONDS * 2
    assert first.exhausted()
    second.enter()
    work.now += LEAST * 1.01
    assert second.exhausted(), "the first has used up this turn"
    work.now += 0.01  # nothing has worked
    second.enter()
    work.now += LEAST * 1.01
    assert not second.exhausted()


async def test_tasks_share_the_turn_of_the_loop_and_each_gets_on() -> None:
    """As above, by the system's clock."""
    steps: list[str] = []

    async def work(name: str) -> None:
        budget = YieldBudget()
        for _ in range(6):
            until = time.perf_counter() + 0.0007
            while time.perf_counter() < until:
                pass
            steps.append(name)
            if budget.exhausted():
                await budget.pause()

    async def turns() -> None:
        while True:
            steps.append("|")
            await asyncio.sleep(0)

    counting = asyncio.create_task(turns())
    await asyncio.gather(*(work(name) for name in "abc"))
    counting.cancel()
    first, *others = "".join(steps).strip("|").split("|")
    for turn in (first, *others):
        assert len(turn) <= 6, f"in one turn of the loop: {turn}"  # two or three of the first, one of each other
        assert all(turn.count(name) <= 4 for name in "abc")
    assert {*first} == {*"abc"}, "the others get on too"
