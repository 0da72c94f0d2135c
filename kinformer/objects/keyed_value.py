"""A value of the program in a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["KeyedValue"]


class KeyedValue(msgspec.Struct, frozen=True, eq=False):
    """A value under its key, as the cache of a derived collection holds it.

    It may hold anything, so the garbage collector tracks it if it tracks the value: not for a text, a number or a
    `KubeObject`.
    """

    key: str
    value: Any

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the value, by which selectors find it; none if it has no attribute of this name."""
        labels = getattr(self.value, "labels", None)
        return labels if isinstance(labels, Mapping) else {}
