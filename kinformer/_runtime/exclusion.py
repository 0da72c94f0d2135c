"""Methods that run one at a time, on a Python without the GIL.

With the GIL one call into C runs alone, and that is what makes a read of a cache one moment. Without it a call locks
one dict or list at a time, so a read of 256 dicts may have a change in the midst of it. There, and only there, the
methods that write to a cache, or read several of its dicts, hold a lock. That is a wait no longer than the one for the
GIL, and less often: reads of a key need no lock, and neither does what is done with the objects.
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
"""True if there is no GIL. One that is enabled is never disabled; one that is enabled later does no harm."""


def exclusion() -> RLock | None:
    """Make the lock of an object with exclusive methods, to be kept as `_exclusion`; None with the GIL.

    It is reentrant, since a function of the program, such as that of an index, may read the cache that calls it.
    """
    return RLock() if FREE_THREADED else None


def exclusive(method: MethodT) -> MethodT:
    """Return a method that runs alone among the exclusive methods of its object; with the GIL, the method itself."""
    if not FREE_THREADED:
        return method

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._exclusion:
            return method(self, *args, **kwargs)

    return cast("MethodT", locked)
