"""Calls that are not simulated are refused, and the finding names the call, its line, and what to use instead."""

from __future__ import annotations

import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import re
import select
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import anyio
import pytest

from kinformer import Client
from kinformer.testing.explore import World, explore
from tests.explore.programs import forever, found

pytest.importorskip("time_machine")

pytestmark = pytest.mark.slow  # explorations, one or more a test


def loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def in_pool() -> Any:
    return concurrent.futures.ThreadPoolExecutor().submit(print)


def waiting_for_the_loop() -> Any:
    return asyncio.run_coroutine_threadsafe(asyncio.sleep(1), loop()).result()


def connected() -> Any:
    with socket.socket() as one:
        one.connect(("127.0.0.1", 9))


def sent() -> Any:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.sendto(b"metric", ("127.0.0.1", 9))


def received() -> Any:
    with socket.socket() as one:
        return loop().sock_recv(one, 1)


def piped() -> Any:
    with Path(os.devnull).open() as file:
        return loop().connect_read_pipe(asyncio.Protocol, file)


async def at_a_path() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        await loop().sock_connect(one, "/tmp/s")


def busy() -> None:
    until = time.monotonic() + 1
    while time.monotonic() < until:
        pass


CALLS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: time.sleep(1), "time.sleep", "await asyncio.sleep"),
    (lambda: sleep(1), "time.sleep", "await asyncio.sleep"),
    (busy, "waiting for time.monotonic in a loop", "await asyncio.sleep"),
    (lambda: time.clock_gettime(99), "time.clock_gettime(99)", "time.monotonic"),
    (lambda: threading.Thread(target=print).start(), "threading.Thread.start (starting a thread)", "asyncio.to_thread"),
    (lambda: threading.Timer(1, print).start(), "threading.Thread.start (starting a thread)", "asyncio.to_thread"),
    (in_pool, "concurrent.futures.thread.ThreadPoolExecutor.submit", "asyncio.to_thread"),
    (lambda: threading.Event().wait(), "threading.Event.wait", "await an asyncio primitive"),
    (lambda: queue.Queue().get(timeout=1), "queue.Queue.get", "await an asyncio primitive"),
    (waiting_for_the_loop, "concurrent.futures._base.Future.result", "await an asyncio primitive"),
    (lambda: subprocess.run(["true"], check=True), "subprocess.run (subprocess.Popen)", "a double in the test"),
    (lambda: os.system("true"), "os.system", "a double in the test"),
    (lambda: os.fork(), "os.fork", "a double in the test"),
    (lambda: os.posix_spawn("/bin/true", ["true"], {}), "os.posix_spawn", "a double in the test"),
    (lambda: multiprocessing.get_context("spawn").Process(target=print).start(), "multiprocessing.", "a double"),
    (lambda: asyncio.create_subprocess_exec("true"), "asyncio.subprocess.create_subprocess_exec", "a double"),
    (lambda: asyncio.create_subprocess_shell("true"), "asyncio.subprocess.create_subprocess_shell", "a double"),
    (lambda: loop().add_reader(0, print), "loop.add_reader", "asyncio.open_connection"),
    (lambda: loop().add_writer(0, print), "loop.add_writer", "asyncio.open_connection"),
    (received, "loop.sock_recv", "asyncio.open_connection"),
    (lambda: asyncio.open_unix_connection("/tmp/s"), "asyncio.streams.open_unix_connection", "asyncio.open_connection"),
    (lambda: asyncio.start_unix_server(print, "/tmp/s"), "asyncio.streams.start_unix_server", "127.0.0.1"),
    (lambda: anyio.connect_unix("/tmp/s"), "anyio._core._sockets.connect_unix", "use asyncio"),
    (lambda: loop().create_datagram_endpoint(asyncio.DatagramProtocol), "loop.create_datagram_endpoint", "aiohttp"),
    (piped, "loop.connect_read_pipe", "asyncio.Queue"),
    (at_a_path, "loop.sock_connect to a Unix socket", "asyncio.open_connection"),
    (lambda: select.select([], [], [], 1), "select.select", "await an asyncio primitive"),
    (connected, "socket.connect", "asyncio or aiohttp"),
    (sent, "socket.sendto", "asyncio or aiohttp"),
    (lambda: socket.create_connection(("localhost", 9)), "socket.create_connection (socket.getaddrinfo)", "aiohttp"),
    (lambda: urllib.request.urlopen("http://localhost:9"), "urllib.request.urlopen (socket.getaddrinfo)", "aiohttp"),
    (lambda: socket.gethostbyname("localhost"), "socket.gethostbyname", "aiohttp"),
]


