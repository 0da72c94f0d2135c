"""Request paths: their meaning to an API server, and the paths that two programs could read differently."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from kinformer.apiserver.status import StatusError, bad_request, failure

__all__ = ["ResourcePath", "check_reads_only", "read_path", "segments_of"]

READS = ("GET", "HEAD", "OPTIONS")
_TARGET = re.compile(r"/[!-~]*")
_INVALID_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
# The subresources of kube-apiserver and KubeVirt that reach into a program, with any method.
_CONNECTING = frozenset({"exec", "attach", "portforward", "proxy", "console", "vnc", "usbredir", "vsock"})


class ResourcePath(NamedTuple):
    """The resource that a path names (apiserver, pkg/endpoints/request/requestinfo.go).

    `prefix` is the deprecated word before the resource, "watch" or "proxy". `namespace` of a Namespace is its own name.
    `inside` is True for a path in a namespace, such as `/api/v1/namespaces/x/pods`, but not `/api/v1/namespaces/x`.
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    prefix: str = ""
    inside: bool = False


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


def read_path(segments: tuple[str, ...]) -> ResourcePath | None:
    """Return the resource that a path names, or None if it names none."""
    match segments:
        case ("api", version, word, *rest):
            group = ""
        case ("apis", group, version, word, *rest):
            pass
        case _:
            return None
    prefix, namespace, inside = "", "", False
    if word in ("watch", "proxy") and rest:
        prefix, word, *rest = word, *rest
    if word == "namespaces" and rest:
        namespace = rest[0]
        inside = len(rest) > 1 and rest[1] not in _NAMESPACE_SUBRESOURCES
        if inside:
            _, word, *rest = rest
    name, subresource, *_ = *rest, "", ""
    return ResourcePath(group, version, word, namespace, name, subresource, prefix, inside)


def check_reads_only(method: str, path: ResourcePath | None, *, upgrade: bool) -> None:
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
