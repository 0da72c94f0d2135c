"""A call that is made once for all who ask while it runs.

Internals: the class itself, since no request shows who began it; and a fence around it.
"""

from __future__ import annotations

import asyncio
import gc

import pytest

from kinformer._runtime.fence import Fence
from kinformer.connection.single_flight import SingleFlight
from kinformer.leaderelection import check_fences


class Call:
    """Counts its runs, and answers when it is let go."""

    def __init__(self) -> None:
        self.runs = 0
        self.cancelled = 0
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        self.runs += 1
        run = self.runs
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return run


async def test_all_who_ask_while_it_runs_get_the_result_of_one_run() -> None:
    call = Call()
    flight = SingleFlight(call)
    waiting = [asyncio.create_task(flight.get()) for _ in range(5)]
    await asyncio.sleep(0)
    call.go.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await flight.get() == 2


async def test_who_asks_while_a_call_runs_shares_the_next_one_if_calls_must_not_be_joined() -> None:
    call = Call()
    flight = SingleFlight(call, joins_running=False)
    first = [asyncio.create_task(flight.get()) for _ in range(2)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.create_task(flight.get()) for _ in range(3)]
    await asyncio.sleep(0)
    later[0].cancel()
    await asyncio.sleep(0)
    assert call.runs == 1
    call.go.set()
    assert await asyncio.gather(*first) == [1, 1]
    assert await asyncio.gather(*later[1:]) == [2, 2]


async def test_a_call_that_waits_for_another_ends_with_its_last_caller() -> None:
    call = Call()
    flight = SingleFlight(call, joins_running=False)
    first = asyncio.create_task(flight.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = asyncio.create_task(flight.get())
    await asyncio.sleep(0)
    later.cancel()
    await asyncio.wait([later])
    call.go.set()
    assert await first == 1
    assert await flight.get() == 2
    assert call.cancelled == 0


@pytest.mark.virtual_time
async def test_a_result_is_handed_out_again_for_its_time_unless_it_is_forgotten() -> None:
    call = Call()
    call.go.set()
    flight = SingleFlight(call, ttl=10)
    assert await flight.get() == 1
    await asyncio.sleep(9)
    assert await flight.get() == 1
    await asyncio.sleep(2)
    assert await flight.get() == 2
    flight.forget()
    assert await flight.get() == 3


async def test_one_who_is_cancelled_does_not_disturb_the_others() -> None:
    call = Call()
    flight = SingleFlight(call)
    first, second = (asyncio.create_task(flight.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    call.go.set()
    assert await second == 1
    assert first.cancelled()
    assert call.cancelled == 0


async def test_when_the_last_one_has_gone_the_call_is_cancelled_and_the_next_starts_anew() -> None:
    call = Call()
    flight = SingleFlight(call)
    waiting = [asyncio.create_task(flight.get()) for _ in range(2)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    call.go.set()
    assert await flight.get() == 2
    assert call.cancelled == 1


async def test_a_failure_reaches_all_and_is_not_remembered() -> None:
    call = Call()
    call.error = ValueError("no")
    call.go.set()
    flight = SingleFlight(call, ttl=10)
    results = await asyncio.gather(*(flight.get() for _ in range(3)), return_exceptions=True)
    assert [str(result) for result in results] == ["no"] * 3
    call.error = None
    assert await flight.get() == 2


async def left_alone(flight: SingleFlight[int]) -> None:
    """Somebody has asked and gone."""
    waiting = asyncio.create_task(flight.get())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])


async def test_a_call_that_lingers_goes_on_for_whoever_asks_next() -> None:
    call = Call()
    flight = SingleFlight(call, lingers=True)
    await left_alone(flight)
    next_one = asyncio.create_task(flight.get())
    await asyncio.sleep(0)
    call.go.set()
    assert await next_one == 1
    assert call.cancelled == 0
    assert await flight.get() == 2


@pytest.mark.parametrize("error", [None, ValueError("broken")])
async def test_what_a_call_that_lingers_comes_to_when_nobody_waits_is_not_kept_and_not_reported(
    error: Exception | None,
) -> None:
    call, reported = Call(), []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    flight = SingleFlight(call, lingers=True)
    await left_alone(flight)
    call.error = error
    call.go.set()
    for _ in range(3):
        await asyncio.sleep(0)
    call.error = None
    assert await flight.get() == 2
    gc.collect()
    assert reported == []


async def test_closing_ends_a_call_that_lingers_and_lets_one_that_is_waited_for_end_by_itself() -> None:
    call = Call()
    flight = SingleFlight(call, lingers=True)
    await left_alone(flight)
    await flight.close()
    assert call.cancelled == 1
    assert len(asyncio.all_tasks()) == 1

    flight = SingleFlight(call, lingers=True)
    waiting = asyncio.create_task(flight.get())
    await asyncio.sleep(0)
    await flight.close()
    call.go.set()
    assert await waiting == 2


async def test_a_call_is_not_held_back_with_whoever_asked_for_it_first() -> None:
    class LapsedError(Exception):
        pass

    def lapsed() -> None:
        raise LapsedError

    async def call() -> str:
        check_fences()
        return "done"

    with Fence(lapsed):
        assert await SingleFlight(call).get() == "done"
