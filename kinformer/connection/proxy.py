"""Reads the environment's proxy settings as Go programs do."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

from kinformer.exceptions import ConfigError
from kinformer.listening.address import is_loopback

__all__ = ["check_proxy", "environment_proxy"]


def environment_proxy(url: str, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy for `url` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY (or lower case), or None.

    NO_PROXY has the same meaning as for kubectl (golang.org/x/net/http/httpproxy): hosts, `.domains`, addresses, CIDR
    ranges, each with an optional port, or `*`. Python's own implementation does not support ranges, and pods commonly
    exempt the API server with one (`10.0.0.0/8`). Loopback is never proxied.

    Raises:
        ConfigError: The variable is not the URL of an HTTP proxy. The message names it, without its password.
    """
    environ = os.environ if environ is None else environ
    parts = urlsplit(url)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    proxy = environ.get(name) or environ.get(name.lower())
    if not proxy:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if _exempt(parts.hostname or "", port, environ.get("NO_PROXY") or environ.get("no_proxy") or ""):
        return None
    return check_proxy(proxy if "://" in proxy else f"http://{proxy}", where=name)


def check_proxy(proxy: str, *, where: str) -> str:
    """Return `proxy` if it is the URL of an HTTP proxy. `where` names the variable or field in the error.

    Raises:
        ConfigError: It has another scheme, or no host.
    """
    if proxy.lower().startswith("socks"):
        raise ConfigError(f"{where}: SOCKS proxies are not supported, only the URL of an http or https proxy")
    try:
        parts = urlsplit(proxy)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(f"{where}: not the URL of an http or https proxy")
    return proxy


def _exempt(host: str, port: int, no_proxy: str) -> bool:
    if is_loopback(host):
        return True
    address = _address(host)
    return any(_matches(entry.strip().lower(), host.lower(), port, address) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: int, address: ipaddress.IPv4Address | ipaddress.IPv6Address | None) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if _address(entry) is None:
        name, colon, wanted = entry.rpartition(":")
        if colon and wanted.isdecimal() and wanted.isascii():
            if wanted.lstrip("0") != str(port):
                return False
            entry = name
    exempt = _address(entry.strip("[]"))
    if exempt is not None or address is not None:
        return exempt == address
    if entry.startswith("*."):
        entry = entry[1:]
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
