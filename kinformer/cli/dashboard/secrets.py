"""Nothing of what Secrets hold is shown, or kept."""

from __future__ import annotations

from typing import Any

from kinformer.objects.object import KubeObject

__all__ = ["HIDDEN", "hide", "is_secret"]

HIDDEN = "(hidden)"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # holds the data as they were applied


def is_secret(obj: KubeObject) -> bool:
    """Whether it is a Secret, or may be one: metadata alone does not tell, and has an annotation with the data."""
    return obj.kind == "PartialObjectMetadata" or (obj.kind == "Secret" and obj.api_version in ("v1", ""))


def hide(document: dict[str, Any]) -> dict[str, Any]:
    """A Secret without the values that it holds; it can be a transform of an informer.

    What it has are the names of its keys, its type and its metadata.
    """
    for field in ("data", "stringData"):
        if isinstance(document.get(field), dict):
            document[field] = dict.fromkeys(document[field], HIDDEN)
    annotations = (document.get("metadata") or {}).get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        annotations[_LAST_APPLIED] = HIDDEN
    return document
