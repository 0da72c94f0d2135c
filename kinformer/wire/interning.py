"""Shared values: equal values of many objects are one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["SharedValues"]

K = TypeVar("K")
V = TypeVar("V")

# At most twice as many are held. 30,000 Pods of a real cluster have some 1,000 label sets; if every object has labels
# of its own, sharing costs some 10 MB.
_SHARED = 16_384


class SharedValues(dict[K, V]):
    """Interns values: `shared[key]` is one and the same value for equal keys, as long as they keep coming.

    There are two generations. A value that is asked for is in the young one, which is this dict, or moves into it; when
    that is full it becomes the old one, and the previous old one is dropped. So memory is bounded, and values in use
    stay shared.

    Args:
        make: Makes the value of a key.
        limit: Values of one generation.
    """

    __slots__ = ("_limit", "_make", "_old")

    def __init__(self, make: Callable[[K], V], limit: int = _SHARED) -> None:
        super().__init__()
        self._make = make
        self._limit = limit
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        value = self._old.get(key)
        if value is None:
            value = self._make(key)
        if len(self) >= self._limit:
            self._old = dict(self)
            self.clear()
        self[key] = value
        return value
