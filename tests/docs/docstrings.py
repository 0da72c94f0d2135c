"""The blocks of code in docstrings, each made a page for `documentation.run_page` by the code around it."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.documentation import ROOT

SCENES = Path(__file__).parent / "docstring_scenes.md"
_BLOCK = re.compile(r"^::\n\n((?:(?: {4}.*)?\n)+)", re.MULTILINE)
_THE_CODE = re.compile(r"^the code$", re.MULTILINE)


@cache
def docstring_blocks() -> list[tuple[str, str]]:
    """The full name of what is documented, and the block; every docstring has one at the most."""
    return list(_blocks())


def _blocks() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "kinformer").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        if "::\n\n" in text:  # to parse every file takes seconds
            yield from _blocks_of(ast.parse(text), module)


def _blocks_of(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str
) -> Iterator[tuple[str, str]]:
    for block in _BLOCK.findall((ast.get_docstring(node) or "") + "\n"):
        yield name, textwrap.dedent(block).strip("\n")
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _blocks_of(inner, f"{name}.{inner.name}")


def scenes() -> dict[str, str]:
    """By the full name of what is documented, the page around its block."""
    _, *sections = re.split(r"^## (.+)\n", SCENES.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(sections[::2], sections[1::2], strict=True))


def page_of(scene: str, block: str) -> str:
    """The scene with the block in its place."""
    assert len(_THE_CODE.findall(scene)) == 1
    return _THE_CODE.sub(lambda _: block, scene)
