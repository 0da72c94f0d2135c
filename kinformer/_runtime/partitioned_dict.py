"""A dict in parts: one that has many keys, and still never holds up the loop.

A dict that grows past 87,000 keys moves them all at once, which takes 4 ms, and so does copying it. One in 64 parts
moves and copies a part at a time. Most buckets of an index are small, though, and a plain dict is half the price: so
a table begins as one, and `stored` widens it when it has become too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

__all__ = ["PartitionedDict", "Table", "stored", "tables_of"]

K = TypeVar("K")
V = TypeVar("V")

WIDEN_AT = 4096
"""Keys above which a table is kept in parts: up to here moving or copying takes a tenth of a millisecond at most."""

_PARTS = 64
_SHIFT = 8  # the lower bits of the hash have chosen the shard of the store already


class PartitionedDict(Generic[K, V]):
    """As much of a dict as an index needs, in 64 dicts. Whoever reads from another thread takes its `parts`.

    A copy shares the parts, and copies each before its first change, so the original must be left alone until the
    copy has been dropped, or has taken its place and been told so by `settle`.
    """

    __slots__ = ("_origin", "parts")

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self.parts: list[dict[K, V]] = [{} for _ in range(_PARTS)]
        self._origin: list[dict[K, V]] | None = None
        for key, value in items:
            self.parts[hash(key) >> _SHIFT & 63][key] = value

    def get(self, key: K) -> V | None:
        return self.parts[hash(key) >> _SHIFT & 63].get(key)

    def __contains__(self, key: K) -> bool:
        return key in self.parts[hash(key) >> _SHIFT & 63]

    def __getitem__(self, key: K) -> V:
        return self.parts[hash(key) >> _SHIFT & 63][key]

    def __setitem__(self, key: K, value: V) -> None:
        self._own(hash(key) >> _SHIFT & 63)[key] = value

    def __delitem__(self, key: K) -> None:
        del self._own(hash(key) >> _SHIFT & 63)[key]

    def pop(self, key: K) -> V | None:
        """Take out what is under a key; None where there is nothing."""
        return self._own(hash(key) >> _SHIFT & 63).pop(key, None)

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __bool__(self) -> bool:
        return any(self.parts)

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.parts)

    def items(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(map(dict.items, self.parts))

    def values(self) -> Iterator[V]:
        return chain.from_iterable(map(dict.values, self.parts))

    def copy(self) -> PartitionedDict[K, V]:
        made: PartitionedDict[K, V] = PartitionedDict.__new__(PartitionedDict)
        made.parts = self.parts.copy()
        made._origin = self.parts
        return made

    def settle(self) -> list[dict[K, V]]:
        """The original is no more; returns those of its parts that are not in here."""
        origin, self._origin = self._origin or [], None
        return [before for before, now in zip(origin, self.parts, strict=False) if before is not now]

    def _own(self, number: int) -> dict[K, V]:
        part = self.parts[number]
        if self._origin is not None and part is self._origin[number]:
            part = self.parts[number] = part.copy()
        return part


Table = dict[K, V] | PartitionedDict[K, V]


def stored(table: Table[K, V], key: K, value: V) -> Table[K, V]:
    """Store a value, and return the table that is to be kept from now on: a wide one where it has grown too large."""
    if type(table) is dict and len(table) >= WIDEN_AT:
        table = PartitionedDict(table.items())
    table[key] = value
    return table


def tables_of(tables: Iterable[Table[K, V]]) -> list[dict[K, V]]:
    """The plain dicts of tables, so that one call into C can read them all in one moment."""
    found: list[dict[K, Any]] = []
    for table in tables:
        if type(table) is dict:
            found.append(table)
        else:
            found += table.parts  # type: ignore[union-attr]
    return found
