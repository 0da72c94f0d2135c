"""Functions of the program that cancel the task that they run in: a failure of that call, after which the next follows.

A library does so that ends a wait with `task.cancel()` and leaves its request behind, as async_timeout before 4.0.3.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Any

import pytest

from kinformer import (
    Client,
    Controller,
    KubeObject,
    ListOptions,
    Manager,
    Request,
    SharedInformer,
    SharedInformerFactory,
    WatchEvent,
)
from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.log_records import Said, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle, until

A = pytest.mark.parametrize


class OldTimeout:
    """Ends its body by cancelling the task, and does not take that back."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._timer = asyncio.get_running_loop().call_later(self._seconds, task.cancel)

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        self._timer.cancel()
        if kind is asyncio.CancelledError:
            raise TimeoutError from None


async def cancels_itself() -> None:
    cancel_this_task()
    await asyncio.sleep(0)


async def cancels_itself_and_returns() -> None:
    cancel_this_task()


async def cancels_itself_and_fails() -> None:
    cancel_this_task()
    raise ValueError("after all")


async def cancels_itself_after_a_wait() -> None:
    await asyncio.sleep(0.001)
    await cancels_itself()


async def cancels_itself_twice() -> None:
    try:
        await cancels_itself()
    finally:
        await cancels_itself()


async def times_out() -> None:
    async with OldTimeout(0.001):
        await asyncio.sleep(1)


async def awaits_what_is_cancelled() -> None:
    other = asyncio.ensure_future(asyncio.sleep(1))
    other.cancel()
    await other


async def handles_its_timeout() -> None:
    try:
        await times_out()
    except TimeoutError:
        await asyncio.sleep(0.001)


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


FAILURES = [
    cancels_itself,
    cancels_itself_and_returns,
    cancels_itself_and_fails,
    cancels_itself_after_a_wait,
    cancels_itself_twice,
    times_out,
    awaits_what_is_cancelled,
]
Body = Callable[[], Coroutine[Any, Any, None]]


# --- loops ------------------------------------------------------------------------------------------------------------


def _eager() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]
    return loop


def _uvloop() -> asyncio.AbstractEventLoop:
    import uvloop

    return uvloop.new_event_loop()


LOOPS = [
    asyncio.new_event_loop,
    pytest.param(_uvloop, id="uvloop", marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="an extra")),
    pytest.param(
        _eager, id="eager tasks", marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="new in Python 3.12")
    ),
]


def run_on(make_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, Any]) -> Any:
    """Run as `asyncio.run` does, which cancels all tasks at its end."""
    with asyncio.Runner(loop_factory=make_loop) as runner:
        return runner.run(main)


@asynccontextmanager
async def informed(source: MemorySource, **handlers: Any) -> AsyncIterator[SharedInformer[Any]]:
    async with SharedInformer(source) as informer:
        informer.add_event_handler(**handlers, queue_size=None, name="h")
        await informer.wait_synced(10)
        yield informer


# --- handlers ---------------------------------------------------------------------------------------------------------


