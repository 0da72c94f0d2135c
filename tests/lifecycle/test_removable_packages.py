"""Sharding and snapshots can be taken away: nothing outside their packages needs them."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "kinformer"

PROGRAM = '''
import asyncio
import importlib
import pkgutil
import sys
from pathlib import Path

import kinformer

FOLDER, GONE = Path(sys.argv[1]), f"kinformer.{sys.argv[2]}"


def import_everything() -> int:
    """Import every module but programs; what an extra needs that is not installed may be missing."""
    imported = 0
    for module in pkgutil.walk_packages(kinformer.__path__, "kinformer."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except ModuleNotFoundError as error:
                assert error.name and not error.name.startswith("kinformer"), error
            else:
                imported += 1
    return imported


async def control() -> None:
    from kinformer import Controller, LeaderElector, Manager, Request
    from kinformer.testing import APIServer

    done = asyncio.Event()

    async def reconcile(request: Request) -> None:
        assert maps.lister.get(request.name, namespace=request.namespace) is not None
        done.set()

    async with APIServer() as server, server.client() as client:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}})
        elector = LeaderElector(client, namespace="default", name="op")
        async with Manager(client, elector=elector, listen="127.0.0.1:0", signals=()) as manager:
            maps = manager.factory.for_resource("v1/configmaps")
            manager.add(Controller(reconcile).for_(maps))
            running = asyncio.create_task(manager.run())
            async with asyncio.timeout(30):
                await done.wait()
            manager.stop()
            await running


assert Path(kinformer.__file__).is_relative_to(FOLDER), kinformer.__file__
assert import_everything() > 100
assert not [name for name in sys.modules if name.startswith(GONE)]
asyncio.run(control())
print("controlled")
'''


@pytest.mark.process
@pytest.mark.parametrize("package", ["sharding", "snapshot"])
async def test_without_its_folder_everything_else_is_imported_and_controllers_run(package: str, tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "kinformer", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(tmp_path / "kinformer" / package)
    (tmp_path / "program.py").write_text(PROGRAM)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "program.py",
        str(tmp_path),
        package,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await asyncio.wait_for(process.communicate(), 100)
    assert (process.returncode, output.decode().split()[-1:]) == (0, ["controlled"]), output.decode()
