"""A program beside a test: its end is the end of the test, with its error, and the end of the test is its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kinformer import Client
from kinformer.conditions import is_deleted
from kinformer.testing import APIServer, running
from tests.support.kube import config_map

pytestmark = pytest.mark.virtual_time


class Broken(Exception):
    """The error of a program."""


async def fails(after: float = 1.0) -> None:
    await asyncio.sleep(after)
    raise Broken("no such table")


async def goes_on(ended: list[str] | None = None) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(2)
        if ended is not None:
            ended.append("ended")


async def test_a_program_runs_beside_the_body_and_ends_with_it(server: APIServer, client: Client) -> None:
    ended: list[str] = []

    async def operator() -> None:
        await client.request("POST", "/api/v1/namespaces/default/configmaps", body=config_map("a"))
        await goes_on(ended)

    async with running(operator()) as task:
        await client.wait_for("v1/configmaps", "default/a", lambda obj: obj is not None, 10)
        assert not task.done()
    assert task.cancelled()
    assert ended == ["ended"], "it was waited for"


async def test_its_error_cancels_the_body_and_is_raised_as_itself() -> None:
    loop = asyncio.get_running_loop()
    began, seen = loop.time(), []

    async def test() -> None:
        async with running(fails()):
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    with pytest.raises(Broken, match="no such table") as caught:
        await test()
    assert loop.time() - began == 1
    assert seen == ["cancelled"]
    assert caught.value.__context__ is None
    assert caught.traceback[-1].name == "fails"
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    async with asyncio.timeout(1):
        await asyncio.sleep(0.5)


async def test_a_start_that_fails_at_once_is_not_waited_for(client: Client) -> None:
    async def main() -> None:
        raise Broken("at once")

    with pytest.raises(Broken, match="at once"):
        async with running(main()):
            await client.wait_for("v1/pods", "default/never", lambda obj: obj is not None, 10)


async def test_an_error_after_the_last_await_of_the_body_is_raised_too() -> None:
    async def test() -> None:
        async with running(fails(0.0)) as task:
            await asyncio.wait([task])

    with pytest.raises(Broken):
        await test()


async def test_returning_early_is_an_error_that_names_the_program() -> None:
    async def main() -> int:
        await asyncio.sleep(1)
        return 3

    with pytest.raises(RuntimeError, match=r"main returned 3 while the test was running"):
        async with running(main()):
            await asyncio.sleep(3600)


async def test_an_exit_of_the_program_ends_the_test_and_not_the_event_loop() -> None:
    async def main() -> None:
        await asyncio.sleep(0)
        sys.exit(7)

    with pytest.raises(SystemExit) as caught:
        async with running(main()):
            await asyncio.sleep(3600)
    assert caught.value.code == 7


async def test_a_program_that_the_body_cancels_is_no_failure() -> None:
    async with running(goes_on()) as first, running(goes_on()) as second:
        first.cancel()
        await asyncio.wait([first])
        await asyncio.sleep(10)
        assert not second.done()


async def test_a_cancellation_of_nobody_is_an_error() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    with pytest.raises(RuntimeError, match="CancelledError, although it was not cancelled"):
        async with running(main()):
            await asyncio.sleep(3600)


async def test_a_program_that_does_not_end_is_named_after_5_seconds() -> None:
    release = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()

    loop = asyncio.get_running_loop()
    tasks = []
    began = loop.time()

    async def test() -> None:
        async with running(stubborn()) as task:
            tasks.append(task)
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="stubborn did not end within 5 s of its cancellation"):
        await test()
    assert loop.time() - began == 5
    release.set()
    await asyncio.wait(tasks)


async def test_an_error_while_it_ends_is_raised() -> None:
    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Broken("in its finally")

    with pytest.raises(Broken, match="in its finally"):
        async with running(main()):
            await asyncio.sleep(0)


async def test_the_error_of_the_body_stays_with_a_note_about_the_program() -> None:
    async def test() -> None:
        async with running(fails(0.0)) as task:
            try:
                await asyncio.sleep(1)
            finally:
                assert task.done()
                raise LookupError("of the body")

    with pytest.raises(LookupError) as caught:
        await test()
    assert any("fails had ended with Broken: no such table" in note for note in caught.value.__notes__)
    with pytest.raises(AssertionError, match="of the body"):
        async with running(goes_on()):
            raise AssertionError("of the body")


async def test_a_cancellation_from_outside_stays_one() -> None:
    ended: list[str] = []
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3), running(goes_on(ended)):
            await asyncio.sleep(3600)
    assert ended == ["ended"]
    with anyio.move_on_after(3) as scope:
        async with running(goes_on(ended)):
            await asyncio.sleep(3600)
    assert scope.cancelled_caught
    assert ended == ["ended", "ended"]


async def test_an_error_wins_within_a_task_group_and_is_no_group() -> None:
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(asyncio.sleep(5))
        with pytest.raises(Broken):
            async with running(fails()):
                await asyncio.sleep(3600)
    assert waiting.done()


async def test_programs_may_be_nested_and_the_first_error_counts() -> None:
    with pytest.raises(Broken):
        async with running(goes_on()), running(fails()), running(goes_on()):
            await asyncio.sleep(3600)


async def test_it_may_be_entered_in_one_task_and_left_in_another() -> None:
    @asynccontextmanager
    async def fixture(program: Any) -> AsyncIterator[None]:
        async with running(program):
            yield

    for program, error in ((goes_on(), None), (fails(), Broken)):
        manager = fixture(program)
        await asyncio.create_task(manager.__aenter__())
        await asyncio.sleep(3)
        leaving = asyncio.create_task(manager.__aexit__(None, None, None))
        await asyncio.wait([leaving])
        found = leaving.exception()
        assert found is None if error is None else isinstance(found, error)


@pytest.mark.parametrize("given", [goes_on, None, asyncio.sleep])
async def test_what_is_no_coroutine_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="expected a coroutine"):
        async with running(given):
            pass


async def test_a_program_that_never_began_leaves_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    async with running(goes_on()) as task:
        task.cancel()
    async with running(goes_on()):
        pass
    assert [str(warning.message) for warning in recwarn] == []


async def test_the_conditions_of_a_wait_hold_beside_it(client: Client) -> None:
    async with running(goes_on()):
        await client.wait_for("v1/configmaps", "default/none", is_deleted(), 10)
