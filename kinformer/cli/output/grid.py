"""Lays out rows and columns on a changing screen. Column widths only grow, and fit the screen."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from kinformer.cli.output.text import middle

__all__ = ["Cell", "Grid"]

_LEAST = 10  # cells. Names are not cut below this


class Cell(NamedTuple):
    """A string and its rich style."""

    text: str
    style: str = ""


class Grid:
    """Lays out rows under a header.

    A column is as wide as its widest cell so far. If the screen is too narrow for all columns, names are cut in the
    middle. If that is not enough, columns are omitted, from the right. Other cells are not cut.

    Args:
        header: The names of the columns.
        right: The right-aligned columns, such as numbers.
        names: The columns whose cells may be cut.
        gap: Spaces between two columns. 1 if the screen is too narrow.

    Attributes:
        hidden: The columns omitted from the last screen.
    """

    def __init__(
        self,
        header: Sequence[str],
        *,
        right: Collection[str] = (),
        names: Collection[str] = (),
        gap: int = 3,
    ) -> None:
        self.header = tuple(header)
        self.hidden: tuple[str, ...] = ()
        self._right = {number for number, name in enumerate(header) if name in right}
        self._names = {number for number, name in enumerate(header) if name in names}
        self._gap = gap
        self._widths = [cell_len(name) for name in header]

    def fits(self, rows: Sequence[Sequence[Cell]], width: int) -> bool:
        """Return True if these rows fit on the screen without a cut."""
        self._widen(rows)
        return sum(self._widths) + self._gap * (len(self._widths) - 1) <= width

    def lines(self, rows: Sequence[Sequence[Cell]], width: int | None = None) -> list[Text]:
        """Return the header and the rows as lines of at most `width` cells, or as wide as necessary for None."""
        self._widen(rows)
        widths, gap = (list(self._widths), self._gap) if width is None else self._fitted(width)
        head = self._line([Cell(name, "bold") for name in self.header], widths, gap)
        lines = [head, *(self._line(row, widths, gap) for row in rows)]
        if width is not None:
            for line in lines:  # if two columns are wider than the screen
                line.truncate(width)
        return lines

    def _widen(self, rows: Sequence[Sequence[Cell]]) -> None:
        for row in rows:
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], cell_len(cell.text))

    def _fitted(self, width: int) -> tuple[list[int], int]:
        """Return the widths of the columns that fit, and the gap between them."""
        widths = list(self._widths)
        least = [
            min(have, max(_LEAST, cell_len(name))) if number in self._names else have
            for number, (have, name) in enumerate(zip(widths, self.header, strict=True))
        ]
        gap = self._gap
        if sum(least) + gap * (len(widths) - 1) > width:
            gap = 1
        while len(widths) > 2 and sum(least) + gap * (len(widths) - 1) > width:
            widths.pop()
            least.pop()
        self.hidden = self.header[len(widths) :]
        too_much = sum(widths) + gap * (len(widths) - 1) - width
        while too_much > 0:
            room = [have - need for have, need in zip(widths, least, strict=True)]
            # If the screen is still too narrow, the remaining columns are cut like names, whatever they contain.
            numbers = [number for number, some in enumerate(room) if some > 0] or [
                number for number in self._names if number < len(widths) and widths[number] > 1
            ]
            if not numbers:
                break
            widest = max(numbers, key=widths.__getitem__)
            widths[widest] -= 1
            too_much -= 1
        return widths, gap

    def _line(self, row: Sequence[Cell], widths: Sequence[int], gap: int) -> Text:
        line = Text(no_wrap=True, overflow="crop")
        for number, (cell, width) in enumerate(zip(row, widths, strict=False)):
            shown = middle(cell.text, width) if number in self._names else cell.text
            padding = " " * (width - cell_len(shown))
            if number in self._right:
                line.append(padding)
            line.append(shown, cell.style or None)
            if number < len(widths) - 1:
                line.append(" " * gap if number in self._right else padding + " " * gap)
        return line
