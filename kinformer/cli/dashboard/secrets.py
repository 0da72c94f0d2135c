"""Removes the values of Secrets, so that they are neither shown nor kept."""

from __future__ import annotations

from typing import Any

from kinformer.objects import showable

__all__ = ["hide"]


def hide(document: dict[str, Any]) -> dict[str, Any]:
    """Replace the values of a Secret. Can be used as the transform of an informer.

    The names of its keys, its type and its metadata are kept, without the values of most annotations.
    """
    shown = showable({**document, "kind": "Secret"})
    document.update({name: shown[name] for name in document if name != "kind"})
    return document
