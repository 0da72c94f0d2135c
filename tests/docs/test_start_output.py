"""The program of docs/start.md prints what the page shows, even while its server is away."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.docs.documentation import ROOT, blocks
from tests.support.ports import reserved_port

PAGE = ROOT / "docs" / "start.md"


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        await process.communicate()


@asynccontextmanager
async def serving(port: int) -> AsyncIterator[None]:
    """The server of section 2, of which the page shows the command."""
    [line] = re.findall(r"bin/kinformer (serve .*)", PAGE.read_text())
    arguments = [*line.split(), "--port", str(port), "--duration", "60"]
    async with running("-m", "kinformer.cli", *arguments) as server:
        assert server.stdout is not None
        while not (await server.stdout.readline()).startswith(b"20 pods"):
            pass
        yield


def shape(line: str, port: int = 8001) -> str:
    """A line without the names and numbers that are others each time."""
    line = re.sub(r"team-\d+/app-\d+-\w+", "POD", line.strip().replace(f":{port}/", ":8001/"))
    return re.sub(r"version \d+|\d+ of them|[0-9a-f]{8}-[0-9a-f-]{27}", "N", line)


@pytest.mark.process
async def test_the_lines_that_the_page_shows_are_those_of_its_program(tmp_path: Path) -> None:
    shown = [block.text.strip().splitlines() for block in blocks(PAGE) if block.language == "text"]
    assert len(shown) == 3
    [program] = [block.text for block in blocks(PAGE) if block.text.startswith("# pods.py")]
    with reserved_port() as port:
        path = tmp_path / "pods.py"
        path.write_text(program.replace(":8001", f":{port}").replace("sleep(5)", "sleep(0.5)"))
        async with asyncio.timeout(100):
            async with AsyncExitStack() as stack:
                async with serving(port):
                    process = await stack.enter_async_context(running(str(path)))
                    await printed(process, shown[0], port)
                await printed(process, shown[1], port)
                async with serving(port):
                    await printed(process, shown[2], port)


async def printed(process: asyncio.subprocess.Process, lines: list[str], port: int) -> None:
    """Wait until the program has printed lines of all these shapes."""
    assert process.stdout is not None
    wanted = {shape(line) for line in lines}
    while wanted:
        line = await process.stdout.readline()
        assert line, f"the program has ended without {wanted}"
        wanted.discard(shape(line.decode(), port))
