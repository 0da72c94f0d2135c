"""A program that does not do the same twice: the first step that differs is the finding."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import Any

import pytest

from kinformer import APIError, Client
from kinformer.testing.explore import Refused
from tests.explore.programs import exploring, forever, found

pytest.importorskip("time_machine")

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def make(client: Client, name: str, **fields: Any) -> None:
    await client.request("POST", CONFIG_MAPS, body={"metadata": {"name": name}, **fields}, retries=0)


def test_state_that_outlives_a_program_is_found_at_the_first_step_that_differs() -> None:
    numbers = itertools.count()

    async def counting(client: Client) -> None:
        await make(client, "same")
        await make(client, f"number-{next(numbers)}")
        await forever()

    error = found(counting)
    assert error.finding.rule == "determinism"
    assert error.finding.objects == (
        "v1/configmaps default/number-0",
        "v1/configmaps default/number-1",
    )
    story = str(error).splitlines()
    assert story[0].startswith("the program does not do the same twice: step ")
    [first, second] = [number for number, line in enumerate(story) if line.endswith(" time:")]
    assert "creates v1/configmaps default/number-0" in story[first + 1]
    assert "creates v1/configmaps default/number-1" in story[second + 1]
    assert any("creates v1/configmaps default/same" in line for line in story[:first])
    [place] = {line.rpartition("<- ")[2] for line in story if "<-" in line}
    assert place.startswith("test_simulation_twice.py:")
    assert place.endswith(" in make")


def test_written_objects_are_compared_field_by_field() -> None:
    numbers = itertools.count()

    async def counting(client: Client) -> None:
        await make(client, "same", data={"steps": str(next(numbers))})
        await forever()

    error = found(counting)
    assert error.finding.text.endswith(" of one history differs, in data.steps")
    assert "data.steps: '0'" in str(error)
    assert "data.steps: '1'" in str(error)


def test_a_play_that_ends_earlier_is_found() -> None:
    first = iter([True])

    async def once(client: Client) -> None:
        if next(first, False):
            await make(client, "only-the-first-time")
        await forever()

    story = str(found(once))
    assert "creates v1/configmaps default/only-the-first-time" in story
    assert "nothing" in story


def test_a_failure_under_a_fault_that_does_not_come_again_is_reported_as_such() -> None:
    refusals = iter([True])

    async def forgetful(client: Client) -> None:
        try:
            await make(client, "a")
        except APIError:
            if next(refusals, False):
                raise
        await forever()

    error = found(forgetful, schedules=20, faults={Refused})
    assert error.finding.rule == "determinism"
    assert "replica 1 ended with" in str(error)


def test_a_failure_with_several_faults_that_does_not_come_again_is_reported_as_such() -> None:
    starts: list[None] = []

    async def failing_once(client: Client) -> None:
        starts.append(None)
        with suppress(APIError):
            await make(client, "a")
        if len(starts) == 15:  # after all histories with single faults
            raise ValueError("once")
        await forever()

    error = found(failing_once, schedules=20, faults={Refused}, seed=1)
    assert error.finding.rule == "determinism"
    assert "replica 1 ended with ValueError: once" in str(error)


def test_a_program_that_does_the_same_is_explored_and_its_two_plays_count_as_one_history() -> None:
    starts: list[None] = []

    async def steady(client: Client) -> None:
        starts.append(None)
        await make(client, "a")
        await forever()

    exploring(steady)()
    assert len(starts) == 2


def test_a_failure_of_the_first_history_is_told_as_before() -> None:
    async def broken(client: Client) -> None:
        raise ValueError("of its own")

    error = found(broken)
    assert error.finding.rule == "errors"
    assert error.tried == 1
