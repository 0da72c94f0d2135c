"""The meaning of a request's path to an API server."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["RequestPath"]


class RequestPath(NamedTuple):
    """The resource that a path names (apiserver, pkg/endpoints/request/requestinfo.go).

    Attributes:
        group: The API group, or "" for the core group.
        version: The version, such as `"v1"`.
        resource: The plural name, such as `"pods"`.
        namespace: The namespace, or "". Of a Namespace, too, which is cluster-scoped.
        name: The name of the object, or "" for a collection.
        subresource: The subresource, such as `"status"`, or "".
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, path: str) -> RequestPath | None:
        """Return the resource in a path, whose query is ignored, or None if it names none."""
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[0] == "api" and len(parts) > 2:
            group, version, *rest = "", *parts[1:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, *rest = parts[1:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        return cls(group, version, rest[0], namespace, *rest[1:3])
