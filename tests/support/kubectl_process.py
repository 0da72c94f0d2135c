"""kubectl for the folders in examples/, with a kubeconfig and a cache of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

__all__ = ["find_kubectl", "kubectl"]


def find_kubectl() -> str | None:
    """Beside this Python, where pip puts it, before what the machine has."""
    beside = Path(sys.executable).with_name("kubectl")
    return str(beside) if beside.exists() else shutil.which("kubectl")


async def kubectl(kubeconfig: Path, *arguments: str, cwd: Path) -> str:
    """Run it to its end, and return what it prints. Raises AssertionError with its error if it fails."""
    binary = find_kubectl()
    assert binary is not None
    environment = {"HOME": str(kubeconfig.parent), "KUBECONFIG": str(kubeconfig), "PATH": os.environ["PATH"]}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        binary, *arguments, cwd=cwd, env=environment, stdout=pipe, stderr=pipe
    )
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, err.decode()
    return out.decode()
