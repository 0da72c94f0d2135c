"""The table at the end of all benchmarks: its figures, and benchmarks that have left none."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as suite


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(suite, "RESULTS", tmp_path)
    return tmp_path


def write(results: Path, name: str, **figure: Any) -> Path:
    whole = {"name": "cost", "value": 1.0, "unit": "x", "limit": 2.0, "aim": None, "least": False, "below": False}
    path = results / f"{name}.json"
    path.write_text(json.dumps({"figures": [{**whole, "meets": True, **figure}]}))
    return path


@pytest.mark.parametrize(
    ("figure", "word"),
    [
        ({"meets": False}, "FAILS"),
        ({}, "ok"),
        ({"aim": 0.9}, "ok"),
        ({"aim": 1.0}, "aim"),
        ({"aim": 0.9, "least": True}, "aim"),
        ({"aim": 1.1, "least": True}, "ok"),
    ],
)
def test_a_figure_with_a_limit_has_a_line_that_begins_with_its_verdict(
    results: Path, figure: dict[str, Any], word: str
) -> None:
    write(results, "watch", **figure)
    (line,) = suite.summary(["watch"], since=0)
    assert line.split()[0] == word
    assert line.endswith("cost")


def test_a_figure_without_a_limit_has_none(results: Path) -> None:
    write(results, "watch", limit=None)
    assert suite.summary(["watch"], since=0) == []


def test_the_limit_is_said_as_it_is_meant(results: Path) -> None:
    write(results, "most")
    write(results, "least", least=True)
    write(results, "below", below=True)
    signs = [line.split()[2] for line in suite.summary(["most", "least", "below"], since=0)]
    assert signs == ["<=", ">=", "<"]


def test_figures_of_a_run_before_count_for_nothing(results: Path) -> None:
    path = write(results, "watch")
    os.utime(path, (1000, 1000))
    assert suite.summary(["watch", "list"], since=2000) == ["NO FIGURES watch", "NO FIGURES list"]
