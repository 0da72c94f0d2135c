"""The sizes of the package's wings: a wing that grows is a line in `tests/docs/sizes.md` that a reviewer sees."""

from __future__ import annotations

from pathlib import Path

from tests.docs import sizes
from tests.docs.sizes import ROOT, TABLE, lines_of_code


def table() -> sizes.Sizes:
    return sizes.read(TABLE.read_text(encoding="utf-8"))


def test_no_wing_has_grown_or_shrunk_unseen() -> None:
    now = sizes.measure(ROOT / "kinformer")
    grown = sizes.grown(now, table()).values()
    assert not grown, (
        "\n".join(grown)
        + "\n\nIs something there twice, or is there a simpler way? Take it away. If the new lines are "
        "worth it, run `python -m tests.docs.sizes`, and give the reason in the commit."
    )
    shrunk = sizes.shrunk(now, table()).values()
    assert not shrunk, (
        "\n".join(shrunk) + "\n\nWell done. Run `python -m tests.docs.sizes` and commit its table, so that it stays so."
    )


def test_the_table_has_each_wing_as_it_is_written() -> None:
    assert sizes.write(table()) == TABLE.read_text(encoding="utf-8")


# --- the test can fail ----------------------------------------------------------------------------------------------

MODULE = '''#!/usr/bin/env python3
"""A module.

Its docstring.
"""

from enum import Enum  # one

LIMIT = 5  # two
"""The limit."""


class Color(Enum):  # three
    # A comment.
    RED = "red"
    """Documentation of a member."""

    def words(self, text=""):
        "Return words."
        query = """
            a text

            of three lines that are not blank
        """
        return (
            query,
        )


def empty(): """Nothing is on this line but what it does not say."""
'''


def test_blank_lines_comments_and_documentation_are_no_code(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(MODULE, encoding="utf-8")
    assert lines_of_code(module) == 13
    module.write_text("", encoding="utf-8")
    assert lines_of_code(module) == 0
    module.write_text('"""Nothing else."""', encoding="utf-8")
    assert lines_of_code(module) == 0


def test_files_are_counted_with_their_wing(tmp_path: Path) -> None:
    for name in ("core.py", "cache/store.py", "cli/main.py", "cli/page/page.js", "testing/a/b.json", "py.typed"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a = 1\n", encoding="utf-8")
    found = sizes.measure(tmp_path)
    assert {place: lines for place, lines in found.items() if lines} == {
        ("core", "code"): 2,
        ("core", "other files"): 1,
        ("cli", "code"): 1,
        ("cli", "other files"): 1,
        ("testing", "other files"): 1,
    }
    assert len(found) == 8


def test_a_size_may_differ_a_little_from_its_row() -> None:
    row = {("core", "code"): 10_000, ("core", "other files"): 100}
    for lines, other in ((10_200, 120), (9_700, 80)):
        now = {("core", "code"): lines, ("core", "other files"): other}
        assert sizes.grown(now, row) == sizes.shrunk(now, row) == {}
        assert sizes.updated(now, row) == row


def test_a_size_that_differs_is_named_and_the_others_keep_their_row() -> None:
    row = {("core", "code"): 10_000, ("core", "other files"): 100, ("cli", "code"): 1_000}
    now = {("core", "code"): 10_201, ("core", "other files"): 110, ("cli", "code"): 969}
    assert list(sizes.grown(now, row).values()) == ["core, code: 10,201 lines, 201 more than its row"]
    assert list(sizes.shrunk(now, row).values()) == ["cli, code: 969 lines, 31 less than its row"]
    assert sizes.updated(now, row) == {
        ("core", "code"): 10_201,
        ("core", "other files"): 100,
        ("cli", "code"): 969,
    }
