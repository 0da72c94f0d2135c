"""Credentials, which renew themselves and never reveal their secret."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol, cast

import anyio
import anyio.to_thread

from kinformer._runtime.logs import get_logger
from kinformer.client.single_flight import SingleFlight
from kinformer.exceptions import ConfigError
from kinformer.objects.types import JSON

__all__ = [
    "Credential",
    "CredentialKind",
    "ExecPlugin",
    "LibraryProvider",
    "StaticCredential",
    "TokenFile",
    "header_text",
]

log = get_logger("kinformer.credentials")

_REREAD = 60.0  # seconds between two reads of a token file (client-go, transport/token_source.go)
_REFUSED_AGAIN = 5.0  # seconds after a renewal, successful or not, before another one
_PLUGIN_TIMEOUT = 60.0  # seconds for a plugin without a terminal
_MOST_OUTPUT = 1024 * 1024  # bytes of a plugin's output. A credential has a few KB


CredentialKind = Literal["none", "token", "password", "token-file", "exec-plugin", "auth-provider", "api-client"]


class Credential(Protocol):
    """The source of the `Authorization` header. A transport uses it before each request, and after a 401."""

    @property
    def kind(self) -> CredentialKind:
        """The source of the `Authorization` header."""
        ...

    @property
    def identity(self) -> tuple[bytes, bytes] | None:
        """Client certificate and key (PEM) that came with the credential, or None."""
        ...

    async def authorization(self) -> str | None:
        """Return the value of the `Authorization` header, renewed if due, or None for no header."""
        ...

    async def renew(self) -> None:
        """Look for a newer credential immediately, because the server responded with 401."""
        ...

    async def close(self) -> None:
        """Stop everything that it runs."""
        ...


def header_text(value: str, *, where: str) -> str:
    """Return `value` if it is valid in a header.

    Raises:
        ConfigError: It has a line break or another control character. The message does not quote the secret value.
    """
    if not value.isprintable():
        raise ConfigError(f"{where}: must be one line of text")
    return value


class StaticCredential:
    """A credential that never changes: a token, a user's password, or nothing (only client certificates)."""

    identity = None

    def __init__(self, authorization: str | None = None) -> None:
        self._authorization = authorization
        scheme = (authorization or "").partition(" ")[0]
        self.kind: CredentialKind = "token" if scheme == "Bearer" else "password" if scheme == "Basic" else "none"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'with a header' if self._authorization else 'without a header'}>"

    async def authorization(self) -> str | None:
        return self._authorization

    async def renew(self) -> None:
        return None

    async def close(self) -> None:
        return None


class TokenFile:
    """A bearer token in a file that another program rewrites, as the kubelet does.

    It is read at most once a minute, and immediately after a 401. If the file later cannot be read, the last token
    stays in use, with a warning, because the server may still accept it.

    Args:
        path: The file.
        where: The file and field of its path, for messages.
        token: The token to use if the file has never been readable (`token` beside `tokenFile`).

    Raises:
        ConfigError: (on first use) The file cannot be read or is empty, and there is no `token`.
    """

    identity = None
    kind: CredentialKind = "token-file"

    def __init__(self, path: str | Path, *, where: str, token: str | None = None) -> None:
        self._path = Path(path)
        self._where = where
        self._token = token
        self._read_at: float | None = None

    def __repr__(self) -> str:
        return f"<TokenFile {self._path}>"

    async def authorization(self) -> str | None:
        if self._read_at is None or asyncio.get_running_loop().time() - self._read_at >= _REREAD:
            self._read()
        return f"Bearer {self._token}"

    async def renew(self) -> None:
        self._read()

    async def close(self) -> None:
        return None

    def _read(self) -> None:
        # Read on the event loop, because the file is a kilobyte in memory (tmpfs), and a thread costs more than the
        # read.
        token = ""
        try:
            token = self._path.read_text().strip()
        except (OSError, ValueError) as error:  # ValueError: a path that contains NUL, or bytes that are not UTF-8
            problem = f"{self._where}: cannot read {self._path}: {_reason(error)}"
        else:
            problem = "" if token else f"{self._where}: {self._path} is empty"
            if not token.isprintable():
                problem = f"{self._where}: {self._path} must be one line of text"
        self._read_at = asyncio.get_running_loop().time()
        if not problem:
            self._token = token
        elif self._token is None:
            raise ConfigError(problem)
        else:
            log.warning("%s; continuing with the last token", problem, reason="token_unreadable")


