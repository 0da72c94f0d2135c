"""The place where a server listens: an address, or a unix socket of its user."""

from __future__ import annotations

import errno
import re
import socket
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from kinformer.exceptions import ConfigError

__all__ = ["bind_unix", "inode_of", "is_loopback", "parse_address", "remove_unix", "url_of"]

_ADDRESS = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]*)):([0-9]{1,5})")


def parse_address(address: str) -> tuple[str | None, int]:
    """Return the host and port of `"127.0.0.1:8080"`, `"[::1]:8080"` or `":8080"` (all interfaces, host None).

    Raises:
        ConfigError: `address` is not such an address.
    """
    parts = _ADDRESS.fullmatch(address)
    if parts is None or int(parts[3]) > 65535:
        raise ConfigError(f"invalid listen={address!r}: expected an address such as ':8080' or '127.0.0.1:8080'")
    return parts[1] or parts[2] or None, int(parts[3])


def is_loopback(host: str | None) -> bool:
    """Return True if only programs of this machine can reach a host. None is all interfaces."""
    if host is None or host == "localhost":
        return host is not None
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def url_of(host: str | None, port: int) -> str:
    """Return the URL of a server, for clients on this machine."""
    host = host or "localhost"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}".replace("%", "%25")  # fe80::1%eth0 (RFC 6874)


def bind_unix(path: Path) -> socket.socket:
    """Bind a unix socket that only this user can connect to. One on which no process listens is replaced.

    Raises:
        ConfigError: This system has no unix sockets.
        OSError: A process listens there, something else is there, or the directory is not writable.
    """
    if not hasattr(socket, "AF_UNIX"):
        raise ConfigError("this system has no unix sockets; use an address")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            bound.bind(str(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_abandoned(path):
                raise
            path.unlink()
            bound.bind(str(path))
        path.chmod(0o600)  # it refuses connections until it listens, so there was no time to connect
    except BaseException as error:
        bound.close()
        if isinstance(error, OSError):
            problem = error.strerror or str(error)
            raise OSError(error.errno or errno.EINVAL, f"cannot listen on {path}: {problem}") from None
        raise
    return bound


def inode_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at a path, or None without one."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def remove_unix(path: Path, inode: tuple[int, int] | None) -> None:
    """Remove a unix socket, unless another file has taken its place."""
    if inode is not None:
        with suppress(OSError):
            if inode_of(path) == inode:
                path.unlink()


def _is_abandoned(path: Path) -> bool:
    """Return True for a socket on which no process listens."""
    if not stat.S_ISSOCK(path.lstat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False
