"""A long row of objects in short pieces, which the garbage collector forgets, and which go as they are read.

A list of 100,000 objects is looked through by each collection while it is young, which takes 4 ms, and freeing it takes
as long. A tuple of objects that the collector does not know is dropped by it at the first look; and a row of tuples
each of which knows only the next one goes piece by piece, as its last reader passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, TypeVar

__all__ = ["Pieces"]

T = TypeVar("T")

_SIZE = 256


class _Piece(Generic[T]):
    __slots__ = ("following", "objects")

    def __init__(self) -> None:
        self.objects: tuple[T, ...] = ()
        self.following: _Piece[T] | None = None


def _tuples(piece: _Piece[T] | None) -> Iterator[tuple[T, ...]]:
    while piece is not None:
        objects, piece = piece.objects, piece.following
        yield objects


class Pieces(Generic[T]):
    """Objects in the order in which they were added; to be read when the last one is in.

    Args:
        tables: What is in it from the beginning, each iterable one piece.
    """

    __slots__ = ("_count", "_first", "_last", "_tail")

    def __init__(self, tables: Iterable[Iterable[T]] = ()) -> None:
        self._first = self._last = _Piece[T]()
        self._tail: list[T] = []
        self._count = 0
        for table in tables:
            self._seal(tuple(table))

    def add(self, objects: Iterable[T]) -> None:
        """Append some objects."""
        self._tail += objects
        if len(self._tail) >= _SIZE:
            self._seal(tuple(self._tail))
            self._tail.clear()

    def append(self, obj: T) -> None:
        """Append one object."""
        self._tail.append(obj)
        if len(self._tail) >= _SIZE:
            self._seal(tuple(self._tail))
            self._tail.clear()

    def __len__(self) -> int:
        return self._count + len(self._tail)

    def __iter__(self) -> Iterator[T]:
        """Over all; the iterator keeps of them only what it has not passed."""
        if self._tail:
            self._seal(tuple(self._tail))
            self._tail.clear()
        return chain.from_iterable(_tuples(self._first))

    def drain(self) -> Iterator[T]:
        """Over all, and nothing of them is kept here."""
        every = iter(self)
        self._first = self._last = _Piece()
        self._count = 0
        return every

    def _seal(self, objects: tuple[T, ...]) -> None:
        piece: _Piece[T] = _Piece()
        piece.objects = objects
        self._last.following = piece
        self._last = piece
        self._count += len(objects)
