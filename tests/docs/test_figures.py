"""Measured figures are on one page, docs/results.md, and other pages quote only figures that it has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documentation import DOCS, ROOT
from tests.docs.test_prose import prose_of_page

RESULTS = (DOCS / "results.md").read_text(encoding="utf-8")
FIGURE = re.compile(r"(?<![\w.,])\d[\d,.]* (?:us|µs|ms|s|KB|MB|GB|bytes)\b")
CONSTANTS = {"4 MB"}  # what `keep_free_memory` keeps


def missing(text: str) -> list[str]:
    """The figures of a text that are not on the page of results."""
    (prose,) = prose_of_page(Path("page.md"), text)
    return [
        figure
        for figure in dict.fromkeys(FIGURE.findall(prose.words))
        if figure not in CONSTANTS and not re.search(rf"(?<![\d.,]){re.escape(figure)}\b", RESULTS)
    ]


def test_the_page_of_costs_quotes_no_figure_that_is_not_measured() -> None:
    assert missing((DOCS / "cost.md").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("figure", ["12.25 us", "3,001 KB", "0.001 s"])
def test_a_figure_that_was_not_measured_is_found(figure: str) -> None:
    assert missing(f"It takes {figure} at 1 ms.") == [figure]


def test_each_figure_of_the_readme_about_a_client_was_measured() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Why not another client?")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 7
    for client, *_, cpu, memory in rows:
        assert FIGURE.findall(f"{cpu} {memory}"), client
        assert missing(f"{cpu} {memory}") == [], client
    assert missing(section) == []
