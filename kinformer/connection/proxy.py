"""Reads the environment's proxy settings as Go programs do."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from kinformer.connection.urls import ascii_host, split_url
from kinformer.exceptions import ConfigError
from kinformer.listening.address import is_loopback

__all__ = ["check_proxy", "environment_proxy"]

_RANGE = re.compile(r"[0-9a-f:.]+/[0-9]+")
_PLACE = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([^:\[\]]*)")  # host and port, as net.SplitHostPort takes them


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
    parts = split_url(proxy)
    if parts is None or parts.scheme not in ("http", "https") or parts.port == 0:
        raise ConfigError(f"{where}: not the URL of an http or https proxy")
    return parts.geturl()


def _exempt(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if is_loopback(host) or (address is not None and address.is_loopback):
        return True
    return any(_matches(entry.strip().lower(), ascii_host(host), str(port), address) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: str, address: IPv4Address | IPv6Address | None) -> bool:
    if entry == "*":
        return True
    if _RANGE.fullmatch(entry):
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    if place := _PLACE.fullmatch(entry):
        entry = place[1] or place[2] or ""
        if place[3] not in ("", port):
            return False
    exempt = _address(entry)
    if exempt is not None or address is not None or not entry:
        return exempt is not None and exempt == address
    try:
        name = ascii_host(re.sub(r"^\*?\.", "", entry))
    except ValueError:
        return False
    return host.endswith(f".{name}") or (host == name and entry[0] not in "*.")


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an address without its zone, and as IPv4 if it is IPv4 in an IPv6 address, as Go compares it."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
