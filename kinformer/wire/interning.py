"""One value for all that is written alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

__all__ = ["SharedValues"]

V = TypeVar("V")

# At most twice as many are held. 30,000 Pods of a real cluster have some 1,000 label sets; where each object has labels
# of its own, this is what the sharing may cost: some 10 MB.
_SHARED = 16_384


class SharedValues(dict[bytes, V]):
    """Makes one value of all equal bytes, and forgets what has not been seen for long: `shared[raw]`.

    Two generations: what is asked for is in, or comes into, the young one, which is this dict; when that is full it
    becomes the old one, and what then was old is forgotten. So it is bounded, and what is in use stays shared.

    Args:
        make: bytes -> value.
        limit: Values of one generation.
    """

    __slots__ = ("_limit", "_make", "_old")

    def __init__(self, make: Callable[[bytes], V], limit: int = _SHARED) -> None:
        super().__init__()
        self._make = make
        self._limit = limit
        self._old: dict[bytes, V] = {}

    def __missing__(self, raw: bytes) -> V:
        value = self._old.get(raw)
        if value is None:
            value = self._make(raw)
        if len(self) >= self._limit:
            self._old = dict(self)
            self.clear()
        self[raw] = value
        return value
