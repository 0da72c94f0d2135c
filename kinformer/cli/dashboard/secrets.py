"""Removes the values of Secrets, so that they are neither shown nor kept."""

from __future__ import annotations

from typing import Any

from kinformer import KubeObject

__all__ = ["HIDDEN", "hide", "is_secret"]

HIDDEN = "(hidden)"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # contains the applied data


def is_secret(obj: KubeObject) -> bool:
    """Return True if it is or may be a Secret. Plain metadata may be one, with the data in an annotation."""
    return obj.kind == "PartialObjectMetadata" or (obj.kind == "Secret" and obj.api_version in ("v1", ""))


def hide(document: dict[str, Any]) -> dict[str, Any]:
    """Replace the values of a Secret. Can be used as the transform of an informer.

    The names of its keys, its type and its metadata are kept.
    """
    for field in ("data", "stringData"):
        if isinstance(document.get(field), dict):
            document[field] = dict.fromkeys(document[field], HIDDEN)
    annotations = (document.get("metadata") or {}).get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        annotations[_LAST_APPLIED] = HIDDEN
    return document