@dataclass(slots=True, kw_only=True)
class ExecPlugin:
    """A credential plugin: a program that prints an `ExecCredential` (client-go, plugin/pkg/client/auth/exec).

    It runs on entering the client, again when its `expirationTimestamp` is near (a tenth of its lifetime before the
    end, at most 60 s), and after a 401, but not within 5 s of the last run for one of these reasons. In that time, a
    credential that has expired by the local clock is still sent, and a failure is raised again. Requests that need the
    credential during a run share it. The run continues if they are cancelled, because it may take longer than any of
    them waits. Exiting the client kills the program. It gets the terminal only if there is one and `interactiveMode`
    allows it.

    Raises:
        ConfigError: The program does not exist, fails, takes longer than 60 s without a terminal, prints more than 1
            MiB, or does not print an `ExecCredential`. The message has file and field, and the program's stderr.
    """

    where: str
    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    kind: CredentialKind = field(default="exec-plugin", init=False, repr=False)
    identity: tuple[bytes, bytes] | None = field(default=None, init=False, repr=False)
    _authorization: str | None = field(default=None, init=False, repr=False)
    _renew_at: float | None = field(default=None, init=False, repr=False)  # wall clock. None: it does not expire
    _flight: SingleFlight[None] = field(init=False, repr=False)
    _ran: bool = field(default=False, init=False, repr=False)
    _pause_until: float = field(default=0.0, init=False, repr=False)  # loop time
    _failure: str = field(default="", init=False, repr=False)  # of the last run, or ""

    def __post_init__(self) -> None:
        self._flight = SingleFlight(self._run, lingers=True)

    async def authorization(self) -> str | None:
        if not self._ran:
            await self._flight.get()
        elif self._renew_at is not None and time.time() >= self._renew_at:
            # If the clock is wrong or was set forward, every credential has expired as soon as it arrives.
            if not self._is_paused:
                await self._renew()
            elif self._failure:
                raise ConfigError(self._failure)
        return self._authorization

    async def renew(self) -> None:
        # Without the pause, a hundred informers that all get a 401 would start a hundred programs.
        if not self._is_paused:
            await self._renew()

    @property
    def _is_paused(self) -> bool:
        return asyncio.get_running_loop().time() < self._pause_until

    async def _renew(self) -> None:
        self._failure, failure = "", None
        try:
            await self._flight.get()
        except ConfigError as error:
            self._failure, failure = str(error), error
        # Even if the token is new, because a token that contains the time always is.
        self._pause_until = asyncio.get_running_loop().time() + _REFUSED_AGAIN
        if failure is not None:
            raise failure

    async def close(self) -> None:
        await self._flight.close()

    async def _run(self) -> None:
        interactive = self.interactive_mode != "Never" and _has_terminal()
        if self.interactive_mode == "Always" and not interactive:
            raise ConfigError(f"{self.where}.interactiveMode: Always, but there is no terminal")
        spec: dict[str, object] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": self.api_version, "kind": "ExecCredential", "spec": spec}
        env = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            # A person who types a password may take a while, but a program may not.
            with anyio.fail_after(None if interactive else _PLUGIN_TIMEOUT):
                status, output, stderr = await _run_program([self.command, *self.args], env, interactive=interactive)
        except TimeoutError:
            raise ConfigError(
                f"{self.where}.command: {self.command} did not end within {_PLUGIN_TIMEOUT:.0f} s"
            ) from None
        except _TooMuchOutputError:
            raise ConfigError(f"{self.where}.command: {self.command} printed more than {_MOST_OUTPUT} bytes") from None
        except (OSError, ValueError) as error:  # ValueError: NUL in an argument or variable
            hint = f"; {self.install_hint.strip()}" if self.install_hint else ""
            raise ConfigError(f"{self.where}.command: cannot run {self.command!r}: {_reason(error)}{hint}") from None
        if status:
            message = stderr.decode(errors="replace").strip()[-500:] or "without output on stderr"
            raise ConfigError(f"{self.where}.command: {self.command} ended with status {status}: {message}")
        self._take(output)

    def _take(self, output: bytes) -> None:
        # The output is secret even if it is malformed, so no part of it may appear in a message.
        try:
            parsed: JSON = json.loads(output)
        except (ValueError, RecursionError):
            raise ConfigError(f"{self.where}.command: {self.command} did not print JSON") from None
        status = parsed.get("status") if isinstance(parsed, dict) else None
        if not isinstance(parsed, dict) or not isinstance(status, dict) or parsed.get("kind") != "ExecCredential":
            raise ConfigError(f"{self.where}.command: {self.command} did not print an ExecCredential with a status")
        if parsed.get("apiVersion") != self.api_version:
            raise ConfigError(
                f"{self.where}.apiVersion: {self.api_version}, but {self.command} printed another version"
            )
        token, cert, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if not all(value is None or isinstance(value, str) for value in (token, cert, key)):
            raise ConfigError(f"{self.where}.command: {self.command} printed a credential that is not a string")
        if bool(cert) != bool(key) or not (token or cert):
            raise ConfigError(
                f"{self.where}.command: {self.command} printed neither a token nor a certificate with its key"
            )
        expires = status.get("expirationTimestamp")
        renew_at = self._deadline(str(expires)) if expires else None
        what = f"{self.where}.command: the token of {self.command}"
        self._authorization = f"Bearer {header_text(str(token), where=what)}" if token else None
        self._renew_at = renew_at
        self.identity = (str(cert).encode(errors="replace"), str(key).encode(errors="replace")) if cert else None
        self._ran = True

    def _deadline(self, expires: str) -> float:
        try:
            end = datetime.fromisoformat(expires)
        except ValueError:
            raise ConfigError(f"{self.where}.command: {self.command} printed an invalid expirationTimestamp") from None
        at = (end if end.tzinfo else end.replace(tzinfo=UTC)).timestamp()
        return at - min(60.0, max(0.0, at - time.time()) * 0.1)


