"""The path of the socket, and the reasons why a path cannot be used."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

from kinformer.exceptions import ConfigError
from kinformer.listening.address import bind_unix

__all__ = ["SocketPath", "UnreachableError", "peer_uid"]

_LONGEST = 107 if sys.platform == "linux" else 103  # bytes of sun_path, without the final NUL
_SUFFIX = ".lock"
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid (unix(7), struct ucred)


class UnreachableError(Exception):
    """The socket cannot be used.

    Attributes:
        may_appear: True if the holder is probably just starting or ending.
    """

    def __init__(self, message: str, *, may_appear: bool = False) -> None:
        super().__init__(message)
        self.may_appear = may_appear


class SocketPath:
    """The path of a socket, with the lock beside it.

    Args:
        path: The absolute path. The directory must exist when the factory is entered.

    Raises:
        ConfigError: The system has no Unix sockets or no flock, or the path is relative or too long.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if sys.platform == "win32" or not hasattr(socket, "AF_UNIX"):
            raise ConfigError("share: needs Unix sockets and flock, which this system lacks; start one process instead")
        self.path = Path(path)
        if not self.path.is_absolute():
            raise ConfigError(f"share: {str(path)!r} must be an absolute path, because processes may differ in theirs")
        size = len(os.fsencode(self.path))
        if size > _LONGEST:
            raise ConfigError(f"share: {self.path} has {size} bytes; the path of a socket may have {_LONGEST}")
        if b"\0" in os.fsencode(self.path):
            raise ConfigError("share: the path contains a NUL")

    def __str__(self) -> str:
        return str(self.path)

    @property
    def lock(self) -> Path:
        """The path of the lock, which is never removed: a removed file could be locked by two processes."""
        return self.path.with_name(self.path.name + _SUFFIX)

    def check(self) -> None:
        """Check the directory, and what is at the path.

        Raises:
            ConfigError: The directory is missing or not writable, or the path is not a socket.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise ConfigError(f"share: the directory {folder} does not exist; create it, for the user of the processes")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise ConfigError(f"share: the directory {folder} is not writable; use one that belongs to this user")
        status = self._status()
        if status is not None and not stat.S_ISSOCK(status.st_mode):
            raise ConfigError(f"share: {self.path} exists and is not a socket; remove it or use another path")
        if self.lock.exists() and not self.lock.is_file():
            raise ConfigError(f"share: {self.lock} exists and is not a file; remove it or use another path")

    def bind(self) -> socket.socket:
        """Bind a socket that only this user can connect to. The caller holds the lock, so an existing one is stale.

        Raises:
            OSError: The directory is not writable any more.
            UnreachableError: There is something else at the path.
        """
        self.remove()
        return bind_unix(self.path)

    def remove(self, bound: tuple[int, int] | None = None) -> None:
        """Remove the socket.

        Args:
            bound: Remove it only if it is this one, by device and inode.

        Raises:
            UnreachableError: There is something else at the path.
        """
        status = self._status()
        if status is None or (bound is not None and bound != (status.st_dev, status.st_ino)):
            return
        if not stat.S_ISSOCK(status.st_mode):
            raise UnreachableError(f"{self.path} is not a socket; remove it")
        self.path.unlink(missing_ok=True)

    def inode(self) -> tuple[int, int] | None:
        """Return device and inode of what is at the path."""
        status = self._status()
        return None if status is None else (status.st_dev, status.st_ino)

    def probe(self) -> None:
        """Check that a process of the same user listens.

        Raises:
            UnreachableError: No process does, or one of another user.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as tried:
            tried.setblocking(False)
            try:
                tried.connect(str(self.path))
            except BlockingIOError:
                return  # its queue is full, so something listens
            except (FileNotFoundError, ConnectionRefusedError) as error:
                raise UnreachableError(f"{self.path}: {error.strerror}", may_appear=True) from None
            except PermissionError:
                raise UnreachableError(
                    f"{self.path} belongs to another user; run the processes as one user, or give each its own path"
                ) from None
            except OSError as error:
                raise UnreachableError(f"{self.path}: {error.strerror}") from None
            uid = peer_uid(tried)
        if uid is not None and uid != os.geteuid():
            raise UnreachableError(
                f"{self.path} is served by uid {uid}, and this process has uid {os.geteuid()}; run the processes as "
                "one user, or give each its own path"
            )

    def _status(self) -> os.stat_result | None:
        try:
            return self.path.lstat()
        except FileNotFoundError:
            return None


def peer_uid(connected: socket.socket) -> int | None:
    """Return the uid of the process at the other end, or None if the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # not Linux: only the mode of the socket protects it
        return None
    _, uid, _ = _CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(uid)
