"""Type checkers infer what the documentation says: both of them read tests/typing/inferred.py."""

from __future__ import annotations

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
