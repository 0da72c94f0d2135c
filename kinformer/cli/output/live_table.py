"""The objects of a watch as a table that changes in place and marks the latest changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from kinformer import DecodeError, InformerEvent, InformerHealth, KubeObject
from kinformer.cli.output.differences import in_words, object_differences
from kinformer.cli.output.errors import one_line
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.tables import Columns, clean, status_style

__all__ = ["LiveTable"]

_FRESH = 4.0  # seconds for which a change can be seen
_LOW = 8  # lines of a screen that has no room for differences
_LOG = 500  # lines of differences that are kept
_MARKS = {"ADDED": ("+", "green"), "UPDATED": ("~", "yellow"), "DELETED": ("-", "red")}
_SIGNS = {"+": "green", "-": "red", "~": "yellow"}
_HELP = "arrows scroll   s latest change first   q ends"
_BY_NAME = "arrows scroll   s by name   q ends"
_STATES = {"watching": "green", "listing": "yellow", "starting": "yellow"}

_Order = tuple[str, str]  # namespace and name: `a-b/x` comes after `a/x`; by key it would come before


class LiveTable:
    """The screen of one informer: its objects and their changes.

    Args:
        columns: The columns of the resource.
        title: The words for what is watched.
        noise: Paths that differences leave out; None shows no differences.
        clock: Seconds.
    """

    def __init__(
        self, columns: Columns, *, title: str, noise: frozenset[str] | None, clock: Callable[[], float]
    ) -> None:
        self._columns = columns
        self._title = title
        self._noise = noise
        self._clock = clock
        self._grid = Grid([" ", *columns.header])
        self._objects: dict[_Order, KubeObject] = {}
        self._order: list[_Order] = []
        self._changed: dict[
            _Order, tuple[float, str, KubeObject | None]
        ] = {}  # the last change, until it is _FRESH seconds old
        self._latest: dict[_Order, None] = {}  # in the order of the last change
        self._changes = 0
        self._log: deque[Text] = deque(maxlen=_LOG)
        self._first = 0
        self._by_change = False
        self._page = 1

    def apply(self, event: InformerEvent) -> None:
        """Take in one change of the cache."""
        obj = event.object
        place = (obj.namespace, obj.name)
        if event.type == "DELETED":
            if self._objects.pop(place, None) is not None:
                del self._order[bisect_left(self._order, place)]
            self._latest.pop(place, None)
        else:
            if place not in self._objects:
                insort(self._order, place)
            self._objects[place] = obj
        if event.is_in_initial_list:
            return
        self._changes += 1
        self._changed[place] = (self._clock(), event.type, obj if event.type == "DELETED" else event.old)
        if event.type != "DELETED":
            self._latest.pop(place, None)
            self._latest[place] = None
        if self._noise is not None:
            self._note(event, self._noise)

    def press(self, key: str) -> None:
        """Handle a key: scroll, or change the order."""
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -self._page, "page down": self._page, " ": self._page}
        if key in steps:
            self._first += steps[key]
        elif key in ("home", "g"):
            self._first = 0
        elif key in ("end", "G"):
            self._first = len(self._objects)
        elif key == "s":
            self._by_change, self._first = not self._by_change, 0

    # --- the picture -------------------------------------------------------------------------------------

    def picture(self, width: int, height: int, health: InformerHealth) -> RenderableType:
        """Draw the whole screen."""
        now = self._clock()
        for place in [place for place, (at, _, _) in self._changed.items() if now - at > _FRESH]:
            del self._changed[place]
        log_lines = 0 if self._noise is None or height < _LOW else max(3, height // 3)
        room = max(1, height - 3 - log_lines)  # without title, header and footer
        places = self._places()
        self._page = max(1, room)
        self._first = max(0, min(self._first, len(places) - room))
        shown = places[self._first : self._first + room]
        lines = self._grid.lines([self._row(place) for place in shown], width)
        lines += [Text()] * (room + 1 - len(lines))
        log = list(self._log)[-(log_lines - 1) :] if log_lines else []
        if log_lines:
            rule = "── what changed "
            lines.append(Text(rule + "─" * max(0, width - len(rule)), style="bright_black"))
            lines += [_cropped(line) for line in log]
            lines += [Text()] * (log_lines - 1 - len(log))
        return Group(self._head(health, width), *lines, self._foot(len(shown), len(places), width))

    def _places(self) -> list[_Order]:
        """Return the places of all objects, and of those just deleted."""
        gone = [place for place, (_, kind, _) in self._changed.items() if kind == "DELETED"]
        if self._by_change:
            untouched = [place for place in self._order if place not in self._latest]
            return [*gone, *reversed(self._latest), *untouched]
        return sorted([*self._order, *gone]) if gone else self._order

    def _row(self, place: _Order) -> list[Cell]:
        _, kind, before = self._changed.get(place, (0.0, "", None))
        obj = self._objects.get(place) or before
        assert obj is not None  # a place is in one of the two
        texts = self._columns.row(obj)
        if kind == "DELETED":
            return [Cell("-", "red"), *(Cell(text, "red strike") for text in texts)]
        old = self._columns.row(before) if before is not None else texts
        mark, style = _MARKS.get(kind, ("", ""))
        cells = [Cell(mark, style)]
        for name, text, was in zip(self._columns.header, texts, old, strict=True):
            if kind == "ADDED" and name == "NAME":
                cells.append(Cell(text, "green"))
            elif text != was and name not in ("AGE", "LAST SEEN"):
                cells.append(Cell(text, "bold reverse"))
            else:
                cells.append(Cell(text, status_style(text) if name == "STATUS" else ""))
        return cells

    def _head(self, health: InformerHealth, width: int) -> Text:
        state = health.state.replace("_", " ")
        count = len(self._objects)
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append(f" {clean(self._title)} ", "bold reverse cyan")
        head.append(f"  {count:,} object{'' if count == 1 else 's'}", "bold")
        head.append(f"   {self._changes:,} change{'' if self._changes == 1 else 's'}   ")
        head.append(state, _STATES.get(health.state, "bold red") if health.live else "bold red")
        if not health.live and health.last_error is not None:
            head.append(f"  as it was before: {clean(one_line(health.last_error))}", "red")
        elif health.last_event_age is not None:
            head.append(f"   last event {health.last_event_age:.0f} s ago", "bright_black")
        head.truncate(width, overflow="ellipsis")
        return head

    def _foot(self, shown: int, total: int, width: int) -> Text:
        of = f"{self._first + 1:,}-{self._first + shown:,} of {total:,}   " if shown < total else ""
        foot = Text(f" {of}{_BY_NAME if self._by_change else _HELP}", "bright_black", no_wrap=True, end="")
        foot.truncate(width)
        return foot

    def _note(self, event: InformerEvent, noise: frozenset[str]) -> None:
        mark, style = _MARKS.get(event.type, ("", ""))
        self._log.append(Text(f"{mark} {clean(event.object.key)}", f"bold {style}"))
        if event.type == "UPDATED" and event.old is not None:
            self._log.extend(difference_lines(event.old, event.object, noise))


def difference_lines(old: KubeObject, new: KubeObject, noise: frozenset[str]) -> Sequence[Text]:
    """Describe an update, a line for each difference; one line if it is nested too deeply to be compared."""
    try:
        found = [in_words(difference, new) for difference in object_differences(old, new, noise)]
    except (DecodeError, RecursionError):
        return [Text("    <unreadable>", "bright_black")]
    if not found:
        return [Text("    nothing but what is left out", "bright_black")]
    lines = []
    for sign, path, values in found:
        lines.append(Text.assemble(f"    {sign} ", (f"{clean(path)}: ", _SIGNS[sign]), clean(values)))
    return lines


def _cropped(line: Text) -> Text:
    line = line.copy()
    line.no_wrap, line.overflow = True, "ellipsis"
    return line
