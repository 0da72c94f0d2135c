"""The target of a request: the resource of its `RequestPath`, and its verb."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinformer.apiserver.options import boolean_of
from kinformer.objects.requests.path import RequestPath
from kinformer.testing.kinds.resources import group_version

__all__ = ["RequestInfo", "read_request"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


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
        """The apiVersion: `v1`, `apps/v1`."""
        return group_version(self.group, self.version)

    @property
    def resource(self) -> str:
        """The resource, with a subresource: `v1/pods`, `v1/pods/status`."""
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
    target = RequestPath.of_segments([part for part in path.split("/") if part])
    if target is None or target.prefix == "proxy":
        return RequestInfo(method, path, method.lower())
    forced, name = target.prefix == "watch", target.name
    verb = _VERBS.get(method, "get")
    if verb == "get" and (not name or forced):  # a request for a named object is a get, even with `watch` in the query
        verb = "watch" if forced or boolean_of(params, "watch") else "list"
        name = name or _name_in(params.get("fieldSelector", ""))
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(
        method,
        path,
        verb,
        target.group,
        target.version,
        target.namespace_of_access,
        target.resource,
        name,
        target.subresource,
        target.rest,
        forced,
        bool(target.namespace),
    )
