"""Running the command line inside a test: in a thread with a loop of its own, as in a process."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kinformer.cli import main


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    out: str
    err: str


class CommandLine:
    """`await kinformer("watch", "--once", "pods")`, against a server if there is one."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str | None = None) -> None:
        self._capsys = capsys
        self.url = url

    async def __call__(self, *arguments: str) -> Ended:
        self._capsys.readouterr()
        server = ["--server", self.url] if self.url else []
        status = await asyncio.to_thread(main, [*arguments, *server])
        return Ended(status, *self._capsys.readouterr())
