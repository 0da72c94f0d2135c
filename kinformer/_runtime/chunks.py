"""A list in small chunks that the garbage collector does not scan, each freed once its last reader has passed.

While a plain list of 100,000 objects is young, each collection scans it, which takes 4 to 10 ms. Freeing it takes as
long. A tuple of untracked objects is scanned only once, and a linked list of such tuples is freed chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

__all__ = ["ChunkedList"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_SIZE = 256


class _HasValues(Protocol[T_co]):
    """A dict with any type of keys."""

    def __len__(self) -> int: ...

    def values(self) -> Collection[T_co]: ...


class _Chunk(Generic[T]):
    __slots__ = ("following", "objects")

    def __init__(self) -> None:
        self.objects: Collection[T] = ()
        self.following: _Chunk[T] | None = None


def _each(chunk: _Chunk[T] | None) -> Iterator[Collection[T]]:
    while chunk is not None:
        objects, chunk = chunk.objects, chunk.following
        yield objects


class ChunkedList(Generic[T]):
    """Objects in the order in which they were added. Iterate over it after adding the last one.

    Args:
        tables: Dicts whose values are the first objects. They must not be changed afterwards.
    """

    __slots__ = ("_count", "_first", "_last", "_tail")

    def __init__(self, tables: Iterable[_HasValues[T]] = ()) -> None:
        self._first = self._last = _Chunk[T]()
        self._tail: list[T] = []
        self._count = 0
        for table in filter(None, tables):
            self.add_table(table)

    def add_table(self, table: _HasValues[T]) -> None:
        """Append the values of a dict, which becomes a chunk and must not be changed afterwards."""
        self._seal_tail()
        self._seal(table.values())

    def add(self, objects: Iterable[T]) -> None:
        """Append some objects."""
        self._tail += objects
        if len(self._tail) >= _SIZE:
            self._seal_tail()

    def append(self, obj: T) -> None:
        """Append one object."""
        self._tail.append(obj)
        if len(self._tail) >= _SIZE:
            self._seal_tail()

    def __len__(self) -> int:
        return self._count + len(self._tail)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all objects. The iterator keeps only the chunks that it has not passed."""
        self._seal_tail()
        return chain.from_iterable(_each(self._first))

    def drain(self) -> Iterator[T]:
        """Empty the list, and return an iterator over the removed objects."""
        objects = iter(self)
        self._first = self._last = _Chunk()
        self._count = 0
        return objects

    def _seal_tail(self) -> None:
        if self._tail:
            self._seal(tuple(self._tail))
            self._tail.clear()

    def _seal(self, objects: Collection[T]) -> None:
        chunk: _Chunk[T] = _Chunk()
        chunk.objects = objects
        self._last.following = chunk
        self._last = chunk
        self._count += len(objects)
