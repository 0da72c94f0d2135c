"""The lines above and below a live table: counts, outages, keys, and the filter."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from kinformer import InformerHealth
from kinformer.cli.output.errors import one_line
from kinformer.cli.output.text import clean, middle

__all__ = ["TableFilter", "flowing", "foot", "head", "keys"]

_STATES = {"watching": "green", "polling": "green", "listing": "yellow", "starting": "yellow"}
_LEAST_TITLE = 24  # cells. If a title would be cut below this, the figures move to their own line
_GAP = "   "


_KEYS = (
    ("/", "filter; Enter keeps it, Escape clears it"),
    ("s", "latest change first, or by name"),
    ("up down, k j", "scroll by a line"),
    ("Page Up, Page Down, space", "scroll by a page"),
    ("Home End, g G", "first, last"),
    ("q, Ctrl-D, Ctrl-C", "end"),
    ("?", "show or hide the keys"),
)


class TableFilter:
    """The user's filter, which `press` changes.

    `/` starts editing, Enter keeps it, and Escape clears it. `?` shows the keys.

    Attributes:
        text: The filter text. "" matches everything.
        typing: True while it is being edited.
        helping: True while the keys are shown instead of the objects.
    """

    def __init__(self) -> None:
        self.text = ""
        self.typing = False
        self.helping = False

    def press(self, key: str) -> bool:
        """Handle a key. Returns False if it is not for the filter."""
        if key == "?" and not self.typing:
            self.helping = not self.helping
            return True
        if self.helping and key == "escape":
            self.helping = False
            return True
        if key == "escape":
            used = self.typing or bool(self.text)
            self.text, self.typing = "", False
            return used
        if not self.typing:
            self.typing = key == "/"
            return self.typing
        if key == "enter":
            self.typing = False
        elif key == "backspace":
            self.text, self.typing = self.text[:-1], bool(self.text)
        elif len(key) == 1 and key.isprintable():
            self.text += key
        else:
            return False
        return True


def head(
    title: str, objects: int, changes: int, informers: Sequence[tuple[str, InformerHealth]], width: int
) -> list[Text]:
    """Return the lines above the table. The title may be cut in the middle. Figures and reasons are never cut.

    Args:
        title: The title for the watched resource.
        objects, changes: The numbers of objects and changes.
        informers: The name and the health of each informer.
        width: Of the screen, in cells.
    """
    # Show the informer in the worst state: one that does not follow its server precedes one that does.
    _, worst = min(informers, key=lambda informer: (informer[1].live, informer[1].state == "watching"))
    state = worst.state.replace("_", " ")
    figures = [
        Text(f"{objects:,} object{'' if objects == 1 else 's'}", "bold"),
        Text(f"{changes:,} change{'' if changes == 1 else 's'}"),
        Text(state, _STATES.get(worst.state, "bold red") if worst.live else "bold red"),
    ]
    ages = [health.last_event_age for _, health in informers if health.last_event_age is not None]
    if ages and worst.live:
        figures.append(Text(f"last event {min(ages):.0f} s ago", "bright_black"))
    words = clean(title)
    for some in (figures, figures[:3]):
        beside = Text(_GAP).join(some)
        room = width - 4 - beside.cell_len  # for the title and surrounding spaces
        if room >= cell_len(words):
            break
    if room >= min(_LEAST_TITLE, cell_len(words)):
        lines = [Text.assemble((f" {middle(words, room)} ", "bold reverse cyan"), "  ", beside, no_wrap=True)]
    else:
        lines = [Text(f" {middle(words, width - 2)} ", "bold reverse cyan", no_wrap=True)]
        whole = Text(_GAP).join(figures).cell_len < width
        lines += flowing(figures if whole else figures[:3], width)
    for what, health in informers:
        if not health.live and health.last_error is not None:
            beginning = f"{what} is " if len(informers) > 1 else ""
            reason = f" {beginning}as it was before: {clean(one_line(health.last_error))}"
            wrapped = textwrap.wrap(reason, width, subsequent_indent=" ", break_on_hyphens=False)
            lines += [Text(line, "red", no_wrap=True) for line in wrapped]
    return lines


def flowing(parts: Sequence[Text], width: int) -> list[Text]:
    """Return the parts side by side, on as many lines as needed."""
    lines = [Text(" ", no_wrap=True)]
    for part in parts:
        if lines[-1].cell_len > 1 and lines[-1].cell_len + len(_GAP) + part.cell_len > width:
            lines.append(Text(" ", no_wrap=True))
        lines[-1].append(_GAP if lines[-1].cell_len > 1 else "")
        lines[-1].append_text(part)
    return lines


def keys(width: int) -> list[Text]:
    """Return the lines that explain the keys and marks."""
    depth = max(len(key) for key, _ in _KEYS) + len(_GAP)
    lines = [Text.assemble((f"  {key.ljust(depth)}", "bold"), what) for key, what in _KEYS]
    marks = "  + new   ~ changed, with the changed cells   - deleted, each for four seconds"
    for line in (shown := [Text(), *lines, Text(), Text(marks, "bright_black")]):
        line.truncate(width)
        line.no_wrap = True
    return shown


def foot(
    shown: tuple[int, int, int, int], filtering: TableFilter, width: int, *, by_change: bool, hidden: Sequence[str]
) -> Text:
    """Return the line below the table.

    Args:
        shown: The index of the first object, and the numbers of objects on the screen, in the filter, and in total.
        filtering: The filter.
        width: Of the screen, in cells.
        by_change: True if the latest change comes first.
        hidden: The omitted columns.
    """
    first, page, matching, total = shown
    if filtering.typing:
        parts = [f"/{clean(filtering.text)}▏", f"{matching:,} of {total:,}", "Enter keeps", "Escape clears"]
        return _kept(parts, width, 2)
    scrolled = f"{first + 1:,}-{min(first + page, matching):,} of {matching:,}" if page < matching else ""
    filtered = f"/{clean(filtering.text)}: {matching:,} of {total:,}" if filtering.text else ""
    left_out = f"too narrow for {', '.join(dict.fromkeys(hidden))}" if hidden else ""
    if filtering.helping:
        return _kept(["q ends", "? or Escape hides the keys"], width, 1)
    order = "s by name" if by_change else "s latest change first"
    clears = "Escape clears" if filtering.text else "/ filters"
    whole = [scrolled, filtered, "q ends", left_out, "? keys", clears, order]
    return _kept([*filter(None, whole), "arrows scroll"], width, sum(map(bool, whole[:3])))


def _kept(parts: Sequence[str], width: int, needed: int) -> Text:
    """Return the parts that fit. The first `needed` parts are always included."""
    kept = ""
    for number, part in enumerate(parts):
        longer = f"{kept}{_GAP if kept else ' '}{part}"
        if number < needed or cell_len(longer) <= width - 1:
            kept = longer
    line = Text(kept, "bright_black", no_wrap=True, end="")
    line.truncate(width)
    return line
