"""Removes the values of Secrets, so that they are neither shown nor kept."""

from __future__ import annotations

from typing import Any

from kinformer import KubeObject
from kinformer.objects import showable

__all__ = ["hide", "is_secret"]


def is_secret(obj: KubeObject) -> bool:
    """Return True if it is or may be a Secret, of which not everything may be shown."""
    return showable(obj) is not obj


def hide(document: dict[str, Any]) -> dict[str, Any]:
    """Replace the values of a Secret. Can be used as the transform of an informer.

    The names of its keys, its type and its metadata are kept, without the values of most annotations.
    """
    shown = showable({**document, "kind": "Secret"})
    document.update({name: shown[name] for name in document if name != "kind"})
    return document
