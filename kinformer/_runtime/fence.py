"""Fences: permissions to act that may lapse while the code that relies on them is running.

A leader, or the owner of a shard, may act only while its lease is valid. A task with such a permission has a fence in
its context. The tasks that it starts inherit the fence. An action that needs the permission calls `check_fences` first:
a client right before it writes a request to the socket, a controller before it starts a reconcile. So code that was
stopped in between (SIGSTOP, suspend, a blocked event loop) notices at its first action after it continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self

__all__ = ["Fence", "check_fences", "fence_names", "unfenced"]

_fences: ContextVar[tuple[Fence, ...]] = ContextVar("kinformer_fences", default=())


class Fence:
    """A permission, which is checked within `with fence:` in this task, and in the tasks that are started there.

    Those tasks keep the fence until they end. So a task that outlives the `with` loses the permission together with the
    code that started it.

    Args:
        check: Raises, in the fenced code, if the permission has lapsed or was given back. It is called often, and must
            not block.
        name: The name of what gives the permission, such as the "namespace/name" of a Lease.
    """

    __slots__ = ("check", "name")

    def __init__(self, check: Callable[[], None], name: str = "") -> None:
        self.check = check
        self.name = name

    def __enter__(self) -> Self:
        _fences.set((*_fences.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        # Without a token, because a fixture may exit in another task, with another context, than it was entered in.
        if self in (fences := _fences.get()):
            _fences.set(tuple(fence for fence in fences if fence is not self))


def check_fences() -> None:
    """Raise if a permission of this task has lapsed. Return if all are valid, or if there are none.

    Call it in the body of `LeaderElector.leading()`, or in a reconcile of a `ShardedController`, before any action that
    must not happen without the lead or the shard. A `Client` calls it by itself.

    Raises:
        LeadershipLostError: The lead has lapsed, or was given back.
        ShardLostError: The slot of the object now belongs to another replica.
    """
    for fence in _fences.get():
        fence.check()


def fence_names() -> tuple[str, ...]:
    """Return the names of the permissions that this task has, or had."""
    return tuple(fence.name for fence in _fences.get() if fence.name)


@contextmanager
def unfenced() -> Iterator[None]:
    """Run code that needs no permission: renewing a lease, giving it back, following a resource."""
    before = _fences.get()
    _fences.set(())
    try:
        yield
    finally:
        _fences.set(before)
