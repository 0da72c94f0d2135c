"""The trace of one history: all requests, writes and events, with their virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

__all__ = ["Entry", "Trace", "TraceDifference"]


class Entry(NamedTuple):
    """An entry of the trace.

    Attributes:
        at: Virtual seconds since the beginning.
        actor: A replica, "people", or another part of the cluster.
        kind: "request", "write", "event", "fault" or "life".
        text: A description.
        objects: The objects concerned, as "resource namespace/name".
        place: The place in the program, if it is known.
        content: The object that was written, or None.
    """

    at: float
    actor: str
    kind: str
    text: str
    objects: tuple[str, ...] = ()
    place: str = ""
    content: Any = None

    def line(self) -> str:
        """Format the entry as a line."""
        place = f"   <- {self.place}" if self.place else ""
        return f"{self.at:10.3f}  {self.actor:<10} {self.text}{place}"


class TraceDifference(NamedTuple):
    """The first difference between two traces.

    Attributes:
        step: The number of entries that are equal before it.
        entries: The entry of each trace, or None after its end.
        field: If only the written objects differ, the first field that does.
        values: Its values, or None if it is missing.
    """

    step: int
    entries: tuple[Entry | None, Entry | None]
    field: str = ""
    values: tuple[Any, Any] = (None, None)

    @property
    def objects(self) -> tuple[str, ...]:
        """The objects of both entries."""
        return tuple(dict.fromkeys(name for entry in self.entries if entry is not None for name in entry.objects))

    def lines(self) -> list[str]:
        """Format both entries as lines."""
        lines = []
        for which, entry, value in zip(("first", "second"), self.entries, self.values, strict=True):
            lines += [f"{which} time:", f"{'':22} nothing" if entry is None else entry.line()]
            if self.field:
                lines.append(f"{'':22} {self.field}: {value!r}")
        return lines


class Trace:
    """The entries of one history, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(
        self,
        at: float,
        actor: str,
        kind: str,
        text: str,
        objects: tuple[str, ...] = (),
        place: str = "",
        content: Any = None,
    ) -> None:
        """Append an entry."""
        self.entries.append(Entry(at, actor, kind, text, objects, place, content))

    def text(self) -> str:
        """Return all lines. They are identical for equal schedules, byte for byte."""
        return "\n".join(entry.line() for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Any:
        return iter(self.entries)

    def difference(self, other: Trace) -> TraceDifference | None:
        """Return the first difference from another trace of the same schedule, or None if they are equal."""
        for step, (mine, its) in enumerate(zip_longest(self.entries, other.entries)):
            # Places are left out, because not every history notes them. The contents are compared by field below.
            if mine is None or its is None or mine[:5] != its[:5]:
                return TraceDifference(step, (mine, its))
            if mine.content != its.content:
                field, values = next(_differing(mine.content, its.content))
                return TraceDifference(step, (mine, its), field, values)
        return None


def _differing(value: Any, other: Any, path: str = "") -> Iterator[tuple[str, tuple[Any, Any]]]:
    if isinstance(value, dict) and isinstance(other, dict):
        for name in {**value, **other}:
            yield from _differing(value.get(name), other.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and isinstance(other, list) and len(value) == len(other):
        for number, pair in enumerate(zip(value, other, strict=True)):
            yield from _differing(*pair, f"{path}[{number}]")
    elif value != other:
        yield path, (value, other)
