"""Fences: rights to act that may lapse while the code that relies on them runs.

A leader, or the owner of a shard, may act only while its lease holds. A task with such a right carries a fence in its
context, and the tasks that it starts inherit it. Code that must not run without the right calls `check_fences` first: a
client right before it writes a request to the socket, a controller before it starts a reconcile. So code that was
stopped in the middle (SIGSTOP, suspend, a blocked loop) fails at the first such action after it resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

__all__ = ["Fence", "check_fences", "unfenced"]

_fences: ContextVar[tuple[Fence, ...]] = ContextVar("kinformer_fences", default=())


class Fence:
    """One right: `with fence:` has it checked in this task, and for good in the tasks that are started there.

    A task that outlives the `with` block has outlived the right, and may not act any more.

    Args:
        check: Raises the error for the code behind the fence if the right has lapsed or was given back; else
            returns. It is called often, and must not block.
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
    """Raise if a right under which this task runs has lapsed; return if all hold, or if there are none.

    Call it in the body of `LeaderElector.leading()`, or in a reconcile of a `ShardedController`, before anything that
    must not happen without the lead or the shard, and that does not go through a `Client` (which checks by itself).

    Raises:
        LeadershipLostError: The lead has lapsed, or was given back.
        ShardLostError: The slot of the object has gone to another replica.
    """
    for fence in _fences.get():
        fence.check()


@contextmanager
def unfenced() -> Iterator[None]:
    """Run code that needs no right: renewing a lease, releasing it, following a resource."""
    before = _fences.get()
    _fences.set(())
    try:
        yield
    finally:
        _fences.set(before)