def _has_terminal() -> bool:
    # A daemon has closed it, so that its other methods raise. Python may also have started without it.
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class _TooMuchOutputError(Exception):
    """A plugin printed more than any credential contains."""


class _PluginProcess(asyncio.SubprocessProtocol):
    """A running program and its output. It is killed if it prints too much."""

    _transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        self.printed = {1: bytearray(), 2: bytearray()}  # by file descriptor
        self.ended = asyncio.Event()  # it has ended, and its pipes are closed

    @property
    def printed_too_much(self) -> bool:
        return max(map(len, self.printed.values())) > _MOST_OUTPUT

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed[fd] += data
        if self.printed_too_much:
            self._transport.close()  # kills it

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


async def _run_program(
    command: Sequence[str], env: Mapping[str, str], *, interactive: bool
) -> tuple[int | None, bytes, bytes]:
    """Run a program, and return its status, stdout and stderr. Cancelling kills it.

    (It uses a protocol, because the streams of asyncio, and of anyio before 4.15, wait forever for a program that is
    killed after they have stopped reading.)
    """
    transport, program = await asyncio.get_running_loop().subprocess_exec(
        _PluginProcess,
        *command,
        env=env,
        stdin=None if interactive else subprocess.DEVNULL,
        stderr=None if interactive else subprocess.PIPE,
    )
    try:
        await program.ended.wait()
    finally:
        transport.close()
        await program.ended.wait()
    if program.printed_too_much:
        raise _TooMuchOutputError
    return transport.get_returncode(), bytes(program.printed[1]), bytes(program.printed[2])


class _Configuration(Protocol):
    """The Configuration of kubernetes_asyncio."""

    api_key: dict[str, str]


class _Loader(Protocol):
    """The KubeConfigLoader of kubernetes_asyncio."""

    async def load_and_set(self, client_configuration: _Configuration, /) -> object: ...


class LibraryProvider:
    """The old `auth-provider`s `oidc` and `gcp`, as far as kubernetes_asyncio renews them.

    They are checked once a minute, and immediately after a 401. Renewed tokens stay in memory, because the kubeconfig
    is never written. The first use imports kubernetes_asyncio (about 0.6 s and 40 MB), in a thread.

    Args:
        kubeconfig: A kubeconfig with one context, cluster and user, as a dict.
        where: The file and field, for messages.
    """

    identity = None
    kind: CredentialKind = "auth-provider"

    def __init__(self, kubeconfig: dict[str, object], *, where: str) -> None:
        self._kubeconfig = kubeconfig
        self._where = where
        self._loader: _Loader | None = None
        self._configuration: _Configuration | None = None
        self._looked_at = 0.0
        self._authorization: str | None = None
        self._flight = SingleFlight(self._load)

    def __repr__(self) -> str:
        return f"<LibraryProvider {self._where}>"

    async def authorization(self) -> str | None:
        if self._loader is None or asyncio.get_running_loop().time() - self._looked_at >= _REREAD:
            await self._flight.get()
        return self._authorization

    async def renew(self) -> None:
        await self._flight.get()

    async def close(self) -> None:
        await self._flight.close()

    async def _load(self) -> None:
        try:
            if self._loader is None:
                await anyio.to_thread.run_sync(self._prepare)
            assert self._loader is not None
            assert self._configuration is not None
            await self._loader.load_and_set(self._configuration)
        except Exception as error:  # noqa: BLE001 - any exception of a provider concerns this field
            # The library's messages are safe. Other messages and the cause are omitted, because they may quote the
            # token.
            reason = str(error) if type(error).__name__ == "ConfigException" else type(error).__name__
            raise ConfigError(f"{self._where}: no credential: {reason}") from None
        self._looked_at = asyncio.get_running_loop().time()
        self._authorization = self._configuration.api_key.get("BearerToken")

    def _prepare(self) -> None:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader

        self._configuration = Configuration()
        self._loader = KubeConfigLoader(config_dict=self._kubeconfig)


def _reason(error: Exception) -> str:
    """Return the reason of an error without the file name, which the caller knows."""
    return error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
