"""References to objects in any form: a `KubeObject`, a dict, or a model of a client library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import split_meta_namespace_key
from kinformer.objects.object import KubeObject

__all__ = ["ApiModel", "ApiObject", "ObjectReference", "type_of"]


class ApiModel(Protocol):
    """An object of a client library, such as kubernetes_asyncio's `V1Pod`."""

    @property
    def metadata(self) -> object:
        """Has the attributes `name`, `namespace`, `uid` and `resource_version`."""
        ...


ApiObject = Mapping[str, object] | ApiModel
"""An object of the API; a `KubeObject` is such a mapping."""


def type_of(obj: ApiObject) -> tuple[str, str]:
    """Return the apiVersion and the kind of an object, "" for one that it does not have."""
    if isinstance(obj, Mapping) and not isinstance(obj, KubeObject):
        return str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    return str(getattr(obj, "api_version", None) or ""), str(getattr(obj, "kind", None) or "")


class ObjectReference(NamedTuple):
    """The identity of an object, as an Event names it (api/core/v1/types.go, ObjectReference); "" for unknown parts."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @classmethod
    def to(cls, obj: ApiObject) -> ObjectReference:
        """Make a reference to an object.

        Raises:
            KeyFuncError: It has no name.
        """
        namespace, name = split_meta_namespace_key(key_of(obj))
        return cls(*type_of(obj), namespace, name, uid_of(obj), resource_version_of(obj))

    def as_json(self) -> dict[str, str]:
        """Return the parts that are known, by their names in JSON."""
        parts = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: value for name, value in parts.items() if value}
