"""The pairs of a join."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

__all__ = ["Joined"]

T = TypeVar("T")
R = TypeVar("R")


class Joined(msgspec.Struct, Generic[T, R], frozen=True):
    """An object with what belongs to it in another collection; `left, right = joined` takes it apart."""

    left: T
    right: R

    def __iter__(self) -> Iterator[T | R]:
        yield self.left
        yield self.right
