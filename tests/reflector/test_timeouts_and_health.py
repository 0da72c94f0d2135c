"""Clocks, time limits, gaps, and the health that is made of them.

Internals: the parts of a reflector one by one, since together they hide one another.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kinformer import InformerHealth
from kinformer._runtime.clock import SYSTEM
from kinformer.exceptions import ForbiddenError
from kinformer.listwatch.head_limit import answered
from kinformer.reflector.continuity import Gap
from kinformer.reflector.health import HealthRecord, combine_health
from kinformer.reflector.timeouts import IdleTimeout
from tests.support.line_process import boot_time


class _Slept:
    """A boot clock that goes on while the machine sleeps, which the loop's does not."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return SYSTEM.loop() + self.seconds


def test_the_clock_of_leases_goes_on_in_suspend() -> None:
    assert SYSTEM.boot() == pytest.approx(boot_time(), abs=1)


@pytest.mark.virtual_time
async def test_an_answer_in_time_is_given_and_a_late_one_is_a_timeout_that_says_what_for() -> None:
    assert await answered(asyncio.sleep(1, "yes"), 2, "list") == "yes"
    with pytest.raises(TimeoutError, match="list: no response within 2 s"):
        await answered(asyncio.sleep(3), 2, "list")


@pytest.mark.virtual_time
async def test_a_timeout_of_the_source_itself_passes_as_it_is() -> None:
    async def fails() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        await answered(fails(), 2, "list")
    with pytest.raises(TimeoutError, match="of its own"):
        async with IdleTimeout(idle=5):
            await fails()


@pytest.mark.virtual_time
async def test_a_watchdog_ends_a_silent_body_and_says_why() -> None:
    start = SYSTEM.loop()
    async with IdleTimeout(idle=5) as timeout:
        for _ in range(3):
            await asyncio.sleep(4)
            timeout.heard = SYSTEM.loop()
        await asyncio.Event().wait()
    assert timeout.verdict == "idle"
    assert SYSTEM.loop() - start == 17


@pytest.mark.virtual_time
async def test_a_watchdog_ends_a_body_at_its_deadline_however_lively() -> None:
    start = SYSTEM.loop()
    async with IdleTimeout(idle=5, deadline=start + 12) as timeout:
        while True:
            await asyncio.sleep(1)
            timeout.heard = SYSTEM.loop()
    assert timeout.verdict == "deadline"
    assert SYSTEM.loop() - start == 12


@pytest.mark.virtual_time
async def test_a_watchdog_can_be_told_to_end_the_body() -> None:
    async with IdleTimeout(idle=5) as timeout:
        asyncio.get_running_loop().call_later(1, timeout.interrupt)
        await asyncio.Event().wait()
    assert timeout.verdict == "interrupted"
    timeout.interrupt()  # too late, and harmless


@pytest.mark.virtual_time
async def test_a_body_that_ends_by_itself_has_no_verdict() -> None:
    async with IdleTimeout(idle=5) as timeout:
        timeout.interrupt()
    assert timeout.verdict == ""
    await asyncio.sleep(10)  # and no cancellation comes after it


@pytest.mark.virtual_time
async def test_a_cancellation_from_outside_passes_even_at_the_same_moment() -> None:
    async def body() -> None:
        async with IdleTimeout(idle=5) as timeout:
            dogs.append(timeout)
            await asyncio.Event().wait()

    dogs: list[IdleTimeout] = []
    task = asyncio.ensure_future(body())
    await asyncio.sleep(1)
    dogs[0].interrupt()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_loop_that_was_held_up_does_not_take_its_own_silence_for_the_servers() -> None:
    """What came meanwhile is read first: it waits in the socket."""
    loop = asyncio.get_running_loop()
    now = [loop.time()]
    original, loop.time = loop.time, lambda: now[0]  # type: ignore[method-assign]
    try:
        async with IdleTimeout(idle=5) as timeout:
            now[0] += 60.0  # somebody's code held the loop for a minute
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            heard_late = timeout.heard
    finally:
        loop.time = original  # type: ignore[method-assign]
    assert timeout.verdict == ""
    assert heard_late + 5 == now[0] + 1.0


@pytest.mark.virtual_time
async def test_a_gap_is_in_doubt_after_two_seconds_away_silence_or_sleep() -> None:
    boot = _Slept()
    gap = Gap(120, replace(SYSTEM, boot=boot))
    gap.proved()
    gap.closed(None)
    assert not gap.in_doubt()
    await asyncio.sleep(2.1)
    assert gap.in_doubt()
    gap.proved()
    assert not gap.in_doubt()
    boot.seconds = 3600.0  # the lid was closed
    assert gap.in_doubt()
    gap.proved()
    gap.doubt()
    assert gap.in_doubt()
    gap.proved()
    await asyncio.sleep(60)
    gap.closed(SYSTEM.loop())
    await asyncio.sleep(1)
    assert not gap.in_doubt()
    for _ in range(2):
        await asyncio.sleep(60)
        gap.closed(None)  # streams without a word
    assert gap.in_doubt()


def _health(**fields: Any) -> InformerHealth:
    return replace(HealthRecord().snapshot(""), **fields)


def test_several_reflectors_are_as_well_as_the_worst_of_them() -> None:
    error = ForbiddenError(403)
    good = _health(state="watching", synced=True, live=True, last_event_age=3.0, last_sync_age=50.0, watches=2)
    bad = _health(state="forbidden", last_error=error, consecutive_failures=4, relists=1)
    whole = combine_health([good, bad], resource_version="9")

    assert (whole.state, whole.synced, whole.live) == ("forbidden", False, False)
    assert (whole.last_event_age, whole.last_sync_age) == (3.0, None)
    assert (whole.last_error, whole.consecutive_failures) == (error, 4)
    assert (whole.watches, whole.relists, whole.resource_version) == (2, 1, "9")


def test_an_informer_that_has_ended_is_stopped_whatever_its_reflectors_say() -> None:
    good = _health(state="watching", synced=True, live=True)
    whole = combine_health([good], stopped=True, error=ValueError("bug"), synced=True)

    assert (whole.state, whole.live, whole.synced) == ("stopped", False, True)
    assert isinstance(whole.last_error, ValueError)
