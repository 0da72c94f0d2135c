"""The README: short, and with a program that runs as it is pasted."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.docs.documentation import ROOT, blocks
from tests.support.kube import pod

README = ROOT / "README.md"


def test_it_is_at_most_120_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.process
async def test_the_program_runs_as_it_is_pasted(tmp_path: Path) -> None:
    (program,) = [block.text for block in blocks(README) if block.is_python and not block.hidden]
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    async with APIServer() as server:
        server.create(pod("web-1", node="node-1"))
        server.create(pod("web-2", node="node-2"))
        config = server.kubeconfig(tmp_path / "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-u", str(path)),
            env={**os.environ, "KUBECONFIG": str(config), "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            async with asyncio.timeout(30):
                assert await process.stdout.readline() == b"2 pods, 1 of them on node-1\n"
                server.update(pod("web-2", node="node-2", phase="Succeeded"))
                assert await process.stdout.readline() == b"default/web-2 Succeeded\n"
        finally:
            process.kill()
            await process.wait()
