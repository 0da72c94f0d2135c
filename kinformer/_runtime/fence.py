"""Fences: rights to act that may lapse while the code that relies on them runs.

Whoever leads, or owns a shard, may act only while its lease holds. A task that has such a right carries a fence in its
context, the tasks that it starts inherit it, and what must not happen without the right asks `check_fences` first: a
client right before it writes a request to the socket, a controller before it starts a reconcile. So code that was
stopped in the middle (SIGSTOP, suspend, a blocked loop) finds out at the first thing it does when it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

__all__ = ["Fence", "check_fences", "unfenced"]

_fences: ContextVar[tuple[Fence, ...]] = ContextVar("kinformer_fences", default=())


class Fence:
    """One right: within `with fence:` it is checked in this task, and in those that are started there for good.

    A task that outlives the `with` was left behind by what had the right, and may act no longer than that.

    Args:
        check: Raises what the code behind the fence is to get if the right has lapsed, or been given back; else
            returns. It is called often, and never blocks.
    """

    __slots__ = ("check",)

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def __enter__(self) -> Self:
        _fences.set((*_fences.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # Not by a token: a fixture may be left in another task than it was entered in, which has a context of its own.
        if self in (fences := _fences.get()):
            _fences.set(tuple(fence for fence in fences if fence is not self))


def check_fences() -> None:
    """Raises what the first lapsed fence of this task says; returns if all hold, or there are none."""
    for fence in _fences.get():
        fence.check()


@contextmanager
def unfenced() -> Iterator[None]:
    """What runs inside needs no right: renewing a lease, giving it back, following a resource."""
    before = _fences.get()
    _fences.set(())
    try:
        yield
    finally:
        _fences.set(before)
