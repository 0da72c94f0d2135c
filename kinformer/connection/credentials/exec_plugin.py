"""Credential plugins: programs that print a token or a client certificate."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

import anyio

from kinformer._runtime.logs import get_logger
from kinformer._runtime.yaml_reader import read_yaml
from kinformer.connection.credentials.credential import CredentialKind, header_text, json_of, reason_of
from kinformer.connection.showable import is_secret_name, showable_output
from kinformer.connection.single_flight import SingleFlight
from kinformer.exceptions import ConfigError, CredentialError

__all__ = ["ExecPlugin"]

log = get_logger("kinformer.credentials")

_REFUSED_AGAIN = 5.0  # seconds after a renewal, successful or not, before another one
_PLUGIN_TIMEOUT = 60.0  # seconds for a plugin without a terminal
_MOST_OUTPUT = 1024 * 1024  # bytes of a plugin's output. A credential has a few KB
_MOST_WORDS = 64 * 1024  # bytes of output that is not JSON, whose words may be credentials
_SHORTEST_SECRET = 8  # characters of a word that is a credential, if the output is not JSON

_KIND = "ExecCredential"
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})")

_HINT = (
    "; run it by itself to see why, or log its stderr with Client(log_plugin_stderr=True) and the level DEBUG of the "
    "logger kinformer.credentials"
)


@dataclass(slots=True, kw_only=True)
class ExecPlugin:
    """A credential plugin: a program that prints an `ExecCredential` (client-go, plugin/pkg/client/auth/exec).

    It runs on entering the client, again when its `expirationTimestamp` is near (a tenth of its lifetime before the
    end, at most 60 s), and after a 401, but not within 5 s of the last run for one of these reasons. In that time, a
    credential that has expired by the local clock is still sent, unless the run failed. Requests that need the
    credential during a run share it, and after a failure wait for it for 5 s at most. The run continues if they are
    cancelled, because it may take longer than any of them waits. Exiting the client kills the program. It gets the
    terminal only if there is one and `interactiveMode` allows it.

    Neither stdout nor stderr is quoted in a message, because `set -x` in a script prints the token to stderr. With
    `logs_stderr`, stderr is logged at DEBUG, without what looks like a credential.

    Raises:
        ConfigError: The program does not exist, fails, takes longer than 60 s without a terminal, prints more than 1
            MiB, or does not print an `ExecCredential`. The message has file and field, and the exit status.
    """

    where: str
    command: str
    args: Sequence[str] = field(default=(), repr=False)  # may contain a client secret
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, object] | None = field(default=None, repr=False)
    logs_stderr: bool = False
    kind: CredentialKind = field(default="exec-plugin", init=False, repr=False)
    identity: tuple[bytes, bytes] | None = field(default=None, init=False, repr=False)
    _authorization: str | None = field(default=None, init=False, repr=False)
    _renew_at: float | None = field(default=None, init=False, repr=False)  # wall clock. None: it does not expire
    _flight: SingleFlight[None] = field(init=False, repr=False)
    _ran: bool = field(default=False, init=False, repr=False)
    _pause_until: float = field(default=0.0, init=False, repr=False)  # loop time
    failure: str = field(default="", init=False, repr=False)  # of the last run, or ""

    def __post_init__(self) -> None:
        self._flight = SingleFlight(self._run, lingers=True)

    async def authorization(self) -> str | None:
        if not self._ran:
            await self._flight.get()
        elif self._renew_at is not None and time.time() >= self._renew_at:
            # If the clock is wrong or was set forward, every credential has expired as soon as it arrives.
            await self.renew()
            if self.failure:
                raise CredentialError(self.failure)
        return self._authorization

    async def renew(self) -> None:
        # Without the pause, a hundred informers that all get a 401 would start a hundred programs.
        if asyncio.get_running_loop().time() < self._pause_until:
            return
        with suppress(ConfigError, TimeoutError):  # a program that has failed may hang, and the reason is known
            async with asyncio.timeout(_REFUSED_AGAIN if self.failure else None):
                await self._flight.get()

    async def close(self) -> None:
        await self._flight.close()

    async def _run(self) -> None:
        """Run the program, and record why it failed. The request that needed it may have been cancelled."""
        is_renewal = self._ran
        try:
            await self._run_program()
            self.failure = ""
        except ConfigError as error:
            self.failure = str(error)
            raise
        finally:
            # Even if the token is new, because a token that contains the time always is.
            if is_renewal:
                self._pause_until = asyncio.get_running_loop().time() + _REFUSED_AGAIN

    async def _run_program(self) -> None:
        interactive = self.interactive_mode != "Never" and _has_terminal()
        if self.interactive_mode == "Always" and not interactive:
            raise ConfigError(f"{self.where}.interactiveMode: Always, but there is no terminal")
        spec: dict[str, object] = {"interactive": interactive}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": self.api_version, "kind": _KIND, "spec": spec}
        env = {**os.environ, **self.env, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        program = _PluginProcess()
        try:
            # A person who types a password may take a while, but a program may not.
            with anyio.fail_after(None if interactive else _PLUGIN_TIMEOUT):
                status = await program.run([self.command, *self.args], env, interactive=interactive)
        except TimeoutError:
            raise ConfigError(
                f"{self.where}.command: {self.command} did not end within {_PLUGIN_TIMEOUT:.0f} s"
            ) from None
        except _TooMuchOutputError:
            raise ConfigError(f"{self.where}.command: {self.command} printed more than {_MOST_OUTPUT} bytes") from None
        except (OSError, ValueError) as error:  # ValueError: NUL in an argument or variable
            hint = f"; {self.install_hint.strip()}" if self.install_hint else ""
            raise ConfigError(f"{self.where}.command: cannot run {self.command!r}: {reason_of(error)}{hint}") from None
        finally:
            if self.logs_stderr:
                self._log(program)
        if status:
            hint = "" if interactive else _HINT if program.printed[2] else " and printed nothing to stderr"
            raise ConfigError(f"{self.where}.command: {self.command} ended with status {status}{hint}")
        self._take(bytes(program.printed[1]))

    def _log(self, program: _PluginProcess) -> None:
        secrets = [value for name, value in self.env.items() if is_secret_name(name)]
        secrets += (self._authorization or "").split()[1:]
        secrets += _values_in(bytes(program.printed[1]))
        stderr = showable_output(program.printed[2].decode(errors="replace"), secrets)
        if stderr:
            # As a literal, because a line break could otherwise forge a record.
            log.debug("%s.command: stderr of %s: %r", self.where, self.command, stderr, reason="plugin_stderr")

    def _take(self, output: bytes) -> None:
        # The output is secret even if it is malformed, so no part of it may appear in a message.
        parsed = json_of(output)
        if parsed is None and output.lstrip()[:1] != b"{":  # client-go takes YAML too
            with suppress(ConfigError):
                parsed = read_yaml(output, self.where, what="an ExecCredential", most_values=1000)
        if not isinstance(parsed, dict):
            raise ConfigError(f"{self.where}.command: {self.command} did not print JSON")
        status = parsed.get("status")
        if not isinstance(status, dict) or parsed.get("kind", _KIND) != _KIND:
            raise ConfigError(f"{self.where}.command: {self.command} did not print an ExecCredential with a status")
        if parsed.get("apiVersion") != self.api_version:
            raise ConfigError(
                f"{self.where}.apiVersion: {self.api_version}, but {self.command} printed another version"
            )
        for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp"):
            if not isinstance(status.get(name), str | None):
                raise ConfigError(f"{self.where}.command: {self.command} printed a {name} that is not a string")
        token, cert, key = (status.get(name) for name in ("token", "clientCertificateData", "clientKeyData"))
        if bool(cert) != bool(key) or not (token or cert):
            raise ConfigError(
                f"{self.where}.command: {self.command} printed neither a token nor a certificate with its key"
            )
        expires = status.get("expirationTimestamp")
        renew_at = None if expires is None else self._deadline(str(expires))
        what = f"{self.where}.command: the token of {self.command}"
        self._authorization = f"Bearer {header_text(str(token), where=what)}" if token else None
        self._renew_at = renew_at
        self.identity = (str(cert).encode(errors="replace"), str(key).encode(errors="replace")) if cert else None
        self._ran = True

    def _deadline(self, expires: str) -> float:
        try:
            if not _TIME.fullmatch(expires):  # fromisoformat accepts a time without a zone, and weeks
                raise ValueError
            at = datetime.fromisoformat(expires).timestamp()
        except (ValueError, OverflowError):
            raise ConfigError(f"{self.where}.command: {self.command} printed no RFC 3339 expirationTimestamp") from None
        return at - min(60.0, max(0.0, at - time.time()) * 0.1)


def _has_terminal() -> bool:
    # A daemon has closed it, so that its other methods raise. Python may also have started without it.
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


class _TooMuchOutputError(Exception):
    """A plugin printed more than any credential contains."""


class _PluginProcess(asyncio.SubprocessProtocol):
    """A program and its output. It is killed if it prints too much."""

    _transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        self.printed = {1: bytearray(), 2: bytearray()}  # the output, by file descriptor
        self._ended = asyncio.Event()  # set once it has ended and its pipes are closed

    async def run(self, command: Sequence[str], env: Mapping[str, str], *, interactive: bool) -> int | None:
        """Run the program, and return its exit status. Cancelling kills it.

        (It uses a protocol, because the streams of asyncio, and of anyio before 4.15, wait forever for a program that
        is killed after they have stopped reading.)
        """
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *command,
            env=env,
            stdin=None if interactive else subprocess.DEVNULL,
            stderr=None if interactive else subprocess.PIPE,
        )
        try:
            await self._ended.wait()
        finally:
            transport.close()
            await self._ended.wait()
        if self._printed_too_much:
            raise _TooMuchOutputError
        return transport.get_returncode()

    @property
    def _printed_too_much(self) -> bool:
        return max(map(len, self.printed.values())) > _MOST_OUTPUT

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.printed[fd] += data
        if self._printed_too_much:
            self._transport.close()  # kills it

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()


def _values_in(output: bytes) -> list[str]:
    """Return the strings in the output of a plugin that may be a credential: those of its status, or all words."""
    parsed = json_of(output)
    if parsed is None:
        words = output[:_MOST_WORDS].decode(errors="replace").split()
        return [word for word in words if len(word) >= _SHORTEST_SECRET]
    status = parsed.get("status") if isinstance(parsed, dict) else parsed
    values = status.values() if isinstance(status, dict) else [status]
    # Lines too, because a key is printed line by line.
    return [line for value in values if isinstance(value, str) for line in (value, *value.splitlines())]
