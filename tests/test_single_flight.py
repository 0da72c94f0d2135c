from __future__ import annotations

import asyncio

import pytest

from kinformer.single_flight import SingleFlight


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
