"""The page of measured results, docs/results.md, which the benchmarks write themselves.

    python -m benchmarks --write [SECTION ...]     measure, then write these sections, or all of them
    python -m benchmarks.result_sections           write all again from the figures that the last runs have left

A section is between two comments of the page. It has its tables, and a last line with the day, the machine, the load of
others and the command. The words around the sections are written by hand. `benchmarks.result_sections` has them.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "results.md"

Figure = Mapping[str, Any]
"""One figure of a file in `benchmarks/results`."""

Runs = Mapping[str, Mapping[str, Any]]
"""The files in `benchmarks/results` by their names."""


class MissingError(Exception):
    """A figure that a section needs is not there; the text says which."""


# --- how a figure is shown ------------------------------------------------------------------------------------------


def number(value: float, digits: int = 3) -> str:
    """So many significant digits, without an exponent."""
    if abs(value) >= 999.5:
        return f"{round(value, digits - len(str(int(abs(value))))):,.0f}"
    return f"{value:.{digits}g}"


def value(figure: Figure) -> str:
    return number(figure["value"])


def spread(figure: Figure) -> str:
    """The median of the rounds, with the lowest and the highest."""
    rounds = figure["rounds"]
    return value(figure) + (f" ({number(min(rounds))} to {number(max(rounds))})" if len(rounds) > 1 else "")


def scaled(factor: float, unit: str = "") -> Callable[[Figure], str]:
    """The value, in another unit."""
    return lambda figure: f"{number(figure['value'] * factor)}{unit}"


def detail(key: str, factor: float = 1.0, unit: str = "", digits: int = 3) -> Callable[[Figure], str]:
    """The median of a detail, such as the microseconds behind a ratio."""

    def show(figure: Figure) -> str:
        found = figure["details"][key]
        median = statistics.median(found if isinstance(found, list) else [found])
        return f"{number(median * factor, digits)}{unit}"

    return show


def both(first: Callable[[Figure], str], second: Callable[[Figure], str]) -> Callable[[Figure], str]:
    return lambda figure: f"{first(figure)}, {second(figure)}"


@dataclass(frozen=True)
class Cell:
    """One figure in a table.

    Attributes:
        run: The file in `benchmarks/results`.
        figure: The name of the figure in it.
        show: How it is shown.
    """

    run: str
    figure: str
    show: Callable[[Figure], str] = spread

    def text(self, runs: Runs) -> str:
        """What the table has.

        Raises:
            MissingError: The run has no such figure.
        """
        if self.run not in runs:
            raise MissingError(f"no figures of {self.run}")
        for figure in runs[self.run]["figures"]:
            if figure["name"] == self.figure:
                return self.show(figure)
        raise MissingError(f"{self.run} has no figure {self.figure!r}")


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        label: What was measured.
        cells: None is an empty one.
        optional: True if the line is left out when its figures are missing, as those of a client not installed are.
    """

    label: str
    cells: Sequence[Cell | None]
    optional: bool = False


@dataclass(frozen=True)
class Table:
    """A table of a section."""

    head: Sequence[str]
    rows: Sequence[Row]

    def lines(self, runs: Runs) -> Iterator[str]:
        """The table in Markdown.

        Raises:
            MissingError: A figure is not there.
        """
        yield f"| {' | '.join(self.head)} |"
        yield f"|{'---|' * len(self.head)}"
        for row in self.rows:
            try:
                shown = [cell.text(runs) if cell else "" for cell in row.cells]
            except MissingError:
                if row.optional:
                    continue
                raise
            yield f"| {' | '.join([row.label, *shown])} |"


@dataclass(frozen=True)
class Section:
    """A part of the page.

    Attributes:
        name: In the comments around it, and on the command line.
        title: The heading.
        about: A sentence or two on what was measured.
        tables: See `Table`.
        commands: The benchmarks that it needs, as modules of this package with their arguments.
        note: Words behind the tables, made of the figures.
    """

    name: str
    title: str
    about: str
    tables: Sequence[Table]
    commands: Sequence[Sequence[str]]
    note: Callable[[Runs], str] = lambda runs: ""

    @property
    def runs(self) -> set[str]:
        """The files that its figures come from."""
        return {cell.run for table in self.tables for row in table.rows for cell in row.cells if cell}

    def text(self, runs: Runs) -> str:
        """The section in Markdown.

        Raises:
            MissingError: A figure is not there.
        """
        measured = conditions([runs[name] for name in sorted(self.runs) if name in runs])
        command = f"`python -m benchmarks --write {self.name}`"
        return "\n\n".join(
            [
                f"## {self.title}",
                _lines(self.about),
                *("\n".join(table.lines(runs)) for table in self.tables),
                _lines(f"{self.note(runs)} Measured {measured}:".lstrip()) + f"\n{command}.",
            ]
        )


def conditions(runs: Sequence[Mapping[str, Any]]) -> str:
    """When and where some runs were made."""

    def all_of(field: str) -> str:
        return ", ".join(sorted({run[field] for run in runs}))

    loads = [run["others"] for run in runs if run["others"] is not None]
    load = f", {max(loads):.0%} of the CPU taken by others" if loads else ""
    return f"{all_of('date')}, Python {all_of('python')}, {all_of('machine')}{load}"


def _lines(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 120, break_long_words=False, break_on_hyphens=False))


def rows(run: str, *pairs: tuple[str, str], show: Callable[[Figure], str] = spread) -> list[Row]:
    """Lines with one figure of the same run each."""
    return [Row(label, [Cell(run, figure, show)]) for label, figure in pairs]


# --- the page -------------------------------------------------------------------------------------------------------


def _part(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- results: {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL)


def put(page: str, section: Section, runs: Runs) -> str:
    """The page with a section of these figures.

    Raises:
        MissingError: A figure is not there, or the page has no place for the section.
    """
    text = section.text(runs)
    written, count = _part(section.name).subn(lambda found: f"{found[1]}\n{text}\n\n{found[2]}", page)
    if count != 1:
        raise MissingError(f"{PAGE.name} has {count} places for {section.name}, between <!-- results: ... --> and end")
    return written


def found_runs() -> Runs:
    """What the last runs have left."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}


def write(sections: Sequence[Section], since: float = 0.0) -> list[str]:
    """Write sections from the figures that are there; the reasons why some stay as they are.

    Args:
        sections: Of the page.
        since: A time; sections none of whose figures are newer stay as they are.
    """
    runs, page, left = found_runs(), PAGE.read_text(encoding="utf-8"), []
    for section in sections:
        files = [RESULTS / f"{name}.json" for name in section.runs]
        if not any(path.exists() and path.stat().st_mtime >= since for path in files):
            left.append(f"{section.name}: not measured")
            continue
        try:
            page = put(page, section, runs)
        except MissingError as error:
            left.append(f"{section.name}: {error}")
    PAGE.write_text(page, encoding="utf-8")
    return left
