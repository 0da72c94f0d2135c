"""Urgent requests: those of code that has deadlines and retries of its own, such as the renewal of a lease.

A client sends an urgent request once, and lets it wait for no turn. The mark is kept in the context, so that code that
makes requests through any object with a method `request` can set it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_urgent", "urgent"]

_urgent: ContextVar[bool] = ContextVar("kinformer_urgent", default=False)


@contextmanager
def urgent() -> Iterator[None]:
    """Mark the requests of this task as urgent until the end of the `with`."""
    before = _urgent.get()
    _urgent.set(True)
    try:
        yield
    finally:
        _urgent.set(before)


def is_urgent() -> bool:
    """True within `urgent`."""
    return _urgent.get()
