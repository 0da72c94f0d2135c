"""What a reflector reads of an object, whatever form a source gives it: `KubeObject`, dict, or a client's model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinformer.objects.meta import meta_namespace_key

__all__ = [
    "INITIAL_EVENTS_END",
    "Known",
    "ends_initial_events",
    "key_of",
    "known_or_new",
    "resource_version_of",
    "uid_of",
]

Known = Callable[[str], object | None]
"""The object that a store holds under a key, or None."""

# apimachinery/pkg/apis/meta/v1/types.go, InitialEventsAnnotationKey
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def _metadata(obj: Any) -> Any:
    return obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)


def _field(obj: Any, attribute: str, wire_name: str) -> Any:
    found = getattr(obj, attribute, None)
    if found is not None:
        return found
    metadata = _metadata(obj)
    if isinstance(metadata, Mapping):
        return metadata.get(wire_name)
    return getattr(metadata, attribute, None)


def key_of(obj: Any) -> str:
    """The key, `"namespace/name"`; KeyFuncError where there is none."""
    key = getattr(obj, "key", None)
    return key if isinstance(key, str) else meta_namespace_key(obj)


def uid_of(obj: Any) -> str:
    """`metadata.uid`, or ""."""
    return _field(obj, "uid", "uid") or ""


def resource_version_of(obj: Any) -> str:
    """`metadata.resourceVersion`, or ""."""
    return _field(obj, "resource_version", "resourceVersion") or ""


def ends_initial_events(bookmark: Any) -> bool:
    """Whether this bookmark says that all that was there has been sent; the annotation must be the text "true"."""
    annotations = _field(bookmark, "annotations", "annotations")
    return isinstance(annotations, Mapping) and annotations.get(INITIAL_EVENTS_END) == "true"


def known_or_new(known: Known | None, obj: Any) -> Any:
    """What the store holds of the same uid and resourceVersion, so that a relist needs no second copy; else `obj`."""
    if known is None:
        return obj
    version, uid = resource_version_of(obj), uid_of(obj)
    if not version or not uid:
        return obj
    held = known(key_of(obj))
    if held is not None and resource_version_of(held) == version and uid_of(held) == uid:
        return held
    return obj
