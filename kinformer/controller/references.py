"""References to objects, from a `KubeObject`, a dict, a model of a client library, or the Status of a delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kinformer.informer.informer import SharedInformer
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import split_meta_namespace_key, version_number
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ApiObject

__all__ = ["Deletion", "ObjectReference", "status_version", "type_of", "uid_in_details", "version_or_zero"]


def type_of(obj: ApiObject) -> tuple[str, str]:
    """Return the apiVersion and the kind of an object, or "" for a missing one."""
    if isinstance(obj, Mapping) and not isinstance(obj, KubeObject):
        return str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    return str(getattr(obj, "api_version", None) or ""), str(getattr(obj, "kind", None) or "")


class ObjectReference(NamedTuple):
    """The identity of an object, as in an Event (api/core/v1/types.go, ObjectReference). Unknown parts are ""."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @classmethod
    def to(cls, obj: ApiObject) -> ObjectReference:
        """Return a reference to an object.

        Raises:
            KeyFuncError: The object has no name.
        """
        namespace, name = split_meta_namespace_key(key_of(obj))
        return cls(*type_of(obj), namespace, name, uid_of(obj), resource_version_of(obj))

    def as_json(self) -> dict[str, str]:
        """Return the known parts, by their names in JSON."""
        parts = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {name: value for name, value in parts.items() if value}


class Deletion(NamedTuple):
    """A deleted object, as identified in the Status that answers a DELETE, which has no namespace.

    Attributes:
        resource: The group and resource of the object.
        name, uid: The name and uid of the object. The uid may be "".
        version: The resourceVersion of the deletion, which servers send since 1.38, or 0.
    """

    resource: tuple[str, str]
    name: str
    uid: str
    version: int

    @classmethod
    def of(cls, answer: object) -> Deletion | None:
        """Return the deletion in the Status of a successful DELETE (a dict or a kubernetes_asyncio model), or None."""
        details = _details(answer)
        name, resource = _text(details, "name"), _text(details, "kind")  # a Status has the resource in "kind"
        if _text(answer, "status") != "Success" or not name or not resource:
            return None
        return cls((_text(details, "group"), resource), name, _text(details, "uid"), status_version(answer))

    def key_in(self, informer: SharedInformer, namespace: str) -> str | None:
        """Return the key of the object in an informer, or None if it is unknown and cannot be waited for.

        The object is looked up in `namespace`, then everywhere. If the cache does not have it, it can still be waited
        for by version, in `namespace` or in the only namespace that the informer follows.
        """
        for key in (f"{namespace}/{self.name}", self.name):
            if self._is_at(informer, key):
                return key
        suffix = f"/{self.name}"
        for key in informer.indexer.list_keys():
            if key.endswith(suffix) and self._is_at(informer, key):
                return key
        if not self.version:
            return None
        followed = informer.namespaces or (namespace,)
        place = namespace if namespace in followed else followed[0] if len(followed) == 1 else None
        return None if place is None else f"{place}/{self.name}"

    def _is_at(self, informer: SharedInformer, key: str) -> bool:
        cached = informer.indexer.get_by_key(key)
        return cached is not None and (not self.uid or cached.uid == self.uid)


def status_version(answer: object) -> int:
    """Return the resourceVersion of a write from its Status, or 0 if `answer` is not a Status or has none."""
    return version_or_zero(resource_version_of(answer)) if _text(answer, "kind") == "Status" else 0


def uid_in_details(answer: object) -> str:
    """Return the uid in the Status of a delete, or ""."""
    return _text(_details(answer), "uid")


def version_or_zero(resource_version: str) -> int:
    """Return a resourceVersion as a comparable number, or 0 if it is not a number."""
    try:
        return version_number(resource_version)
    except ValueError:
        return 0


def _details(answer: object) -> object:
    return answer.get("details") if isinstance(answer, Mapping) else getattr(answer, "details", None)


def _text(part: object, name: str) -> str:
    value = part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)
    return value if isinstance(value, str) else ""
