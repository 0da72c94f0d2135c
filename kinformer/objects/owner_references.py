"""Owner references, which link an object to the object that it was created for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.objects.object import KubeObject, OwnerReference

__all__ = ["controller_of", "owned_by", "owner_reference"]


def owner_reference(owner: KubeObject, *, controller: bool = True, block_owner_deletion: bool = True) -> dict[str, Any]:
    """Return an entry of `metadata.ownerReferences` for `owner` (controller-runtime, SetControllerReference).

    The garbage collector deletes an object when its last owner is gone.

    Args:
        owner: The owner as returned by the server, with its uid.
        controller: True if the owner manages the object. An object has at most one such owner. `Controller.owns` looks
            for it.
        block_owner_deletion: True if a foreground deletion of the owner waits for the object. The default is True, as
            upstream.

    Raises:
        ValueError: The owner has no uid, kind or apiVersion.
    """
    for field, value in (("uid", owner.uid), ("kind", owner.kind), ("apiVersion", owner.api_version)):
        if not value:
            raise ValueError(f"{owner!r} cannot own anything: it has no {field}")
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": controller,
        "blockOwnerDeletion": block_owner_deletion,
    }


def owned_by(child: Mapping[str, object], owner: KubeObject, *, controller: bool = True) -> dict[str, Any]:
    """Copy `child` into a dict with a reference to `owner`, replacing any existing reference to it.

    Raises:
        ValueError: The owner is in another namespace (the garbage collector would delete the child), the owner is
            namespaced while the child is not, or the child already has another controller.
    """
    document: dict[str, Any] = child.to_dict() if isinstance(child, KubeObject) else dict(child)
    metadata = dict(document.get("metadata") or {})
    namespace = metadata.get("namespace") or ""
    if owner.namespace and owner.namespace != namespace:
        where = f"namespace {namespace!r}" if namespace else "no namespace"
        raise ValueError(f"{owner!r} cannot own {metadata.get('name')!r}, which is in {where}")
    references = [reference for reference in metadata.get("ownerReferences") or () if reference.get("uid") != owner.uid]
    if controller:
        for other in references:
            if other.get("controller"):
                name = f"{other.get('kind')} {other.get('name')}"
                raise ValueError(
                    f"{owner!r} cannot control {metadata.get('name')!r}, which is already controlled by {name}"
                )
    metadata["ownerReferences"] = [*references, owner_reference(owner, controller=controller)]
    document["metadata"] = metadata
    return document


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """Return the owner that manages the object, or None."""
    return next((owner for owner in obj.owner_references if owner.controller), None)
