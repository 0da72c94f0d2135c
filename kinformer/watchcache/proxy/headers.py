"""Header fields: which of a request and a response are passed on, and which belong to one connection or the proxy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

__all__ = ["has_body", "request_headers", "response_headers", "upgrade_of"]

# RFC 9110, 7.6.1, and the older ones that clients still send.
_HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_NOT_FORWARDED = frozenset(("content-length", "expect", "host", "x-forwarded-for"))
_OF_A_FRONT_PROXY = "x-remote-"  # an API server believes these headers only from a front proxy
_PROTOCOLS = ("websocket", "spdy/3.1")


def upgrade_of(headers: CIMultiDictProxy[str]) -> str:
    """Return the protocol that a request asks to continue with, or "". Protocols of no API server are ignored."""
    protocol = headers.get("Upgrade", "")
    return protocol if "upgrade" in _words(headers) and protocol.lower() in _PROTOCOLS else ""


def has_body(headers: Mapping[str, str]) -> bool:
    """Return True if a request announces a body, whether it sends one or not."""
    return "Transfer-Encoding" in headers or headers.get("Content-Length", "0") != "0"


def request_headers(request: web.BaseRequest) -> CIMultiDict[str]:
    """Return the header fields of a request to pass on to the server."""
    headers = _end_to_end(request.headers.items(), _words(request.headers) | _NOT_FORWARDED)
    if request.remote:
        headers["X-Forwarded-For"] = ", ".join([*request.headers.getall("X-Forwarded-For", ()), request.remote])
    return headers


def response_headers(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return the header fields of a response to pass on to the client."""
    return _end_to_end(headers.items(), _words(headers))


def _words(headers: CIMultiDictProxy[str]) -> set[str]:
    """Return what the `Connection` fields name."""
    return {word.strip().lower() for value in headers.getall("Connection", ()) for word in value.split(",")}


def _end_to_end(headers: Iterable[tuple[str, str]], dropped: Iterable[str]) -> CIMultiDict[str]:
    unwanted = _HOP_BY_HOP.union(dropped)
    return CIMultiDict(
        (name, value.encode(errors="replace").decode())  # bytes that are not UTF-8 could not be written
        for name, value in headers
        if name.lower() not in unwanted and not name.lower().startswith(_OF_A_FRONT_PROXY)
    )
