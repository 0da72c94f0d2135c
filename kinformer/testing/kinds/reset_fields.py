"""The fields that a write does not change and so cannot own (GetResetFields in pkg/registry/*/strategy.go)."""

from __future__ import annotations

from kinformer.testing.kinds.resources import ResourceType

__all__ = ["METADATA", "kept_by_status", "reset_fields"]

METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
# The metadata that a write of /status keeps. Other built-in kinds keep nothing.
_KEPT_BY_STATUS = {
    "APIService": METADATA,
    "CustomResourceDefinition": METADATA,
    "Deployment": ("labels",),
    "FlowSchema": METADATA,
    "Pod": ("ownerReferences",),
    "PriorityLevelConfiguration": METADATA,
    "ResourceClaim": METADATA,
    "ServiceCIDR": METADATA,
    "ValidatingAdmissionPolicy": METADATA,
    "VolumeAttachment": METADATA,
}
_SPEC, _STATUS = ("f:spec",), ("f:status",)
_OF_REQUESTS = {
    "": (_SPEC, _STATUS),
    "status": (_SPEC, ("f:status", "f:conditions")),
    "approval": (_SPEC, ("f:status", "f:certificate")),
}


def kept_by_status(resource: ResourceType) -> tuple[str, ...]:
    """Return the metadata that a write of /status keeps."""
    return _KEPT_BY_STATUS.get(resource.kind, ()) if resource.builtin else METADATA


def reset_fields(resource: ResourceType, subresource: str) -> tuple[tuple[str, ...], ...]:
    """Return the paths that a write of a subresource ("" for the object itself) resets, as in managedFields."""
    if resource.builtin and resource.kind == "CertificateSigningRequest":
        return _OF_REQUESTS.get(subresource, ())
    if subresource in ("", "finalize"):
        return (_STATUS,) if resource.has_status else ()
    if subresource != "status":
        return ()
    kept = kept_by_status(resource)
    if kept == METADATA:
        return (_SPEC, ("f:metadata",))
    return (_SPEC, *(("f:metadata", f"f:{name}") for name in kept))
