"""Why there was no answer, in words for people: what the network library and the kernel say, put plainly."""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp

__all__ = ["reason_of"]


def reason_of(error: BaseException) -> str:
    """The reason alone: "connection refused", "the name does not resolve", "TLS: certificate has expired".

    Host and port are the caller's to name, but for those of a proxy, which nobody else names. Never empty.
    """
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port}: {_of_system(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _of_system(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _of_system(error.os_error)
    if isinstance(error, OSError) and (error.errno is not None or isinstance(error, ssl.SSLError)):
        return _of_system(error)
    return str(error) or type(error).__name__


def _of_system(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message or error.reason or error}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"the name does not resolve: {error.strerror or error}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # asyncio puts the address in the place of the kernel's words.
        words = os.strerror(error.errno)
        return words[:1].lower() + words[1:]
    return str(error) or type(error).__name__
