"""The sizes of the package's wings, which may not grow unseen; `python -m tests.docs.sizes` writes their table.

The table is `tests/docs/sizes.md`. A line of code is one that is not blank, a comment or documentation (a string that
is a statement by itself). Lines of other files are counted beside them, so that nothing is won by moving a table into
JSON.

    python -m tests.docs.sizes          writes the numbers that the test refuses, and leaves the others
    python -m tests.docs.sizes --all    writes all of today's numbers
"""

from __future__ import annotations

import re
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "tests" / "docs" / "sizes.md"
WINGS = ("core", "testing", "cli", "contrib")
KINDS = ("code", "other files")

Sizes = dict[tuple[str, str], int]  # lines by wing and kind

UP, DOWN = 0.02, 0.03  # shares of its row by which a size may be above or below it
SLACK = 20  # lines by which it always may, because 2 % of a few stubs are one public name

_NOTHING = {tokenize.COMMENT, tokenize.NL}
_EDGES = {tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENDMARKER}  # of a statement
_HEAD = """\
# Sizes

Lines of code, without blank lines, comments and docstrings, and lines of other files (stubs, pages, tables).
`python -m tests.docs.sizes` writes them. A number that is raised needs a reason in its commit.

| wing | code | other files |
|---|---|---|
"""


def lines_of_code(path: Path) -> int:
    """Count the lines of a module that are not blank, a comment or documentation."""
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _NOTHING]
    lines: set[int] = set()
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_documentation = token.type == tokenize.STRING and before.type in _EDGES and after.type in _EDGES
        if token.type not in _EDGES and not is_documentation:
            lines.update(range(token.start[0], token.end[0] + 1))
    text = path.read_text(encoding="utf-8").split("\n")
    return sum(bool(text[number - 1].strip()) for number in lines)


def wing_of(path: Path) -> str:
    """Return the wing of a file, given relative to the package."""
    return path.parts[0] if path.parts[0] in WINGS else "core"


def measure(package: Path) -> Sizes:
    """Return the sizes of a package."""
    sizes = Counter({(wing, kind): 0 for wing in WINGS for kind in KINDS})
    for path in package.rglob("*"):
        if not path.is_file() or "__pycache__" in path.parts:
            continue
        wing = wing_of(path.relative_to(package))
        if path.suffix == ".py":
            sizes[wing, "code"] += lines_of_code(path)
        else:
            sizes[wing, "other files"] += path.read_bytes().count(b"\n")
    return sizes


def read(table: str) -> Sizes:
    """Return the sizes in a table."""
    rows = re.findall(r"^\| (\w+) \| ([\d,]+) \| ([\d,]+) \|$", table, re.MULTILINE)
    return {
        (wing, kind): int(lines.replace(",", "")) for wing, *row in rows for kind, lines in zip(KINDS, row, strict=True)
    }


def write(sizes: Sizes) -> str:
    """Return the table of these sizes."""
    rows = (" | ".join([wing, *(f"{sizes[wing, kind]:,}" for kind in KINDS)]) for wing in WINGS)
    return _HEAD + "".join(f"| {row} |\n" for row in rows)


def grown(sizes: Sizes, table: Sizes) -> dict[tuple[str, str], str]:
    """Return the sizes that are above the table's, each as a sentence."""
    return {
        (wing, kind): f"{wing}, {kind}: {lines:,} lines, {lines - table[wing, kind]:,} more than its row"
        for (wing, kind), lines in sizes.items()
        if lines - table[wing, kind] > max(UP * table[wing, kind], SLACK)
    }


def shrunk(sizes: Sizes, table: Sizes) -> dict[tuple[str, str], str]:
    """Return the sizes that are so far below the table's that their rows should follow, each as a sentence."""
    return {
        (wing, kind): f"{wing}, {kind}: {lines:,} lines, {table[wing, kind] - lines:,} less than its row"
        for (wing, kind), lines in sizes.items()
        if table[wing, kind] - lines > max(DOWN * table[wing, kind], SLACK)
    }


def updated(sizes: Sizes, table: Sizes) -> Sizes:
    """Return the table with today's size in each place that does not fit, so that the others do not creep upwards."""
    return table | {place: sizes[place] for place in (*grown(sizes, table), *shrunk(sizes, table))}


def main(arguments: list[str]) -> None:
    """Write the table, and print it."""
    sizes = measure(ROOT / "kinformer")
    text = write(sizes if "--all" in arguments else updated(sizes, read(TABLE.read_text(encoding="utf-8"))))
    TABLE.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main(sys.argv[1:])
