"""The page of measured results is what its benchmarks write: sections, labels, figures, commands."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as suite
from benchmarks import results
from benchmarks.result_sections import SECTIONS, chosen
from benchmarks.results import Cell, MissingError, Row, Section, Table, number, put, rows, spread

PAGE = results.PAGE.read_text(encoding="utf-8")
MODULES = {"large_": "large", "real_server_": "real_server", "beside_": "beside", "compression": "studies.compression"}


def sections_of(page: str) -> dict[str, str]:
    """The sections of a page, by their names."""
    return dict(re.findall(r"<!-- results: (\S+) -->\n+(.*?)<!-- end -->", page, re.DOTALL))


def test_the_page_has_the_sections_of_the_benchmarks_and_no_other() -> None:
    assert list(sections_of(PAGE)) == [section.name for section in SECTIONS]
    assert PAGE.count("<!-- results: ") == PAGE.count("<!-- end -->") == len(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS, ids=[section.name for section in SECTIONS])
def test_a_section_has_the_words_of_its_benchmarks_with_day_machine_and_command(section: Section) -> None:
    text = sections_of(PAGE)[section.name]
    assert text.startswith(f"## {section.title}\n")
    assert " ".join(section.about.split()) in " ".join(text.split())
    assert re.search(r"Measured 20\d\d-\d\d-\d\d.*,\sPython\s3\.\d.*,\s.*:\n", text, re.DOTALL)
    assert f"`python -m benchmarks --write {section.name}`." in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    labels = [line.split(" | ")[0].removeprefix("| ") for line in lines]
    for table in section.tables:
        assert f"| {' | '.join(table.head)} |" in lines
        assert [row.label for row in table.rows if not row.optional and row.label not in labels] == []
    known = {row.label for table in section.tables for row in table.rows}
    assert set(labels) - known <= {table.head[0] for table in section.tables}
    assert not re.search(r"\b\d\.\de\+|\bnan\b|\bNone\b", text)


@cache
def names_in(module: str) -> list[re.Pattern[str]]:
    """The texts of a benchmark that can be the name of a figure; what is filled in may be anything."""
    path = Path(results.__file__).parent / f"{module.replace('.', '/')}.py"
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            values = node.values
            parts = [re.escape(str(one.value)) if isinstance(one, ast.Constant) else ".+" for one in values]
            found.append(re.compile("".join(parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(re.compile(re.escape(node.value)))
    return found


@pytest.mark.parametrize("section", SECTIONS, ids=[section.name for section in SECTIONS])
def test_each_figure_has_a_benchmark_that_names_it_and_is_run(section: Section) -> None:
    commands = {command[0] for command in section.commands}
    assert all(find_spec(f"benchmarks.{name}") for name in commands)
    for cell in (cell for table in section.tables for row in table.rows for cell in row.cells if cell):
        module = next((to for start, to in MODULES.items() if cell.run.startswith(start)), cell.run)
        assert module in commands, cell
        # A pattern that is all filled in would match anything.
        assert any(one.fullmatch(cell.figure) and len(one.pattern) > 4 for one in names_in(module)), cell


# --- writing --------------------------------------------------------------------------------------------------------

SECTION = Section(
    "one",
    "One",
    "About it.",
    [
        Table(
            ("what", "ratio"),
            [*rows("watch", ("an event", "event")), Row("of another client", [Cell("watch", "other")], optional=True)],
        )
    ],
    [["watch"]],
)
TEXT = "before\n<!-- results: one -->\nold\n<!-- end -->\nbetween\n<!-- results: two -->\nkept\n<!-- end -->\n"


def run(*figures: dict[str, Any], others: float | None = 0.034) -> dict[str, Any]:
    return {"date": "2026-12-01", "python": "3.11.7", "machine": "2 cores", "others": others, "figures": [*figures]}


def figure(name: str, value: float, rounds: list[float] | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "rounds": rounds or [], "details": {}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(results, "PAGE", tmp_path / "results.md")
    results.PAGE.write_text(TEXT, encoding="utf-8")
    return tmp_path


def test_a_section_is_written_between_its_marks_and_nothing_else_changes() -> None:
    page = put(TEXT, SECTION, {"watch": run(figure("event", 0.7712, [0.75, 0.79]))})
    assert page == TEXT.replace(
        "old\n",
        "\n## One\n\nAbout it.\n\n| what | ratio |\n|---|---|\n| an event | 0.771 (0.75 to 0.79) |\n\n"
        "Measured 2026-12-01, Python 3.11.7, 2 cores, 3% of the CPU taken by others:\n"
        "`python -m benchmarks --write one`.\n\n",
    )


def test_a_client_that_is_not_installed_has_no_line_and_a_figure_that_is_missing_fails() -> None:
    page = put(TEXT, SECTION, {"watch": run(figure("event", 1), figure("other", 2), others=None)})
    assert "| of another client | 2 |" in page
    with pytest.raises(MissingError, match="watch has no figure 'event'"):
        put(TEXT, SECTION, {"watch": run()})
    with pytest.raises(MissingError, match="no figures of watch"):
        put(TEXT, SECTION, {})
    with pytest.raises(MissingError, match="0 places for one"):
        put("", SECTION, {"watch": run(figure("event", 1))})


def test_a_section_without_new_figures_stays_as_it_is(folder: Path) -> None:
    assert results.write([SECTION]) == ["one: not measured"]
    path = folder / "watch.json"
    path.write_text(json.dumps(run(figure("event", 1))))
    assert results.write([SECTION], since=path.stat().st_mtime + 10) == ["one: not measured"]
    assert results.PAGE.read_text(encoding="utf-8") == TEXT
    assert results.write([SECTION], since=path.stat().st_mtime - 10) == []
    assert "| an event | 1 |" in results.PAGE.read_text(encoding="utf-8")


def test_each_benchmark_runs_once_and_one_that_leaves_no_figures_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def record(command: list[str], **_: Any) -> None:
        ran.append(command[2:])

    monkeypatch.setattr(suite.subprocess, "run", record)
    assert suite.write([SECTION, SECTION]) == 1
    assert ran == [["benchmarks.watch"]]
    assert "left as it was: one: not measured" in capsys.readouterr().out


def test_sections_are_chosen_by_their_names() -> None:
    assert chosen([]) == list(SECTIONS)
    assert [section.name for section in chosen(["peers"])] == ["peers"]
    with pytest.raises(ValueError, match="there is no section nothing"):
        chosen(["nothing"])


@pytest.mark.parametrize(
    ("value", "text"), [(0.7712, "0.771"), (12.34, "12.3"), (999.7, "1,000"), (6179, "6,180"), (4_383_000, "4,380,000")]
)
def test_a_number_has_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_one_round_has_no_spread() -> None:
    assert spread(figure("a", 2, [2])) == "2"
    assert spread(figure("a", -0.8, [-5.8, 5.4])) == "-0.8 (-5.8 to 5.4)"
