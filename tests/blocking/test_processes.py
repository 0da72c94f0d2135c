"""`kinformer.blocking` in processes of their own, which end by themselves, by Ctrl-C, and after a fork."""

from __future__ import annotations

import asyncio
import signal
import sys
import textwrap
import time

import pytest

from kinformer.testing import APIServer
from tests.support.kube import config_map
from tests.support.waiting import until

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="signals and forks of POSIX"),
]

PRELUDE = """
import os, sys, threading, time
from kinformer import blocking

def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\\n")
    sys.stdout.flush()

informers = blocking.Informers(url=sys.argv[1], shutdown_timeout=1)
"""


class Running:
    """A blocking program, with what it has written."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""
        self.errors = ""
        self._reading = [asyncio.ensure_future(self._out()), asyncio.ensure_future(self._err())]

    @classmethod
    async def start(cls, server: APIServer, program: str) -> Running:
        pipe = asyncio.subprocess.PIPE
        command = [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(program), server.url]
        return cls(await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe))

    async def _out(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.said += line.decode()

    async def _err(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.errors += line.decode()

    async def said_line(self, line: str) -> None:
        await until(lambda: f"{line}\n" in self.said, 20, what=lambda: f"{line!r}; {self.said}; {self.errors}")

    async def status(self, seconds: float) -> int:
        """Wait for the end, and return the exit status; a program that goes on is killed, and fails the test."""
        try:
            status = await asyncio.wait_for(self.process.wait(), seconds)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
            raise AssertionError(f"it still ran after {seconds} s: {self.said}{self.errors}") from None
        finally:
            await asyncio.gather(*self._reading)
        return status


@pytest.fixture(autouse=True)
def _one_object(server: APIServer) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")})


@pytest.mark.parametrize("end", ["", "sys.exit(7)", "raise SystemExit(7)"])
async def test_an_interpreter_that_exits_without_leaving_ends_at_once_and_in_silence(
    server: APIServer, end: str
) -> None:
    run = await Running.start(
        server,
        f"""
        informers.__enter__()
        maps = informers.for_resource("v1/configmaps", namespace="default")
        maps.add_event_handler(on_add=lambda obj: time.sleep(3600), name="stuck").name
        stream = maps.events().__enter__()
        reading = threading.Thread(target=lambda: list(stream), daemon=True)
        reading.start()
        maps.wait_synced(10)
        time.sleep(0.2)
        say("exits")
        {end}
        """,
    )
    await run.said_line("exits")
    begun = time.monotonic()
    assert await run.status(10) == (7 if end else 0)
    assert time.monotonic() - begun < 5
    assert run.errors == ""


WAITS = {
    "events": "for event in maps.events(): pass",
    "a stream": "with maps.events() as events:\n    for event in events: pass",
    "wait_for": "maps.wait_for('default/never', lambda obj: obj)",
    "a version": "maps.wait_for_resource_version('1000000000')",
    "sleep": "time.sleep(3600)",
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
async def test_ctrl_c_ends_a_program_that_waits(server: APIServer, wait: str) -> None:
    run = await Running.start(
        server,
        f"""
        try:
            with informers:
                maps = informers.for_resource("v1/configmaps", namespace="default")
                maps.add_event_handler(on_add=lambda obj: say("called"))
                maps.wait_synced(10)
                time.sleep(0.3)
                say("waits")
{textwrap.indent(wait, " " * 16)}
        finally:
            say("left", threading.active_count())
        """,
    )
    await run.said_line("waits")
    await run.said_line("called")
    await asyncio.sleep(0.2)
    run.process.send_signal(signal.SIGINT)
    assert await run.status(10) == -signal.SIGINT
    assert "left 1\n" in run.said or "left 2\n" in run.said  # the thread of the loop has ended; a worker may be ending
    assert run.errors.rstrip().endswith("KeyboardInterrupt")
    assert "Error" not in run.errors


async def test_ctrl_c_ends_a_program_whose_handler_never_returns(server: APIServer) -> None:
    run = await Running.start(
        server,
        """
        with informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.add_event_handler(on_add=lambda obj: (say("stuck"), time.sleep(3600)))
            for event in maps.events(): pass
        """,
    )
    await run.said_line("stuck")
    run.process.send_signal(signal.SIGINT)
    assert await run.status(10) == -signal.SIGINT


async def test_an_interrupted_wait_loses_no_event(server: APIServer) -> None:
    run = await Running.start(
        server,
        """
        with informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            with maps.events() as events:
                say("has", events.get(10).object.name)
                while True:
                    try:
                        say("waits")
                        say("has", events.get().object.name)
                        break
                    except KeyboardInterrupt:
                        say("interrupted")
        """,
    )
    await run.said_line("waits")
    await asyncio.sleep(0.2)
    run.process.send_signal(signal.SIGINT)
    await run.said_line("interrupted")
    server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("b")})
    assert await run.status(10) == 0
    assert run.said.splitlines()[-1] == "has b"
    assert run.errors == ""


async def test_a_forked_child_is_told_to_enter_another_and_ends(server: APIServer) -> None:
    run = await Running.start(
        server,
        """
        import warnings
        warnings.simplefilter("ignore")  # of forks beside threads
        with informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.wait_synced(10)
            child = os.fork()
            if child == 0:
                for call in (lambda: maps.wait_synced(1), lambda: informers.request("GET", "/version")):
                    try:
                        call()
                    except RuntimeError as error:
                        say("refused", error)
                with blocking.Informers(url=sys.argv[1]) as own:
                    own.for_resource("v1/configmaps").wait_synced(10)
                    say("own")
                os._exit(0)
            say("child", os.waitpid(child, 0)[1])
            maps.wait_for("default/a", lambda obj: obj, timeout=10)
        """,
    )
    assert await run.status(30) == 0, run.errors
    assert run.said.count("create a new one after the fork") == 2
    assert "own\nchild 0\n" in run.said


@pytest.mark.parametrize(("end", "status"), [("sys.exit(5)", 5), ("raise LookupError('mine')", 1), ("pass", 0)])
async def test_a_forked_child_leaves_by_its_own_end_and_the_parent_goes_on(
    server: APIServer, end: str, status: int
) -> None:
    run = await Running.start(
        server,
        f"""
        import warnings
        warnings.simplefilter("ignore")  # of forks beside threads
        child = None
        with informers:
            maps = informers.for_resource("v1/configmaps", namespace="default")
            maps.wait_synced(10)
            child = os.fork()
            if child == 0:
                {end}
            else:
                say("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                maps.wait_for("default/a", lambda obj: obj, timeout=10)
                say("goes on", informers.request("GET", "/api/v1/namespaces/default")["metadata"]["name"])
        """,
    )
    assert await run.status(30) == 0, run.errors
    assert run.said == f"child {status}\ngoes on default\n"
    assert "RuntimeError" not in run.errors
