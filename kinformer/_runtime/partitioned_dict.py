"""A dict in 64 partitions, which holds many keys without an operation that blocks the event loop for long.

A dict that grows past 87,000 keys moves all of them at once, which takes 4 ms. Copying it takes as long. With 64
partitions, only one is moved or copied at a time. But most buckets of an index are small, and a plain dict costs half.
So a table starts as a dict, and `stored` partitions it once it is too large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, Protocol, TypeVar, overload

__all__ = ["PartitionedDict", "Table", "TableCopies", "stored", "tables_of"]

K = TypeVar("K")
V = TypeVar("V")

PARTITION_AT = 4096
"""The number of keys at which a dict is partitioned. Below it, moving or copying takes at most 0.1 ms."""

_PARTITIONS = 64
_SHIFT = 8  # the lower bits of the hash have already chosen the partition of the store


class PartitionedDict(Generic[K, V]):
    """The part of a dict's interface that an index needs, over 64 dicts. Other threads read its `partitions`.

    A copy shares the partitions, and copies each before its first change. So the original must not change until the
    copy has been dropped, or has replaced the original and `settle` was called.
    """

    __slots__ = ("_origin", "partitions")

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self.partitions: list[dict[K, V]] = [{} for _ in range(_PARTITIONS)]
        self._origin: list[dict[K, V]] | None = None
        for key, value in items:
            self.partitions[hash(key) >> _SHIFT & 63][key] = value

    def get(self, key: K) -> V | None:
        return self.partitions[hash(key) >> _SHIFT & 63].get(key)

    def __contains__(self, key: K) -> bool:
        return key in self.partitions[hash(key) >> _SHIFT & 63]

    def __getitem__(self, key: K) -> V:
        return self.partitions[hash(key) >> _SHIFT & 63][key]

    def __setitem__(self, key: K, value: V) -> None:
        self._own(hash(key) >> _SHIFT & 63)[key] = value

    def __delitem__(self, key: K) -> None:
        del self._own(hash(key) >> _SHIFT & 63)[key]

    def pop(self, key: K) -> V | None:
        """Remove and return the value of a key, or None if there is none."""
        return self._own(hash(key) >> _SHIFT & 63).pop(key, None)

    def __len__(self) -> int:
        return sum(map(len, self.partitions))

    def __bool__(self) -> bool:
        return any(self.partitions)

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self.partitions)

    def items(self) -> Iterator[tuple[K, V]]:
        return chain.from_iterable(map(dict.items, self.partitions))

    def values(self) -> Iterator[V]:
        return chain.from_iterable(map(dict.values, self.partitions))

    def copy(self) -> PartitionedDict[K, V]:
        copy: PartitionedDict[K, V] = PartitionedDict.__new__(PartitionedDict)
        copy.partitions = self.partitions.copy()
        copy._origin = self.partitions
        return copy

    def settle(self) -> list[dict[K, V]]:
        """End the copying, after this copy has replaced its original. Return the original's replaced partitions."""
        origin, self._origin = self._origin or [], None
        return [before for before, now in zip(origin, self.partitions, strict=False) if before is not now]

    def _own(self, number: int) -> dict[K, V]:
        partition = self.partitions[number]
        if self._origin is not None and partition is self._origin[number]:
            partition = self.partitions[number] = partition.copy()
        return partition


Table = dict[K, V] | PartitionedDict[K, V]


def stored(table: Table[K, V], key: K, value: V) -> Table[K, V]:
    """Store a value, and return the table to keep: a new, partitioned one if the dict has grown too large."""
    if type(table) is dict and len(table) >= PARTITION_AT:
        table = PartitionedDict(table.items())
    table[key] = value
    return table


def tables_of(tables: Iterable[Table[K, V]]) -> list[dict[K, V]]:
    """Return the plain dicts of all tables, so that one call into C can read them at one moment."""
    dicts: list[dict[K, V]] = []
    for table in tables:
        if isinstance(table, PartitionedDict):
            dicts += table.partitions
        else:
            dicts.append(table)
    return dicts


class _Settling(Protocol):
    """A copy of a `PartitionedDict` with any type of contents."""

    def settle(self) -> Sequence[object]: ...


class TableCopies:
    """Copies the tables of a state that is being replaced, outer tables first, and later drops the originals."""

    __slots__ = ("_partitioned", "_replaced")

    def __init__(self) -> None:
        self._replaced: deque[object] = deque()
        self._partitioned: list[_Settling] = []

    @overload
    def of(self, table: dict[K, V]) -> dict[K, V]: ...
    @overload
    def of(self, table: Table[K, V]) -> Table[K, V]: ...
    def of(self, table: Table[K, V]) -> Table[K, V]:
        """Copy a table before its first change."""
        if isinstance(table, PartitionedDict):
            copy = table.copy()
            self._partitioned.append(copy)
            return copy
        self._replaced.append(table)
        return table.copy()

    def release(self) -> Iterator[None]:
        """Drop the originals in small steps, after the copies have replaced them.

        A table is dropped before the tables in it. These are kept alive until their turn, so no step frees much. No
        table is changed, because a reader in another thread may still be using it.
        """
        while self._partitioned:
            self._replaced.extend(self._partitioned.pop().settle())
            yield
        while self._replaced:
            self._replaced.popleft()
            yield
