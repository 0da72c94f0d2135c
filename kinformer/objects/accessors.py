"""Accessors for the identity of an object in any form: a `KubeObject`, a dict, or another client's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from kinformer.objects.meta import compare_resource_versions, meta_namespace_key
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = [
    "INITIAL_EVENTS_END",
    "Known",
    "ends_initial_events",
    "flag_at",
    "has_ended",
    "is_another",
    "is_gone",
    "key_of",
    "known_or_new",
    "moment_at",
    "namespace_of",
    "number_at",
    "resource_version_of",
    "string_at",
    "strings_at",
    "table_at",
    "tables_at",
    "uid_of",
    "value_at",
]

Known: TypeAlias = Callable[[str], ObjectT | None]
"""Returns a store's object with a key, or None."""

# apimachinery/pkg/apis/meta/v1/types.go, InitialEventsAnnotationKey
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def _metadata(obj: object) -> object:
    return obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)


def _field(obj: object, attribute: str, wire_name: str) -> object:
    value: object = getattr(obj, attribute, None)
    if value is not None:
        return value
    metadata = _metadata(obj)
    if isinstance(metadata, Mapping):
        return metadata.get(wire_name)
    return getattr(metadata, attribute, None)


def _text(obj: object, attribute: str, wire_name: str) -> str:
    value: object = getattr(obj, attribute, None)
    if not isinstance(value, str):
        value = _field(obj, attribute, wire_name)
    return value if isinstance(value, str) else ""


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


# --- the order of two states of one name ---------------------------------------------------------------------


def is_gone(uid: str, version: str, deleted_uid: str, deleted_version: str) -> bool:
    """Return True if an object is gone after a DELETED event of its name.

    A uid never comes back, so the versions of an object and its own DELETED do not matter. The DELETED of another uid
    is about an earlier object if it has an older version. If it has a newer one, another object took the place of this
    one, and is deleted too. If one of the versions is not a number, only the uids are compared.
    """
    if uid == deleted_uid and uid:
        return True
    unidentified = not (uid and deleted_uid)
    try:
        order = compare_resource_versions(deleted_version, version)
    except ValueError:
        return unidentified
    return order > 0 or (order == 0 and unidentified)


def is_another(held: object, deleted: object) -> bool:
    """Return True if a DELETED is certainly about an earlier object than the one in a store: see `is_gone`.

    Both may be of any type. Without a uid, nothing is certain.
    """
    uid, deleted_uid = uid_of(held), uid_of(deleted)
    if not (uid and deleted_uid):
        return False
    return not is_gone(uid, resource_version_of(held), deleted_uid, resource_version_of(deleted))


# --- fields that may have any shape -----------------------------------------------------------------------------
#
# A custom resource's schema need not say what a status contains. A field that is missing, null or of another type
# counts as empty, because a helper that reads a status for people, or waits for one, must not fail because of it.


def value_at(obj: object, *names: str) -> Any:
    """Return the value of a nested field, or None."""
    for name in names:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def table_at(obj: object, *names: str) -> Mapping[str, Any]:
    """Return a mapping, or an empty one."""
    value = value_at(obj, *names)
    return value if isinstance(value, Mapping) else {}


def tables_at(obj: object, *names: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a list. Other items are left out."""
    value = value_at(obj, *names)
    return [member for member in value if isinstance(member, Mapping)] if isinstance(value, list) else []


def strings_at(obj: object, *names: str) -> list[str]:
    """Return the strings in a list. Other items are left out."""
    value = value_at(obj, *names)
    return [member for member in value if isinstance(member, str)] if isinstance(value, list) else []


def string_at(obj: object, *names: str) -> str:
    """Return a string, or ""."""
    value = value_at(obj, *names)
    return value if isinstance(value, str) else ""


def number_at(obj: object, *names: str, default: int = 0) -> int:
    """Return a whole number, or the default."""
    value = value_at(obj, *names)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def moment_at(obj: object, *names: str) -> float | None:
    """Return a time in seconds since the epoch, or None. Kubernetes writes a time that is not set as year 1."""
    try:
        moment = datetime.fromisoformat(string_at(obj, *names))
    except ValueError:
        return None
    seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    return seconds if seconds >= 0 else None


def flag_at(obj: object, *names: str) -> bool:
    """Return True if the field is true."""
    return value_at(obj, *names) is True
