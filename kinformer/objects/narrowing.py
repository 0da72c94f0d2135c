"""The type of conditions that are false of None, so that they are true of objects only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from kinformer.objects.object import KubeObject

__all__ = ["Narrowing"]


class _FalseOfNone(Protocol):
    """A condition of `kinformer.conditions` that is false of None."""

    false_of_none: Literal[True]

    def __call__(self, obj: Mapping[str, Any] | None, /) -> bool: ...


Narrowing: TypeAlias = _FalseOfNone | Callable[[KubeObject | None], TypeGuard[KubeObject]]
"""A condition that is false of None, so that what it is true of is an object."""
