"""Writes the lists of docs/reliability.md from the tests: each fault with its effect on a user.

    python -m tests.faults.reliability_table

A test `test_fault_07_...` or `test_trap_07_...` has a docstring of two paragraphs: the fault, and its effect. Further
tests of the same number begin theirs with "See above".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).parent
DOCUMENT = TESTS.parents[1] / "docs" / "reliability.md"
FAULTS = range(1, 57)
TRAPS = range(1, 16)

_NAME = re.compile(r"test_(fault|trap)_(\d\d)_\w+")


@dataclass
class Entry:
    """One row: what happens, what is seen, and which tests show it."""

    number: int
    happens: str = ""
    seen: str = ""
    tests: list[tuple[str, str]] = field(default_factory=list)


def _functions(kind: str) -> Iterator[tuple[int, Path, str, str]]:
    for path in sorted(TESTS.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                continue
            match = _NAME.fullmatch(node.name)
            if match and match[1] == kind:
                yield int(match[2]), path, node.name, ast.get_docstring(node) or ""


def entries(kind: str) -> list[Entry]:
    """Of `"fault"` or `"trap"`, by number.

    Raises:
        ValueError: A docstring that is missing or has not two paragraphs; the text names the test.
    """
    found: dict[int, Entry] = {}
    for number, path, name, text in _functions(kind):
        entry = found.setdefault(number, Entry(number))
        entry.tests.append((path.name, name))
        if text.startswith("See above"):
            continue
        happens, _, seen = text.partition("\n\n")
        if not happens or not seen or entry.happens:
            raise ValueError(f"{path.name}: {name}: one docstring a number, of two paragraphs, is needed")
        entry.happens, entry.seen = (" ".join(paragraph.split()) for paragraph in (happens, seen))
    missing = [entry.tests[0] for entry in found.values() if not entry.happens]
    if missing:
        raise ValueError(f"no docstring says what happens: {missing}")
    return [found[number] for number in sorted(found)]


def table(kind: str) -> str:
    """A list in Markdown: each fault leads to its test, and its effect follows."""
    rows = []
    for entry in entries(kind):
        first, *others = dict.fromkeys(name for name, _ in entry.tests)
        also = "".join(f" ([{name[5:-3]}](../tests/faults/{name}))" for name in others)
        rows.append(f"{entry.number}. [{entry.happens}](../tests/faults/{first}){also} {entry.seen}")
    return "\n".join(rows)


def render(document: str) -> str:
    """The document with its lists as they should be, between `<!-- faults -->` and `<!-- end -->`."""
    for kind in ("fault", "trap"):
        block = re.compile(rf"(<!-- {kind}s -->\n).*?(<!-- end -->)", re.DOTALL)
        document, count = block.subn(lambda match, kind=kind: f"{match[1]}\n{table(kind)}\n\n{match[2]}", document)
        if count != 1:
            raise ValueError(f"{DOCUMENT.name}: one place for the {kind}s is needed, not {count}")
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(render(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
