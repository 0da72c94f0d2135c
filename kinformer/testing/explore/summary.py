"""The summary of an exploration that found nothing: what it has tried, and what it has not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from kinformer.testing.explore.faults import Fault
from kinformer.testing.explore.history import History
from kinformer.testing.explore.schedule import Point

__all__ = ["Summary"]

_LISTED = 12  # points that a line names at most


class Summary:
    """Counts the histories, the faults, and the points that they reached.

    Args:
        faults: The faults that the exploration chooses from.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        self._by_faults: Counter[int] = Counter()  # histories by number of faults
        self._struck: Counter[Point] = Counter()
        self._reached: dict[Point, int] = {}
        self._names: dict[int, str] = {}
        self.histories = 0

    def note(self, history: History) -> None:
        """Add a history."""
        self.histories += 1
        struck = history.struck()
        self._by_faults[sum(struck.values())] += 1
        self._struck += struck
        self._names |= history.names()
        for point, count in history.points.items():
            if any(fault.strikes_at(point.verb, point.resource) for fault in self._faults):
                self._reached[point] = max(count, self._reached.get(point, 0))

    def text(self, name: str) -> str:
        """Return the summary, in one to three lines."""
        total, struck = sum(self._reached.values()), len(self._struck)
        single, more = self._by_faults[1], sum(count for faults, count in self._by_faults.items() if faults > 1)
        histories = f"{_counted(self.histories, 'history', 'histories')} ({single} with one fault, {more} with several)"
        faults = f"{_counted(self._struck.total(), 'fault')} at {struck} of {_counted(total, 'point')}"
        lines = [f"explored {name}: {histories}, {faults}"]
        if spared := self._spared():
            lines.append(f"  no fault struck at: {_listed(spared)}")
        if missed := self._missed():
            lines.append(f"  never reached: {_listed(missed)}")
        return "\n".join(lines)

    def _spared(self) -> list[str]:
        """Return the points at which no fault struck, by kind."""
        spared = []
        for point, count in self._reached.items():
            points = (msgspec.structs.replace(point, number=number) for number in range(count))
            left = sum(1 for visit in points if visit not in self._struck)
            if left:
                spared.append(f"{self._described(point)} ({left} of {count})")
        return spared

    def _missed(self) -> list[str]:
        """Return the kinds of points that a replica never reached, unlike another one of the same program."""
        kinds: dict[str, dict[tuple[str, str], None]] = {}
        for point in self._reached:
            program = self._names[point.replica].rpartition(" ")[0]
            kinds.setdefault(program, {})[point.verb, point.resource] = None
        return [
            self._described(point)
            for index, name in sorted(self._names.items())
            for verb, resource in kinds.get(name.rpartition(" ")[0], ())
            if (point := Point(index, verb, resource)) not in self._reached
        ]

    def _described(self, point: Point) -> str:
        return f"{self._names[point.replica]} {point.verb} {point.resource}"


def _listed(texts: list[str]) -> str:
    shown = ", ".join(texts[:_LISTED])
    return f"{shown}, and {len(texts) - _LISTED} more" if len(texts) > _LISTED else shown


def _counted(number: int, singular: str, plural: str = "") -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
