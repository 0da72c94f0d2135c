"""TLS contexts that reload certificates replaced on disk."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any, TypeAlias

from kinformer.connection.config import ConnectionSettings, Pem
from kinformer.exceptions import ConfigError

__all__ = ["TLSMaterials", "is_outdated"]


_Stamp: TypeAlias = tuple[int, int, int] | None  # modification time, size and inode of a file


class _Context(ssl.SSLContext):
    """A context that is changed in place. Each connection records the generation with which it was created.

    A connection resumes the session of an earlier one to the same host, which takes half of the handshake's time. So
    the certificates are verified once for a session, and again after they were replaced.
    """

    generation = 0
    _kept: tuple[tuple[int, str | None], ssl.SSLSession] | None = None  # a session, of a generation and a host

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        if self._kept is not None and self._kept[0] == (self.generation, options.get("server_hostname")):
            options["session"] = self._kept[1]
        made = super().wrap_bio(*args, **options)
        vars(made)["generation"] = self.generation
        return made

    def keep_if_current(self, used: ssl.SSLObject) -> bool:
        """Keep the session of a connection, whose tickets come late. Return False if the certificates were replaced."""
        generation: int = vars(used)["generation"]
        if generation == self.generation and (session := used.session) is not None and session.has_ticket:
            self._kept = ((generation, used.server_hostname), session)
        return generation == self.generation


def is_outdated(transport: asyncio.Transport | None) -> bool:
    """Return True if the certificates have been replaced since the connection was opened."""
    made = transport.get_extra_info("ssl_object") if transport is not None else None
    return made is not None and isinstance(made.context, _Context) and not made.context.keep_if_current(made)


class TLSMaterials:
    """Builds a TLS context from files, and reloads replaced files into the same context.

    Because the context stays the same, every session that shares it uses the new certificates for its next connection.
    """

    def __init__(self, connection: ConnectionSettings) -> None:
        self._tls = connection.tls
        self._credential = connection.credential
        # `build` sets these, and `reload` replaces the second, in a thread and under the lock.
        self._context: _Context | None = None
        self._loaded: tuple[tuple[bytes, bytes] | None, tuple[_Stamp, ...]] | None = None
        self._loading = threading.Lock()

    @property
    def generation(self) -> int:
        """A number that changes with each `reload` that found new files."""
        return self._context.generation if self._context is not None else 0

    def build(self) -> ssl.SSLContext:
        """Build the context. Blocks for up to 60 ms, because the system has many authorities."""
        if self._tls.context is not None:
            return self._tls.context
        # Not create_default_context, which since 3.13 rejects authorities without a key identifier. Some clusters have
        # such authorities, and Go accepts them. The protocol alone also verifies names and certificates.
        context = _Context(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols(["http/1.1"])
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Go, a trusted authority need not be a root
        if not self._tls.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._tls.ca is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        self._load(context)
        self._loaded = self._state()
        self._context = context
        return context

    def reload(self) -> None:
        """Load replaced files. Blocks for some milliseconds if there are any."""
        with self._loading:
            state = self._state()
            if self._context is None or state == self._loaded:
                return
            self._load(self._context)
            self._loaded = state
            self._context.generation += 1  # last, so that a connection opened in the meantime counts as outdated

    def _load(self, context: ssl.SSLContext) -> None:
        ca = self._tls.ca
        if ca is not None and self._tls.verify:
            try:
                # Comments between certificates may have any characters, which OpenSSL ignores and Python refuses.
                context.load_verify_locations(cadata=ca.read().decode("ascii", errors="ignore"))
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError(f"{ca.where}: not certificates in PEM: {error}") from None
        if self._credential.identity is not None:
            _load_identity(context, getattr(self._credential, "where", "a plugin"), *self._credential.identity)
        elif self._tls.cert is not None:
            key = self._tls.key or self._tls.cert
            _load_identity(context, self._tls.cert.where, self._tls.cert.read(), key.read())

    def _state(self) -> tuple[tuple[bytes, bytes] | None, tuple[_Stamp, ...]]:
        return self._credential.identity, tuple(_stamp(pem) for pem in (self._tls.ca, self._tls.cert, self._tls.key))


def _stamp(pem: Pem | None) -> _Stamp:
    if pem is None or pem.path is None:
        return None
    try:
        status = os.stat(pem.path)  # noqa: PTH116 - the path is a plain string
    except FileNotFoundError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino  # times may repeat, because images set them to 0


def _load_identity(context: ssl.SSLContext, where: str, cert: bytes, key: bytes) -> None:
    # OpenSSL loads a chain only from files. They exist in a private folder for a few microseconds.
    with tempfile.TemporaryDirectory(prefix="kinformer-") as folder:
        file = Path(folder, "identity.pem")
        file.touch(mode=0o600)
        file.write_bytes(cert + b"\n" + (key if key != cert else b""))
        try:
            # Without a password, OpenSSL would prompt on the terminal for an encrypted key.
            context.load_cert_chain(file, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"{where}: expected a certificate and its key, in PEM and not encrypted: {error}"
            ) from None
