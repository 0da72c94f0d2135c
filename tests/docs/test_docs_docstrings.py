"""Every block of code in a docstring runs, on an embedded API server."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

from kinformer import exceptions
from tests.docs.docstrings import docstring_blocks, page_of, scenes
from tests.docs.documentation import marks_of, run_page

NO_CODE = {"kinformer.exceptions", "kinformer.snapshot.format"}  # a tree of names, and the layout of a file
SCENES = scenes()
BLOCKS = [(name, block) for name, block in docstring_blocks() if name not in NO_CODE]


@pytest.mark.parametrize(
    ("name", "block"),
    [
        pytest.param(name, block, marks=marks_of(page_of(SCENES[name], block)), id=name.removeprefix("kinformer."))
        for name, block in BLOCKS
        if name in SCENES
    ],
)
async def test_the_code_of_a_docstring_runs(
    name: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "docstring.md"
    page.write_text(page_of(SCENES[name], block), encoding="utf-8")
    await run_page(page, tmp_path, monkeypatch)


def test_every_block_has_its_scene_and_every_scene_its_block() -> None:
    assert Counter(name for name, _ in BLOCKS) == Counter(SCENES.keys())
    assert {name for name, _ in docstring_blocks()} >= NO_CODE


def test_no_block_is_overlooked() -> None:
    root = Path(inspect.getfile(exceptions)).parent
    marks = sum(
        len(re.findall(r"(?:^ *|\"\"\"|[^:])::$", path.read_text(encoding="utf-8"), re.MULTILINE))
        for path in root.rglob("*.py")
    )
    assert marks == len(list(docstring_blocks()))


def test_the_tree_of_the_errors_is_that_of_their_classes() -> None:
    drawn, shown = [], set()
    for line in dict(docstring_blocks())["kinformer.exceptions"].splitlines():
        found = re.match(r"((?:[│ ]   )*(?:[├└]── )?)(\w+)(?: \((\w+)\))?", line)
        assert found, line
        depth, name, builtin = len(found[1]) // 4, found[2], found[3]
        bases = [base.__name__ for base in getattr(exceptions, name).__bases__]
        assert bases == [drawn[depth - 1] if depth else "Exception", *([builtin] if builtin else [])], line
        drawn[depth:] = [name]
        shown.add(name)
    assert shown == {name for name in exceptions.__all__ if name.endswith("Error")}
