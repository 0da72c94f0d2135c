"""The reads of a derived collection: which reads each value depends on, and which values a change affects.

A read is identified by its question, not by its result: an index and its value, a selector, the uid of an owner, or a
key. So a later object that would have been found affects the reader too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeGuard, cast

from kinformer._runtime.partitioned_dict import PARTITION_AT, Table, stored
from kinformer.cache.store import new_partitions
from kinformer.derived.entries import EntryChange, labels_of, namespace_of, owners_of
from kinformer.objects.selectors import LabelSelector

__all__ = ["ALL", "KEY", "OWNER", "OWNER_INDEX", "SELECTOR", "Read", "ReadRecord", "by_index"]

KEY, ALL, OWNER, SELECTOR = "key", "all", "owner", "selector"
_INDEX = "index "

OWNER_INDEX = "kinformer.owner"
"""The name of the index by the uids of owners, which is added to a collection that is read by owner."""


def by_index(name: str) -> str:
    """Return the kind of a read by the index with this name."""
    return _INDEX + name


Read = tuple[int, str, str]
"""One read: the number of the collection, the kind of the question, and its argument.

The argument of a selector is the namespace, a line feed and the canonical selector. The argument of `ALL` is an empty
string. A plain tuple, which the garbage collector stops tracking once it has seen it, because there may be one per
value.
"""


_Readers = str | Table[str, None]  # one key, or several: most reads have one reader, and a string costs nothing


class ReadRecord:
    """The reads behind each value, and the values behind each read.

    Args:
        values_of: Called with source, index and entry. Returns the values that the entry has in the source's index.
    """

    def __init__(self, values_of: Callable[[int, str, Any], Iterable[str]]) -> None:
        self._values_of = values_of
        self._count = 0
        self._of: list[dict[str, Read | tuple[Read, ...]]] = new_partitions()
        self._readers: Table[Read, _Readers] = {}
        self._kinds: dict[int, dict[str, int]] = {}  # by source: the number of different reads of each kind
        self._selectors: dict[int, _Selectors] = {}
        self._parsed: dict[Read, LabelSelector] = {}
        self._unread: set[int] = set()  # sources whose last read was removed, since these were taken

    def __len__(self) -> int:
        """Return the number of dependencies, which are pairs of a value and a read."""
        return self._count

    def has(self, source: int) -> bool:
        """Return True if some value was computed from this collection."""
        return bool(self._kinds.get(source))

    def selector(self, source: int, selector: LabelSelector, namespace: str) -> Read:
        """Return the read of a collection by a selector in a namespace (`""` for all), to be recorded."""
        read = (source, SELECTOR, f"{namespace}\n{selector}")
        self._parsed.setdefault(read, selector)
        return read

    def record(self, key: str, reads: Sequence[Read]) -> None:
        """Record that the value of `key` was computed from these reads, which replace its previous ones."""
        part = self._of[hash(key) & 63]
        before = part.get(key)
        if before is None and len(reads) == 1:  # the most frequent case, once for each object of a first sync
            part[key] = reads[0]
            self._add(reads[0], key)
            self._count += 1
            return
        now: Read | tuple[Read, ...] | None = tuple(dict.fromkeys(reads)) or None
        if now is not None and len(now) == 1:
            now = now[0]
        if now == before:
            return
        was, is_now = _each(before), _each(now)
        self._count += len(is_now) - len(was)
        for read in is_now:
            if read not in was:
                self._add(read, key)
        for read in was:
            if read not in is_now:
                self._remove(read, key)
        if now is None:
            del part[key]
        else:
            part[key] = now

    def forget(self, key: str) -> None:
        """Record that `key` no longer has a value."""
        if key in self._of[hash(key) & 63]:
            self.record(key, ())

    def concerned(self, source: int, change: EntryChange) -> Iterator[str]:
        """Yield the keys of the values that a change in a collection affects, some of them perhaps twice."""
        kinds = self._kinds.get(source)
        if not kinds:
            return
        key, old, new = change
        for kind in kinds:
            if kind == KEY:
                yield from self._behind((source, KEY, key))
            elif kind == ALL:
                yield from self._behind((source, ALL, ""))
            elif kind == OWNER:
                for uid in {*owners_of(old), *owners_of(new)}:
                    yield from self._behind((source, OWNER, uid))
            elif kind == SELECTOR:
                for recorded in self._selectors[source].matching(old, new):
                    yield from self._behind((source, SELECTOR, recorded))
            else:
                index = kind.removeprefix(_INDEX)
                values = self._values_of(source, index, new) if new is not None else ()
                before = self._values_of(source, index, old) if old is not None else ()
                for value in dict.fromkeys((*before, *values)):
                    yield from self._behind((source, kind, value))

    def of_source(self, source: int) -> Iterator[str | None]:
        """Yield the keys of the values that were computed from a collection, and None for each other value."""
        for part in self._of:
            for key, reads in list(part.items()):
                yield key if any(read[0] == source for read in _each(reads)) else None

    def take_unread(self) -> list[int]:
        """Return the collections that no value is computed from any more, each once."""
        unread = [source for source in self._unread if not self.has(source)]
        for source in unread:
            self._kinds.pop(source, None)
            self._selectors.pop(source, None)
        self._unread.clear()
        return unread

    def _behind(self, read: Read) -> Iterable[str]:
        readers = self._readers.get(read)
        if readers is None:
            return ()
        return (readers,) if type(readers) is str else list(readers)

    def _add(self, read: Read, key: str) -> None:
        readers = self._readers.get(read)
        if readers is None:
            self._readers = stored(self._readers, read, key)
            kinds = self._kinds.setdefault(read[0], {})
            kinds[read[1]] = kinds.get(read[1], 0) + 1
            if read[1] == SELECTOR:
                self._selectors.setdefault(read[0], _Selectors()).add(read[2], self._parsed[read])
        elif type(readers) is dict and len(readers) < PARTITION_AT:
            readers[key] = None
        elif isinstance(readers, str):
            self._readers[read] = {readers: None, key: None}
        else:
            grown = stored(readers, key, None)
            if grown is not readers:
                self._readers[read] = grown

    def _remove(self, read: Read, key: str) -> None:
        readers = self._readers[read]
        if not isinstance(readers, str):
            del readers[key]
            if readers:
                return
        del self._readers[read]
        kinds = self._kinds[read[0]]
        kinds[read[1]] -= 1
        if not kinds[read[1]]:
            del kinds[read[1]]
            if not kinds:
                self._unread.add(read[0])
        if read[1] == SELECTOR:
            self._selectors[read[0]].remove(read[2], self._parsed.pop(read))


class _Selectors:
    """The selectors by which one collection is read, found by an object's labels without trying each of them.

    A selector with a requirement `label = value` is tried only for objects with that label and value.
    """

    __slots__ = ("_by_label", "_others")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[str, LabelSelector]] = {}
        self._others: dict[str, LabelSelector] = {}

    def add(self, recorded: str, selector: LabelSelector) -> None:
        self._table(selector)[recorded] = selector

    def remove(self, recorded: str, selector: LabelSelector) -> None:
        table = self._table(selector)
        del table[recorded]
        label = _required(selector)
        if label is not None and not table:
            del self._by_label[label]

    def matching(self, old: object, new: object) -> Iterator[str]:
        """Yield the selectors, as recorded in reads, that match either of two states of an object."""
        states = [(labels_of(state), namespace_of(state)) for state in (old, new) if state is not None]
        if len(states) == 2 and states[0] == states[1]:
            del states[0]
        for labels, namespace in states:
            tables = [self._others, *(self._by_label[label] for label in labels.items() if label in self._by_label)]
            for table in tables:
                for recorded, selector in table.items():
                    only = recorded.partition("\n")[0]
                    if (not only or only == namespace) and selector.matches(labels):
                        yield recorded

    def _table(self, selector: LabelSelector) -> dict[str, LabelSelector]:
        label = _required(selector)
        return self._others if label is None else self._by_label.setdefault(label, {})


def _required(selector: LabelSelector) -> tuple[str, str] | None:
    """Return a label that every object matched by the selector has, or None if that is unknown."""
    for requirement in selector.requirements:
        if requirement.operator == "=" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


def _each(reads: Read | tuple[Read, ...] | None) -> tuple[Read, ...]:
    if reads is None:
        return ()
    if _is_one(reads):
        return (reads,)
    return cast("tuple[Read, ...]", reads)


def _is_one(reads: Read | tuple[Read, ...]) -> TypeGuard[Read]:
    return isinstance(reads[0], int)
