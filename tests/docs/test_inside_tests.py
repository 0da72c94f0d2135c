"""Tests go through public names, and the docstrings of those that cannot say why."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.docs.public_names import DOORS, LIST, ROOT

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
PUBLIC = {
    *DOORS,
    *(line.partition(":")[0] for line in LIST.read_text(encoding="utf-8").splitlines()),
    *(target.replace(":", ".") for target in SCRIPTS.values()),
}
REASON = re.compile(r"^Internals: [^\n]+\.\n?\Z", re.MULTILINE)


def named(tree: ast.Module) -> Iterator[str]:
    """Yield the modules and names that a file imports, or patches by their path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def test_a_test_that_uses_internals_says_why_and_no_other_does() -> None:
    silent: dict[str, list[str]] = {}
    needless: list[str] = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree, where = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(ROOT))
        internals = [name for name in named(tree) if name.startswith("kinformer.") and name not in PUBLIC]
        says_why = REASON.search(ast.get_docstring(tree) or "") is not None
        if internals and not says_why:
            silent[where] = internals
        elif says_why and not internals:
            needless.append(where)
    assert silent == {}, "the docstring is to end with `Internals: <which and why>.`"
    assert needless == [], "the docstring says why internals are used, and none are"
