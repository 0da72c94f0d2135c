"""A long row of objects in short pieces, which the garbage collector forgets, and which go as they are read.

A list of 100,000 objects is looked through by each collection while it is young, which takes 4 to 10 ms, and freeing
it takes as long. A dict of objects that the collector does not know is unknown to it too (up to Python 3.13); and a row
of dicts each of which leads only to the next one goes piece by piece, as its last reader passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, TypeVar

__all__ = ["ChunkedList"]

T = TypeVar("T")

_SIZE = 256


class _Piece(Generic[T]):
    __slots__ = ("following", "objects")

    def __init__(self) -> None:
        self.objects: Collection[T] = ()
        self.following: _Piece[T] | None = None


def _each(piece: _Piece[T] | None) -> Iterator[Collection[T]]:
    while piece is not None:
        objects, piece = piece.objects, piece.following
        yield objects


class ChunkedList(Generic[T]):
    """Objects in the order in which they were added; to be read when the last one is in.

    Args:
        tables: What is in it from the beginning: the values of dicts, which are the row's to keep.
    """

    __slots__ = ("_count", "_first", "_last", "_tail")

    def __init__(self, tables: Iterable[dict[Any, T]] = ()) -> None:
        self._first = self._last = _Piece[T]()
        self._tail: list[T] = []
        self._count = 0
        for table in tables:
            self.add_table(table)

    def add_table(self, table: dict[Any, T]) -> None:
        """Append the values of a dict, which is the row's to keep."""
        self._seal_tail()
        self._seal(table)

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
        """Over all; the iterator keeps of them only what it has not passed."""
        self._seal_tail()
        return chain.from_iterable(_each(self._first))

    def drain(self) -> Iterator[T]:
        """Over all, and nothing of them is kept here."""
        every = iter(self)
        self._first = self._last = _Piece()
        self._count = 0
        return every

    def _seal_tail(self) -> None:
        if self._tail:
            self._seal(dict(enumerate(self._tail)))
            self._tail.clear()

    def _seal(self, table: dict[Any, T]) -> None:
        piece: _Piece[T] = _Piece()
        piece.objects = table.values()
        self._last.following = piece
        self._last = piece
        self._count += len(table)
