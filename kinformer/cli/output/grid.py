"""Rows and columns on a screen that changes: column widths that only grow, and fit the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.text import Text

__all__ = ["Cell", "Grid"]

_LEAST = 5  # cells; a column is made no narrower than this, or than its header


class Cell(NamedTuple):
    """A text and its style, as rich names styles."""

    text: str
    style: str = ""


class Grid:
    """Lays out rows under a header.

    A column is as wide as the widest cell that it has had. If the screen is too narrow for all columns, the widest
    ones are cut, with `…`; columns that still do not fit are not drawn.

    Args:
        header: The names of the columns.
        right: The columns that are aligned to the right, as figures are.
        whole: The columns that are never cut.
        gap: Spaces between two columns.
    """

    def __init__(
        self, header: Sequence[str], *, right: Sequence[str] = (), whole: Sequence[str] = (), gap: int = 3
    ) -> None:
        self.header = tuple(header)
        self._right = {number for number, name in enumerate(header) if name in right}
        self._whole = whole
        self._gap = " " * gap
        self._widths = [cell_len(name) for name in header]

    def lines(self, rows: Sequence[Sequence[Cell]], width: int | None = None) -> list[Text]:
        """Return the header and the rows as lines of at most `width` cells; None is as wide as necessary."""
        for row in rows:
            for number, cell in enumerate(row):
                self._widths[number] = max(self._widths[number], cell_len(cell.text))
        widths = self._widths if width is None else self._fitted(width)
        head = self._line([Cell(name, "bold") for name in self.header], widths)
        lines = [head, *(self._line(row, widths) for row in rows)]
        if width is not None:
            for line in lines:
                line.truncate(width)
        return lines

    def _fitted(self, width: int) -> list[int]:
        widths = list(self._widths)
        least = [
            have if name in self._whole else min(have, max(_LEAST, cell_len(name)))
            for have, name in zip(widths, self.header, strict=True)
        ]
        too_much = sum(widths) + len(self._gap) * (len(widths) - 1) - width
        while too_much > 0:
            room = [have - need for have, need in zip(widths, least, strict=True)]
            if not any(room):
                break
            widest = max((number for number, some in enumerate(room) if some), key=widths.__getitem__)
            widths[widest] -= 1
            too_much -= 1
        return widths

    def _line(self, row: Sequence[Cell], widths: Sequence[int]) -> Text:
        line = Text(no_wrap=True, overflow="crop")
        for number, (cell, width) in enumerate(zip(row, widths, strict=True)):
            text = cell.text
            if cell_len(text) > width:
                text = set_cell_size(text, width - 1) + "…"
            padding = " " * (width - cell_len(text))
            if number in self._right:
                line.append(padding)
            line.append(text, cell.style or None)
            if number < len(row) - 1:
                line.append(self._gap if number in self._right else padding + self._gap)
        return line
