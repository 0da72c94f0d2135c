"""The rows of tables: an object's cells, its level and its age, in a fraction of the object's size."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from kinformer import KubeObject, SharedInformer
from kinformer.cli.dashboard.ticking import Ticking, ticking_cell
from kinformer.cli.output.columns import columns_of
from kinformer.contrib.event_log import EventLog
from kinformer.exceptions import DecodeError
from kinformer.kinds import severity_of
from kinformer.kinds.health.severity import Severity
from kinformer.objects import showable

__all__ = ["AllRows", "Row", "Rows", "column_names", "row_of"]

_MANY = 200  # changes to make rows of at once, which takes 20 ms
_SHORT = 64  # characters of a cell that many rows may share

_encode = msgspec.json.Encoder().encode


class Row(msgspec.Struct, gc=False):
    """The row of one version of an object. Only its level changes, when the time alone has made it bad.

    Attributes:
        key: The key of the object.
        version: Its uid and resourceVersion.
        cells: The cells between name and age. One with an age is a `Ticking`.
        created: The creation in seconds since 1970, or 0.
        owner: Kind and name of the controlling owner, or "".
        level: The level of its severity, now.
        changes_at: The time at which the level changes, if the object does not, or None.
        reason: The reason for the level in a few words.
        since: The time from which its state counts, if it does not tell.
    """

    key: str
    version: tuple[str, str]
    cells: list[str | Ticking]
    created: int
    owner: str
    level: str
    changes_at: float | None
    reason: str
    since: float

    @property
    def text(self) -> str:
        """The words that a filter by text looks at, in small letters."""
        return f"{self.key} {' '.join(map(plain, self.cells))} {self.owner}".lower()

    def cell(self, place: int) -> str:
        """Return the text of a cell without its age, or "" if there is none."""
        return plain(self.cells[place]) if 0 <= place < len(self.cells) else ""

    def shown(self) -> bytes:
        """Return the row as a page gets it."""
        row = {"k": self.key, "c": self.cells, "t": self.created, "v": self.version[1], "h": self.level}
        return _encode({**row, "w": self.reason} if self.reason else row)


def plain(cell: str | Ticking) -> str:
    """Return the text of a cell. If it has an age, the text before that."""
    return cell if isinstance(cell, str) else cell[0]


def column_names(group: str, kind: str) -> list[str]:
    """Return the column names of a row, without ages, which the page counts itself."""
    return [name for name in columns_of(group, kind).names if name != "AGE"]


def row_of(obj: KubeObject, since: float | None = None, now: float | None = None) -> Row:
    """Return the row of an object.

    Args:
        obj: The object.
        since: The time from which its state counts, if it does not tell. By default, now.
        now: The time in seconds since the epoch. By default, the machine's.
    """
    now = time.time() if now is None else now
    since = now if since is None else since
    group = obj.api_version.rpartition("/")[0]
    columns = columns_of(group, obj.kind)
    cells: list[str | Ticking]
    try:
        document = showable(obj).to_dict()
        cells = [
            _shared(ticking_cell(group, obj.kind, name, document) or cell)
            for name, cell in zip(columns.names, columns.cells(document), strict=True)
            if name != "AGE"
        ]
        created, severity = obj.creation_timestamp, severity_of(document, now=now, since=since)
    except DecodeError:  # nested too deeply
        cells = ["<unreadable>" for name in columns.names if name != "AGE"]
        created, severity = None, Severity("")
    owner = next((owner for owner in obj.owner_references if owner.controller), None)
    return Row(
        obj.key,
        (obj.uid, obj.resource_version),
        cells,
        int(created.timestamp()) if created is not None else 0,
        f"{owner.kind}/{owner.name}" if owner is not None else "",
        severity.level,
        severity.changes_at,
        severity.reason,
        since,
    )


def _shared(cell: str | Ticking) -> str | Ticking:
    return sys.intern(cell) if type(cell) is str and len(cell) <= _SHORT else cell


class Rows:
    """The rows of one resource. Each is made when it is first needed, and again when its object has changed.

    Attributes:
        informer: The informer of the resource.
        changes: A number that grows with each change of an object or of a level. `AllRows` raises it for objects.
    """

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.changes = 0
        self._made: dict[str, Row] = {}
        self._tally: Counter[str] = Counter()  # the rows of each level
        self._due: dict[str, Row] = {}  # the rows whose level depends on the time

    def of(self, obj: KubeObject) -> Row:
        """Return the row of an object of the cache."""
        made = self._made.get(obj.key)
        if made is not None and made.version[1] == obj.resource_version and made.version[0] == obj.uid:
            return made
        return self._make(obj, made, time.time())

    def _make(self, obj: KubeObject, made: Row | None, now: float) -> Row:
        """Make the row of an object, and again when its level changes with the time alone."""
        if made is not None:
            self._forget(made)
        # The state counts from now on, unless it was not well before.
        was_well = made is None or made.version[0] != obj.uid or made.level not in ("busy", "bad")
        row = self._made[obj.key] = row_of(obj, None if made is None or was_well else made.since, now)
        self._tally[row.level] += 1
        if row.changes_at is not None:
            self._due[row.key] = row
        return row

    def get(self, key: str) -> Row | None:
        """Return the row of the object with a key, or None if the cache has none."""
        obj = self.informer.by_key.get(key)
        if obj is not None:
            return self.of(obj)
        made = self._made.pop(key, None)
        if made is not None:
            self._forget(made)
        return None

    def fill(self) -> Iterator[None]:
        """Make all rows, and forget those of objects that are gone. Yields after each."""
        for key in list(self._made):
            if key not in self.informer.by_key:
                self.get(key)
            yield
        for obj in self.objects():
            self.of(obj)
            yield

    def objects(self) -> Iterator[KubeObject]:
        """Return the objects of the cache, each in the state that it has when it is reached."""
        by_key = self.informer.by_key
        for key in list(by_key):
            obj = by_key.get(key)
            if obj is not None:
                yield obj

    def age(self, now: float) -> None:
        """Change the levels of rows that have become bad, or no longer are, by the time alone."""
        for row in list(self._due.values()):
            if row.changes_at is not None and row.changes_at <= now:
                self._change_level(row, now)

    def levels(self) -> dict[str, int]:
        """Return the number of rows of each level. It is complete after `fill`."""
        return {level: count for level, count in self._tally.items() if level and count}

    def _change_level(self, row: Row, now: float) -> None:
        """Change a level that the time alone has changed. Thousands of pods may become bad at once."""
        self.changes += 1
        obj = self.informer.by_key.get(row.key)
        if row.level == "busy" or obj is None:
            self._forget(row)
            row.level = "bad"
            self._tally[row.level] += 1
        else:
            self._make(obj, row, now)

    def _forget(self, row: Row) -> None:
        self._tally[row.level] -= 1
        self._due.pop(row.key, None)


class AllRows:
    """The rows of all resources, shared by all pages.

    Args:
        informers: Returns the current informers by name.
    """

    def __init__(self, informers: Callable[[], Mapping[str, SharedInformer]]) -> None:
        self._informers = informers
        self._rows: dict[str, Rows] = {}
        self._noted = 0  # the number of the last change of the log that rows include
        self._lapses = 0  # how often there were too many changes to include, so that all rows have to be made again
        self._filled = -1  # the number of lapses when all rows were made last

    def of(self, name: str) -> Rows | None:
        """Return the rows of a resource, or None if it is not followed."""
        informer = self._informers().get(name)
        if informer is None:
            self._rows.pop(name, None)
            return None
        rows = self._rows.get(name)
        if rows is None or rows.informer is not informer:
            rows = self._rows[name] = Rows(informer)
        return rows

    def all(self) -> Iterator[Rows]:
        """Return the rows of each resource."""
        return (rows for name in list(self._informers()) if (rows := self.of(name)) is not None)

    def catch_up(self, log: EventLog) -> None:
        """Make the rows of changed objects again. After very many changes, `fill` does it."""
        changes = log.since(self._noted)
        self._noted = log.last
        if changes is None or len(changes) > _MANY:
            self._lapses += 1
            for rows in self.all():
                rows.changes += 1
            return
        for change in changes:
            changed = self.of(change.source)
            if changed is not None:
                changed.changes += 1
                changed.get(change.key)

    @property
    def is_whole(self) -> bool:
        """True if every object has its row. Until then, the numbers of levels are too low."""
        return self._filled == self._lapses

    def fill(self) -> Iterator[None]:
        """Make the rows that are missing. Yields after each."""
        lapses = self._lapses
        for rows in list(self.all()):
            yield from rows.fill()
        self._filled = lapses

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()
        self._lapses += 1
