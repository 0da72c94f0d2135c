"""A value of the program in a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["KeyedValue"]


class KeyedValue:
    """A value under its key, as the cache of a derived collection holds it.

    Unlike a `KubeObject` it may hold anything, so the garbage collector tracks it.
    """

    __slots__ = ("key", "value")

    def __init__(self, key: str, value: Any) -> None:
        self.key = key
        self.value = value

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the value, by which selectors find it; none if it has no attribute of this name."""
        labels = getattr(self.value, "labels", None)
        return labels if isinstance(labels, Mapping) else {}

    def __repr__(self) -> str:
        return f"<{self.key}: {self.value!r}>"
