"""Functions that hold the event loop are named in the log, unless the thread was waiting for the CPU.

Internals: the system's count of a thread's CPU time, which one test replaces, and what it says without such a count.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from kinformer import Controller, KubeObject, Reflector, Request, SharedInformer, derive
from kinformer._runtime import clock
from kinformer.derived import group_by
from tests.support.log_records import Said, message_of, said
from tests.support.memory_source import MemorySource
from tests.support.waiting import until

HELD = 0.12  # seconds, a little more than the limit
A = pytest.mark.parametrize

pytestmark = pytest.mark.virtual_time


def sleeps() -> None:
    time.sleep(HELD)


def reads_a_socket() -> None:
    here, there = socket.socketpair()
    with here, there, suppress(TimeoutError):
        here.settimeout(HELD)
        here.recv(1)


def computes() -> None:
    until_used = time.thread_time() + HELD
    while time.thread_time() < until_used:
        pass


@asynccontextmanager
async def following(source: MemorySource, **options: Any) -> AsyncIterator[SharedInformer[Any]]:
    async with SharedInformer(source, name="v1/configmaps", **options) as informer:
        await informer.wait_synced(10)
        await until(lambda: informer.health().state == "watching")
        yield informer


NAMES = "abcdefghijkl"


def change(source: MemorySource) -> None:
    """Change some objects."""
    for name in NAMES:
        source.set(name)


def held(caplog: pytest.LogCaptureFixture) -> list[Said]:
    return said(caplog, "loop_held")


def until_named(hold: Callable[[], None], caplog: pytest.LogCaptureFixture) -> Callable[[], None]:
    """A function that holds the loop three times, and then until it is named.

    On a machine that is busy, other processes interrupt some of its calls, which are then taken for waits for the CPU.
    """
    calls = count()
    return lambda: hold() if next(calls) < 3 or not held(caplog) else None


# --- handlers ---------------------------------------------------------------------------------------------------------


def plain(hold: Callable[[], None]) -> Callable[..., Any]:
    return lambda *objects: hold()


def coroutine(hold: Callable[[], None]) -> Callable[..., Any]:
    async def handler(*objects: Any) -> None:
        hold()

    return handler


def coroutine_that_waits(hold: Callable[[], None]) -> Callable[..., Any]:
    async def handler(*objects: Any) -> None:
        await asyncio.sleep(1)
        hold()
        await asyncio.sleep(1)

    return handler


def coroutine_before_it_waits(hold: Callable[[], None]) -> Callable[..., Any]:
    async def handler(*objects: Any) -> None:
        hold()
        await asyncio.sleep(1)

    return handler


@A("hold", [sleeps, reads_a_socket, computes])
@A("made", [plain, coroutine, coroutine_that_waits, coroutine_before_it_waits])
async def test_a_handler_that_holds_the_loop_is_named(
    made: Callable[..., Any], hold: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    source = MemorySource()
    async with following(source) as informer:
        done = asyncio.Event()
        informer.add_event_handler(
            on_add=made(until_named(hold, caplog)), on_update=lambda old, new: done.set(), name="slow"
        )
        change(source)
        source.set("a", data={"v": "2"})
        await done.wait()
    (found,) = held(caplog)
    assert found[:3] == ("WARNING", "kinformer.handler", "v1/configmaps")
    for words in ("handler slow ", found.key, "thread=True"):
        assert words in message_of(caplog, "loop_held")


async def test_a_handler_that_waits_or_is_quick_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    source, calls = MemorySource(), []

    async def waits(obj: KubeObject) -> None:
        await asyncio.sleep(0.3)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.3, future.set_result, None)
        await future

    def almost(obj: KubeObject) -> None:
        time.sleep(HELD / 3)
        calls.append(obj.name)

    async with following(source) as informer:
        informer.add_event_handler(on_add=waits)
        informer.add_event_handler(on_add=almost)
        informer.add_event_handler(on_add=lambda obj: time.sleep(HELD), thread=True)
        for name in "abcd":
            source.set(name)
        await until(lambda: len(calls) == 4)
        await asyncio.sleep(10)
    assert held(caplog) == []


# --- other functions --------------------------------------------------------------------------------------------------


async def by_filter(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async with following(source) as informer:
        informer.add_event_handler(on_add=lambda obj: None, filter=function, name="picky")
        change(source)
        await until(lambda: len(informer.lister) == len(NAMES))


async def by_filter_of_a_replay(source: MemorySource, function: Callable[[Any], Any]) -> None:
    change(source)
    async with following(source) as informer:
        await informer.add_event_handler(on_add=lambda obj: None, filter=function, name="picky").wait_synced(10)


async def by_index(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async with following(source, indexers={"by name": lambda obj: [str(function(obj))]}) as informer:
        change(source)
        await until(lambda: len(informer.lister) == len(NAMES))


async def by_transform(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async with following(source, transform=lambda document: document | {"seen": function(document)}) as informer:
        change(source)
        await until(lambda: len(informer.lister) == len(NAMES))


async def by_derived(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async with (
        following(source) as informer,
        derive(informer, lambda obj, fetch: function(obj), name="d") as collection,
    ):
        change(source)
        await until(lambda: len(collection.by_key))
        await asyncio.sleep(1)


async def by_group(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async with (
        following(source) as informer,
        group_by(informer, lambda obj: str(function(obj)), name="d") as collection,
    ):
        change(source)
        await until(lambda: len(collection.by_key))
        await asyncio.sleep(1)


async def by_page(source: MemorySource, function: Callable[[Any], Any]) -> None:
    change(source)
    async with following(source) as informer:
        await informer.page(where=function)


async def by_store(source: MemorySource, function: Callable[[Any], Any]) -> None:
    class Store:
        def add(self, obj: Any) -> None:
            function(obj)

        def update(self, obj: Any) -> None: ...
        def delete(self, obj: Any) -> None: ...
        def replace(self, items: list[Any], resource_version: str) -> None: ...
        def resync(self) -> None: ...

    reflector = Reflector(source, Store())
    running = asyncio.ensure_future(reflector.run())
    await until(lambda: reflector.health().live)
    change(source)
    source.set("a")
    await until(lambda: reflector.last_sync_resource_version == str(source.version))
    running.cancel()
    await asyncio.wait({running})


async def controlled(source: MemorySource, controller: Callable[[SharedInformer[Any]], Controller]) -> None:
    async with following(source) as informer:
        made = controller(informer)
        running = asyncio.ensure_future(made.run())
        await until(lambda: made.statistics().running)
        await asyncio.sleep(1)
        change(source)
        await asyncio.sleep(3 * len(NAMES))
        running.cancel()
        await asyncio.wait({running})


async def quick(request: Request) -> None: ...


async def by_predicate(source: MemorySource, function: Callable[[Any], Any]) -> None:
    await controlled(source, lambda informer: Controller(quick, name="c").for_(informer, function))


async def by_mapper(source: MemorySource, function: Callable[[Any], Any]) -> None:
    def mapper(obj: KubeObject) -> list[str]:
        function(obj)
        return []

    await controlled(source, lambda informer: Controller(quick, name="c").watches(informer, mapper))


async def by_awaited_mapper(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async def mapper(obj: KubeObject) -> list[str]:
        await asyncio.sleep(1)
        function(obj)
        await asyncio.sleep(1)
        return []

    await controlled(source, lambda informer: Controller(quick, name="c").watches(informer, mapper))


async def by_reconcile(source: MemorySource, function: Callable[[Any], Any]) -> None:
    async def reconcile(request: Request) -> None:
        function(request)

    await controlled(source, lambda informer: Controller(reconcile, name="c").for_(informer))


@A(
    ("run", "logger", "name"),
    [
        (by_filter, "handler", "the filter of handler picky"),
        (by_filter_of_a_replay, "handler", "the filter of handler picky"),
        (by_index, "indexer", "the index function 'by name'"),
        (by_transform, "transform", "the transform"),
        (by_derived, "derived", "the function of derived collection d"),
        (by_group, "derived", "the function of derived collection d"),
        (by_page, "informer", "page of v1/configmaps"),
        (by_store, "reflector", "the store Store"),
        (by_predicate, "controller", "the predicate or mapper of controller c"),
        (by_mapper, "controller", "the predicate or mapper of controller c"),
        (by_awaited_mapper, "controller", "the predicate or mapper of controller c"),
        (by_reconcile, "controller", "the reconcile of controller c"),
    ],
)
async def test_each_function_of_the_program_that_holds_the_loop_is_named(
    run: Callable[..., Any], logger: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    hold = until_named(sleeps, caplog)

    def function(what: Any) -> bool:
        hold()
        return True

    await run(MemorySource(), function)
    (found,) = held(caplog)
    assert found[:2] == ("WARNING", f"kinformer.{logger}")
    assert message_of(caplog, "loop_held").startswith(name)
    assert found.key in message_of(caplog, "loop_held")
    assert found.key.startswith("default/")


async def test_of_several_functions_of_one_change_the_slowest_is_named(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    indexers = {
        str(number): partial(_indexed, until_named(partial(time.sleep, number / 40), caplog)) for number in (1, 4, 2)
    }
    async with following(source, indexers=indexers) as informer:
        change(source)
        await until(lambda: len(informer.lister) == len(NAMES))
    assert "index function '4'" in message_of(caplog, "loop_held")


def _indexed(hold: Callable[[], None], obj: KubeObject) -> list[str]:
    hold()
    return [obj.name]


# --- whose time it was ------------------------------------------------------------------------------------------------


class Usage:
    """The usage of a thread that gets no CPU."""

    ru_utime = ru_stime = 1.0
    ru_nvcsw = 5
    ru_nivcsw = 7


@A(("usage", "is_named"), [(Usage, False), (None, True)])
async def test_a_thread_that_did_not_get_the_cpu_is_no_fault_of_a_handler(
    usage: Any, is_named: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "_usage", usage)  # None: a system that does not count it
    source = MemorySource()
    async with following(source) as informer:
        done = asyncio.Event()
        informer.add_event_handler(on_add=lambda obj: (sleeps(), done.set()))
        source.set("a")
        await done.wait()
        await asyncio.sleep(1)
    assert bool(held(caplog)) is is_named


class Waits:
    """The usage of a thread that waits by itself: once, or each 5 ms for the GIL."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.count = 0

    def __call__(self) -> Any:
        self.count += self.at_once
        return SimpleNamespace(ru_utime=1.0, ru_stime=1.0, ru_nvcsw=self.count, ru_nivcsw=7)


