"""Which fields of an object a manager owns, and what stands in them (structured-merge-diff, fieldpath/serialize.go).

An entry of `metadata.managedFields` holds a tree of the fields that its manager has applied: `f:name` is a field,
`k:{...}` an item of a list by its keys, `v:...` a value of a set, `i:0` an item by its place, `.` the thing itself; a
leaf stands for all that is under it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["owned_fields", "projection"]

_MISSING = object()
_decode = msgspec.json.Decoder().decode


def owned_fields(document: Mapping[str, Any], manager: str) -> dict[str, Any] | None:
    """The tree of what `manager` owns by applying it; None where the object does not say."""
    for entry in (document.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            tree = entry.get("fieldsV1")
            return tree if isinstance(tree, dict) else None
    return None


def projection(tree: Mapping[str, Any], value: Any) -> Any:
    """What stands in the fields of `tree`: equal for two states of an object if and only if no such field differs."""
    if not tree:
        return value
    result: dict[str, Any] = {}
    for step, below in tree.items():
        found = True if step == "." else _step(step, value)
        if found is not _MISSING:
            result[step] = projection(below, found)
    return result


def _step(step: str, value: Any) -> Any:
    kind, _, name = step.partition(":")
    if kind == "f":
        return value[name] if isinstance(value, dict) and name in value else _MISSING
    if not isinstance(value, list):
        return _MISSING
    wanted = _decode(name)
    if kind == "v":
        return wanted if wanted in value else _MISSING
    if kind == "k":
        for item in value:
            if isinstance(item, dict) and all(item.get(key) == part for key, part in wanted.items()):
                return item
        return _MISSING
    return value[wanted] if kind == "i" and wanted < len(value) else _MISSING
