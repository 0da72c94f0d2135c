"""Replaces a stored object with the one a client has sent, step by step (registry/rest/update.go, registry/*).

These steps need only the two documents. Steps that need the clock, the storage or admission are in `Writer`.
"""

from __future__ import annotations

from typing import Any

from kinformer.apiserver.status import StatusError, cause, conflict, internal, invalid
from kinformer.apiserver.storage import Stored
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.strategies import keep_rest
from kinformer.testing.store.forms import decode_stored
from kinformer.testing.store.ledger import managers_of, same_content, spec_differs

__all__ = ["ObjectReplacement", "failed_precondition", "version_in"]

Object = dict[str, Any]

# Where etcd has objects of kinds that are not below their plural (kubeapiserver/default_storage_factory_builder.go).
_PREFIXES = {
    "apiservices": "apiregistration.k8s.io/apiservices",
    "customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
    "endpoints": "services/endpoints",
    "ingresses": "ingress",
    "nodes": "minions",
    "replicationcontrollers": "controllers",
    "services": "services/specs",
}
_SYSTEM_METADATA = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


class ObjectReplacement:
    """The replacement of a stored object by `new`, which each step changes in place.

    `old` stays as it is stored, except for the managedFields that `take_managed_fields` puts into it.

    Args:
        resource: The kind, in the version of the request.
        existing: The stored object.
        new: The object to store, decoded.
        options: The options of the write.
        subresource: The subresource of the request.
        applied: True for an apply, which has already computed the managedFields of `new`.
    """

    def __init__(
        self,
        resource: ResourceType,
        existing: Stored,
        new: Object,
        options: WriteOptions,
        subresource: str = "",
        *,
        applied: bool = False,
    ) -> None:
        self.resource = resource
        self.existing = existing
        self.old = decode_stored(resource, existing)
        self.new = new
        self.options = options
        self.subresource = subresource
        self.applied = applied

    def check_preconditions(self) -> None:
        """Compare the resourceVersion and the uid with the stored ones. Raises a 409, 422 or 500 `StatusError`.

        A direct call of a test (`admin`) is not checked.
        """
        resource, existing, options, metadata = self.resource, self.existing, self.options, self.new["metadata"]
        version, uid = version_in(metadata), metadata.get("uid")
        if options.admin:
            return
        if not (version or resource.unconditional_update or options.internal):
            message = "Invalid value: 0: must be specified for an update"
            causes = [cause("FieldValueInvalid", message, "metadata.resourceVersion")]
            raise invalid(resource.group, resource.plural, existing.name, causes)
        if version and not version.isdigit():
            raise internal(f'strconv.ParseUint: parsing "{version}": invalid syntax')
        if version and version != str(existing.revision):
            raise conflict(resource.group, resource.plural, existing.name)
        if uid and uid != existing.uid:
            raise failed_precondition(resource, existing.key, "UID", uid, existing.uid)

    def keep_system_metadata(self) -> None:
        """Carry over the metadata that only the server sets."""
        before, metadata = self.old["metadata"], self.new["metadata"]
        _carry_over(_SYSTEM_METADATA, before, metadata)
        metadata.update(name=before["name"], resourceVersion=before["resourceVersion"])
        if "namespace" in before:
            metadata["namespace"] = before["namespace"]
        metadata.pop("selfLink", None)

    def keep_rest(self, now: str) -> None:
        """Carry over what this request does not write. A direct call of a test may write the status too."""
        resource, old, new = self.resource, self.old, self.new
        if self.subresource or not self.options.admin:
            keep_rest(resource, self.subresource, old, new, now)
            return
        if resource.has_status and "status" not in new and "status" in old:
            new["status"] = old["status"]
        if resource.builtin and resource.kind == "Namespace":
            finalizers = (old.get("spec") or {}).get("finalizers") or []
            new.setdefault("spec", {}).setdefault("finalizers", finalizers)

    def take_managed_fields(self) -> bool:
        """Determine the managedFields on which this write builds. Return True if the client has sent others.

        Given managedFields replace the stored ones, and `[{}]` clears them. An apply has computed its own.
        """
        if self.applied:
            return False
        before, metadata = self.old["metadata"], self.new["metadata"]
        given = metadata.pop("managedFields", None)
        given = [] if given == [{}] else given or before.get("managedFields", [])
        taken = given != before.get("managedFields", []) and not self.subresource
        if taken:
            before["managedFields"] = given
        if before.get("managedFields"):
            metadata["managedFields"] = before["managedFields"]
        return taken

    @property
    def changes_nothing(self) -> bool:
        """True if the write leaves the object and its managers unchanged."""
        return same_content(self.old, self.new) and managers_of(self.old) == managers_of(self.new)

    def count_generation(self) -> None:
        """Increment the generation, if the kind has one and the spec differs."""
        resource = self.resource
        counted = (resource.generation or not resource.builtin) and self.subresource not in ("binding", "status")
        if counted and spec_differs(resource, self.old, self.new):
            self.new["metadata"]["generation"] = self.old["metadata"].get("generation", 0) + 1

    @property
    def completes_deletion(self) -> bool:
        """True if the object is being deleted and has no finalizers left."""
        metadata = self.new["metadata"]
        if not metadata.get("deletionTimestamp"):
            return False
        if metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"):
            return False
        is_namespace = self.resource.kind == "Namespace" and self.resource.builtin
        return not (is_namespace and (self.new.get("spec") or {}).get("finalizers"))


def failed_precondition(resource: ResourceType, key: str, what: str, given: str, actual: str) -> StatusError:
    """Return the 409 of the storage for a write that demands another UID or ResourceVersion of the object at a key."""
    return conflict(
        resource.group,
        resource.plural,
        key.rpartition("/")[2],
        f"StorageError: invalid object, Code: 4, Key: {_storage_key(resource, key)}, ResourceVersion: 0,"
        f" AdditionalErrorMsg: Precondition failed: {what} in precondition: {given}, {what} in object meta: {actual}",
    )


def _storage_key(resource: ResourceType, key: str) -> str:
    prefix = _PREFIXES.get(resource.plural, resource.plural) if resource.builtin else resource.storage_name
    return f"/registry/{prefix}/{key}"


def version_in(metadata: Object) -> str:
    """Return the resourceVersion of a write, or "" if there is none or it is 0, which means the same."""
    version = str(metadata.get("resourceVersion") or "")
    return version if version.strip("0") else ""


def _carry_over(names: tuple[str, ...], old: Object, new: Object) -> None:
    """Restore fields to their old values. A field that was absent is removed."""
    for name in names:
        new.pop(name, None)
        if name in old:
            new[name] = old[name]
