"""Addresses of servers and proxies, as Go programs read them (net/url, golang.org/x/net/http/httpproxy).

urllib accepts more than Go and removes line breaks. yarl raises ValueError with the URL for some of it, but only at the
first request. So a URL that is returned here is one that both take.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

from yarl import URL

from kinformer.exceptions import ConfigError
from kinformer.listening.address import is_loopback

__all__ = ["check_proxy", "environment_proxy", "is_host_name", "split_url"]

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOT_IN_A_NAME = re.compile(r"[\s%\\^{}|`<>\"\[\]]")
_PLACE = re.compile(r"(?:.*@)?(?:\[(?P<ip6>[^\[\]]*)\]|[^\[\]:@]*)(?::[0-9]*)?", re.DOTALL)
_RANGE = re.compile(r"[0-9a-f:.]+/[0-9]+")
_HOST_PORT = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]*)):([^:\[\]]*)")  # host and port, as net.SplitHostPort takes them


def split_url(url: str) -> SplitResult | None:
    """Split a URL with a host. Its path is cleaned as by client-go: unquoted slashes, without `.`, `..` and `//`.

    Returns:
        None for an invalid URL, because an error would quote it, even as a context.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
        place = _PLACE.fullmatch(parts.netloc)
        if place is None or not parts.hostname or not url.isprintable() or _BROKEN_ESCAPE.search(parts.path):
            return None
        netloc = parts.netloc
        if place["ip6"] is not None:
            number, percent, zone = place["ip6"].partition("%")  # %25eth0 in a URL (RFC 6874), %eth0 for the system
            address = IPv6Address(number + percent + zone.removeprefix("25"))
            netloc = netloc.replace(f"[{place['ip6']}]", f"[{address}]")
        elif not is_host_name(parts.hostname):
            return None
        path = posixpath.normpath(b"/" + unquote_to_bytes(parts.path)).replace(b"//", b"/") if parts.path else b""
        return parts._replace(netloc=netloc, path=quote(path, safe="/:@&=+$,;~"))
    except ValueError:
        return None


def is_host_name(name: str) -> bool:
    """Return True if a name may be the host of a URL: an IPv4 address, or a name that can be looked up."""
    try:
        _ascii_host(name).encode("idna")  # whose labels have 1 to 63 characters
    except ValueError:
        return False
    return name.isprintable() and not _NOT_IN_A_NAME.search(name)


def _ascii_host(name: str) -> str:
    """Return a host name as it is looked up and compared: in lower case, and `xn--...` instead of other letters.

    Raises:
        ValueError: There is no such form.
    """
    return name.lower() if name.isascii() else URL.build(scheme="http", host=name).raw_host or ""


# --- proxies ----------------------------------------------------------------------------------------------------------


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
    address, name = _address(host), _ascii_host(host)
    if is_loopback(str(address or host)):
        return True
    return any(_matches(entry.strip().lower(), name, str(port), address) for entry in no_proxy.split(","))


def _matches(entry: str, host: str, port: str, address: IPv4Address | IPv6Address | None) -> bool:
    if entry == "*":
        return True
    try:
        if _RANGE.fullmatch(entry):
            return address is not None and address in ip_network(entry, strict=False)
        if place := _HOST_PORT.fullmatch(entry):
            entry = place[1] or place[2] or ""
            if place[3] not in ("", port):
                return False
        if address is not None or not entry:
            return address is not None and address == _address(entry)
        name = _ascii_host(re.sub(r"^\*?\.", "", entry))
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
