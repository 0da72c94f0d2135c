"""The configuration of a client: the server, its TLS, the credentials, and the options of its requests."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypedDict, get_args
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

import kinformer
from kinformer.connection.addresses import environment_proxy, is_host_name, split_url
from kinformer.connection.credentials.credential import (
    Credential,
    CredentialKind,
    StaticCredential,
    TokenFile,
    header_text,
)
from kinformer.connection.credentials.exec_plugin import ExecPlugin
from kinformer.connection.retries import RateLimit
from kinformer.connection.showable import showable_output, showable_url
from kinformer.exceptions import ConfigError
from kinformer.listening.address import is_loopback
from kinformer.metrics import Metrics

__all__ = [
    "TLS",
    "VERSION",
    "ClientKeywords",
    "ClientOptions",
    "Compression",
    "ConnectionInfo",
    "ConnectionSettings",
    "Pem",
    "Trace",
    "accepted_encoding",
    "at_once",
    "check_compression",
    "check_server",
    "check_server_name",
    "from_url",
    "in_thread",
    "load_in_cluster",
]

VERSION = kinformer.__version__

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


Trace: TypeAlias = Callable[[str, str, str, Mapping[str, str]], AbstractContextManager[Callable[[int], object]]]
"""Measures a request: takes method, server URL, path and parameters, and yields a function that takes the status.

