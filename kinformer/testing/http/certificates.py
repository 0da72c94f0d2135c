"""The certificates of one server: its own authority, the certificates it signs, and the TLS contexts."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kinformer.exceptions import ConfigError
from kinformer.testing.logins import write_secret

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["Authority", "CertificateIdentity", "CertificatePair", "identity_of"]

_LIFE = datetime.timedelta(days=2)
_CLOCK_SKEW = datetime.timedelta(hours=1)
_EVERYWHERE = ("0.0.0.0", "::", "")  # listening addresses that no client connects to


class CertificatePair(NamedTuple):
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


class CertificateIdentity(NamedTuple):
    """The user named by a client certificate: the common name, with the organizations as groups."""

    name: str
    groups: tuple[str, ...]
    fingerprint: str  # SHA-256 of the certificate


class Authority:
    """A certificate authority and its server certificate, in a folder that `close` removes.

    Args:
        host: The address that the server listens on. The certificate always includes 127.0.0.1, ::1 and localhost.

    Raises:
        ConfigError: The package `cryptography` is not installed.
    """

    def __init__(self, host: str) -> None:
        try:
            import cryptography  # noqa: F401
        except ModuleNotFoundError:
            raise ConfigError(
                "TLS needs the package cryptography to make certificates: pip install 'kinformer[testing]'"
            ) from None
        self._key = _new_key()
        self._certificate = self._make_root()
        self._folder = tempfile.TemporaryDirectory(prefix="kinformer-certificates-")
        self.file = Path(self._folder.name) / "ca.crt"
        self.file.write_bytes(self.certificate)
        self._server = Path(self._folder.name) / "server.pem"
        write_secret(self._server, b"".join(self._issue_server(host)))

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, in PEM."""
        from cryptography.hazmat.primitives.serialization import Encoding

        return self._certificate.public_bytes(Encoding.PEM)

    def close(self) -> None:
        """Remove the authority's files."""
        self._folder.cleanup()

    def server_context(self) -> ssl.SSLContext:
        """Return the server's context.

        It requests a client certificate from this authority, but does not require one.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.file)
        context.load_cert_chain(self._server)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def client_context(self) -> ssl.SSLContext:
        """Return a context that trusts only this authority."""
        return ssl.create_default_context(cafile=self.file)

    def issue_client(self, name: str, groups: Sequence[str] = ()) -> CertificatePair:
        """Sign a certificate for a user, with the name as the common name and each group as an organization."""
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        names = [(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._issue([*names, (NameOID.COMMON_NAME, name)], ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def _issue_server(self, host: str) -> CertificatePair:
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        hosts = dict.fromkeys(("127.0.0.1", "::1", "localhost", "kubernetes.default.svc", host))
        names = [_general_name(name) for name in hosts if name not in _EVERYWHERE]
        return self._issue([(NameOID.COMMON_NAME, "kube-apiserver")], ExtendedKeyUsageOID.SERVER_AUTH, names)

    def _issue(self, subject: list[tuple[Any, str]], usage: Any, names: list[Any]) -> CertificatePair:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = _new_key()
        builder = _builder(_name(subject), self._certificate.subject, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(authority, critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return CertificatePair(
            _signed(builder, self._key).public_bytes(Encoding.PEM),
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        )

    def _make_root(self) -> x509.Certificate:
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        subject = _name([(NameOID.COMMON_NAME, "kinformer-ca")])
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
        ) | dict.fromkeys(("encipher_only", "decipher_only"), False)
        signing = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, **usage)
        builder = _builder(subject, subject, self._key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(signing, critical=True)
        own = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        return _signed(builder.add_extension(own, critical=False), self._key)


def identity_of(connection: Any) -> CertificateIdentity | None:
    """Return the user of a connection's client certificate, or None if it has none.

    Args:
        connection: The transport of a request. TLS has verified the certificate.
    """
    shown = connection.get_extra_info("peercert") if connection is not None else None
    if connection is None or not shown:
        return None
    pairs = [pair for part in shown.get("subject", ()) for pair in part]
    groups = tuple(value for name, value in pairs if name == "organizationName")
    common_name = next((value for name, value in pairs if name == "commonName"), "")
    raw: bytes = connection.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return CertificateIdentity(common_name, groups, hashlib.sha256(raw).hexdigest())


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(parts: list[tuple[Any, str]]) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(oid, value) for oid, value in parts])


def _builder(subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _CLOCK_SKEW).not_valid_after(now + _LIFE)


def _signed(builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
