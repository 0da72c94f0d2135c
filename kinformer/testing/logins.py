"""Users of a server: their bearer tokens, and the files that contain the tokens."""

from __future__ import annotations

import base64
import csv
import io
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from kinformer.exceptions import ConfigError

__all__ = ["ADMIN", "Logins", "names_by_token", "new_private_key", "write_secret"]

ADMIN = "kinformer-admin"


class Logins:
    """The bearer token of each user. `ADMIN` always exists and has all rights.

    Args:
        users: Names, or a mapping of token to name.

    Raises:
        ConfigError: `users` is a single string, or contains `ADMIN`.
    """

    def __init__(self, users: Iterable[str] | Mapping[str, str] | None = None) -> None:
        named = {name: token for token, name in names_by_token(users or ()).items()}
        if ADMIN in named:
            raise ConfigError(f"users: {ADMIN!r} is the user with all rights; choose another name")
        self._tokens = {ADMIN: secrets.token_hex(16), **named}

    def __repr__(self) -> str:
        return f"<Logins {', '.join(self._tokens)}>"

    def token(self, user: str | None = None) -> str:
        """Return the token of a user, by default of `ADMIN`.

        Raises:
            ConfigError: The user does not exist.
        """
        name = ADMIN if user is None else user
        if name not in self._tokens:
            names = ", ".join(sorted(self._tokens.keys() - {ADMIN})) or "none"
            raise ConfigError(f"no user {name!r} in this control plane; ControlPlane(users=...) named: {names}")
        return self._tokens[name]

    def write_token_file(self, path: Path) -> None:
        """Write the file for `--token-auth-file`: token, user, uid, and any groups."""
        table = io.StringIO()
        csv.writer(table).writerows(
            [token, name, name, *(["system:masters"] if name == ADMIN else [])] for name, token in self._tokens.items()
        )
        write_secret(path, table.getvalue().encode())

    def write_kubeconfig(self, path: Path, *, server: str, authority: bytes, user: str | None = None) -> None:
        """Write a kubeconfig with one context for one user. It verifies the server with `authority` (PEM)."""
        name = user or ADMIN
        cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kinformer", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "kinformer", "context": {"cluster": "kinformer", "user": name}}],
            "current-context": "kinformer",
        }
        write_secret(path, yaml.safe_dump(config, sort_keys=False).encode())


def names_by_token(users: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Map each token to a name: a mapping is taken as given, and each plain name gets a fresh token.

    Raises:
        ConfigError: `users` is a single string.
    """
    if isinstance(users, str):
        raise ConfigError(f"users expects several strings, not a single one: {users!r}")
    return dict(users) if isinstance(users, Mapping) else {secrets.token_hex(16): name for name in users}


def new_private_key() -> bytes:
    """Return a fresh P-256 key in PEM (RFC 5915), with which a server signs service account tokens.

    A private key is a number below the order of the curve. The optional public point is omitted, because Go's
    crypto/x509 computes it. So no cryptography package is needed.
    """
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    number = (1 + secrets.randbelow(order - 1)).to_bytes(32, "big")
    curve = bytes.fromhex("06082a8648ce3d030107")  # OID 1.2.840.10045.3.1.7, prime256v1
    body = b"\x02\x01\x01" + b"\x04\x20" + number + b"\xa0" + bytes([len(curve)]) + curve
    encoded = base64.encodebytes(b"\x30" + bytes([len(body)]) + body)
    return b"-----BEGIN EC PRIVATE KEY-----\n" + encoded + b"-----END EC PRIVATE KEY-----\n"


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # it may have existed before, readable by all
        file.write(content)