@A(("waits", "is_named"), [(1, True), (40, False)])
async def test_a_thread_that_waits_for_the_gil_is_no_fault_of_a_handler(
    waits: int, is_named: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = threading.Event()
    thread = threading.Thread(target=other.wait)
    thread.start()
    monkeypatch.setattr(clock, "_usage", Waits(waits))
    source = MemorySource()
    async with following(source) as informer:
        done = asyncio.Event()
        informer.add_event_handler(on_add=lambda obj: (sleeps(), done.set()))
        source.set("a")
        await done.wait()
        await asyncio.sleep(1)
    other.set()
    thread.join()
    assert bool(held(caplog)) is is_named


@A(("generation", "is_named"), [(2, False), (0, True)])
async def test_a_full_garbage_collection_is_no_fault_of_the_handler_that_it_happens_in(
    generation: int, is_named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def takes_long(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == generation:
            sleeps()

    source = MemorySource()
    async with following(source) as informer:
        calls: list[str] = []
        informer.add_event_handler(on_add=lambda obj: (gc.collect(generation), calls.append(obj.name)))
        gc.collect()
        gc.callbacks.append(takes_long)
        try:
            for name in NAMES if is_named else NAMES[:5]:  # each call takes a second
                source.set(name)
                await until(lambda name=name: name in calls)
                if held(caplog):
                    break
        finally:
            gc.callbacks.remove(takes_long)
    assert bool(held(caplog)) is is_named


STARVED = """
import asyncio, json, logging, os, subprocess, sys, time
from kinformer import SharedInformer
from tests.support.memory_source import MemorySource

records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append(getattr(record, "reason", ""))
logging.getLogger("kinformer").addHandler(Keep())

async def main():
    source, took = MemorySource(), []
    async with SharedInformer(source) as informer:
        await informer.wait_synced(30)
        def computes(obj):
            began, used = time.perf_counter(), time.thread_time()
            while time.thread_time() < used + 0.03:
                pass
            took.append(time.perf_counter() - began)
        informer.add_event_handler(on_add=computes)
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        busy = [sys.executable, "-c", "import time; end = time.time() + 30\\nwhile time.time() < end: pass"]
        others = [subprocess.Popen(busy) for _ in range(2)]
        os.nice(19)
        try:
            for number in range(5):
                source.set(f"c{number}")
                await asyncio.sleep(0.05)
            async with asyncio.timeout(25):
                while len(took) < 5:
                    await asyncio.sleep(0.05)
        finally:
            for other in others:
                other.kill()
                other.wait()
    print(json.dumps([max(took), records]))

asyncio.run(main())
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it needs the affinity of a process")
def test_a_handler_of_a_starved_process_is_not_named() -> None:
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=60, check=True)
    longest, records = json.loads(done.stdout)
    assert longest > 0.1, "the process was not starved"
    assert "loop_held" not in records
