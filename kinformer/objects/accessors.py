"""Accessors for the identity of an object in any form: a `KubeObject`, a dict, or another client's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from kinformer.objects.meta import meta_namespace_key
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = [
    "INITIAL_EVENTS_END",
    "Known",
    "ends_initial_events",
    "has_ended",
    "key_of",
    "known_or_new",
    "namespace_of",
    "resource_version_of",
    "uid_of",
]

Known: TypeAlias = Callable[[str], ObjectT | None]
"""Returns a store's object with a key, or None."""

# apimachinery/pkg/apis/meta/v1/types.go, InitialEventsAnnotationKey
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def _metadata(obj: object) -> object:
    return obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)


def _field(obj: object, attribute: str, wire_name: str) -> object:
    found: object = getattr(obj, attribute, None)
    if found is not None:
        return found
    metadata = _metadata(obj)
    if isinstance(metadata, Mapping):
        return metadata.get(wire_name)
    return getattr(metadata, attribute, None)


def _text(obj: object, attribute: str, wire_name: str) -> str:
    found: object = getattr(obj, attribute, None)
    if not isinstance(found, str):
        found = _field(obj, attribute, wire_name)
    return found if isinstance(found, str) else ""


def key_of(obj: object) -> str:
    """Return the key, `"namespace/name"`. Raises KeyFuncError if the object has none."""
    key = getattr(obj, "key", None)
    return key if isinstance(key, str) else meta_namespace_key(obj)


def uid_of(obj: object) -> str:
    """Return `metadata.uid`, or ""."""
    return _text(obj, "uid", "uid")


def resource_version_of(obj: object) -> str:
    """Return `metadata.resourceVersion`, or ""."""
    return _text(obj, "resource_version", "resourceVersion")


def namespace_of(obj: object) -> str:
    """Return `metadata.namespace`, or ""."""
    return _text(obj, "namespace", "namespace")


def has_ended(obj: object) -> bool:
    """Return True if the response to a write is the last state of an object whose deletion is now complete.

    (apiserver, pkg/registry/generic/registry/store.go: ShouldDeleteDuringUpdate. A pod that is still terminating has a
    grace period above 0.)
    """
    if not _field(obj, "deletion_timestamp", "deletionTimestamp") or _field(obj, "finalizers", "finalizers"):
        return False
    return _field(obj, "deletion_grace_period_seconds", "deletionGracePeriodSeconds") == 0


def ends_initial_events(bookmark: object) -> bool:
    """Return True if this bookmark ends the initial events of a stream. Its annotation must be the string "true"."""
    annotations = _field(bookmark, "annotations", "annotations")
    return isinstance(annotations, Mapping) and annotations.get(INITIAL_EVENTS_END) == "true"


def known_or_new(known: Known[ObjectT] | None, obj: ObjectT) -> ObjectT:
    """Return the stored object with this uid and resourceVersion, or else `obj`. A relist then needs no second copy."""
    if known is None:
        return obj
    if isinstance(obj, KubeObject) and known(obj.key) is None:
        return obj
    version, uid = resource_version_of(obj), uid_of(obj)
    if not version or not uid:
        return obj
    held = known(key_of(obj))
    if held is not None and resource_version_of(held) == version and uid_of(held) == uid:
        return held
    return obj
