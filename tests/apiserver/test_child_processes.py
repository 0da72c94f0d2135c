"""Child processes: started, stopped and killed, and the messages about them.

Internals: the class of a child process, since no control plane fails in all these ways on request.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from kinformer.testing.clusters.processes import ChildProcess, ProcessError, free_ports
from tests.support.waiting import until

pytestmark = pytest.mark.process


def shell(script: str, folder: Path) -> ChildProcess:
    return ChildProcess("the child", ["/bin/sh", "-c", script], folder / "log")


async def until_it_printed(child: ChildProcess, text: str) -> None:
    await until(lambda: text in child.tail())


async def test_it_stops_at_sigterm_and_can_be_started_again_into_the_same_log(tmp_path: Path) -> None:
    child = shell("echo hello; exec sleep 60", tmp_path)
    for times in (1, 2):
        child.start()
        await until_it_printed(child, "\n".join(["  hello"] * times))
        with pytest.raises(RuntimeError, match="already running"):
            child.start()
        assert await child.stop(timeout=10)
        assert not child.running
        assert child.returncode == -signal.SIGTERM
    assert await child.stop(timeout=10)  # once more is nothing


async def test_one_that_ignores_sigterm_is_killed_at_the_timeout(tmp_path: Path) -> None:
    child = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", tmp_path)
    child.start()
    await until_it_printed(child, "ready")
    start = time.monotonic()
    assert not await child.stop(timeout=0.1)
    assert time.monotonic() - start < 5
    assert child.returncode == -signal.SIGKILL


async def test_a_stop_that_is_cancelled_kills(tmp_path: Path) -> None:
    child = shell("trap '' TERM; echo ready; while :; do sleep 0.05; done", tmp_path)
    child.start()
    await until_it_printed(child, "ready")
    stopping = asyncio.create_task(child.stop(timeout=60))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert child.returncode == -signal.SIGKILL


async def test_a_failure_says_how_it_ended_and_what_it_printed_last(tmp_path: Path) -> None:
    child = shell("seq 1 1000; echo broken >&2; exit 3", tmp_path)
    child.start()
    await until_it_printed(child, "broken")
    async with asyncio.timeout(10):
        while True:
            if not child.running:
                break
            await asyncio.sleep(0.01)
    text = str(child.failure("did not start"))
    assert "the child did not start (exit status 3)" in text
    assert str(tmp_path / "log") in text
    assert text.endswith("  1000\n  broken")
    assert "\n  900\n" not in text


async def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    child = ChildProcess("nothing", [tmp_path / "nothing"], tmp_path / "log")
    if sys.platform == "linux":  # what ties it to its parent has started, and finds nothing to run
        child.start()
        await until_it_printed(child, "No such file or directory")
        child.kill()
    else:
        with pytest.raises(ProcessError, match="nothing cannot be started"):
            child.start()


def test_free_ports_are_different() -> None:
    assert len(set(free_ports(20))) == 20
