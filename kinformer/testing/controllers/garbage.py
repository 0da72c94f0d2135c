"""The garbage collector: deletes, or releases, the dependents of deleted owners (pkg/controller/garbagecollector)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinformer.testing.controllers.cluster import Actor, APIClient, Object, is_terminating
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["GarbageCollector"]

_ACTOR = Actor("generic-garbage-collector")
_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"


class GarbageCollector:
    """Follows owner references of all kinds. It queues the name of a resource in the place of a namespace."""

    def __init__(self, cluster: APIClient) -> None:
        self._cluster = cluster
        self._dependents: dict[str, dict[tuple[str, str], None]] = {}  # by uid of the owner

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the objects that a change concerns."""
        resource = self._stored_as(resource)
        changed = new or old
        assert changed is not None
        metadata = changed["metadata"]
        own = (resource.name, resource.key(metadata.get("namespace", ""), metadata["name"]))
        before, now = _owners(old), _owners(new)
        for uid in before - now:
            self._dependents.get(uid, {}).pop(own, None)
        for uid in now - before:
            self._dependents.setdefault(uid, {})[own] = None
        if new is None:
            # Dependents of an object that is gone, and owners that waited for their dependents.
            waiting = [self._place(reference, metadata) for reference in metadata.get("ownerReferences") or ()]
            return [*self._dependents.pop(metadata["uid"], {}), *(place for place in waiting if place is not None)]
        if is_terminating(new) and {_FOREGROUND, _ORPHAN} & set(metadata.get("finalizers") or ()):
            return [own]
        return [own] if now - before else []

    def reconcile(self, namespace: str, name: str) -> None:
        """Delete an object whose owners are gone, or go on with a deletion that concerns its dependents."""
        try:
            resource = self._cluster.type_of(namespace)
        except LookupError:  # its definition is gone
            return
        obj = self._cluster.at(resource, name)
        if obj is None:
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if is_terminating(obj) and _ORPHAN in finalizers:
            self._orphan(obj)
            self._free(resource, obj, _ORPHAN)
        elif is_terminating(obj) and _FOREGROUND in finalizers:
            self._finish_foreground(resource, obj)
        elif not is_terminating(obj) and self._is_left_behind(obj):
            self._cluster.delete(resource, obj)

    def _is_left_behind(self, obj: Object) -> bool:
        references = obj["metadata"].get("ownerReferences") or ()
        return bool(references) and not any(self._exists(reference, obj["metadata"]) for reference in references)

    def _finish_foreground(self, resource: ResourceType, obj: Object) -> None:
        dependents = list(self._dependents_of(obj))
        for served, dependent in dependents:
            if not is_terminating(dependent) and not self._has_other_owner(dependent, obj):
                self._cluster.delete(served, dependent, propagation="Foreground")
        uid = obj["metadata"]["uid"]
        blocking = [
            reference
            for _, dependent in self._dependents_of(obj)
            for reference in dependent["metadata"].get("ownerReferences") or ()
            if reference["uid"] == uid and reference.get("blockOwnerDeletion")
        ]
        if not blocking:
            self._free(resource, obj, _FOREGROUND)

    def _orphan(self, obj: Object) -> None:
        uid = obj["metadata"]["uid"]

        def release(newest: Object) -> None:
            left = [other for other in newest["metadata"]["ownerReferences"] if other["uid"] != uid]
            newest["metadata"]["ownerReferences"] = left

        for resource, dependent in list(self._dependents_of(obj)):
            self._cluster.patch(_ACTOR, resource.name, dependent, release)

    def _free(self, resource: ResourceType, obj: Object, finalizer: str) -> None:
        def change(newest: Object) -> None:
            newest["metadata"]["finalizers"] = [name for name in newest["metadata"]["finalizers"] if name != finalizer]

        self._cluster.patch(_ACTOR, resource.name, obj, change)

    def _dependents_of(self, obj: Object) -> Iterator[tuple[ResourceType, Object]]:
        for name, key in list(self._dependents.get(obj["metadata"]["uid"], ())):
            resource = self._cluster.type_of(name)
            dependent = self._cluster.at(resource, key)
            if dependent is not None:
                yield resource, dependent

    def _has_other_owner(self, dependent: Object, owner: Object) -> bool:
        metadata = dependent["metadata"]
        others = [other for other in metadata["ownerReferences"] if other["uid"] != owner["metadata"]["uid"]]
        return any(self._exists(other, metadata) for other in others)

    def _exists(self, reference: Object, metadata: Object) -> bool:
        place = self._place(reference, metadata)
        if place is None:
            return True  # of a kind that is not served, so nothing is known
        owner = self._cluster.at(self._cluster.type_of(place[0]), place[1])
        return owner is not None and owner["metadata"]["uid"] == reference["uid"]

    def _place(self, reference: Object, metadata: Object) -> tuple[str, str] | None:
        """Return the resource and the key of an owner, or None if its kind is not served."""
        resource = self._cluster.ledger.registry.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return None
        resource = self._stored_as(resource)
        namespace: Any = metadata.get("namespace", "") if resource.namespaced else ""
        return resource.name, resource.key(namespace, reference["name"])

    def _stored_as(self, resource: ResourceType) -> ResourceType:
        """Return the version of a kind in which its objects are stored."""
        if resource.is_storage:
            return resource
        same = [version for version in self._cluster.ledger.registry if version.storage_name == resource.storage_name]
        return next((version for version in same if version.is_storage), resource)


def _owners(obj: Object | None) -> set[str]:
    references = (obj or {"metadata": {}})["metadata"].get("ownerReferences") or ()
    return {reference["uid"] for reference in references}
