"""The attributes of a write that admission plugins see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinformer.apiserver.status import StatusError, failure, qualified
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Attributes"]

Object = dict[str, Any]


@dataclass(slots=True)
class Attributes:
    """A write: its operation (CREATE, UPDATE or DELETE), object and user.

    `obj` is None for a deletion, and `old` is None for a creation. `user` is a UserInfo of authentication.k8s.io, or
    empty for the server itself. Plugins complete `obj`, in place, and append to `warnings`, which the client receives.
    """

    operation: str
    resource: ResourceType
    obj: Object | None
    old: Object | None = None
    subresource: str = ""
    dry_run: bool = False
    user: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def subject(self) -> Object:
        """The object, or its state before its deletion."""
        state = self.obj if self.obj is not None else self.old
        return state if state is not None else {}

    @property
    def namespace(self) -> str:
        """The namespace. For a Namespace, its own name."""
        if self.resource.builtin and self.resource.kind == "Namespace":
            return self.name
        return str(self.subject["metadata"].get("namespace") or "") if self.resource.namespaced else ""

    @property
    def name(self) -> str:
        """The name."""
        return str(self.subject["metadata"].get("name") or "")

    @property
    def plain_pod(self) -> bool:
        """True for a pod, but not for its subresources."""
        return self.resource.builtin and self.resource.kind == "Pod" and not self.subresource

    def refused(self, text: str) -> StatusError:
        """Return the 403 of a plugin that refuses the write."""
        resource = self.resource
        name = self.name or self.subject["metadata"].get("generateName") or "Unknown"
        details = {"name": name, **({"group": resource.group} if resource.group else {}), "kind": resource.plural}
        return failure(
            403, f'{qualified(resource.group, resource.plural)} "{name}" is forbidden: {text}', details=details
        )
