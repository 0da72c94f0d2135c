"""The look upwards: what `Client` offers and packages above it implement.

No import statement leads from a package to one above it, and these functions are the only ones that find something
there by its name, when they are called. A program that does not call them does not import it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["wait_for_object"]


async def wait_for_object(*args: Any, **kwargs: Any) -> Any:
    """Call `wait_for_object` of `kinformer.watching.object_wait`."""
    return await import_module("kinformer.watching.object_wait").wait_for_object(*args, **kwargs)
