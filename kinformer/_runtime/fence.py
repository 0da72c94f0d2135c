"""Fences: permissions to act that may lapse while the code that relies on them is running.

A leader, or the owner of a shard, may act only while its lease is valid. A task with such a permission carries a fence
in its context, the tasks that it starts inherit it, and an action that needs the permission calls `check_fences` first:
a client right before it writes a request to the socket, a controller before it starts a reconcile. So code that was
stopped in between (SIGSTOP, suspend, a blocked event loop) notices at its first action after it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

__all__ = ["Fence", "check_fences", "unfenced"]

_fences: ContextVar[tuple[Fence, ...]] = ContextVar("kinformer_fences", default=())


class Fence:
    """One permission: within `with fence:` it is checked in this task, and in the tasks that are started there.

    They keep the fence for all their life. A task that outlives the `with` was left behind by the code that had the
    permission, and loses it at the same time.

    Args:
        check: Raises, in the code behind the fence, if the permission has lapsed or was given back; otherwise returns.
            It is called often, and never blocks.
    """

    __slots__ = ("check",)

    def __init__(self, check: Callable[[], None]) -> None:
        self.check = check

    def __enter__(self) -> Self:
        _fences.set((*_fences.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # Not by a token: a fixture may be left in another task than the one that entered it, with another context.
        if self in (fences := _fences.get()):
            _fences.set(tuple(fence for fence in fences if fence is not self))


def check_fences() -> None:
    """Raise if a permission under which this task runs has lapsed; return if all hold, or if there are none.

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
    """Run code that needs no permission: renewing a lease, giving it back, following a resource."""
    before = _fences.get()
    _fences.set(())
    try:
        yield
    finally:
        _fences.set(before)
