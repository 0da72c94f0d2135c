"""The trace of one history: all requests, writes and events, with their virtual time."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Entry", "Trace"]


class Entry(NamedTuple):
    """An entry of the trace.

    Attributes:
        at: Virtual seconds since the beginning.
        actor: A replica, "people", or another part of the cluster.
        kind: "request", "write", "event", "fault" or "life".
        text: A description.
        objects: The objects concerned, as "resource namespace/name".
        place: The place in the program, if it is known.
    """

    at: float
    actor: str
    kind: str
    text: str
    objects: tuple[str, ...] = ()
    place: str = ""

    def line(self) -> str:
        """Format the entry as a line."""
        place = f"   <- {self.place}" if self.place else ""
        return f"{self.at:10.3f}  {self.actor:<10} {self.text}{place}"


class Trace:
    """The entries, in order."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, at: float, actor: str, kind: str, text: str, objects: tuple[str, ...] = (), place: str = "") -> None:
        """Append an entry."""
        self.entries.append(Entry(at, actor, kind, text, objects, place))

    def text(self) -> str:
        """Return all lines. They are identical for equal schedules, byte for byte."""
        return "\n".join(entry.line() for entry in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Any:
        return iter(self.entries)
