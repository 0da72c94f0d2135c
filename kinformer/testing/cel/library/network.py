"""IP addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from kinformer.testing.cel.functions import Library, tenth, walk_cost
from kinformer.testing.cel.library.quantity import is_valid
from kinformer.testing.cel.values import CELError, Opaque

__all__ = ["add_networks"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_LOCAL_MULTICAST = ipaddress.IPv4Network("224.0.0.0/24")
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


class IP(Opaque):
    """An IP address."""

    __slots__ = ("address",)
    cel_type = "net.IP"

    def __init__(self, address: _Address) -> None:
        self.address = address

    def equals(self, other: Any) -> bool:
        return bool(self.address == other.address)

    def __str__(self) -> str:
        return str(self.address)


class CIDR(Opaque):
    """An IP address with a prefix length."""

    __slots__ = ("interface",)
    cel_type = "net.CIDR"

    def __init__(self, interface: _Network) -> None:
        self.interface = interface

    def equals(self, other: Any) -> bool:
        return bool(self.interface == other.interface)

    def __str__(self) -> str:
        return str(self.interface)


class URL(Opaque):
    """An absolute URL, or an absolute path."""

    __slots__ = ("parts",)
    cel_type = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        self.parts = urlsplit(text)

    def equals(self, other: Any) -> bool:
        return bool(self.parts == other.parts)

    @property
    def host(self) -> str:
        """Host and port."""
        return self.parts.netloc.rpartition("@")[2]

    @property
    def hostname(self) -> str:
        """The host without the port, and an IPv6 address without brackets."""
        host = self.host
        if host.startswith("["):
            return host[1 : host.index("]")]
        return host.partition(":")[0]

    @property
    def port(self) -> str:
        """The port, or ""."""
        return self.host.rpartition("]")[2].partition(":")[2]


def _ip(text: str) -> IP:
    if "%" in text:
        raise CELError(f'IP address "{text}" with zone value is not allowed')
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        shown = f'ParseAddr("{text}"): unable to parse IP'
        raise CELError(f'IP Address "{text}" parse error during conversion from string: {shown}') from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise CELError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return IP(address)


def _cidr(text: str) -> CIDR:
    prefix = "network address parse error during conversion from string: "
    address, slash, bits = text.partition("/")
    if not slash or not re.fullmatch(r"0|[1-9]\d{0,2}", bits) or "%" in address:
        raise CELError(
            f"{prefix}{prefix}netip.ParsePrefix(\"{text}\"): no '/'" if not slash else f"{prefix}{prefix}{text}"
        )
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError as error:
        raise CELError(f'{prefix}{prefix}netip.ParsePrefix("{text}"): {error}') from None
    if isinstance(interface, ipaddress.IPv6Interface) and interface.ip.ipv4_mapped is not None:
        raise CELError(f'{prefix}IPv4-mapped IPv6 address "{text}" is not allowed')
    return CIDR(interface)


def url(text: str) -> URL:
    """Parse a URL. Raises `CELError` for a relative URL."""
    prefix = "URL parse error during conversion from string: "
    if not (text.startswith("/") or _SCHEME.match(text)) or any(ord(one) < 0x20 or ord(one) == 0x7F for one in text):
        shown = f'parse "{text}": invalid URI for request' if text else 'parse "": empty url'
        raise CELError(prefix + shown)
    try:
        found = URL(text)
        port = found.port
        if found.host.startswith("[") and "]" not in found.host:
            raise ValueError("missing ']' in host")
        bare = found.host.rpartition("]")[2]
        if (port and not port.isdigit()) or bare.count(":") > 1:
            raise ValueError(f'invalid port ":{port}" after host')
    except ValueError as error:
        raise CELError(f'{prefix}parse "{text}": {error}') from None
    return found


def _query(one: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in one.parts.query.split("&"):
        name, _, value = pair.partition("=")
        if pair:
            found.setdefault(unquote(name.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return found


def _is_link_local_multicast(one: IP) -> bool:
    if isinstance(one.address, ipaddress.IPv4Address):
        return one.address in _LOCAL_MULTICAST
    return one.address.packed[0] == 0xFF and one.address.packed[1] & 0x0F == 0x02


def _is_global_unicast(one: IP) -> bool:
    address = one.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_ip(one: CIDR, other: Any) -> bool:
    address = other if isinstance(other, IP) else _ip(other)
    return address.address in one.interface.network


def _contains_cidr(one: CIDR, other: Any) -> bool:
    cidr = other if isinstance(other, CIDR) else _cidr(other)
    mine, theirs = one.interface.network, cidr.interface.network
    return mine.version == theirs.version and theirs.network_address in mine and mine.prefixlen <= theirs.prefixlen


def _masked(one: CIDR) -> CIDR:
    return CIDR(ipaddress.ip_interface(str(one.interface.network)))


def _escaped_path(one: URL) -> str:
    return quote(one.parts.path, safe="/%:@!$&'()*+,;=~")


def _walk_both(sizes: Sequence[int]) -> int:
    return 4 + tenth(sizes[1])


def add_networks(library: Library) -> None:
    """Add the functions of addresses, networks and URLs."""
    library.add("ip", "(string) -> net.IP", run=_ip, cost=walk_cost)
    library.add("isIP", "(string) -> bool", run=is_valid(_ip), cost=walk_cost)
    canonical = lambda text: str(_ip(text)) == text  # noqa: E731
    library.add("ip.isCanonical", "(string) -> bool", run=canonical, cost=lambda s: tenth(s[0] * 2))
    library.add("family", "net.IP.() -> int", run=lambda one: one.address.version)
    library.add("isUnspecified", "net.IP.() -> bool", run=lambda one: one.address.is_unspecified)
    library.add("isLoopback", "net.IP.() -> bool", run=lambda one: one.address.is_loopback)
    library.add("isLinkLocalMulticast", "net.IP.() -> bool", run=_is_link_local_multicast)
    library.add("isLinkLocalUnicast", "net.IP.() -> bool", run=lambda one: one.address.is_link_local)
    library.add("isGlobalUnicast", "net.IP.() -> bool", run=_is_global_unicast)
    library.add("string", "(net.IP) -> string", "(net.CIDR) -> string", run=str)
    library.add("cidr", "(string) -> net.CIDR", run=_cidr, cost=walk_cost)
    library.add("isCIDR", "(string) -> bool", run=is_valid(_cidr), cost=walk_cost)
    library.add(
        "containsIP", "net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool", run=_contains_ip, cost=_walk_both
    )
    both = ("net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool")
    library.add("containsCIDR", *both, run=_contains_cidr, cost=_walk_both)
    library.add("ip", "net.CIDR.() -> net.IP", run=lambda one: IP(one.interface.ip))
    library.add("prefixLength", "net.CIDR.() -> int", run=lambda one: one.interface.network.prefixlen)
    library.add(
        "masked", "net.CIDR.() -> net.CIDR", run=lambda one: CIDR(ipaddress.ip_interface(str(one.interface.network)))
    )
    name = URL.cel_type
    library.add("url", f"(string) -> {name}", run=url, cost=walk_cost)
    library.add("isURL", "(string) -> bool", run=is_valid(url), cost=walk_cost)
    library.add("getScheme", f"{name}.() -> string", run=lambda one: one.parts.scheme)
    library.add("getHost", f"{name}.() -> string", run=lambda one: one.host)
    library.add("getHostname", f"{name}.() -> string", run=lambda one: one.hostname)
    library.add("getPort", f"{name}.() -> string", run=lambda one: one.port)
    library.add(
        "getEscapedPath", f"{name}.() -> string", run=lambda one: quote(one.parts.path, safe="/%:@!$&'()*+,;=~")
    )
    library.add("getQuery", f"{name}.() -> map(string, list(string))", run=_query)
