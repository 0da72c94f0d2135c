"""TLS contexts that follow their files: certificates that are replaced on disk are loaded into the same context."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any

from kinformer.client.config import Connection, Pem
from kinformer.exceptions import ConfigError

__all__ = ["TLSMaterials", "is_outdated"]


class _Context(ssl.SSLContext):
    """Changed in place, while a connection keeps what there was when it began: each is marked with its generation."""

    generation = 0

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        made = super().wrap_bio(*args, **options)
        vars(made)["generation"] = self.generation
        return made


def is_outdated(transport: asyncio.Transport | None) -> bool:
    made = transport.get_extra_info("ssl_object") if transport is not None else None
    if made is None or not isinstance(made.context, _Context):
        return False
    return bool(made.generation != made.context.generation)


class TLSMaterials:
    """What a TLS context is built of; reloads files that were replaced into the same context.

    The same one, so that whoever shares it has the new certificates with his next connection.
    """

    def __init__(self, connection: Connection) -> None:
        self._tls = connection.tls
        self._credential = connection.credential
        self._context: _Context | None = None
        self._loaded: tuple[Any, ...] = ()
        self._loading = threading.Lock()

    @property
    def generation(self) -> int:
        """Another number after each `reload` that found something new."""
        return self._context.generation if self._context is not None else 0

    def build(self) -> ssl.SSLContext:
        """The context. Blocks up to 60 ms: the system's authorities are many."""
        if self._tls.context is not None:
            return self._tls.context
        # Not create_default_context: from 3.13 on it refuses authorities without a key identifier, which clusters
        # have and Go accepts. This protocol alone verifies names and certificates.
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
        """Looks for something new, which the context then has. Blocks for some milliseconds if there is."""
        with self._loading:
            state = self._state()
            if self._context is None or state == self._loaded:
                return
            self._load(self._context)
            self._loaded = state
            self._context.generation += 1  # after it: what is made meanwhile counts as old

    def _load(self, context: ssl.SSLContext) -> None:
        ca = self._tls.ca
        if ca is not None and self._tls.verify:
            try:
                context.load_verify_locations(cadata=ca.read().decode("latin-1"))
            except (ssl.SSLError, ValueError) as error:
                raise ConfigError(f"{ca.where}: no certificates in PEM: {error}") from error
        if self._credential.identity is not None:
            _load_identity(context, "the credential plugin", *self._credential.identity)
        elif self._tls.cert is not None:
            key = self._tls.key or self._tls.cert
            _load_identity(context, self._tls.cert.where, self._tls.cert.read(), key.read())

    def _state(self) -> tuple[Any, ...]:
        return (self._credential.identity, *(_stamp(pem) for pem in (self._tls.ca, self._tls.cert, self._tls.key)))


def _stamp(pem: Pem | None) -> tuple[int, int] | None:
    if pem is None or pem.path is None:
        return None
    try:
        found = os.stat(pem.path)  # noqa: PTH116 - the name is a plain string
    except FileNotFoundError:
        return None
    return found.st_mtime_ns, found.st_size


def _load_identity(context: ssl.SSLContext, where: str, cert: bytes, key: bytes) -> None:
    # OpenSSL takes a chain from files alone: they are in a folder of our own, for these few microseconds.
    with tempfile.TemporaryDirectory(prefix="kinformer-") as folder:
        file = Path(folder, "identity.pem")
        file.touch(mode=0o600)
        file.write_bytes(cert + b"\n" + (key if key != cert else b""))
        try:
            # The password is given, for otherwise an encrypted key would be asked for on the terminal.
            context.load_cert_chain(file, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{where}: no certificate and key that fit, in PEM and not encrypted: {error}") from error
