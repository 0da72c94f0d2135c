"""Writes objects as aligned lines, coloured on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.text import Text

from kinformer import KubeObject
from kinformer.cli.output.columns import ColumnSet, columns_of
from kinformer.cli.output.documents import object_name
from kinformer.cli.output.text import clean
from kinformer.client import APIResource
from kinformer.exceptions import DecodeError
from kinformer.kinds.rows.cells import labels_of
from kinformer.objects import showable
from kinformer.objects.accessors import value_at

__all__ = ["Columns", "Ink", "Table", "clean", "status_style"]

_GAP = "   "  # as kubectl's
_LINES = 512  # lines per write
_ROOM = {"EVENT": 7, "NAMESPACE": 11, "NAME": 24, "STATUS": 17, "NODE": 10}  # cells reserved for the events of a watch

_STYLES = {
    "green": "Running Ready Active Bound Available ADDED True Healthy",
    "yellow": "Pending Creating ContainerCreating PodInitializing Terminating Suspended Released Unknown UPDATED",
    "red": "Failed Error CrashLoopBackOff ImagePullBackOff ErrImagePull NotReady OOMKilled Evicted Lost DELETED False",
    "bright_black": "Completed Succeeded Complete SYNC",
}
_STYLE_OF = {word: style for style, words in _STYLES.items() for word in words.split()}
_COLOURED = ("EVENT", "STATUS")


def status_style(word: str) -> str:
    """Return the colour of a status or event type: green for healthy, yellow in progress, red failed, grey finished."""
    word = word.partition(",")[0]
    if word.startswith("Init:"):
        return "yellow" if word[5:6].isdigit() else "red"
    return _STYLE_OF.get(word, "")


class Ink:
    """Renders styled text for stdout, in colour on a terminal unless NO_COLOR is set."""

    def __init__(self) -> None:
        self._console = Console(file=sys.stdout, highlight=False)
        self.colour = self._console.is_terminal and not self._console.no_color
        self.width = self._console.width if self._console.is_terminal else None

    def render(self, text: Text) -> str:
        """Return the string to write. Nothing is wrapped."""
        if not self.colour:
            return text.plain
        with self._console.capture() as capture:  # rich's own print would end the program when a pipe is closed
            self._console.print(text, end="", soft_wrap=True)
        return capture.get()


class Columns:
    """The cells of the objects of one resource.

    Args:
        resource: The resource of the objects.
        with_namespace: Begin with a NAMESPACE column.
        with_type: Write names as `pod/web-1`, to tell resources apart.
        with_labels: End with a LABELS column.
        wide: Add the columns of `-o wide`.
        own: The columns between NAME and LABELS, or None for the columns of the kind.
        custom: The only columns besides LABELS, instead of NAMESPACE, NAME and those of the kind.

    Attributes:
        resource: The resource.
        header: The names of the columns.
        cuttable: The columns with names and other text, which a narrow screen may cut.
    """

    def __init__(
        self,
        resource: APIResource,
        *,
        with_namespace: bool,
        with_type: bool = False,
        with_labels: bool = False,
        wide: bool = False,
        own: ColumnSet | None = None,
        custom: ColumnSet | None = None,
    ) -> None:
        self.resource = resource
        self._own = custom or own or columns_of(resource.group, resource.kind, wide=wide)
        self._with_labels = with_labels
        self._with_namespace = with_namespace
        self._with_type = with_type
        self._with_name = custom is None
        first = [*(["NAMESPACE"] if with_namespace else []), "NAME"] if self._with_name else []
        self.header = [*first, *self._own.names, *(["LABELS"] if with_labels else [])]
        self.cuttable = self._own.cuttable.union(["NAMESPACE", "NAME", "LABELS"]).intersection(self.header)

    def row(self, obj: KubeObject) -> list[str]:
        """Return the cells of an object, or only its name if it is nested too deeply to be decoded."""
        names: list[str] = []
        if self._with_name:
            name = object_name(self.resource, obj) if self._with_type else obj.name
            names = [*([obj.namespace] if self._with_namespace else []), name]
        try:
            document = showable(obj).to_dict()
        except DecodeError:
            return [clean(cell) for cell in (*names, *("<unreadable>" for _ in self.header[len(names) :]))]
        labels = [labels_of(value_at(document, "metadata", "labels"))] if self._with_labels else []
        return [clean(cell) for cell in (*names, *self._own.cells(document), *labels)]


class Table:
    """Writes objects of one resource to stdout, one per line, under a header.

    Columns fit the objects given to `fit`. A wider cell widens its column from that line on. Text is coloured on a
    terminal unless NO_COLOR is set.

    Args:
        columns: The columns of the resource.
        with_event: Put an EVENT column before all others.
        headers: False omits the column names.
    """

    def __init__(self, columns: Columns, *, with_event: bool = False, headers: bool = True) -> None:
        self._columns = columns
        self._header = [*(["EVENT"] if with_event else []), *self._columns.header]
        self._widths = [len(name) for name in self._header]
        if with_event:
            self._widths = [max(len(name), _ROOM.get(name, 0)) for name in self._header]
        self._coloured = {number for number, name in enumerate(self._header) if name in _COLOURED}
        self._ink = Ink()
        self._headed = not headers  # True once there is no header left to write

    def fit(self, objects: Iterable[KubeObject]) -> None:
        """Make the columns wide enough for these objects."""
        offset = len(self._header) - len(self._columns.header)
        for obj in objects:
            self._widen(self._row(obj), offset)

    def write(self, obj: KubeObject, event: str | None = None) -> None:
        """Write one line, preceded by the header if it is the first."""
        self._print([self._row(obj, event)])

    def write_below(self, line: Text) -> None:
        """Write another kind of line, such as a difference, below the last."""
        sys.stdout.write(f"{self._ink.render(line)}\n")
        sys.stdout.flush()

    def write_all(self, objects: Sequence[KubeObject]) -> None:
        """Write a list, with columns that fit its objects."""
        rows = [self._row(obj) for obj in objects]
        for row in rows:
            self._widen(row)
        for start in range(0, len(rows), _LINES):
            self._print(rows[start : start + _LINES])

    def _row(self, obj: KubeObject, event: str | None = None) -> list[str]:
        return [*([event] if event else []), *self._columns.row(obj)]

    def _widen(self, row: Sequence[str], offset: int = 0) -> None:
        for number, cell in enumerate(row[:-1], offset):  # the last column is not padded
            self._widths[number] = max(self._widths[number], cell_len(cell))

    def _print(self, rows: Sequence[list[str]]) -> None:
        lines = []
        if not self._headed:
            self._headed = True
            lines.append(self._paint("bold", self._line(self._header)))
        for row in rows:
            self._widen(row)
            lines.append(self._line(row))
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()

    def _line(self, row: Sequence[str]) -> str:
        parts = []
        for number, cell in enumerate(row):
            padding = " " * (self._widths[number] - cell_len(cell)) if number < len(row) - 1 else ""
            style = status_style(cell) if number in self._coloured else ""
            parts.append(self._paint(style, cell) + padding)
        return _GAP.join(parts)

    def _paint(self, style: str, text: str) -> str:
        if not (self._ink.colour and style):
            return text
        return Style.parse(style).render(text, color_system=ColorSystem.STANDARD)
