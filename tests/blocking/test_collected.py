"""Calls of `kinformer.blocking` in whose middle the garbage collector runs, or the handler of a signal."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from kinformer import KubeObject, StoppedError, blocking
from kinformer.processor import InformerEvent
from kinformer.testing import APIServer
from tests.support.kube import config_map

MAPS = "v1/configmaps"


@pytest.fixture(autouse=True)
def unraisable() -> Iterator[list[Any]]:
    """Keep the errors of finalizers, which nobody else sees; and collect by hand."""
    found: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, found.append
    gc.collect()
    gc.disable()
    try:
        yield found
    finally:
        gc.enable()
        sys.unraisablehook = before
        assert found == []


async def run(server: APIServer, program: Callable[[blocking.Informers, blocking.Informer], None]) -> None:
    """Run a program in a thread that may hang."""
    for name in "abc":
        server.create(config_map(name))
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def main() -> None:
        try:
            with blocking.Informers(url=server.url) as informers:
                maps = informers.for_resource(MAPS, namespace="default")
                maps.wait_synced(10)
                program(informers, maps)
        except BaseException as error:
            loop.call_soon_threadsafe(done.set_exception, error)
        else:
            loop.call_soon_threadsafe(done.set_result, None)

    threading.Thread(target=main, daemon=True).start()
    await asyncio.wait_for(done, 20)


def plainly(maps: blocking.Informer) -> Iterator[InformerEvent]:
    return iter(maps.events(name="mine"))


def inside_with(maps: blocking.Informer) -> Iterator[InformerEvent]:
    """A generator of the program, which the collector closes too."""
    with maps.events(name="mine") as events:
        yield from events


WAYS = pytest.mark.parametrize("events_of", [plainly, inside_with])


def break_off(events: Iterator[InformerEvent]) -> None:
    """Read an event, and leave the iterator in a reference cycle."""
    holder: dict[str, Any] = {"events": events}
    holder["itself"] = holder
    for event in holder["events"]:
        assert event.type == "ADDED"
        break


def is_attached(maps: blocking.Informer) -> bool:
    maps.wait_synced(10)  # what the collector has asked of the loop comes before this
    return "mine" in maps.statistics().pending


@contextmanager
def in_the_middle_of_a_call(do: Callable[[], object]) -> Iterator[None]:
    """Run `do` when the next call is being passed to the loop: a function that anyio calls there is the place."""

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "start_task_soon":
            sys.setprofile(None)
            do()

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


@WAYS
async def test_a_loop_in_a_cycle_that_is_broken_off_leaves_the_stream_when_it_is_collected(
    server: APIServer, events_of: Any
) -> None:
    def program(_: blocking.Informers, maps: blocking.Informer) -> None:
        break_off(events_of(maps))
        assert is_attached(maps)
        gc.collect()
        assert not is_attached(maps)

    await run(server, program)


@WAYS
async def test_it_may_be_collected_in_the_thread_of_the_loop(server: APIServer, events_of: Any) -> None:
    def collecting(_: KubeObject | None) -> bool:
        gc.collect()
        return True

    def program(_: blocking.Informers, maps: blocking.Informer) -> None:
        break_off(events_of(maps))
        maps.wait_for("default/a", collecting, timeout=10)
        assert not is_attached(maps)

    await run(server, program)


@WAYS
async def test_it_may_be_collected_in_the_middle_of_another_call(server: APIServer, events_of: Any) -> None:
    def program(_: blocking.Informers, maps: blocking.Informer) -> None:
        break_off(events_of(maps))
        with in_the_middle_of_a_call(gc.collect):
            maps.wait_for("default/a", lambda obj: obj is not None, timeout=10)
        assert not is_attached(maps)

    await run(server, program)


@WAYS
async def test_it_may_be_collected_after_the_informers_were_left(server: APIServer, events_of: Any) -> None:
    await run(server, lambda _, maps: break_off(events_of(maps)))
    gc.collect()


async def test_a_stream_that_is_entered_in_a_program_is_left_when_its_block_ends(server: APIServer) -> None:
    def program(_: blocking.Informers, maps: blocking.Informer) -> None:
        with maps.events(name="mine") as events:
            assert next(events).type == "ADDED"
        assert "mine" not in maps.statistics().pending

    await run(server, program)


async def test_a_signal_handler_may_leave_in_the_middle_of_a_call(server: APIServer) -> None:
    """As the handler of SIGTERM does, which Python runs between two steps of the main thread."""

    def program(informers: blocking.Informers, maps: blocking.Informer) -> None:
        leave = in_the_middle_of_a_call(lambda: informers.__exit__(None, None, None))
        with leave, pytest.raises(StoppedError, match="was exited"):
            maps.wait_for("default/never", lambda obj: obj, timeout=10)

    await run(server, program)


async def test_a_finalizer_of_the_program_may_call_in_the_middle_of_a_call(server: APIServer) -> None:
    answers: list[Any] = []

    def program(informers: blocking.Informers, maps: blocking.Informer) -> None:
        with in_the_middle_of_a_call(lambda: answers.append(informers.request("GET", "/version"))):
            maps.wait_for("default/a", lambda obj: obj is not None, timeout=10)

    await run(server, program)
    assert "gitVersion" in answers[0]
