"""Shows the objects of a watch as a table that changes in place and highlights recent changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from kinformer import InformerEvent, InformerHealth, KubeObject
from kinformer.cli.output.columns import Order
from kinformer.cli.output.differences import difference_lines
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.live_frame import TableFilter, foot, head, keys
from kinformer.cli.output.tables import Columns, clean, status_style

__all__ = ["LiveTable"]

_FRESH = 4.0  # seconds for which a change is highlighted
_LOW = 8  # lines of a screen without room for differences
_LOG = 500  # lines of differences to keep
_MARKS = {"ADDED": ("+", "green"), "UPDATED": ("~", "yellow"), "DELETED": ("-", "red")}

_Place = tuple[int, str, str]  # section, namespace and name. `a-b/x` follows `a/x`, but a key would sort it before
_Key = tuple[Any, ...]  # begins with the section, and ends with namespace and name


class LiveTable:
    """The screen of some informers: their objects and changes.

    `apply` changes the objects. `press` changes the position, the order and the filter. `picture` forgets changes that
    are no longer highlighted.

    Args:
        sections: The columns of each resource. Each section of the table shows one resource.
        title: The title for the watched resource.
        noise: Paths that differences leave out, or None to show no differences.
        clock: Returns seconds.
        order: The order of the objects in a section, or None for namespace and name.
        headers: False omits the column names.
    """

    def __init__(
        self,
        sections: Sequence[Columns],
        *,
        title: str,
        noise: frozenset[str] | None,
        clock: Callable[[], float],
        order: Order | None = None,
        headers: bool = True,
    ) -> None:
        self._sections = sections
        self._title = title
        self._noise = noise
        self._clock = clock
        self._sorting = order
        self._headers = headers
        self._grids = [Grid([" ", *columns.header], names=columns.cuttable) for columns in sections]
        self._objects: dict[_Place, KubeObject] = {}
        self._keys: dict[_Place, _Key] = {}
        self._order: list[_Key] = []
        # The last change of each object, until it is _FRESH seconds old.
        self._changed: dict[_Place, tuple[float, str, KubeObject | None]] = {}
        self._latest: dict[_Place, None] = {}  # in the order of the last change
        self._changes = 0
        self._log: deque[Text] = deque(maxlen=_LOG)
        self._filter = TableFilter()
        self._texts: dict[_Place, str] = {}  # the text searched by the filter, created on first use
        self._first = 0  # the index of the first object on the screen
        self._by_change = False
        self._page = 1  # the number of objects on the screen
        self._wrapper = Console(width=80, force_terminal=False)

    def apply(self, event: InformerEvent, section: int = 0) -> None:
        """Apply one change of the cache of a section's informer."""
        obj = event.object
        place = (section, obj.namespace, obj.name)
        self._texts.pop(place, None)
        key = self._keys.pop(place, None)
        if key is not None:
            del self._order[bisect_left(self._order, key)]
        if event.type == "DELETED":
            self._objects.pop(place, None)
            self._latest.pop(place, None)
        else:
            self._keys[place] = self._key(section, obj)
            insort(self._order, self._keys[place])
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

    def _key(self, section: int, obj: KubeObject) -> _Key:
        return (section, *(self._sorting.key(obj) if self._sorting else (obj.namespace, obj.name)))

    def press(self, key: str) -> bool:
        """Handle a key: scroll, change the order, or filter. Returns False if the key has no meaning."""
        if self._filter.press(key):
            return True
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": -self._page, "page down": self._page, " ": self._page}
        if key in steps:
            self._first += steps[key]
        elif key in ("home", "g"):
            self._first = 0
        elif key in ("end", "G"):
            self._first = len(self._objects)
        elif key == "s":
            self._by_change, self._first = not self._by_change, 0
        else:
            return False
        return True

    # --- the picture -------------------------------------------------------------------------------------

    def picture(self, width: int, height: int, informers: Sequence[tuple[str, InformerHealth]]) -> RenderableType:
        """Draw the whole screen.

        Args:
            width, height: The size of the terminal in cells.
            informers: The name and the health of each informer.
        """
        now = self._clock()
        for place in [place for place, (at, _, _) in self._changed.items() if now - at > _FRESH]:
            del self._changed[place]
        top = head(self._title, len(self._objects), self._changes, informers, width)
        if self._sorting is not None and self._objects and not self._sorting.matched:
            unsorted = f" --sort-by {clean(self._sorting.path)}: no object has a value there"
            top.append(Text(unsorted, "yellow", no_wrap=True, overflow="ellipsis"))
        log_lines = 0 if self._noise is None or height < _LOW else max(3, height // 3)
        top = top[: max(1, height - 3)]
        room = max(1, height - len(top) - 1 - log_lines)  # excluding the lines above and the footer
        places = self._places()
        lines = keys(width)[:room] if self._filter.helping else self._body(places, room, width)
        lines += [Text()] * (room - len(lines))
        if log_lines:
            lines += self._log_lines(log_lines, width)
        hidden = [name for grid in self._grids for name in grid.hidden]
        shown = (self._first, self._page, len(places), len(self._objects))
        below = foot(shown, self._filter, width, by_change=self._by_change, hidden=hidden)
        return Group(*top, *lines[: height - len(top) - 1], below)

    def _body(self, places: Sequence[_Place], room: int, width: int) -> list[Text]:
        """Return the lines of the objects that fit, each section below its header."""
        header = 1 if self._headers else 0
        shown = len(places)
        while True:  # each additional section needs another header line
            self._page = max(1, min(shown, room - header))
            first = max(0, min(self._first, len(places) - self._page))
            window = places[first : first + self._page]
            sections = sorted({section for section, _, _ in window}) or [0]
            taken = len(window) + header * len(sections)
            if taken <= room or self._page <= 1:
                break
            shown = self._page - (taken - room)
        self._first = first
        lines = []
        for section in sections:
            rows = [self._row(place) for place in window if place[0] == section]
            lines += self._grids[section].lines(rows, width)[0 if self._headers else 1 :]
        return lines

    def _places(self) -> list[_Place]:
        """Return the places of all current and just deleted objects that match the filter."""
        keys = list(self._order)
        for (section, _, _), (_, kind, obj) in self._changed.items():
            if kind == "DELETED" and obj is not None:
                insort(keys, self._key(section, obj))
        places: list[_Place] = [(key[0], key[-2], key[-1]) for key in keys]
        if self._by_change:
            latest = {place: number for number, place in enumerate(self._latest)}
            gone = {place for place, (_, kind, _) in self._changed.items() if kind == "DELETED"}
            last = len(latest)
            places.sort(key=lambda place: (place[0], -last if place in gone else -latest.get(place, -1)))
        if self._filter.text:
            text = self._filter.text.casefold()
            places = [place for place in places if text in self._text(place)]
        return places

    def _text(self, place: _Place) -> str:
        if place not in self._texts:
            obj = self._objects.get(place) or self._changed[place][2]
            assert obj is not None  # a place is in one of the two
            self._texts[place] = " ".join((obj.namespace, *self._sections[place[0]].row(obj))).casefold()
        return self._texts[place]

    def _row(self, place: _Place) -> list[Cell]:
        columns = self._sections[place[0]]
        _, kind, before = self._changed.get(place, (0.0, "", None))
        obj = self._objects.get(place) or before
        assert obj is not None  # a place is in one of the two
        values = columns.row(obj)
        if kind == "DELETED":
            return [Cell("-", "red"), *(Cell(value, "red strike") for value in values)]
        old = columns.row(before) if before is not None else values
        mark, style = _MARKS.get(kind, ("", ""))
        cells = [Cell(mark, style)]
        for name, value, was in zip(columns.header, values, old, strict=True):
            if kind == "ADDED" and name == "NAME":
                cells.append(Cell(value, "green"))
            elif value != was and name not in ("AGE", "LAST SEEN"):
                cells.append(Cell(value, "bold reverse"))
            else:
                cells.append(Cell(value, status_style(value) if name == "STATUS" else ""))
        return cells

    def _log_lines(self, count: int, width: int) -> list[Text]:
        rule = "── what changed "
        lines = [Text(rule + "─" * max(0, width - len(rule)), style="bright_black")]
        log: list[Text] = []
        for line in list(self._log)[-count:]:
            log += line.wrap(self._wrapper, width)
        log = log[-(count - 1) :]
        return [*lines, *log, *[Text()] * (count - 1 - len(log))]

    def _note(self, event: InformerEvent, noise: frozenset[str]) -> None:
        mark, style = _MARKS.get(event.type, ("", ""))
        self._log.append(Text(f"{mark} {clean(event.object.key)}", f"bold {style}"))
        if event.type == "UPDATED" and event.old is not None:
            self._log.extend(difference_lines(event.old, event.object, noise))
