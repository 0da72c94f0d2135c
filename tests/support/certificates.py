"""Certificates for tests, made by the openssl program; the fixture `certificates` has the folder."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

_NEW = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


def make_certificates(folder: Path) -> None:
    """Write pairs of `.crt` and `.key` into a folder.

    `local` is for 127.0.0.1 and signed by itself; the authority `ca` has signed `server`, which is for api.internal,
    and those of two users, `client` and `renewed`.
    """

    def openssl(arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)

    openssl(f"req -x509 {_NEW} -keyout ca.key -out ca.crt -subj /CN=ca -days 2")
    address = "subjectAltName=IP:127.0.0.1"
    openssl(f"req -x509 {_NEW} -keyout local.key -out local.crt -subj /CN=local -days 2 -addext {address}")
    user = "extendedKeyUsage=clientAuth"
    for name, extension in (("server", "subjectAltName=DNS:api.internal"), ("client", user), ("renewed", user)):
        (folder / f"{name}.ext").write_text(extension)
        openssl(f"req {_NEW} -keyout {name}.key -out {name}.csr -subj /CN={name}")
        authority = "-CA ca.crt -CAkey ca.key -CAcreateserial"
        openssl(f"x509 -req -in {name}.csr {authority} -out {name}.crt -days 2 -extfile {name}.ext")


def server_side(certificates: Path, name: str = "local") -> ssl.SSLContext:
    """Return the TLS context of a server with one of the certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.crt", certificates / f"{name}.key")
    return context


def client_side(certificates: Path, name: str = "local") -> ssl.SSLContext:
    """Return the TLS context of a client that trusts one of the certificates."""
    return ssl.create_default_context(cafile=certificates / f"{name}.crt")
