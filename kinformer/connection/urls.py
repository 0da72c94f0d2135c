"""The one reading of URLs of servers and proxies, in the forms that Go's net/url takes.

urllib accepts more than Go and removes line breaks. yarl raises ValueError with the URL for some of it, but only at the
first request. So what is returned here is what both take.
"""

from __future__ import annotations

import posixpath
import re
from ipaddress import IPv6Address
from urllib.parse import SplitResult, quote, unquote_to_bytes, urlsplit

from yarl import URL

__all__ = ["ascii_host", "ip6_host", "is_host_name", "split_url"]

_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOT_IN_A_NAME = re.compile(r"[\s%\\^{}|`<>\"\[\]]")
_PLACE = re.compile(r"(?:.*@)?(?:\[(?P<ip6>[^\[\]]*)\]|[^\[\]:@]*)(?::[0-9]*)?", re.DOTALL)


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
            netloc = netloc.replace(f"[{place['ip6']}]", ip6_host(place["ip6"]))
        elif not is_host_name(parts.hostname):
            return None
        path = posixpath.normpath(b"/" + unquote_to_bytes(parts.path)).replace(b"//", b"/") if parts.path else b""
        return parts._replace(netloc=netloc, path=quote(path, safe="/:@&=+$,;~"))
    except ValueError:
        return None


def ip6_host(address: str) -> str:
    """Return an IPv6 address as the host of a URL, with its zone (`fe80::1%25eth0`, RFC 6874) as the system takes it.

    Raises:
        ValueError: It is no IPv6 address.
    """
    number, percent, zone = address.partition("%")
    return f"[{IPv6Address(number + percent + zone.removeprefix('25'))}]"


def is_host_name(name: str) -> bool:
    """Return True if a name may be the host of a URL: an IPv4 address, or a name that can be looked up."""
    try:
        ascii_host(name).encode("idna")  # whose labels have 1 to 63 characters
    except ValueError:
        return False
    return name.isprintable() and not _NOT_IN_A_NAME.search(name)


def ascii_host(name: str) -> str:
    """Return a host name as it is looked up and compared: in lower case, and `xn--...` instead of other letters.

    Raises:
        ValueError: There is no such form.
    """
    return name.lower() if name.isascii() else URL.build(scheme="http", host=name).raw_host or ""
