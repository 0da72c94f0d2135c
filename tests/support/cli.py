"""Running the command line inside a test: in a thread with a loop of its own, as in a process, or as a process."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from kinformer.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class _OfAsyncio(logging.Handler):
    """What asyncio logs about exceptions that nobody has retrieved, which a process prints to stderr."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()}\n")


class CommandLine:
    """`await kinformer("watch", "--once", "pods")`, against a server if there is one."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str | None = None) -> None:
        self._capsys = capsys
        self.url = url

    async def __call__(self, *arguments: str) -> Ended:
        self._capsys.readouterr()
        server = ["--server", self.url] if self.url else []
        lost, asyncio_log = _OfAsyncio(), logging.getLogger("asyncio")
        asyncio_log.addHandler(lost)
        try:
            status = await asyncio.to_thread(main, [*arguments, *server])
            gc.collect(0)  # a future with an exception that was not retrieved says so when it is freed
        finally:
            asyncio_log.removeHandler(lost)
        printed = self._capsys.readouterr()
        return Ended(status, printed.out, printed.err + "".join(lost.lines))


@asynccontextmanager
async def command_process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command line as a process with pipes, which is killed if it still runs at the end."""
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()