@A("make_loop", LOOPS)
@A("body", FAILURES)
def test_a_handler_that_is_cancelled_from_inside_has_failed_and_goes_on(
    body: Body, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        source, seen, counts = MemorySource(), [], []

        async def on_update(old: KubeObject, new: KubeObject) -> None:
            seen.append(new["data"]["v"])
            counts.append(asyncio.current_task().cancelling())  # type: ignore[union-attr]
            if len(seen) == 3:
                await body()

        source.set("a", data={"v": "0"})
        async with informed(source, on_update=on_update) as informer:
            for number in range(1, 7):
                source.set("a", data={"v": str(number)})
                if number != 4:  # it waits behind the call that fails
                    await until(lambda number=number: len(seen) == number or number == 3)
            await until(lambda: len(seen) == 6)
            assert seen == [str(number) for number in range(1, 7)]
            assert counts == [0] * 6, "nothing is left of the request"
            assert informer.statistics().handler_errors == 1
            assert informer.health().live

    run_on(make_loop, main())
    assert said(caplog, "handler_failed") == [Said("ERROR", "kinformer.handler", "v1/configmaps", "default/a")]


@A("make_loop", LOOPS)
def test_what_a_timeout_that_was_handled_leaves_behind_is_no_failure_and_is_taken_back(
    make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        source, counts = MemorySource(), []

        async def on_add(obj: KubeObject) -> None:
            counts.append(asyncio.current_task().cancelling())  # type: ignore[union-attr]
            await handles_its_timeout()

        async with informed(source, on_add=on_add) as informer:
            for number in range(4):
                source.set(f"c{number}")
            await until(lambda: len(counts) == 4)
            await asyncio.sleep(0.05)
            assert counts == [0] * 4
            assert informer.statistics().handler_errors == 0

    run_on(make_loop, main())
    assert said(caplog, "handler_failed") == []


async def test_what_a_source_leaves_behind_is_not_taken_for_the_end_of_the_informer() -> None:
    class Source(MemorySource):
        async def events(self, options: ListOptions) -> AsyncIterator[list[WatchEvent]]:
            async for events in super().events(options):
                await handles_its_timeout()
                yield events

    source, seen = Source(), []

    async def on_add(obj: KubeObject) -> None:
        seen.append(obj.name)
        await cancels_itself()

    async with informed(source, on_add=on_add) as informer:
        for number in range(3):
            source.set(f"c{number}")
        await until(lambda: len(seen) == 3)
        await settle()
        assert informer.statistics().handler_errors == 3
        assert informer.health().live


async def test_a_plain_handler_that_cancels_its_task_has_failed_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    source, seen = MemorySource(), []

    def on_add(obj: KubeObject) -> None:
        seen.append(obj.name)
        if obj.name == "c1":
            cancel_this_task()

    async with informed(source, on_add=on_add) as informer:
        for number in range(4):
            source.set(f"c{number}")
            await settle()
        await until(lambda: len(seen) == 4)
        await settle()
        assert informer.statistics().handler_errors == 1
    assert said(caplog, "handler_failed") == [Said("ERROR", "kinformer.handler", "v1/configmaps", "default/c1")]


@pytest.mark.virtual_time
async def test_a_handler_that_others_cancel_between_two_calls_ends_its_informer_with_an_error() -> None:
    source, tasks = MemorySource(), []

    async def run() -> None:
        async with informed(source, on_add=lambda obj: tasks.append(asyncio.current_task())) as informer:
            source.set("a")
            await until(lambda: tasks)
            await settle()
            tasks[0].cancel()
            await until(lambda: informer.health().state == "stopped")
            assert not informer.health().live

    with pytest.raises(RuntimeError, match="kinformer handler h of v1/configmaps was cancelled, but not by its owner"):
        await run()


@pytest.mark.virtual_time
async def test_calls_that_are_drained_follow_one_that_is_cancelled_from_inside() -> None:
    source, seen = MemorySource(), []

    async def on_add(obj: KubeObject) -> None:
        await asyncio.sleep(0.1)
        seen.append(obj.name)
        if len(seen) == 2:
            await cancels_itself()

    async with informed(source, on_add=on_add) as informer:
        for number in range(4):
            source.set(f"c{number}")
        await until(lambda: len(informer.lister) == 4)
    assert seen == ["c0", "c1", "c2", "c3"], "leaving delivers what is queued"


@pytest.mark.virtual_time
async def test_leaving_cancels_a_handler_once_which_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    source, ends = MemorySource(), []

    async def on_add(obj: KubeObject) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0.5)
            ends.append("its finally has ended")

    async with informed(source, on_add=on_add) as informer:
        source.set("a")
        source.set("b")
        await until(lambda: len(informer.lister) == 2)
        await settle()
    assert ends == ["cancelled", "its finally has ended"]
    assert said(caplog, "handler_failed") == said(caplog, "abandoned") == []
    assert informer.statistics().handler_errors == 0


@pytest.mark.virtual_time
async def test_a_handler_that_swallows_the_cancellation_of_leaving_is_not_called_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, seen = MemorySource(), []

    async def on_add(obj: KubeObject) -> None:
        seen.append(obj.name)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.1)

    async with informed(source, on_add=on_add) as informer:
        source.set("a")
        source.set("b")
        await until(lambda: len(informer.lister) == 2)
        await settle()
    assert seen == ["a"]
    assert said(caplog, "abandoned") == []


