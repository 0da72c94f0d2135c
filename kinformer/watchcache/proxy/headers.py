"""Header fields: which of a request and a response are passed on, and which belong to one connection or the proxy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

__all__ = ["is_impersonating", "request_headers", "response_headers", "upgrade_of"]

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
# `Expect` is answered by the proxy. The others are what an API server believes only a front proxy to say.
_NOT_FORWARDED = frozenset(("authorization", "content-length", "expect", "host", "x-forwarded-for"))
_OF_A_FRONT_PROXY = "x-remote-"
_PROTOCOLS = ("websocket", "spdy/3.1")
_SUBPROTOCOL = "Sec-WebSocket-Protocol"
_BEARER_SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."  # a token (apiserver, authentication/request/websocket)


def upgrade_of(headers: CIMultiDictProxy[str]) -> str:
    """Return the protocol that a request asks to continue with, or "". Protocols of no API server are ignored."""
    words = {word.strip().lower() for value in headers.getall("Connection", ()) for word in value.split(",")}
    protocol = headers.get("Upgrade", "")
    return protocol if "upgrade" in words and protocol.lower() in _PROTOCOLS else ""


def is_impersonating(headers: Mapping[str, str]) -> bool:
    """Return True if a request asks to be treated as another user's."""
    return any(name.lower().startswith("impersonate-") for name in headers)


def request_headers(request: web.BaseRequest, *, credentials: bool) -> CIMultiDict[str]:
    """Return the header fields to pass on to the server.

    Args:
        request: The request.
        credentials: True to pass on its `Authorization`. It is never sent together with the proxy's own credentials.
    """
    upgrade = upgrade_of(request.headers)
    dropped = _NOT_FORWARDED - {"authorization"} if credentials else _NOT_FORWARDED
    found = _end_to_end(request.headers.items(), request.headers.getall("Connection", ()), dropped)
    if upgrade:
        found["Connection"], found["Upgrade"] = "Upgrade", upgrade
        _drop_bearer(found)
    if request.body_exists and "Content-Length" in request.headers:
        found["Content-Length"] = request.headers["Content-Length"]
    if request.remote:
        found["X-Forwarded-For"] = ", ".join([*request.headers.getall("X-Forwarded-For", ()), request.remote])
    return found


def response_headers(headers: Iterable[tuple[str, str]], connection: Iterable[str]) -> CIMultiDict[str]:
    """Return the header fields of a response to pass on to the client.

    Args:
        headers: The header fields of the server's response.
        connection: The values of its `Connection` fields.
    """
    return _end_to_end(headers, connection, frozenset())


def _end_to_end(
    headers: Iterable[tuple[str, str]], connection: Iterable[str], dropped: frozenset[str]
) -> CIMultiDict[str]:
    of_connection = {word.strip().lower() for value in connection for word in value.split(",")}
    unwanted = _HOP_BY_HOP | of_connection | dropped
    return CIMultiDict(
        (name, value.encode(errors="replace").decode())  # bytes that are not UTF-8 could not be written
        for name, value in headers
        if name.lower() not in unwanted and not name.lower().startswith(_OF_A_FRONT_PROXY)
    )


def _drop_bearer(headers: CIMultiDict[str]) -> None:
    """Remove a token that is written as a websocket's subprotocol."""
    asked = [word.strip() for value in headers.getall(_SUBPROTOCOL, ()) for word in value.split(",")]
    kept = [word for word in asked if not word.startswith(_BEARER_SUBPROTOCOL)]
    headers.popall(_SUBPROTOCOL, None)
    if kept:
        headers[_SUBPROTOCOL] = ", ".join(kept)
