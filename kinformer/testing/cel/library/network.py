"""IP addresses, networks and URLs."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, unquote

from kinformer.testing.cel.functions import Library, tenth, walk_cost
from kinformer.testing.cel.library.quantity import is_valid
from kinformer.testing.cel.values import CELError, Opaque

__all__ = ["URL", "add_networks"]

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*|):")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})[\s\S]{0,2}")
_BAD_IN_HOST = re.compile(
    r"%(?!25|[89a-fA-F][0-9a-fA-F])[\s\S]{0,2}|[^\w\-.~!$&'()*+,;=:\[\]<>\"%\x80-\U0010ffff]", re.ASCII
)
_USER = re.compile(r"[\w\-.:~!$&'()*+,;=%@]*", re.ASCII)
_PATH = re.compile(r"[\w\-.~!$&'()*+,;=:@\[\]/%]*", re.ASCII)
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
    """An absolute URL, or an absolute path (Go, net/url, `ParseRequestURI`).

    Raises:
        ValueError: The text is neither. The message is Go's.
    """

    __slots__ = ("host", "path", "query", "scheme", "text")
    cel_type = "kubernetes.URL"

    def __init__(self, text: str) -> None:
        if any(character < " " or character == "\x7f" for character in text):
            raise ValueError("net/url: invalid control character in URL")
        if not text:
            raise ValueError("empty url")
        match = _SCHEME.match(text)
        if match is not None and not match[1]:
            raise ValueError("missing protocol scheme")
        self.text = text
        self.scheme = match[1].lower() if match is not None else ""
        rest, _, self.query = text[match.end() if match is not None else 0 :].partition("?")
        self.host, self.path = "", rest
        if not rest.startswith("/"):
            if not self.scheme and text != "*":
                raise ValueError("invalid URI for request")
            self.path = rest if text == "*" else ""
            return
        if self.scheme and rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            self.host, self.path = _host(self.scheme, authority), slash + path
        _refuse(_BAD_ESCAPE, self.path)

    def equals(self, other: Any) -> bool:
        return bool(self.text == other.text)

    @property
    def hostname(self) -> str:
        """The host without the port, and an IPv6 address without brackets."""
        if self.host.startswith("["):
            return self.host[1 : self.host.index("]")]
        return self.host.partition(":")[0]

    @property
    def port(self) -> str:
        """The port, or ""."""
        return self.host.rpartition("]")[2].partition(":")[2]

    @property
    def escaped_path(self) -> str:
        """The path, with the escapes that it needs."""
        return self.path if _PATH.fullmatch(self.path) else quote(unquote(self.path), safe="$&+,/:;=@")


def _host(scheme: str, authority: str) -> str:
    """Return the host and port of an authority, without escapes."""
    user, _, host = authority.rpartition("@")
    start = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    inside, closed, port = host[1:].rpartition("]")
    if host.rfind("[") > 0:
        raise ValueError("invalid IP-literal")
    if not host.startswith("["):
        inside, port = "", host[start:] if start >= 0 else ""
    elif not closed:
        raise ValueError("missing ']' in host")
    if not re.fullmatch(r"(:[0-9]*)?", port):
        raise ValueError(f"invalid port {json.dumps(port)} after host")
    _refuse(_BAD_IN_HOST, host)
    if host.startswith("[") and _address(unquote(inside.partition("%25")[0])).version == 4:
        raise ValueError("invalid IP-literal")
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _refuse(_BAD_ESCAPE, user)
    return unquote(host)


def _address(text: str) -> _Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise ValueError(f'invalid host: ParseAddr("{text}"): unable to parse IP') from None


def _refuse(pattern: re.Pattern[str], text: str) -> None:
    match = pattern.search(text)
    if match is not None:
        shown = json.dumps(match[0])
        escape = f"invalid URL escape {shown}"
        raise ValueError(escape if match[0].startswith("%") else f"invalid character {shown} in host name")


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


def _url(text: str) -> URL:
    try:
        return URL(text)
    except ValueError as error:
        shown = json.dumps(text, ensure_ascii=False)
        raise CELError(f"URL parse error during conversion from string: parse {shown}: {error}") from None


def _query(url: URL) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        name, _, value = pair.partition("=")
        if pair:
            values.setdefault(unquote(name.replace("+", " ")), []).append(unquote(value.replace("+", " ")))
    return values


def _is_link_local_multicast(ip: IP) -> bool:
    if isinstance(ip.address, ipaddress.IPv4Address):
        return ip.address in _LOCAL_MULTICAST
    return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 0x02


def _is_global_unicast(ip: IP) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != _BROADCAST


def _contains_ip(cidr: CIDR, other: Any) -> bool:
    address = other if isinstance(other, IP) else _ip(other)
    return address.address in cidr.interface.network


def _contains_cidr(outer: CIDR, other: Any) -> bool:
    inner = other if isinstance(other, CIDR) else _cidr(other)
    mine, theirs = outer.interface.network, inner.interface.network
    return mine.version == theirs.version and theirs.network_address in mine and mine.prefixlen <= theirs.prefixlen


def _walk_both(sizes: Sequence[int]) -> int:
    return 4 + tenth(sizes[1])


def add_networks(library: Library) -> None:
    """Add the functions of addresses, networks and URLs."""
    library.add("ip", "(string) -> net.IP", run=_ip, cost=walk_cost)
    library.add("isIP", "(string) -> bool", run=is_valid(_ip), cost=walk_cost)
    canonical = lambda text: str(_ip(text)) == text  # noqa: E731
    library.add("ip.isCanonical", "(string) -> bool", run=canonical, cost=lambda s: tenth(s[0] * 2))
    library.add("family", "net.IP.() -> int", run=lambda ip: ip.address.version)
    library.add("isUnspecified", "net.IP.() -> bool", run=lambda ip: ip.address.is_unspecified)
    library.add("isLoopback", "net.IP.() -> bool", run=lambda ip: ip.address.is_loopback)
    library.add("isLinkLocalMulticast", "net.IP.() -> bool", run=_is_link_local_multicast)
    library.add("isLinkLocalUnicast", "net.IP.() -> bool", run=lambda ip: ip.address.is_link_local)
    library.add("isGlobalUnicast", "net.IP.() -> bool", run=_is_global_unicast)
    library.add("string", "(net.IP) -> string", "(net.CIDR) -> string", run=str)
    library.add("cidr", "(string) -> net.CIDR", run=_cidr, cost=walk_cost)
    library.add("isCIDR", "(string) -> bool", run=is_valid(_cidr), cost=walk_cost)
    library.add(
        "containsIP", "net.CIDR.(string) -> bool", "net.CIDR.(net.IP) -> bool", run=_contains_ip, cost=_walk_both
    )
    both = ("net.CIDR.(string) -> bool", "net.CIDR.(net.CIDR) -> bool")
    library.add("containsCIDR", *both, run=_contains_cidr, cost=_walk_both)
    library.add("ip", "net.CIDR.() -> net.IP", run=lambda cidr: IP(cidr.interface.ip))
    library.add("prefixLength", "net.CIDR.() -> int", run=lambda cidr: cidr.interface.network.prefixlen)
    library.add(
        "masked", "net.CIDR.() -> net.CIDR", run=lambda cidr: CIDR(ipaddress.ip_interface(str(cidr.interface.network)))
    )
    name = URL.cel_type
    library.add("url", f"(string) -> {name}", run=_url, cost=walk_cost)
    library.add("isURL", "(string) -> bool", run=is_valid(_url), cost=walk_cost)
    library.add("getScheme", f"{name}.() -> string", run=lambda url: url.scheme)
    library.add("getHost", f"{name}.() -> string", run=lambda url: url.host)
    library.add("getHostname", f"{name}.() -> string", run=lambda url: url.hostname)
    library.add("getPort", f"{name}.() -> string", run=lambda url: url.port)
    library.add("getEscapedPath", f"{name}.() -> string", run=lambda url: url.escaped_path)
    library.add("getQuery", f"{name}.() -> map(string, list(string))", run=_query)
