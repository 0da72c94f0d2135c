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
    """One right: within `with fence:` it is checked, in this task and in those that are started there.

    A task that outlives the `with` is no longer held up by it: what was done under the right has ended.

    Args:
        check: Raises what the code behind the fence is to get if the right has lapsed; else returns. It is called
            often, and never blocks.
    """

    __slots__ = ("_check", "_open")

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._open = False

    def __enter__(self) -> Self:
        self._open = True
        _fences.set((*_fences.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        # Not by a token: a fixture may be left in another task than it was entered in, which has a context of its own.
        if self in (fences := _fences.get()):
            _fences.set(tuple(fence for fence in fences if fence is not self))

    def check(self) -> None:
        """Raises if the right has lapsed, and the `with` has not been left."""
        if self._open:
            self._check()


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
