"""Deprecation of a public name: it works for one more minor version, and each call warns."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(*, use: str, until: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator for a function, method or class that a later version removes.

    ::

        @deprecated(use="keys_of", until="0.4")
        def list_keys(informer: SharedInformer) -> list[str]:
            return keys_of(informer)

    Each call emits a DeprecationWarning at the caller's line. By default (see `-W`), Python shows it once per line, and
    only in `__main__` and under pytest. For a class, decorate its `__init__`.

    Args:
        use: The name to use instead.
        until: The version that removes the name: at least the minor version after the one that deprecates it.
    """

    def mark(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__qualname__.removesuffix(".__init__")

        @wraps(function)
        def warn_and_call(*args: P.args, **kwargs: P.kwargs) -> R:
            message = f"{name} is deprecated and will be removed in kinformer {until}; use {use}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warn_and_call

    return mark
