"""The listening end of a proxy: an address or a unix socket, its TLS, and its connections."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import stat
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from kinformer._runtime.logs import get_logger
from kinformer.exceptions import ConfigError
from kinformer.listening.aiohttp_server import server_options
from kinformer.listening.connections import Connections

__all__ = ["Listener", "ServerCertificate", "is_loopback", "parse_listen"]

log = get_logger("kinformer.proxy")

_MOST = 10_000  # connections, if the process has descriptors for them. A watch has one of its own
_SHARE = 0.5
_HEAD_BYTES = 128 * 1024
_LINE = 64 * 1024  # bytes of a request line or header field. A token with many groups is long
_IDLE = 90.0  # seconds between two requests of a connection
_HANDSHAKE = 32.0  # seconds for TLS
_WAITING = 128  # connections that the kernel keeps until they are accepted
_RELOAD = 30.0  # seconds between two looks at the files of the certificate
_GRACE = 5.0  # seconds for responses that are under way when the proxy stops


@dataclass(frozen=True, slots=True)
class ServerCertificate:
    """The files of a server's certificate and key, and of the authorities of client certificates, all in PEM."""

    cert: Path
    key: Path
    client_ca: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return a context with the files as they are now.

        Raises:
            ConfigError: A file cannot be read, or has something else.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            try:
                context.load_verify_locations(self.client_ca)
            except (OSError, ValueError) as error:
                raise ConfigError(f"{self.client_ca}: expected certificates in PEM: {_reason(error)}") from None
        return context

    def load(self, context: ssl.SSLContext) -> None:
        """Load certificate and key into a context. New connections use them. Raises ConfigError."""
        try:
            context.load_cert_chain(self.cert, self.key, password="")  # without one, OpenSSL would ask on the terminal
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{self.cert}, {self.key}: expected a certificate and its key, in PEM and not encrypted: "
                f"{_reason(error)}"
            ) from None

    def stamps(self) -> tuple[tuple[int, int, int], ...]:
        """Return what changes when a file is replaced. Raises OSError."""
        found = [os.stat(path) for path in (self.cert, self.key)]  # noqa: PTH116 - follows links, as a mounted Secret has
        return tuple((one.st_mtime_ns, one.st_size, one.st_ino) for one in found)


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
        certificate: The files for TLS, or None for plain HTTP.
    """

    def __init__(
        self, application: web.Application, listen: str, path: Path | None, certificate: ServerCertificate | None
    ) -> None:
        self.host, self._port = (None, 0) if path is not None else parse_listen(listen)
        self.path = path
        self._certificate = certificate
        self._context = None if certificate is None else certificate.context()
        self._runner = web.AppRunner(
            application,
            shutdown_timeout=_GRACE,
            handle_signals=False,
            handler_cancellation=True,
            auto_decompress=False,
            **{**server_options(keepalive=_IDLE), "max_line_size": _LINE, "max_field_size": _LINE},
        )
        self._server: asyncio.Server | None = None
        self._reloading: asyncio.Task[None] | None = None
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
        return f"http{'s' if self._context else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"

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
            handshake = None if self._context is None else _HANDSHAKE
            loop = asyncio.get_running_loop()
            # A backlog of one makes asyncio accept connections one by one, so that one can be refused in time.
            self._server = await loop.create_server(
                limited, sock=bound, ssl=self._context, ssl_handshake_timeout=handshake, backlog=1
            )
        except BaseException:
            bound.close()
            await self._runner.cleanup()
            self._remove_socket()
            raise
        with socket.fromfd(bound.fileno(), bound.family, bound.type) as same:
            same.listen(_WAITING)
        if self._certificate is not None:
            self._reloading = asyncio.create_task(self._reload(), name="kinformer proxy: certificate")

    async def stop(self) -> None:
        """Stop listening. Responses that are under way have five seconds to finish."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait((self._reloading,))
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

    async def _reload(self) -> None:
        """Load the certificate again when its files are replaced, as cert-manager does."""
        assert self._certificate is not None
        assert self._context is not None
        known: tuple[tuple[int, int, int], ...] | None = None
        while True:
            try:
                stamps = self._certificate.stamps()
                if known is not None and stamps != known:
                    self._certificate.load(self._context)
                    log.info("the certificate was replaced", reason="certificate")
                known = stamps
            except (OSError, ConfigError) as error:
                log.warning("the certificate cannot be read again: %s", error, reason="certificate")
            await asyncio.sleep(_RELOAD)


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


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
