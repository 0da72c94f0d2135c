"""Methods that run one at a time, on a Python without the GIL.

With the GIL, a call into C runs alone, so a read of a cache is consistent. Without it, a call locks one dict or list at
a time, so the cache may change in the middle of a read of 256 dicts. Only there, methods that write to a cache, or read
several of its dicts, hold a lock. Waiting for it takes no longer than waiting for the GIL, and happens less often:
reads of one key need no lock, and neither does working with the objects.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any, TypeVar, cast

__all__ = ["FREE_THREADED", "exclusion", "exclusive"]

MethodT = TypeVar("MethodT", bound=Callable[..., Any])

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
"""True if there is no GIL. Python never disables a GIL later. If it enables one later, the locks do no harm."""


def exclusion() -> RLock | None:
    """Return a lock for the `_exclusion` attribute of an object with exclusive methods, or None with the GIL.

    It is reentrant, because a function of the program, such as an index function, may read the cache that calls it.
    """
    return RLock() if FREE_THREADED else None


def exclusive(method: MethodT) -> MethodT:
    """Make a method run alone among the exclusive methods of its object. With the GIL, return it unchanged."""
    if not FREE_THREADED:
        return method

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._exclusion:
            return method(self, *args, **kwargs)

    return cast("MethodT", locked)