@pytest.mark.virtual_time
async def test_a_handler_that_fails_while_it_is_cancelled_by_leaving_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()

    async def on_add(obj: KubeObject) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            raise ValueError("on the way out")

    async with informed(source, on_add=on_add) as informer:
        source.set("a")
        await until(lambda: len(informer.lister) == 1)
        await settle()
    assert informer.statistics().handler_errors == 1
    assert said(caplog, "abandoned") == []


# --- the end of a program that leaves nothing -------------------------------------------------------------------------


async def sleeps() -> None:
    await asyncio.sleep(3600)


async def sleeps_and_tidies_up() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.05)


async def swallows_a_cancellation() -> None:
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        await asyncio.sleep(0.05)


async def has_swallowed_one_before() -> None:
    await handles_its_timeout()
    await swallows_a_cancellation()


ENDINGS = [sleeps, sleeps_and_tidies_up, swallows_a_cancellation, has_swallowed_one_before]


def ends_soon(make_loop: Callable[[], asyncio.AbstractEventLoop], main: Coroutine[Any, Any, Any]) -> None:
    """Run a program in a thread, which must end. Nothing has a time limit there but the end of the loop."""
    running = threading.Thread(target=run_on, args=(make_loop, main))
    running.start()
    running.join(10)
    assert not running.is_alive(), "the program does not end"


