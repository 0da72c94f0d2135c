"""Credentials that are a constant or the content of a file, and what all credentials have."""

from __future__ import annotations

import asyncio
import binascii
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Coro
from kinformer.connection.single_flight import SingleFlight
from kinformer.exceptions import ConfigError, CredentialError
from kinformer.objects.types import JSON

__all__ = [
    "REREAD",
    "AuthProvider",
    "Credential",
    "CredentialKind",
    "StaticCredential",
    "TokenFile",
    "header_text",
    "json_of",
    "reason_of",
]

log = get_logger("kinformer.credentials")

REREAD = 60.0  # seconds between two reads of a token file (client-go, transport/token_source.go)

_REASONS = (
    (TimeoutError, "no answer in time"),
    (binascii.Error, "it is not base64"),
    (UnicodeError, "it is not text in UTF-8"),
    (ValueError, "it has a character that is not allowed there"),  # NUL, in a path, an argument or a variable
)

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

    @property
    def failure(self) -> str:
        """Why the last renewal failed, or "" if it did not. It explains a 401."""
        ...

    async def authorization(self) -> str | None:
        """Return the value of the `Authorization` header, renewed if due, or None for no header.

        Raises:
            ConfigError: There is none. A CredentialError if there was one, which is due for renewal.
        """
        ...

    async def renew(self) -> None:
        """Look for a newer credential immediately, because the server responded with 401. See `failure`."""
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


def json_of(text: bytes) -> JSON:
    """Parse JSON as Go does, without NaN. Returns None for anything else, because the errors contain the text."""
    try:
        parsed: JSON = json.loads(text, parse_constant=int)  # which refuses NaN
    except (ValueError, RecursionError):
        return None
    return parsed


class StaticCredential:
    """A credential that never changes: a token, a user's password, or nothing (only client certificates)."""

    identity = None
    failure = ""

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


class AuthProvider:
    """The base class of an `auth-provider` of a kubeconfig, whose credential is renewed by one task at a time.

    Args:
        load: Gets a credential, and records why it could not in `failure`, which is then a CredentialError.
        where: The file and field, for messages.
    """

    identity = None
    kind: CredentialKind = "auth-provider"

    def __init__(self, load: Callable[[], Coro[None]], where: str) -> None:
        self._where = where
        self._flight = SingleFlight(load)
        self.failure = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._where}>"

    async def renew(self) -> None:
        with suppress(CredentialError):
            await self._flight.get()

    async def close(self) -> None:
        await self._flight.close()


class TokenFile:
    """A bearer token in a file that another program rewrites, as the kubelet does.

    It is read at most once a minute, and immediately after a 401. If the file later cannot be read, the last token
    stays in use, with a warning, because the server may still accept it.

    Args:
        path: The file.
        where: The file and field of its path, for messages.
        token: The token to use if the file has never been readable (`token` beside `tokenFile`).
        shown: The path as messages show it, because a token may have been put in its place. None: unchanged.

    Raises:
        ConfigError: (on first use) The file cannot be read or is empty, and there is no `token`.
    """

    identity = None
    kind: CredentialKind = "token-file"

    def __init__(self, path: str | Path, *, where: str, token: str | None = None, shown: str | None = None) -> None:
        self._path = Path(path)
        self._where = where
        self._token = token
        self._shown = str(path) if shown is None else shown
        self._read_at: float | None = None  # the time of the last read, which may have failed
        self.failure = ""

    def __repr__(self) -> str:
        return f"<TokenFile {self._shown}>"

    async def authorization(self) -> str | None:
        if self._read_at is None or asyncio.get_running_loop().time() - self._read_at >= REREAD:
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
            problem = f"{self._where}: cannot read {self._shown}: {reason_of(error)}"
        else:
            problem = "" if token else f"{self._where}: {self._shown} is empty"
            if not token.isprintable():
                problem = f"{self._where}: {self._shown} must be one line of text"
        self._read_at = asyncio.get_running_loop().time()
        self.failure = problem
        if not problem:
            self._token = token
        elif self._token is None:
            raise ConfigError(problem)
        else:
            log.warning("%s; continuing with the last token", problem, reason="token_unreadable")


def reason_of(error: Exception) -> str:
    """Return the reason of an error without the file name, which the caller knows, and without what may be secret."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), type(error).__name__)
