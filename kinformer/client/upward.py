"""Calls from `Client` into packages above it, which implement some of its methods.

No package imports one above it. Only these functions import from above, by name, when they are called. A program that
does not call them does not import those packages.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["wait_for_object"]


async def wait_for_object(*args: Any, **kwargs: Any) -> Any:
    """Call `wait_for_object` of `kinformer.watching.object_wait`."""
    return await import_module("kinformer.watching.object_wait").wait_for_object(*args, **kwargs)
