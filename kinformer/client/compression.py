"""Whether a server is asked to compress what it lists: by the program, by the kubeconfig, else by where it is."""

from __future__ import annotations

import ipaddress
from typing import Literal, get_args
from urllib.parse import urlsplit

from kinformer.client.config import Connection
from kinformer.exceptions import ConfigError

__all__ = ["Compression", "accepted_encoding", "check_compression"]

Compression = Literal["auto", "gzip", "none"]
"""`"auto"`: gzip, unless the server is near; `"gzip"`, `"none"`: that."""


def check_compression(compression: str) -> None:
    """Raises ConfigError for what is no `Compression`."""
    if compression not in get_args(Compression):
        choices = ", ".join(repr(one) for one in get_args(Compression))
        raise ConfigError(f"compression: {compression!r} is none of {choices}")


def accepted_encoding(compression: Compression, connection: Connection) -> str:
    """The `Accept-Encoding` of requests whose answers may be long.

    Near is this machine: where there is no network, compressing saves nobody any time. A proxy is elsewhere.
    """
    if compression == "auto":
        is_far = connection.compresses and (connection.proxy is not None or not _is_loopback(connection))
        return "gzip" if is_far else "identity"
    return "gzip" if compression == "gzip" else "identity"


def _is_loopback(connection: Connection) -> bool:
    host = urlsplit(connection.server).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False
