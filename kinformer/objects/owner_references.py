"""Owner references: what ties an object to the one that it was made for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.objects.object import KubeObject, OwnerReference

__all__ = ["controller_of", "owned_by", "owner_reference"]


def owner_reference(owner: KubeObject, *, controller: bool = True, block_owner_deletion: bool = True) -> dict[str, Any]:
    """The entry of `metadata.ownerReferences` that names `owner` (controller-runtime, SetControllerReference).

    The garbage collector deletes what is owned when its last owner is gone.

    Args:
        owner: As the server has it, with its uid.
        controller: Whether it is the one that manages the object; an object has one such at most, and
            `Controller.owns` looks for it.
        block_owner_deletion: A foreground deletion of the owner waits for the object. True, as there.

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


def owned_by(child: Mapping[str, Any], owner: KubeObject, *, controller: bool = True) -> dict[str, Any]:
    """A copy of `child`, as a dict, with a reference to `owner`; one that it has already is replaced.

    Raises:
        ValueError: The owner is in another namespace (the garbage collector would delete the child), is in one while
            the child is in none, or the child has another controller already.
    """
    document = child.to_dict() if isinstance(child, KubeObject) else dict(child)
    metadata = dict(document.get("metadata") or {})
    namespace = metadata.get("namespace") or ""
    if owner.namespace and owner.namespace != namespace:
        where = f"namespace {namespace!r}" if namespace else "no namespace"
        raise ValueError(f"{owner!r} cannot own {metadata.get('name')!r}, which is in {where}")
    references = [one for one in metadata.get("ownerReferences") or () if one.get("uid") != owner.uid]
    if controller:
        for other in references:
            if other.get("controller"):
                name = f"{other.get('kind')} {other.get('name')}"
                raise ValueError(f"{metadata.get('name')!r} is controlled by {name}; it cannot be by {owner!r}")
    metadata["ownerReferences"] = [*references, owner_reference(owner, controller=controller)]
    document["metadata"] = metadata
    return document


def controller_of(obj: KubeObject) -> OwnerReference | None:
    """The owner that manages the object, or None."""
    return next((owner for owner in obj.owner_references if owner.controller), None)
