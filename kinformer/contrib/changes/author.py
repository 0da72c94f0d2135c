"""The author of a change, by its managedFields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer import KubeObject

__all__ = ["author_of"]


def author_of(old: KubeObject | None, new: KubeObject) -> str:
    """Return the manager that has made a change, or "" if that is unknown, as without managedFields.

    The manager is the one whose entry has changed, or the latest of several.
    """
    before = {_identity(entry): entry for entry in _entries(old)} if old is not None else {}
    changed = [entry for entry in _entries(new) if before.get(_identity(entry)) != entry]
    latest = max(changed, key=lambda entry: str(entry.get("time") or ""), default={})
    return str(latest.get("manager") or "")


def _entries(obj: KubeObject) -> list[Mapping[str, Any]]:
    entries = obj.path("metadata.managedFields")
    return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []


def _identity(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(name)) for name in ("manager", "operation", "subresource", "apiVersion"))
