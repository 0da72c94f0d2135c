"""Type checkers infer what the documentation says: both of them read tests/typing/inferred.py.

Internals: the classes of options, keywords and factories, which must agree.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import pytest

from kinformer.informer.options import (
    InformerKeywords,
    InformerOptions,
    ResourceKeywords,
    ResourceOptions,
)
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.testing import MakeDeployment, MakeObject, MakePod
from kinformer.testing.factories import ObjectFactory

ROOT = Path(__file__).parents[2]
PROGRAM = "tests/typing/inferred.py"


def check(command: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)


def by_mypy(program: str, cache: Path) -> subprocess.CompletedProcess[str]:
    # What is wrong in kinformer itself, or in its dependencies, the lint step says.
    return check([sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(cache), program])


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mypy", reason="mypy is in the group `types`")
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.tools
@pytest.mark.process
@pytest.mark.timeout(300)
def test_mypy_infers_the_types_that_are_promised_and_would_see_another(mypy_cache: Path, tmp_path: Path) -> None:
    run = by_mypy(PROGRAM, mypy_cache)
    assert run.returncode == 0, run.stdout + run.stderr
    wrong = tmp_path / "wrong.py"
    text = (ROOT / PROGRAM).read_text()
    wrong.write_text(text.replace("assert_type(pods, SharedInformer[Pod])", "assert_type(pods, SharedInformer[Node])"))
    assert wrong.read_text() != text
    run = by_mypy(str(wrong), mypy_cache)
    assert run.returncode == 1
    assert "assert-type" in run.stdout


@pytest.mark.tools
@pytest.mark.process
@pytest.mark.timeout(300)
def test_pyright_infers_the_types_that_are_promised() -> None:
    pytest.importorskip("pyright", reason="pyright is in the group `types`")
    run = check([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, PROGRAM])
    assert run.returncode == 0, run.stdout + run.stderr


HOVERS = """
from kinformer import Client, SharedInformerFactory, blocking, wait_for, watch, ListWatch, SharedInformer
from kinformer.conditions import is_pod_ready

async def hovers(client: Client, factory: SharedInformerFactory, informers: blocking.Informers) -> None:
    pods = factory.for_resource("v1/pods")
    reveal_type(pods)
    reveal_type(pods.lister)
    reveal_type(pods.lister.get("web", namespace="default"))
    reveal_type(pods.lister.list())
    reveal_type(pods.by_key)
    reveal_type(pods.indexer)
    reveal_type(pods.events())
    reveal_type(pods.add_event_handler)
    reveal_type(informers.for_resource("v1/pods"))
    reveal_type(factory.informers)
    async for event in pods.events():
        reveal_type(event.type)
        reveal_type(event.object)
    reveal_type(await client.wait_for("v1/pods", "default/web", is_pod_ready))
    reveal_type(SharedInformer(ListWatch(client, "v1/pods")))
"""


@pytest.mark.tools
@pytest.mark.process
@pytest.mark.timeout(300)
def test_hovers_show_no_model_that_is_none(tmp_path: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is in the group `types`")
    program = tmp_path / "hovers.py"
    program.write_text(HOVERS)
    run = check([sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(program)])
    told = [one["message"] for one in json.loads(run.stdout)["generalDiagnostics"] if one["severity"] == "information"]
    assert len(told) == HOVERS.count("reveal_type"), run.stdout
    assert not [text for text in told if "[None]" in text or "Unknown" in text]
    assert 'Type of "pods" is "SharedInformer[NoModel]"' in told
    assert any("Literal['ADDED', 'UPDATED', 'DELETED', 'SYNC']" in text for text in told)


@pytest.mark.parametrize("name", ["make_object", "make_pod", "make_deployment"])
def test_the_type_of_a_fixture_has_the_parameters_of_the_function(name: str) -> None:
    public: typing.Any = {"make_object": MakeObject, "make_pod": MakePod, "make_deployment": MakeDeployment}[name]
    assert inspect.signature(public.__call__) == inspect.signature(getattr(ObjectFactory, name))
    fixture = next(
        node
        for node in ast.walk(ast.parse((ROOT / "kinformer/testing/pytest_plugin.py").read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    assert fixture.returns is not None
    assert ast.unparse(fixture.returns) == public.__name__


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        (ReflectorKeywords, ReflectorOptions),
        (InformerKeywords, InformerOptions),
        (ResourceKeywords, ResourceOptions),
    ],
)
def test_the_keywords_are_the_options_and_have_their_types(keywords: typing.Any, options: typing.Any) -> None:
    typed = {name: kind for base in options.__mro__ for name, kind in vars(base).get("__annotations__", {}).items()}
    typed.pop("indexers", None)  # a parameter of its own, for its type
    assert {name: kind.__forward_arg__ for name, kind in keywords.__annotations__.items()} == typed
