"""The order of a table: the objects of a resource that a filter shows, sorted by a column.

An order is computed in slices, so that a large cache does not hold the event loop, and shared by all pages that ask for
the same. Under steady changes it takes a tenth of the time at most, because the next one waits for ten times as long.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from kinformer import KubeObject, LabelSelector, SelectorError
from kinformer.cli.dashboard.view.rows import Row, Rows

__all__ = ["Orders", "PageFilter", "Query", "QueryResult", "pause_after", "rank_of"]

Breathe = Callable[[], Awaitable[None]]
"""Lets other tasks run, if this one has held the event loop for long enough."""

Place = tuple[tuple[int, int, float, str], str]
"""What an object is sorted by, and its key."""

_KEPT = 8  # orders, of the pages that are open and of those that were left just now
_RUN = 4096  # objects sorted at once
_SHARE = 10  # times as long as an order took until the next one is computed
_SHORTEST, _LONGEST = 0.25, 2.0  # seconds until the next one
_LEVELS = {level: place for place, level in enumerate(("bad", "busy", "good", "over"))}
_TONED = ("STATUS", "READY")  # columns sorted by the level first
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)")


@dataclass(frozen=True)
class PageFilter:
    """The objects that a page shows.

    Attributes:
        text: Words that the key, cells or owner contain.
        labels: A label selector. An invalid one matches nothing.
        namespace: The namespace, or "" for all.
        level: The level, or "" for all.
    """

    text: str = ""
    labels: str = ""
    namespace: str = ""
    level: str = ""

    @cached_property
    def _words(self) -> list[str]:
        return self.text.lower().split()

    @cached_property
    def _selector(self) -> LabelSelector | None:
        try:
            return LabelSelector.parse(self.labels)
        except SelectorError:
            return None

    def shows(self, obj: KubeObject, rows: Rows) -> bool:
        """Return True if a page shows the object."""
        if self.namespace and obj.namespace and obj.namespace != self.namespace:
            return False
        if self.labels and not (self._selector is not None and self._selector.matches(obj.labels)):
            return False
        if self.level and rows.of(obj).level != self.level:
            return False
        if not self._words:
            return True
        text = rows.of(obj).text
        return all(word in text for word in self._words)


@dataclass(frozen=True, slots=True)
class Query:
    """What a table shows: a resource, filtered and sorted.

    Attributes:
        resource: The name of the resource.
        sort: A column, with a minus sign in front for the opposite order.
        filter: The filter.
    """

    resource: str
    sort: str
    filter: PageFilter


@dataclass(slots=True)
class QueryResult:
    """The result of a query.

    `Orders.get` computes it anew under `lock`. A `ViewStream` removes the keys of objects that have gone since.

    Attributes:
        keys: The keys of all objects that it shows, in order.
        changes: The changes of the rows that it includes.
        rows: The rows from which it was computed, or None at first.
        due: The time from which it may be computed again.
        lock: Held while it is computed.
    """

    keys: list[str] = field(default_factory=list)
    changes: int = -1
    rows: Rows | None = None
    due: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Orders:
    """The results of the latest queries."""

    def __init__(self) -> None:
        self._results: OrderedDict[Query, QueryResult] = OrderedDict()

    async def get(self, query: Query, rows: Rows, columns: list[str], breathe: Breathe) -> QueryResult:
        """Return the result of a query. It may be older than the last change, but not for long."""
        result = self._results.setdefault(query, QueryResult())
        self._results.move_to_end(query)
        if len(self._results) > _KEPT:
            self._results.popitem(last=False)
        async with result.lock:
            if result.rows is not rows or (result.changes != rows.changes and time.monotonic() >= result.due):
                changes, began = rows.changes, time.thread_time()
                result.keys = await _ordered(query, rows, columns, breathe)
                result.rows, result.changes = rows, changes
                result.due = time.monotonic() + pause_after(time.thread_time() - began)
        return result

    def clear(self) -> None:
        """Forget all results."""
        self._results.clear()


def pause_after(seconds: float) -> float:
    """Return the seconds until work that took so long may be repeated.

    The first time also makes the rows of all objects, which must not delay the second for long.
    """
    return min(_LONGEST, max(_SHORTEST, _SHARE * seconds))


async def _ordered(query: Query, rows: Rows, columns: list[str], breathe: Breathe) -> list[str]:
    descends, column = query.sort.startswith("-"), query.sort.removeprefix("-")
    value_of = _values(column, columns, rows)
    runs: list[list[Place]] = [[]]
    for obj in rows.objects():
        if query.filter.shows(obj, rows):
            if len(runs[-1]) >= _RUN:
                runs.append([])
            runs[-1].append((value_of(obj), obj.key))
        await breathe()
    # Stable sorts, so that objects with equal values are in the order of their keys, in both directions.
    places = await _merged(await _runs_by_key(runs, breathe), itemgetter(0), breathe, descends=descends)
    return [key for _, key in places]


async def _runs_by_key(runs: list[list[Place]], breathe: Breathe) -> list[list[Place]]:
    by_key = await _merged(runs, itemgetter(1), breathe)
    return [by_key[start : start + _RUN] for start in range(0, len(by_key), _RUN)]


async def _merged(
    runs: list[list[Place]], key: Callable[[Place], object], breathe: Breathe, *, descends: bool = False
) -> list[Place]:
    """Sort each run, and merge neighbours until one is left. Python's sort merges two sorted halves in one pass."""
    for run in runs:
        run.sort(key=key, reverse=descends)  # type: ignore[arg-type]
        await breathe()
    while len(runs) > 1:
        merged = []
        for first, second in zip(runs[::2], [*runs[1::2], []], strict=False):
            both = first + second
            both.sort(key=key, reverse=descends)  # type: ignore[arg-type]
            merged.append(both)
            await breathe()
        runs = merged
    return runs[0] if runs else []


def _values(column: str, columns: list[str], rows: Rows) -> Callable[[KubeObject], tuple[int, int, float, str]]:
    """Return a function that returns what an object is sorted by: its level, then numbers before words."""
    if column == "NAMESPACE":
        return lambda obj: (0, 0, 0.0, obj.namespace)
    if column == "AGE":
        return lambda obj: (0, 0, -float(rows.of(obj).created), "")
    if column not in columns:
        return lambda obj: (0, 0, 0.0, obj.name)
    place, toned = columns.index(column), column in _TONED

    def value_of(obj: KubeObject) -> tuple[int, int, float, str]:
        row = rows.of(obj)
        return rank_of(row) if toned else 0, *_comparable(row, place)

    return value_of


def rank_of(row: Row) -> int:
    """Return the place of a row's level, the worst first."""
    return _LEVELS.get(row.level, len(_LEVELS))


def _comparable(row: Row, place: int) -> tuple[int, float, str]:
    cell = row.cells[place] if place < len(row.cells) else ""
    if not isinstance(cell, str) and not cell[0]:
        return 0, -cell[1], ""  # an age, the shortest first
    text = row.cell(place)
    number = _NUMBER.match(text)
    return (0, float(number[0]), text) if number else (1, 0.0, text)
