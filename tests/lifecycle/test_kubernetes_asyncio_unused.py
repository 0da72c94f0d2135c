"""kubernetes_asyncio is installed with kinformer, and imported by what needs it alone: the first use pays for it."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "kinformer"

BEGINNING = """
import asyncio, importlib, pkgutil, sys

def imported():
    return sorted(name for name in sys.modules if name.partition(".")[0] == "kubernetes_asyncio")
"""

EVERY_MODULE = """
import kinformer
for module in pkgutil.walk_packages(kinformer.__path__, "kinformer."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for module in (kinformer, importlib.import_module("kinformer.testing")):
    for name in module.__all__:
        getattr(module, name)
assert len([name for name in sys.modules if name.startswith("kinformer.")]) > 250
print(imported())
"""

A_WHOLE_PROGRAM = """
import msgspec
from kinformer import Client, SharedInformerFactory
from kinformer.testing import APIServer

class Data(msgspec.Struct):
    data: dict[str, str]

async def main():
    heard = asyncio.Queue()
    async with APIServer() as server:
        config = server.kubeconfig(sys.argv[1])
        async with Client.from_kubeconfig(config) as client, SharedInformerFactory(client) as factory:
            maps = factory.for_resource("v1/configmaps", model=Data)
            maps.add_event_handler(on_add=lambda obj: heard.put_nowait(obj.model.data))
            await factory.wait_for_cache_sync(timeout=30)
            body = {"metadata": {"name": "a"}, "data": {"k": "v"}}
            await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
            assert await asyncio.wait_for(heard.get(), 30) == {"k": "v"}
    print(imported())

asyncio.run(main())
"""

A_COMMAND = """
import contextlib, io, threading
from kinformer.cli import main
with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
    sys.argv = ["kinformer", "demo", "--plain", "--duration", "1"]
    main()
assert "pods" in said.getvalue(), said.getvalue()
print(imported())
"""

ITS_API_CLIENT = """
from kinformer import Client

async def main():
    async with Client.from_url("http://127.0.0.1:1") as client:
        assert not imported()
        client.api_client
        assert "kubernetes_asyncio.client" in imported()

asyncio.run(main())
print([])
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(EVERY_MODULE, id="every module and public name"),
        pytest.param(A_WHOLE_PROGRAM, id="an informer with a model, a kubeconfig and a write"),
        pytest.param(A_COMMAND, id="a command"),
        pytest.param(ITS_API_CLIENT, id="a client before its api_client is asked for"),
    ],
)
def test_nothing_imports_it_before_it_is_used(program: str, tmp_path: Path) -> None:
    code = textwrap.dedent(BEGINNING + program)
    command = [sys.executable, "-c", code, str(tmp_path / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_the_two_places_that_need_it_import_it_within_a_function() -> None:
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        inner = {id(child) for node in ast.walk(tree) if isinstance(node, FUNCTIONS) for child in ast.walk(node)}
        for node in ast.walk(tree):
            if any(name.partition(".")[0] == "kubernetes_asyncio" for name in _imported(node)):
                place = "function" if id(node) in inner else "module"
                found.setdefault(str(file.relative_to(PACKAGE)), set()).add(place)
    assert found == {
        "connection/api_client_bridge.py": {"function"},  # Client.api_client
        "connection/credentials/library_provider.py": {"function"},  # old auth-providers of a kubeconfig
    }


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []
