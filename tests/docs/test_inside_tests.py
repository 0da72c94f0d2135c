"""Tests go through public names, and the docstrings of those that cannot say why."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.conftest import NOT_QUICK, SLOW, has_no_quick_test
from tests.docs.public_names import DOORS, LIST, ROOT
from tools.tests_of import imported

SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
PUBLIC = {
    *DOORS,
    *(line.partition(":")[0] for line in LIST.read_text(encoding="utf-8").splitlines()),
    *(target.replace(":", ".") for target in SCRIPTS.values()),
}
REASON = re.compile(r"^Internals: [^\n]+\.\n?\Z", re.MULTILINE)


def named(tree: ast.Module) -> Iterator[str]:
    """Yield the modules and names that a file imports, or patches by their path."""
    yield from imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
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


def marks_of(tree: ast.Module) -> set[str]:
    """Return the marks that a file gives to all of its tests."""
    values = [node.value for node in tree.body if isinstance(node, ast.Assign) and named_pytestmark(node)]
    return {node.attr for value in values for node in ast.walk(value) if isinstance(node, ast.Attribute)}


def named_pytestmark(node: ast.Assign) -> bool:
    """True if it is the name that pytest takes the marks of a file from."""
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets)


def test_the_quick_tests_leave_out_only_files_whose_tests_all_have_another_mark() -> None:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    left_out = [path for path in files if path.parent.name not in SLOW and has_no_quick_test(path)]
    wrong = [path for path in left_out if not marks_of(ast.parse(path.read_text(encoding="utf-8"))) & set(NOT_QUICK)]
    assert wrong == []
    assert len(left_out) > 40
