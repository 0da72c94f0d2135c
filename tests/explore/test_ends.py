"""The ends of a program: however a process ends, it is started again, or its end is the finding."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import pytest

from kinformer import Client, LeaderElector
from kinformer.exceptions import LeadershipLostError
from kinformer.testing.explore import ALL, ClusterState, ExplorationError, Pause, Restart, World, explore
from tests.explore.programs import forever

pytest.importorskip("time_machine")

pytestmark = pytest.mark.slow  # explorations, one or more a test

MAPS = "v1/configmaps"
PATH = "/api/v1/namespaces/default/configmaps"
Main = Callable[[Client], Awaitable[None]]


def error_of(main: Main, *, schedules: int = 1, faults: Any = ALL, ignore: Any = (), **options: Any) -> Any:
    """Explore a program that has to count up to three, and return the error of the exploration, if any."""

    def counted_to_three(state: ClusterState) -> None:
        assert {one["metadata"]["name"] for one in state.list(MAPS)} >= {"count-1", "count-2", "count-3"}

    async def test(world: World) -> None:
        world.run(main, **options)
        world.eventually(counted_to_three)

    try:
        explore(schedules=schedules, faults=faults, ignore=ignore, seed=1)(test)()
    except ExplorationError as error:
        return error
    return None


async def count(client: Client) -> int:
    """Add one to the number of objects, and return it."""
    number = len((await client.request("GET", PATH))["items"]) + 1
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"count-{number}"}}
    await client.request("POST", PATH, body=body)
    return number


async def _return() -> None:
    return


async def _exit() -> NoReturn:
    raise SystemExit(1)


async def _exit_at_once() -> NoReturn:
    os._exit(1)


async def _cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def _terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    await forever()


async def _kill() -> None:
    signal.raise_signal(signal.SIGKILL)


async def _fail_permitted() -> NoReturn:
    raise ExceptionGroup("of tasks", [LookupError("permitted"), ExceptionGroup("more", [KeyError("also")])])


@pytest.mark.parametrize("end", [_return, _exit, _exit_at_once, _cancel_itself, _terminate, _kill, _fail_permitted])
def test_a_process_that_ends_is_started_again(end: Callable[[], Awaitable[None]]) -> None:
    async def main(client: Client) -> None:
        await asyncio.sleep(3)
        if await count(client) < 3:
            await end()
            return
        await forever()

    assert error_of(main, may_raise=LookupError) is None


def test_an_exit_in_any_task_ends_the_process_after_its_cleanup() -> None:
    cleaned: list[str] = []

    async def main(client: Client) -> None:
        await asyncio.sleep(3)
        number = await count(client)
        exiting = asyncio.create_task(_exit()) if number < 3 else None
        try:
            await forever()
        finally:
            await asyncio.sleep(1)
            cleaned.append(f"{number}: {exiting}")

    assert error_of(main) is None
    assert len(cleaned) >= 2


@pytest.mark.parametrize("end", [_exit, _exit_at_once, _fail_permitted])
def test_a_program_that_fails_at_each_start_is_found(end: Callable[[], Awaitable[None]]) -> None:
    async def main(client: Client) -> None:
        await end()

    error = error_of(main, may_raise=LookupError)
    assert error.finding.rule == "errors"
    assert "ends again and again" in str(error)


def test_a_program_that_has_done_its_work_and_returns_each_time_is_at_rest() -> None:
    async def main(client: Client) -> None:
        while len((await client.request("GET", PATH))["items"]) < 3:
            await count(client)

    assert error_of(main) is None


def test_a_group_with_an_error_that_is_not_permitted_is_found() -> None:
    async def main(client: Client) -> None:
        raise ExceptionGroup("of tasks", [LookupError("permitted"), ValueError("not so")])

    error = error_of(main, may_raise=LookupError)
    assert error.finding.rule == "errors"
    assert "not so" in str(error)


def test_an_error_of_a_task_that_nobody_awaits_is_found_and_may_be_ignored() -> None:
    async def main(client: Client) -> None:
        async def broken() -> NoReturn:
            raise ValueError("lost")

        asyncio.create_task(broken())  # noqa: RUF006
        for _ in range(3):
            await count(client)
        await forever()

    error = error_of(main)
    assert error.finding.rule == "errors"
    assert "lost" in str(error)
    assert error_of(main, ignore={"errors"}) is None
    assert error_of(main, may_raise=ValueError) is None


async def leading(client: Client, lost: Callable[[LeadershipLostError], Any]) -> None:
    try:
        async with LeaderElector(client, namespace="default", name="count").leading():
            for _ in range(3):
                await count(client)
                await asyncio.sleep(2)
            await forever()
    except LeadershipLostError as error:
        lost(error)


def test_the_story_of_a_lost_lead_ends_with_the_line_that_allows_it() -> None:
    def fail(error: LeadershipLostError) -> NoReturn:
        raise ExceptionGroup("of tasks", [error])

    async def operator(client: Client) -> None:
        await leading(client, fail)

    error = error_of(operator, schedules=20, faults={Pause}, replicas=2)
    assert error.finding.rule == "errors"
    assert str(error).splitlines()[-1] == (
        "If a lost lead may end the program: world.run(operator, replicas=2, may_raise=LeadershipLostError)"
    )
    assert error_of(operator, schedules=20, faults={Pause}, replicas=2, may_raise=LeadershipLostError) is None


@pytest.mark.parametrize("status", [None, 1])
def test_a_program_may_return_or_exit_when_its_lead_is_lost(status: int | None) -> None:
    def end(error: LeadershipLostError) -> None:
        if status is not None:
            raise SystemExit(status)

    async def operator(client: Client) -> None:
        await leading(client, end)

    assert error_of(operator, schedules=20, faults={Pause, Restart}, replicas=2) is None
