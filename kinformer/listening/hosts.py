"""The check of a request's host name, which keeps web pages of other sites away from a server.

A web page can make a browser send requests to an address inside a network. The browser shows it the responses only if
the page's own host name resolves to that address (DNS rebinding). The `Host` header then still has the name of the
page. So a server is safe if it answers only its own names. An IP address cannot be rebound, and neither can
`localhost`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from kinformer.exceptions import ConfigError

__all__ = ["AllowedHosts"]

_MOST_HEADERS = 128  # aiohttp's default, which its older versions do not have
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\*")
_HOST = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::[0-9]*)?")

_TOO_MANY_HEADERS = (431, "431: too many header fields\n")
_REPEATED = (400, "400: more than one Host or Origin header\n")
_MISSING = (400, "400: missing Host header\n")
_UNKNOWN = (421, "421: this server does not answer to this host name\n")
_ELSEWHERE = (403, "403: requests from other origins are not allowed\n")


class AllowedHosts:
    """The host names that a server answers: IP addresses, `localhost`, and the given ones.

    Ports are not compared, because a tunnel changes them.

    Args:
        names: Further names. `"*.example.com"` is each name below `example.com`, and `"*"` is any name.
        own: The host name or address that the server listens on, which is allowed too.

    Raises:
        ConfigError: A name is invalid. It has no scheme, port or path, and is in ASCII (`xn--...`).
    """

    def __init__(self, names: Iterable[str] = (), *, own: str | None = None) -> None:
        if isinstance(names, str):
            raise ConfigError(f"invalid allowed_hosts={names!r}: expected several names, such as [{names!r}]")
        allowed = {_checked(name) for name in names}
        self._any = "*" in allowed
        self._names = frozenset({"localhost", *allowed, (own or "localhost").lower()})
        self._endings = tuple(name[1:] for name in allowed if name.startswith("*."))

    def __contains__(self, host: str) -> bool:
        """Return True if a `Host` header with this value is answered, such as `"ops.example.com:8080"`."""
        if self._any:
            return True
        parts = _HOST.fullmatch(host)
        if parts is None:
            return _is_address(host)  # an IPv6 address without brackets
        name = parts[1].lower().removesuffix(".")
        return name in self._names or name.endswith(self._endings) or _is_address(name.strip("[]"))

    def refusal(
        self,
        headers: Iterable[tuple[bytes, bytes]],
        *,
        version: tuple[int, int] = (1, 1),
        target: str = "",
        own_pages: bool = False,
    ) -> tuple[int, str] | None:
        """Return the status and text of the response that refuses a request, or None if it may be answered.

        A repeated `Host` or `Origin` is a 400, and another name a 421. As in Go's net/http, an empty `Host` is
        answered, and so is a request of HTTP/1.0 without one. Old probes send these, and a browser never does.

        Args:
            headers: The names and values of the header fields, in any case.
            version: The version of HTTP.
            target: The host in the request line, which takes the place of the header, if there is one.
            own_pages: True refuses with 403 what web pages of other origins send, except for links to this server.
        """
        fields = [(name.lower(), value.decode("latin-1").strip()) for name, value in headers]
        if len(fields) > _MOST_HEADERS:
            return _TOO_MANY_HEADERS
        hosts = [value for name, value in fields if name == b"host"]
        origins = [value for name, value in fields if name == b"origin"]
        if len(hosts) > 1 or len(origins) > 1:
            return _REPEATED
        if not hosts and version > (1, 0):
            return _MISSING
        if not all(host in self for host in {target, *hosts} if host):
            return _UNKNOWN
        return _ELSEWHERE if own_pages and _is_from_elsewhere(dict(fields), hosts, origins) else None


def _is_from_elsewhere(fields: Mapping[bytes, str], hosts: Sequence[str], origins: Sequence[str]) -> bool:
    if origins and _netloc(origins[0]) != "".join(hosts).lower():
        return True
    # Requests for images and scripts have no Origin. The page of a link cannot read what it leads to.
    return fields.get(b"sec-fetch-site") in ("cross-site", "same-site") and fields.get(b"sec-fetch-dest") != "document"


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:  # unbalanced brackets
        return ""


def _checked(name: str) -> str:
    """Return a name in lower case. Raises ConfigError."""
    lower = name.lower()
    if not (_NAME.fullmatch(lower) or _is_address(lower.strip("[]"))):
        raise ConfigError(
            f"invalid allowed host {name!r}: expected a name without scheme, port and path, such as 'ops.example.com'"
        )
    return lower.removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
