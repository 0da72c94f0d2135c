"""The listening end of a proxy: an address or a unix socket, and its connections."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from kinformer.exceptions import ConfigError
from kinformer.listening.aiohttp_server import server_options
from kinformer.listening.connections import Connections

__all__ = ["Listener", "is_loopback", "parse_listen"]

_MOST = 10_000  # connections, if the process has descriptors for them. A watch has one of its own
_SHARE = 0.5
_HEAD_BYTES = 128 * 1024
_LINE = 64 * 1024  # bytes of a request line or header field. A token with many groups is long
_IDLE = 90.0  # seconds between two requests of a connection
_WAITING = 128  # connections that the kernel keeps until they are accepted
_GRACE = 5.0  # seconds for responses that are under way when the proxy stops


def parse_listen(address: str) -> tuple[str | None, int]:
    """Return the host and port of `"127.0.0.1:8001"`, `"[::1]:8001"` or `":8001"` (all interfaces, host None).

    Raises:
        ConfigError: It is no such address.
    """
    host, colon, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in bare and bare == host):
        raise ConfigError(f"invalid listen={address!r}: expected an address such as '127.0.0.1:8001' or ':8001'")
    return bare or None, int(port)


def is_loopback(host: str | None) -> bool:
    """Return True if only programs of this machine can reach an address."""
    if host is None:
        return False
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class Listener:
    """Accepts connections, from `start` to `stop`.

    Args:
        application: Answers the requests.
        listen: The address, or "" with a socket.
        path: The unix socket, or None.
    """

    def __init__(self, application: web.Application, listen: str, path: Path | None) -> None:
        self.host, self._port = (None, 0) if path is not None else parse_listen(listen)
        self.path = path
        self._runner = web.AppRunner(
            application,
            shutdown_timeout=_GRACE,
            handle_signals=False,
            handler_cancellation=True,
            auto_decompress=False,
            **{**server_options(keepalive=_IDLE), "max_line_size": _LINE, "max_field_size": _LINE},
        )
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None  # of the socket's file

    @property
    def port(self) -> int:
        """The port, or 0 for a socket. Raises RuntimeError before `start` and after `stop`."""
        if self._server is None:
            raise RuntimeError("the proxy is not listening")
        return 0 if self.path is not None else int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The URL for clients, or `unix:` with the path of the socket."""
        if self.path is not None:
            return f"unix:{self.path}"
        host = self.host or "localhost"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    async def start(self) -> None:
        """Start to listen.

        Raises:
            OSError: The address is in use, or this process may not use it.
        """
        bound = self._unix_socket(self.path) if self.path is not None else await self._bound()
        try:
            await self._runner.setup()
            assert self._runner.server is not None, "it is set up"
            limited = Connections(most=_MOST, share=_SHARE, head_bytes=_HEAD_BYTES).guard(self._runner.server)
            loop = asyncio.get_running_loop()
            # A backlog of one makes asyncio accept connections one by one, so that one can be refused in time.
            self._server = await loop.create_server(limited, sock=bound, backlog=1)
        except BaseException:
            bound.close()
            await self._runner.cleanup()
            self._remove_socket()
            raise
        with socket.fromfd(bound.fileno(), bound.family, bound.type) as same:
            same.listen(_WAITING)

    async def stop(self) -> None:
        """Stop listening. Responses that are under way have five seconds to finish."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self._remove_socket()
        await self._runner.cleanup()

    async def _bound(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        host = self.host or ("::" if socket.has_dualstack_ipv6() else "0.0.0.0")
        found = await loop.getaddrinfo(host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        if self.host is not None:
            found.sort(key=lambda one: one[0] != socket.AF_INET)  # of `localhost`, the address that all clients try
        family, kind, protocol, _, address = found[0]
        one = socket.socket(family, kind, protocol)
        try:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(self.host is not None))
            one.bind(address)
        except OSError as error:
            one.close()
            raise OSError(error.errno, f"cannot listen on {host} port {self._port}: {error.strerror}") from None
        return one

    def _unix_socket(self, path: Path) -> socket.socket:
        """Bind a socket that only this user can connect to. One that no process listens on is replaced."""
        if not hasattr(socket, "AF_UNIX"):
            raise ConfigError("this system has no unix sockets; use an address")
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            try:
                one.bind(str(path))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not _is_abandoned(path):
                    raise
                path.unlink()
                one.bind(str(path))
        except OSError as error:
            one.close()
            raise OSError(error.errno or errno.EINVAL, f"cannot listen on {path}: {error.strerror or error}") from None
        finally:
            os.umask(before)
        found = path.stat()
        self._inode = (found.st_dev, found.st_ino)
        return one

    def _remove_socket(self) -> None:
        if self.path is None or self._inode is None:
            return
        with suppress(OSError):
            found = self.path.stat()
            if (found.st_dev, found.st_ino) == self._inode:  # not one that another process has made in its place
                self.path.unlink()
        self._inode = None


def _is_abandoned(path: Path) -> bool:
    """Return True for a socket on which no process listens."""
    if not stat.S_ISSOCK(path.stat().st_mode):
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False