The path has no query. It is entered for each attempt, before it is sent, and exited at the end of the body or stream.
"""


@dataclass(frozen=True, slots=True)
class Pem:
    """Certificates or a key: a file, or the bytes themselves. `where` names the source file and field."""

    where: str
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)

    def read(self) -> bytes:
        """Return the PEM data. Raises ConfigError if the file cannot be read."""
        if self.data is not None:
            return self.data
        try:
            return Path(self.path or "").read_bytes()
        except (OSError, ValueError) as error:  # ValueError: a path that contains NUL
            problem = getattr(error, "strerror", None) or error
            raise ConfigError(f"{self.where}: cannot read {self.path}: {problem}") from None


class TLS(msgspec.Struct, frozen=True, kw_only=True):
    """The authentication of server and client. The server is verified unless this is disabled.

    Attributes:
        verify: False accepts any certificate (`insecure-skip-tls-verify`).
        server_name: The name to verify and send (SNI) instead of the URL's host.
        ca: The trusted authorities, or None for the system's.
        cert: The client certificate, with its `key`.
        context: The program's own context, used unchanged.
    """

    verify: bool = True
    server_name: str | None = None
    ca: Pem | None = None
    cert: Pem | None = None
    key: Pem | None = None
    context: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The settings of a transport. Its repr contains no secret.

    Attributes:
        server: The base URL, without a trailing slash.
        source: The origin of the settings, for people.
        proxy: The URL of an HTTP proxy, from `proxy-url` or else from the environment.
        headers: Additional headers of each request (impersonation), as pairs, because names may repeat.
        namespace: The namespace of the context, or "default" if it has none.
        compresses: True if compression is allowed when the program does not choose. False with `disable-compression`
            in a kubeconfig.
        socket: The path of a Unix socket to connect to instead of the server's address.
    """

    server: str
    source: str
    credential: Credential = field(default_factory=StaticCredential)
    tls: TLS = field(default_factory=TLS)
    proxy: str | None = field(default=None, repr=False)
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    namespace: str = "default"
    compresses: bool = True
    socket: str | None = None

    def info(self) -> ConnectionInfo:
        """Return a description for users."""
        credential = self.credential
        return ConnectionInfo(
            server=self.server,
            source=self.source,
            namespace=self.namespace,
            proxied=self.proxy is not None,
            credential=credential.kind,
            exec_plugin=credential.command if isinstance(credential, ExecPlugin) else None,
            client_certificate=self.tls.cert is not None,
            verified=self.tls.verify,
            system_trust=self.tls.ca is None and self.tls.context is None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """The server that a client connects to, and the kind of credential that it uses, without secrets.

    Attributes:
        server: The server's base URL.
        source: The origin of these settings: a kubeconfig and its context, `"url"`, `"in-cluster"` or `"ApiClient"`.
        namespace: The namespace of the context, or "default" if it has none.
        proxied: True if requests go through an HTTP proxy.
        credential: The source of the `Authorization` header, or `"none"` if none is sent.
        exec_plugin: The command of the credential plugin, if any.
        client_certificate: True if the configuration has a client certificate. A plugin may supply another.
        verified: False if any server certificate is accepted (`insecure-skip-tls-verify`).
        system_trust: True if the system's authorities are trusted, or False if the configuration sets its own.
    """

    server: str
    source: str
    namespace: str = "default"
    proxied: bool = False
    credential: CredentialKind = "none"
    exec_plugin: str | None = None
    client_certificate: bool = False
    verified: bool = True
    system_trust: bool = True


def check_server(url: str, *, where: str, scheme: str | None = None) -> str:
    """Return the URL of a server with its scheme in lower case and without a trailing slash.

    Args:
        url: The URL.
        where: The file and field, for messages.
        scheme: The scheme of a host and port without one, as for kubectl (client-go, rest/url_utils.go). None requires
            a URL.

    Raises:
        ConfigError: The URL is not http or https, has no host, an invalid port, a query, or a password.
    """
    shown, url = showable_url(url), url.strip()
    host = url if "://" in url else url.rstrip("/")
    if scheme and "/" not in host and (":" in host or "." in host or showable_output(host) == host):
        url = f"{scheme}://{host}"  # a word without : and . that looks secret may be a token, and no host
    if "://" not in url:
        raise ConfigError(f"{where}: must be a URL such as https://host:6443, with http:// or https://")
    parts = split_url(url)
    if parts is None or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{where}: {shown!r} is not a URL such as https://host:6443, with a valid host and port")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{where}: the URL has a user or password; use a token or a client certificate instead")
    if parts.query or parts.fragment:
        raise ConfigError(f"{where}: {shown!r} must end with its path, without ? and #")
    return parts.geturl().rstrip("/")


def check_server_name(name: str, *, where: str) -> str | None:
    """Return the host name to verify, or None if it is empty. Raises ConfigError if it is not a host name."""
    if name and not is_host_name(name):
        raise ConfigError(f"{where}: must be a host name")
    return name.removesuffix(".") or None


def from_url(url: str, *, token: str | None = None, ssl_: ssl.SSLContext | bool | None = None) -> ConnectionSettings:
    """Create the connection for a URL. `ssl_` is a context, False to verify nothing, or None for the system's CAs."""
    server = check_server(url, where="url")
    credential = StaticCredential(f"Bearer {header_text(token, where='token')}" if token else None)
    tls = TLS(context=ssl_) if isinstance(ssl_, ssl.SSLContext) else TLS(verify=ssl_ is not False)
    return ConnectionSettings(
        server=server, source="url", credential=credential, tls=tls, proxy=environment_proxy(server)
    )


def load_in_cluster(environ: Mapping[str, str] | None = None, root: Path | None = None) -> ConnectionSettings:
    """Create the connection of a pod, from the environment (server) and from files (token and CA).

    (client-go, rest/config.go)

    Raises:
        ConfigError: This is not a pod, or it has no service account. The message names the variable or the file.
    """
    environ = os.environ if environ is None else environ
    root = SERVICE_ACCOUNT if root is None else root
    values = {}
    for name in ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        values[name] = environ.get(name, "")
        if not values[name]:
            raise ConfigError(f"{name} is not set: this process does not run in a pod")
    for needed in ("token", "ca.crt"):
        if not (root / needed).is_file():
            raise ConfigError(f"{root / needed} does not exist: the pod has no service account token mounted")
    host, port = values.values()
    server = check_server(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", where="KUBERNETES_SERVICE_HOST"
    )
    namespace = root / "namespace"
    try:
        own_namespace = namespace.read_text().strip() if namespace.is_file() else ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {namespace}: {error}") from None
    return ConnectionSettings(
        server=server,
        source="in-cluster",
        credential=TokenFile(root / "token", where="in-cluster"),
        tls=TLS(ca=Pem("in-cluster", str(root / "ca.crt"))),
        proxy=environment_proxy(server, environ),
        namespace=own_namespace or "default",
    )


Compression = Literal["auto", "gzip", "none"]
"""`"auto"` uses gzip unless the server is local, `"gzip"` always does, and `"none"` never does."""


def check_compression(compression: str) -> None:
    """Raise ConfigError unless this is a `Compression`."""
    if compression not in get_args(Compression):
        choices = ", ".join(repr(choice) for choice in get_args(Compression))
        raise ConfigError(f"invalid compression={compression!r}: expected one of {choices}")


def accepted_encoding(compression: Compression, connection: ConnectionSettings) -> str:
    """Return the `Accept-Encoding` for requests with potentially long responses.

    With "auto", a server on this machine is not compressed, because compression saves no time without a network. A
    proxy does not count as local.
    """
    if compression == "auto":
        is_local = connection.proxy is None and is_loopback(urlsplit(connection.server).hostname)
        is_far = connection.compresses and not is_local
        return "gzip" if is_far else "identity"
    return "gzip" if compression == "gzip" else "identity"


class ClientKeywords(TypedDict, total=False):
    """The keyword arguments of all constructors of `Client`. See there."""

    compression: Compression
    rate: float | None
    burst: int | None
    metrics: Metrics | None
    user_agent: str | None
    log_plugin_stderr: bool
    trace: Trace | None


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a client. See `Client`.

    Raises:
        ConfigError: A value is invalid. The message names it.
    """

    compression: Compression = "auto"
    rate: float | None = None
    burst: int | None = None
    metrics: Metrics | None = None
    user_agent: str | None = None
    log_plugin_stderr: bool = False
    trace: Trace | None = None

    def __post_init__(self) -> None:
        check_compression(self.compression)
        check_user_agent(self.user_agent)
        self.limit()

    def apply_to(self, connection: ConnectionSettings) -> ConnectionSettings:
        """Return the connection with the options that concern its credential."""
        credential = connection.credential
        if not self.log_plugin_stderr or not isinstance(credential, ExecPlugin):
            return connection
        return replace(connection, credential=replace(credential, logs_stderr=True))

    def limit(self) -> RateLimit | None:
        """Return the client's own rate limit, or None if there is none."""
        if self.rate is not None:
            return RateLimit(self.rate, self.burst)
        if self.burst is not None:
            raise ConfigError(f"invalid burst={self.burst!r}: requires rate=")
        return None


def check_user_agent(user_agent: object) -> None:
    """Raise ConfigError unless this is a valid `User-Agent` or None."""
    if user_agent is None:
        return
    if not isinstance(user_agent, str) or not user_agent.strip() or not user_agent.isascii():
        raise ConfigError(f"invalid user_agent={user_agent!r}: expected an ASCII string, such as 'my-program/1.0'")
    header_text(user_agent, where="user_agent")


def in_thread(load: Callable[[], ConnectionSettings]) -> Callable[[], Awaitable[ConnectionSettings]]:
    """Return a coroutine function that loads a configuration in a worker thread."""

    async def loading() -> ConnectionSettings:
        return await anyio.to_thread.run_sync(load)  # reads files, and imports a YAML parser

    return loading


def at_once(load: Callable[[], ConnectionSettings]) -> Callable[[], Awaitable[ConnectionSettings]]:
    """Return a coroutine function that loads a configuration directly."""

    async def loading() -> ConnectionSettings:
        return load()

    return loading
