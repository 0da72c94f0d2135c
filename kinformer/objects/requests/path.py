"""The meaning of a request's path to an API server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["RequestPath"]

_PREFIXES = ("watch", "proxy")
_NAMESPACE_SUBRESOURCES = ("status", "finalize")


class RequestPath(NamedTuple):
    """The resource that a path names (apiserver, pkg/endpoints/request/requestinfo.go).

    Attributes:
        group: The API group, or "" for the core group.
        version: The version, such as `"v1"`.
        resource: The plural name, such as `"pods"`.
        namespace: The namespace, or "" for an object of the cluster, such as a Namespace.
        name: The name of the object, or "" for a collection.
        subresource: The subresource, such as `"status"`, or "".
        rest: The path behind the subresource, or "".
        prefix: The deprecated word before the resource, "watch" or "proxy", or "".
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    prefix: str = ""

    @classmethod
    def of(cls, path: str) -> RequestPath | None:
        """Return the resource in a path, whose query is ignored, or None if it names none."""
        return cls.of_segments(path.partition("?")[0].strip("/").split("/"))

    @classmethod
    def of_segments(cls, segments: Sequence[str]) -> RequestPath | None:
        """Return the resource in a path that was split at its slashes, or None if it names none."""
        match segments:
            case ["api", version, word, *rest]:
                group = ""
            case ["apis", group, version, word, *rest]:
                pass
            case _:
                return None
        prefix = namespace = ""
        if word in _PREFIXES and rest:
            prefix, (word, *rest) = word, rest
        if word == "namespaces" and len(rest) > 1 and rest[1] not in _NAMESPACE_SUBRESOURCES:
            namespace, word, *rest = rest
        name, subresource, *behind = *rest, *("", "")[len(rest) :]
        return cls(group, version, word, namespace, name, subresource, "/".join(behind), prefix)

    @property
    def namespace_of_access(self) -> str:
        """The namespace that decides who may access it. A Namespace is in itself."""
        return self.name if self.resource == "namespaces" and not self.namespace else self.namespace
