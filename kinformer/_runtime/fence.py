"""Fences: permissions to act that may lapse while the code that relies on them is running.

A leader, or the owner of a shard, may act only while its lease is valid. A task with such a permission has a fence in
its context. The tasks that it starts inherit the fence. An action that needs the permission calls `check_fences` first:
a client right before it writes a request to the socket, a controller before it starts a reconcile. So code that was
stopped in between (SIGSTOP, suspend, a blocked event loop) notices at its first action after it continues.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Self

__all__ = ["Fence", "check_fences", "fence_names", "unfenced"]

_fences: ContextVar[tuple[Fence, ...]] = ContextVar("kinformer_fences", default=())


class Fence:
    """A permission, which is checked within `with fence:` in this task, and in the tasks that are started there.

    Those tasks keep the fence until they end. So a task that outlives the `with` loses the permission together with the
    code that started it. The task that entered loses the fence when it is left, also if another task leaves it, as
    fixtures do.

    Args:
        check: Raises, in the fenced code, if the permission has lapsed or was given back. It is called often, and must
            not block.
        name: The name of what gives the permission, such as the "namespace/name" of a Lease.
    """

    __slots__ = ("_entered_in", "_left", "check", "name")

    def __init__(self, check: Callable[[], None], name: str = "") -> None:
        self.check = check
        self.name = name
        self._entered_in: weakref.ref[Context] | None = None
        self._left = False

    def __enter__(self) -> Self:
        context = _current_context()
        self._entered_in = None if context is None else weakref.ref(context)
        _fences.set((*_fences.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._remove()
        context = None if self._entered_in is None else self._entered_in()
        if context is None or self not in context.get(_fences, ()):
            return
        try:
            context.run(self._remove)
        except RuntimeError:  # the task that entered runs now: this one was started eagerly
            asyncio.get_running_loop().call_soon(self._remove, context=context)

    def _remove(self) -> None:
        # Without a token, which would be valid only in the context in which it was made.
        if self in (fences := _fences.get()):
            _fences.set(tuple(fence for fence in fences if fence is not self))

    @property
    def is_left_here(self) -> bool:
        """True if it was left, and was entered in the current context. A task that was started inside keeps it."""
        return self._left and self._entered_in is not None and self._entered_in() is _current_context()


def _current_context() -> Context | None:
    """Return the context of the current task, or None if no task is running."""
    if asyncio._get_running_loop() is None or (task := asyncio.current_task()) is None:
        return None
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Python 3.11 has no method for it. A task's own context comes before those of its callbacks.
    return next((referent for referent in gc.get_referents(task) if isinstance(referent, Context)), None)


def check_fences() -> None:
    """Raise if a permission of this task has lapsed. Return if all are valid, or if there are none.

    Call it in the body of `LeaderElector.leading()` or `Shard.claim()`, before any action that must not happen without
    the lead or the shard. A `Client` calls it by itself.

    Raises:
        LeadershipLostError: The lead has lapsed, or was given back.
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
        _fences.set(tuple(fence for fence in before if not fence.is_left_here))  # left by another task meanwhile
