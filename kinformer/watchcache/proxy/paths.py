"""Request paths that a proxy refuses: those that two programs could read differently, and those that write."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from kinformer.apiserver.status import StatusError, bad_request, failure
from kinformer.objects.requests.path import RequestPath

__all__ = ["check_reads_only", "segments_of"]

READS = ("GET", "HEAD", "OPTIONS")
_TARGET = re.compile(r"/[!-~]*")
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# The subresources of kube-apiserver and KubeVirt that reach into a program, with any method.
_CONNECTING = frozenset({"exec", "attach", "portforward", "proxy", "console", "vnc", "usbredir", "vsock"})


def segments_of(target: str) -> tuple[str, ...]:
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


def check_reads_only(method: str, path: RequestPath | None, *, upgrade: bool) -> None:
    """Refuse a request that may change the cluster, or reach into a program that runs in it.

    Raises:
        StatusError: A 403. The request has another method than GET, HEAD and OPTIONS, or is for `exec`, `attach`,
            `portforward`, `proxy` or the like, which act with any method.
    """
    if method not in READS:
        raise _read_only(f"{method} is not allowed")
    word = "" if path is None else path.prefix if path.prefix == "proxy" else path.subresource
    if word in _CONNECTING:
        raise _read_only(f"{word} is not allowed")
    if upgrade and (path is None or word not in ("", "log")):
        raise _read_only("an upgraded connection is not allowed")


def _read_only(problem: str) -> StatusError:
    return failure(403, f"forbidden: this proxy only reads, and {problem}; start it with --allow-writes", details={})