@A("make_loop", LOOPS)
@A("body", ENDINGS)
def test_a_program_ends_while_a_handler_is_running(
    body: Body, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        source, seen = MemorySource(), []

        async def on_add(obj: KubeObject) -> None:
            seen.append(obj.name)
            await body()

        informer = await SharedInformer(source).__aenter__()
        informer.add_event_handler(on_add=on_add)
        await informer.wait_synced(10)
        source.set("a")
        source.set("b")
        await until(lambda: seen)
        await asyncio.sleep(0.02)

    ends_soon(make_loop, main())
    assert said(caplog, "handler_failed") == []


@A("make_loop", LOOPS)
@A("body", ENDINGS)
def test_a_program_ends_while_a_reconcile_is_running(
    body: Body, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        source, seen = MemorySource(), []
        source.set("a")

        async def reconcile(request: Request) -> None:
            seen.append(request.key)
            await body()

        informer = await SharedInformer(source).__aenter__()
        running = asyncio.ensure_future(Controller(reconcile, shutdown_timeout=0.2).for_(informer).run())
        await until(lambda: seen)
        await asyncio.sleep(0.02)
        assert not running.done()

    ends_soon(make_loop, main())
    assert said(caplog, "reconcile_failed") == []


# --- controllers ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def controlled(controller: Controller) -> AsyncIterator[None]:
    running = asyncio.ensure_future(controller.run())
    try:
        yield
        assert not running.done()
    finally:
        running.cancel()
        await asyncio.wait({running})


@A("make_loop", LOOPS)
@A("body", FAILURES)
def test_a_reconcile_that_is_cancelled_from_inside_is_logged_and_retried(
    body: Body, make_loop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        source, runs = MemorySource(), []
        source.set("a")

        async def reconcile(request: Request) -> None:
            runs.append(request.attempt)
            if len(runs) == 1:
                await body()

        async with SharedInformer(source) as informer:
            controller = Controller(reconcile, name="c").for_(informer)
            async with controlled(controller):
                await until(lambda: len(runs) == 2)
                assert runs == [0, 1]
                assert controller.statistics().reconciles["error"] == 1

    run_on(make_loop, main())
    assert said(caplog, "reconcile_failed") == [Said("ERROR", "kinformer.controller", "v1/configmaps", "default/a")]


async def test_a_reconcile_that_times_out_after_a_library_left_a_request_behind_is_told_as_that(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, runs = MemorySource(), []
    source.set("a")

    async def reconcile(request: Request) -> None:
        runs.append(request.key)
        if len(runs) == 1:
            await handles_its_timeout()
            await asyncio.sleep(3600)

    async with SharedInformer(source) as informer, controlled(Controller(reconcile, timeout=0.1).for_(informer)):
        await until(lambda: len(runs) == 2)
    assert [record.level for record in said(caplog, "reconcile_timeout")] == ["ERROR"]


@A("body", FAILURES)
@A("is_predicate", [False, True])
async def test_a_mapper_or_predicate_that_is_cancelled_from_inside_fails_for_one_event(
    body: Body, is_predicate: bool, caplog: pytest.LogCaptureFixture
) -> None:
    source, runs = MemorySource(), []

    async def mapper(obj: KubeObject) -> list[str]:
        if obj.name == "a" and not is_predicate:
            await body()
        return [obj.key]

    def predicate(event: Any) -> bool:
        if event.object.name == "a" and is_predicate:
            cancel_this_task()
        return True

    async def reconcile(request: Request) -> None:
        runs.append(request.name)

    async with SharedInformer(source) as informer:
        controller = Controller(reconcile).watches(informer, mapper, predicate)
        async with controlled(controller):
            for name in "abc":
                source.set(name)
            await until(lambda: set(runs) == {"b", "c"})
            assert controller.statistics().source_errors == 1
    assert [record.key for record in said(caplog, "mapper_failed")] == ["default/a"]


# --- managers ---------------------------------------------------------------------------------------------------------


@A(
    ("body", "reason"),
    [
        (cancels_itself, "was cancelled from inside"),
        (cancels_itself_and_returns, "was cancelled from inside"),
        (awaits_what_is_cancelled, "ended with a CancelledError, although it was not cancelled"),
    ],
)
async def test_a_part_of_a_manager_that_is_cancelled_from_inside_ends_it_with_an_error(
    body: Body, reason: str, client: Client
) -> None:
    async with Manager(client, signals=()) as manager:
        manager.add(body)
        with pytest.raises(RuntimeError, match=f"{body.__name__} {reason}"):
            await asyncio.wait_for(manager.run(), 10)


async def test_a_manager_that_stops_cancels_its_parts_which_is_no_failure(client: Client) -> None:
    ends: list[str] = []

    async def part() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cancelled")

    async with Manager(client, signals=()) as manager:
        manager.add(part)
        running = asyncio.ensure_future(manager.run())
        await settle()
        manager.stop()
        await asyncio.wait_for(running, 10)
    assert ends == ["cancelled"]


# --- on a server ------------------------------------------------------------------------------------------------------


async def test_a_factory_survives_a_handler_whose_library_cancels_at_a_timeout(
    server: APIServer, client: Client
) -> None:
    seen: list[str] = []

    async def on_update(old: KubeObject, new: KubeObject) -> None:
        seen.append(new["data"]["v"])
        await times_out()

    server.create(config_map(data={"v": "0"}))
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/configmaps")
        await informer.add_event_handler(on_update=on_update).wait_synced(10)
        for number in range(1, 5):
            server.update(config_map(data={"v": str(number)}))
            await until(lambda number=number: seen[-1:] == [str(number)])
        await until(lambda: informer.statistics().handler_errors == 4)
        assert informer.health().live
