"""The code of the documentation passes a type checker, so that it can be copied into programs that use one."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs.documentation import ROOT, Block, blocks, name_of, pages

pytestmark = [pytest.mark.process, pytest.mark.tools]

# A page is checked with the options of the project, so that mypy's cache of the project serves; less what prose may do:
# leave out annotations, bodies, and the question whether an object is there, and use a name again for another thing.
HEAD = """\
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators, allow-any-generics
# mypy: no-strict-optional, no-warn-return-any, no-warn-unreachable, no-warn-unused-ignores
# mypy: disable-error-code="no-redef,used-before-def,assignment,import-untyped,import-not-found,return"
from __future__ import annotations
import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from kinformer.testing import APIServer
from tests.docs.documentation import running
from tests.support.waiting import until

_T = TypeVar("_T")
server: APIServer
make_pod: Callable[..., None]
printed: Callable[[], str]


async def enter(manager: AbstractAsyncContextManager[_T]) -> _T:
    raise NotImplementedError


"""


def modules_of(page: Path) -> dict[str, str]:
    """A page as modules: its files, and one whose only function has all other blocks."""
    stem = re.sub(r"\W", "_", name_of(page).removesuffix(".md"))
    python = [block for block in blocks(page) if block.is_python and not block.not_run]
    files = {Path(block.file).stem: block for block in python if block.file}

    def renamed(text: str) -> str:
        for name in files:
            text = re.sub(rf"^( *)import {name}$", rf"\1import {stem}_{name} as {name}", text, flags=re.MULTILINE)
            text = re.sub(rf"^( *)from {name} import", rf"\1from {stem}_{name} import", text, flags=re.MULTILINE)
        return text

    head = "".join(line for line in HEAD.splitlines(keepends=True) if line.startswith("# mypy"))
    modules = {f"{stem}_{name}": head + renamed(block.text) for name, block in files.items()}
    body = "".join(f"# {block.where}\n{block.text}\n" for block in python if not block.file)
    if body:
        modules[stem] = f"{HEAD}async def page() -> None:\n{textwrap.indent(renamed(body), '    ')}"
    return modules


def test_a_page_is_a_module_with_its_files_beside_it(tmp_path: Path) -> None:
    assert modules_of(ROOT / "docs" / "start.md").keys() == {"docs_start", "docs_start_pods", "docs_start_test_pods"}
    assert Block(tmp_path, 1, "python", "# website.py\n").file == "website.py"


@pytest.mark.skipif(find_spec("mypy") is None, reason="mypy is not installed (the dependency group `types`)")
def test_what_the_pages_show_is_typed_as_it_is_used(tmp_path: Path) -> None:
    written = []
    for page in pages():
        for name, text in modules_of(page).items():
            (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
            written.append(str(tmp_path / f"{name}.py"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *written],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
