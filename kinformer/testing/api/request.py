"""The target of a request: verb, resource, namespace, name (apiserver/pkg/endpoints/request/requestinfo.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinformer.apiserver.options import boolean_of
from kinformer.testing.kinds.resources import group_version

__all__ = ["RequestInfo", "read_request"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """A parsed request. `plural` is empty for a path without a resource. `verb` is as in RBAC.

    `inside` is True for a path in a namespace, such as `/api/v1/namespaces/x/pods`, but not `/api/v1/namespaces/x`.
    """

    method: str
    path: str
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""  # the path after a subresource
    forced_watch: bool = False
    inside: bool = False

    @property
    def api_version(self) -> str:
        """`v1`, `apps/v1`."""
        return group_version(self.group, self.version)

    @property
    def resource(self) -> str:
        """`v1/pods`, `v1/pods/status`."""
        name = f"{self.api_version}/{self.plural}"
        return f"{name}/{self.subresource}" if self.subresource else name


def _name_in(selector: str) -> str:
    for term in selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name" and value:
            return value.lstrip("=")
    return ""


def read_request(method: str, path: str, params: Mapping[str, str]) -> RequestInfo:
    """Parse a path. Never fails: if the path names no resource, the result has none."""
    parts = [part for part in path.split("/") if part]
    plain = RequestInfo(method, path, method.lower())
    if len(parts) >= 3 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return plain
    forced = False
    if parts[0] == "watch" and len(parts) > 1:  # the deprecated prefix
        forced, parts = True, parts[1:]
    namespace, inside = "", False
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        inside = len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES
        if inside:
            parts = parts[2:]
    plural, *more = parts
    name = more[0] if more else ""
    subresource = more[1] if len(more) > 1 else ""
    if plural == "namespaces" and not inside:
        namespace = name  # for authorization, a namespace is in itself
    verb = _VERBS.get(method, "get")
    if verb == "get" and (not name or forced):  # a request for a named object is a get, even with `watch` in the query
        verb = "watch" if forced or boolean_of(params, "watch") else "list"
        name = name or _name_in(params.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    rest = "/".join(more[2:])
    return RequestInfo(method, path, verb, group, version, namespace, plural, name, subresource, rest, forced, inside)