@pytest.mark.parametrize(("call", "name", "instead"), CALLS, ids=[name for _, name, _ in CALLS])
def test_a_call_is_refused_by_its_name_and_line_with_what_to_use_instead(
    call: Callable[[], Any], name: str, instead: str
) -> None:
    async def calling(client: Client) -> None:
        answer = call()
        if isinstance(answer, Awaitable):
            await answer
        await forever()

    error = found(calling)
    assert error.finding.rule == "simulation"
    text = error.finding.text
    assert name in text.partition(" at ")[0]
    assert re.search(r" at test_simulation_refusals\.py:\d+ in \S+ is not simulated: ", text), text
    assert instead in text.partition(" is not simulated: ")[2]
    assert text in str(error)


def test_a_program_that_swallows_the_error_is_found_as_well() -> None:
    async def swallowing(client: Client) -> None:
        while True:
            try:
                time.sleep(1)  # noqa: ASYNC251
            except Exception:
                await asyncio.sleep(1)

    error = found(swallowing)
    assert "time.sleep at test_simulation_refusals.py:" in error.finding.text
    assert isinstance(error.finding.error, NotImplementedError)


def test_a_call_in_an_executor_is_refused_too() -> None:
    async def calling(client: Client) -> None:
        await asyncio.to_thread(time.sleep, 1)

    assert found(calling).finding.text.startswith(
        "asyncio.threads.to_thread (time.sleep) at test_simulation_refusals.py:"
    )


def test_a_thread_that_calls_back_is_refused_and_found() -> None:
    begin, loops, errors = threading.Event(), [], []

    def call_back() -> None:
        begin.wait(30)
        try:
            loops[0].call_soon_threadsafe(print)
        except NotImplementedError as error:
            errors.append(error)

    thread = threading.Thread(target=call_back)
    thread.start()

    async def called(client: Client) -> None:
        loops.append(loop())
        begin.set()
        while thread.is_alive():  # without a clock, because threads run in real time
            time.sleep(0)  # noqa: ASYNC251
        await forever()

    text = found(called).finding.text
    thread.join()
    assert text.startswith("loop.call_soon_threadsafe from another thread at test_simulation_refusals.py:")
    assert "in call_back" in text


def test_what_waits_for_nothing_is_not_refused() -> None:
    async def polling(client: Client) -> None:
        event, done = threading.Event(), concurrent.futures.Future[int]()
        done.set_result(1)
        assert not event.wait(0)
        event.set()
        assert event.wait()
        assert done.result() == 1
        with pytest.raises(queue.Empty):
            queue.Queue[int]().get(block=False)
        time.sleep(0)  # noqa: ASYNC251
        loop().remove_reader(0)
        await forever()

    async def test(world: World) -> None:
        world.run(polling)

    explore(schedules=1)(test)()


def test_a_debugger_may_sleep_and_start_threads_in_a_program() -> None:
    code = compile("def suspend(call):\n    call()", "/opt/debugpy/_vendored/pydevd/pydevd.py", "exec")
    names: dict[str, Any] = {}
    exec(code, names)

    async def stopped(client: Client) -> None:
        names["suspend"](partial(time.sleep, 0.001))
        thread = threading.Thread(target=int)
        names["suspend"](thread.start)
        names["suspend"](thread.join)
        await forever()

    async def test(world: World) -> None:
        world.run(stopped)

    explore(schedules=1)(test)()


def test_a_library_that_calls_by_itself_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "a_library.py").write_text("import time\nasync def poll():\n    time.sleep(1)\n")
    monkeypatch.syspath_prepend(str(folder))
    import a_library  # type: ignore[import-not-found]

    async def starting(client: Client) -> None:
        loop().create_task(a_library.poll())
        await forever()

    assert found(starting).finding.text.startswith("time.sleep at a_library.py:3 in poll is not simulated: ")


def test_outside_an_exploration_everything_works_as_before() -> None:
    async def calling() -> None:
        await asyncio.to_thread(time.sleep, 0)
        loop().add_reader(reading.fileno(), print)
        loop().remove_reader(reading.fileno())

    reading, writing = socket.socketpair()
    with reading, writing:
        asyncio.run(calling())


IN_A_PROCESS = """
import asyncio, sys
from kinformer.testing.explore import explore
assert "time_machine" not in sys.modules
async def main(client):
    import datetime, time
    print(time.monotonic(), time.clock_gettime(time.CLOCK_REALTIME), datetime.datetime.now(datetime.UTC))
    await asyncio.get_running_loop().create_future()
@explore(schedules=1)
async def test(world):
    world.run(main)
test()
"""


@pytest.mark.process
def test_an_exploration_runs_without_pytest() -> None:
    """time-machine is then loaded by the exploration, and must find the real functions of `time`."""
    run = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    *printed, _ = run.stdout.splitlines()  # the last line is the summary
    assert printed == ["5000.0 1767225600.0 2026-01-01 00:00:00+00:00"] * 2
