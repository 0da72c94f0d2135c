"""Requests that a proxy refuses: those that may write or connect, bring credentials, or have an ambiguous path."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from aiohttp import web

from kinformer.apiserver.status import StatusError, bad_request, failure
from kinformer.objects.requests.path import RequestPath
from kinformer.watchcache.proxy.headers import has_body, upgrade_of

__all__ = ["check"]

_TARGET = re.compile(r"/[!-~]*")
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# The subresources of kube-apiserver and KubeVirt that reach into a program.
_CONNECTING = frozenset({"exec", "attach", "portforward", "proxy", "console", "vnc", "usbredir", "vsock"})


def check(request: web.BaseRequest) -> RequestPath | None:
    """Refuse a request that is more than a read with the rights of the proxy. Return the resource in its path, if any.

    Raises:
        StatusError: A 405 for another method than GET and HEAD. A 403 for credentials, since a 401 would make clients
            renew theirs and ask again, for a connection into a program, and for an upgrade. A 400 for a body, and for
            a path that programs read differently.
    """
    if request.method not in ("GET", "HEAD"):
        message = f"this proxy only reads, so it refuses {request.method}; send it to the API server"
        raise failure(405, message, details={}, headers={"Allow": "GET, HEAD"})
    for name in request.headers:
        if name.lower() == "authorization" or name.lower().startswith("impersonate-"):
            raise _forbidden(f"it sends its own credentials, so it refuses the header {name}; send none")
    path = RequestPath.of_segments(_segments(request.raw_path))
    connecting = "" if path is None else path.prefix if path.prefix == "proxy" else path.subresource
    if connecting in _CONNECTING:
        raise _forbidden(f"it does not connect to programs, so it refuses {connecting}")
    if protocol := upgrade_of(request.headers):
        raise _forbidden(f"it does not continue with {protocol}")
    if has_body(request.headers):
        raise bad_request("this proxy passes on only requests without a body")
    return path


def _forbidden(problem: str) -> StatusError:
    return failure(403, f"forbidden: this proxy only reads, and {problem}", details={})


def _segments(target: str) -> tuple[str, ...]:
    """Return the decoded segments of a request's path. A last one that is empty is omitted.

    Raises:
        StatusError: A 400. Some programs merge slashes, resolve dots, or decode a slash in a name, before or after
            others have checked the path. So such a path is refused instead of passed on.
    """
    path = target.partition("?")[0]
    if not _TARGET.fullmatch(target) or "#" in target or _INVALID_ESCAPE.search(path):
        raise bad_request("the proxy passes on only a path with a valid encoding, such as /api/v1/pods")
    written = path[1:].split("/")
    if written[-1] == "":
        written.pop()
    return tuple(_decoded(segment) for segment in written)


def _decoded(segment: str) -> str:
    try:
        decoded = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise bad_request("the proxy does not pass on a path that is not UTF-8") from None
    if decoded in ("", ".", "..") or "/" in decoded or "\\" in decoded or not decoded.isprintable():
        raise bad_request(
            "the proxy does not pass on a path with an empty segment, '.', '..' or an encoded slash, which other "
            "programs may read as another path"
        )
    return decoded
