"""DELETE: preconditions, finalizers, grace periods and terminating namespaces (registry/generic/registry/store.go)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kinformer.apiserver.status import conflict, success
from kinformer.apiserver.storage import Stored
from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.plugins import Plugins
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.admission import Admission
from kinformer.testing.store.forms import copied, decode_stored
from kinformer.testing.store.ledger import Ledger, WriteResult, same_content

__all__ = ["CLEANUP", "DeleteOptions", "Deleter"]

Object = dict[str, Any]

_DEPENDENTS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # keeps a definition that has instances
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)
_ORPHANING = ("Job", "ReplicationController")  # strategy.go, DefaultGarbageCollectionPolicy


@dataclass(slots=True)
class DeleteOptions:
    """The options of a DELETE. `grace` is in seconds, or None for the kind's default."""

    grace: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False
    admin: bool = False
    user: Mapping[str, Any] = field(default_factory=dict)


class Deleter:
    """Deletes the objects of one server, synchronously. `versions` is `Features.delete_versions`."""

    def __init__(self, ledger: Ledger, admission: Admission, plugins: Plugins, *, versions: bool = False) -> None:
        self._versions = versions
        self._ledger = ledger
        self._admission = admission
        self._plugins = plugins

    def delete(self, resource: ResourceType, namespace: str, name: str, options: DeleteOptions) -> WriteResult:
        """Delete an object. The result is the object if it stays (finalizers, grace period), and otherwise a Status."""
        if not options.admin:
            self._admission.check_delete(resource, name)
        existing = self._ledger.stored(resource, namespace, name)
        self._check_preconditions(resource, existing, options)
        obj = decode_stored(resource, existing)
        metadata = obj["metadata"]
        old = copied(obj)
        if not options.admin:
            dry_run, user = options.dry_run, options.user
            self._plugins.check(Attributes("DELETE", resource, None, old, dry_run=dry_run, user=user))
        if resource.kind == "Namespace" and resource.builtin:
            return self._delete_namespace(resource, existing, obj, options)
        if resource.kind == "CustomResourceDefinition" and resource.builtin and "deletionTimestamp" not in metadata:
            return self._delete_definition(resource, obj, options)
        self._set_propagation(resource, metadata, options)
        grace = self._grace_period(resource, obj, options)
        marked = "deletionTimestamp" in metadata
        waits = bool(metadata.get("finalizers")) or grace > 0
        if waits or (grace == 0 and resource.kind == "Pod" and resource.builtin and not options.admin):
            if marked and metadata.get("deletionGracePeriodSeconds", 0) <= grace and same_content(old, obj):
                return WriteResult(existing)
            metadata["deletionTimestamp"] = self._ledger.timestamp(grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if not marked and "generation" in metadata:
                metadata["generation"] += 1
            saved = self._ledger.save(resource, old, obj, dry_run=options.dry_run)
            if waits:
                warned = resource.kind == "Job" and not (options.propagation or options.admin)
                return WriteResult(saved, warnings=(_PODS_STAY,) if warned else ())
            obj = decode_stored(resource, saved) if not options.dry_run else obj
        _, gone = self._ledger.remove(resource, obj, dry_run=options.dry_run)
        if resource.returns_deleted:
            return WriteResult(gone)
        return WriteResult(gone, status=self._success_status(resource, gone))

    def _set_propagation(self, resource: ResourceType, metadata: Object, options: DeleteOptions) -> None:
        """Set the finalizer for the propagation policy. The two finalizers exclude each other."""
        policy = options.propagation
        if not policy and resource.builtin and resource.kind in _ORPHANING and not options.admin:
            policy = "Orphan"
        if not policy:
            return
        finalizers = [name for name in metadata.get("finalizers") or [] if name not in _DEPENDENTS.values()]
        if policy in _DEPENDENTS:
            finalizers.append(_DEPENDENTS[policy])
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]

    def _success_status(self, resource: ResourceType, gone: Stored) -> Object:
        details = {"name": gone.name, "group": resource.group, "kind": resource.plural, "uid": gone.uid}
        status = success(details={key: value for key, value in details.items() if value})
        if self._versions:
            status["metadata"] = {"resourceVersion": str(gone.revision)}
        return status

    def _check_preconditions(self, resource: ResourceType, existing: Stored, options: DeleteOptions) -> None:
        for what, given, actual in (
            ("UID", options.uid, existing.uid),
            ("ResourceVersion", options.resource_version, str(existing.revision)),
        ):
            if given and given != actual:
                raise conflict(
                    resource.group,
                    resource.kind,
                    existing.name,
                    f"the {what} in the precondition ({given}) does not match the {what} in record ({actual})."
                    " The object might have been " + ("deleted and then recreated" if what == "UID" else "modified"),
                )

    def _grace_period(self, resource: ResourceType, obj: Object, options: DeleteOptions) -> int:
        """Return the grace period.

        Only pods on a node get one (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
        """
        if not (resource.builtin and resource.kind == "Pod") or options.admin:
            return 0
        spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") and not options.grace:
            return 0
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        grace = spec.get("terminationGracePeriodSeconds", 30) if options.grace is None else options.grace
        return 1 if grace < 0 else int(grace)

    def _delete_namespace(
        self, resource: ResourceType, existing: Stored, obj: Object, options: DeleteOptions
    ) -> WriteResult:
        if "deletionTimestamp" in obj["metadata"]:
            return WriteResult(existing)
        old = copied(obj)
        obj["metadata"]["deletionTimestamp"] = self._ledger.timestamp()
        obj.setdefault("status", {})["phase"] = "Terminating"
        return WriteResult(self._ledger.save(resource, old, obj, dry_run=options.dry_run))

    def _delete_definition(self, resource: ResourceType, obj: Object, options: DeleteOptions) -> WriteResult:
        """Delete a definition. It stays until its instances are gone (apiextensions-apiserver, etcd.go)."""
        old, now = copied(obj), self._ledger.timestamp()
        metadata = obj["metadata"]
        metadata["deletionTimestamp"] = now
        metadata["finalizers"] = [name for name in metadata.get("finalizers") or [] if name != CLEANUP] + [CLEANUP]
        terminating = {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        }
        obj.setdefault("status", {}).setdefault("conditions", []).append(terminating)
        return WriteResult(self._ledger.save(resource, old, obj, dry_run=options.dry_run))
