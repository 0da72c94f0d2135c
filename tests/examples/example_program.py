"""Examples as modules that a test imports, and as programs in processes of their own."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kinformer.testing import APIServer

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def imported(path: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the examples, such as `spawner/reflectors.py`; it is forgotten after the test."""
    file = EXAMPLES / path
    monkeypatch.syspath_prepend(str(file.parent))
    monkeypatch.delitem(sys.modules, file.stem, raising=False)
    module: ModuleType = importlib.import_module(file.stem)
    monkeypatch.setitem(sys.modules, file.stem, module)
    return module


class ExampleProgram:
    """An example that runs in a process of its own, and what it has written to stderr so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.log = ""
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log += line.decode()

    async def terminate(self) -> int:
        """Send SIGTERM, and return the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self, seconds: float = 20) -> int:
        """Wait for the end, and return the exit status."""
        await asyncio.wait_for(self.process.wait(), seconds)
        await self._reading
        return self.process.returncode or 0

    async def close(self) -> None:
        """Kill it if it still runs."""
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()


@asynccontextmanager
async def example_program(
    path: str, *arguments: str, server: APIServer, folder: Path, user: str | None = None
) -> AsyncIterator[ExampleProgram]:
    """Run an example with a kubeconfig for `server`; warnings are errors there too."""
    kubeconfig = server.kubeconfig(folder / f"kubeconfig-{user or 'admin'}", user)
    pythonpath = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", str(EXAMPLES / path), *arguments),
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": pythonpath},
    )
    program = ExampleProgram(process)
    try:
        yield program
    finally:
        await program.close()
