"""A Python program in a process of its own that says on stdout, line by line, what it does."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import Self

__all__ = ["LineProcess", "boot_time", "say"]

ROOT = Path(__file__).parents[2]


def say(*words: object) -> None:
    """Print a line, in one write: print makes one of each word where PYTHONUNBUFFERED is set."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def boot_time() -> float:
    """Return the seconds since the machine was started, the same in all its processes."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class LineProcess:
    """The test's side of it: what it has said so far, each line as words, and signals.

    Attributes:
        stopped: True after `stop`, until `go_on`.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process
        self.lines: list[list[str]] = []
        self.stopped = False
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, name: str, *command: str) -> Self:
        """Start a command, such as `python -m module`, in the project's folder."""
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
        return cls(name, process)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line.decode().split())

    def count(self, word: str) -> int:
        """How many lines begin with a word."""
        return sum(line[0] == word for line in self.lines)

    @property
    def lives(self) -> bool:
        """True if it runs, and was not stopped."""
        return self.process.returncode is None and not self.stopped

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.stopped = True

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.stopped = False

    async def end(self) -> None:
        """Kill it, which reaches a stopped process too, and read what it said last."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        await self._reading
