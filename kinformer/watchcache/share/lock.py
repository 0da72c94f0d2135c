"""The lock of the holder: a flock, which the kernel frees when the process ends in any way.

A flock belongs to the open file, not to the process. So two locks in one process exclude each other. A child of `fork`
would share it and keep it after the parent's death, so children close their copy.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from kinformer.watchcache.share.socket_path import UnreachableError

if sys.platform != "win32":
    import fcntl

__all__ = ["HolderLock", "closed_in_children"]

_HELD_ELSEWHERE = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_inherited: set[int] = set()


def closed_in_children(descriptor: int) -> Callable[[], None]:
    """Close a descriptor in each child of `fork` from now on. Returns a function that ends this."""
    _inherited.add(descriptor)
    return lambda: _inherited.discard(descriptor)


def _close_inherited() -> None:
    for descriptor in _inherited:
        os.close(descriptor)
    _inherited.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return True if an open file is the one at a path."""
    try:
        status = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(status, os.fstat(descriptor))


class HolderLock:
    """The lock of one process, or of one of several holders in a process.

    Args:
        path: The file, which is created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1  # of the open file, while the lock is held
        self._forget: Callable[[], None] = lambda: None

    @property
    def is_held(self) -> bool:
        """True while this has the lock."""
        return self._descriptor >= 0

    @property
    def is_gone(self) -> bool:
        """True if this has a lock whose file was removed or replaced, so that another process may take the lock too."""
        return self.is_held and not _is_at(self._path, self._descriptor)

    def acquire(self) -> bool:
        """Try to take the lock, unless this has it. Return False if another has it.

        Raises:
            UnreachableError: The file cannot be opened, or its file system has no locks.
        """
        if self.is_held:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except OSError as error:
            what = "belongs to another user" if error.errno in (errno.EACCES, errno.EPERM) else str(error.strerror)
            raise UnreachableError(f"{self._path}: {what}; use a directory of this user") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in _HELD_ELSEWHERE:
                return False
            raise UnreachableError(
                f"{self._path}: the file system has no flock ({error.strerror}); use a local one such as /run"
            ) from None
        if not _is_at(self._path, descriptor):  # it was removed between the two steps
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        self._forget = closed_in_children(descriptor)
        return True

    def release(self) -> None:
        """Give the lock back, if this has it."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._forget()
            os.close(descriptor)
