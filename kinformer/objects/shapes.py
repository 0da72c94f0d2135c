"""Reads fields that may have any shape: a custom resource's schema need not say what a status contains.

Each function takes an object and the names of nested fields. A field that is missing, null or of another type counts as
empty, because a helper that reads a status for people, or waits for one, must not fail because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["flag_at", "number_at", "string_at", "table_at", "tables_at", "value_at"]


def value_at(obj: object, *names: str) -> Any:
    """Return the value of a nested field, or None."""
    for name in names:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def table_at(obj: object, *names: str) -> Mapping[str, Any]:
    """Return a mapping, or an empty one."""
    found = value_at(obj, *names)
    return found if isinstance(found, Mapping) else {}


def tables_at(obj: object, *names: str) -> list[Mapping[str, Any]]:
    """Return the mappings in a list. Other items are left out."""
    found = value_at(obj, *names)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def string_at(obj: object, *names: str) -> str:
    """Return a string, or ""."""
    found = value_at(obj, *names)
    return found if isinstance(found, str) else ""


def number_at(obj: object, *names: str) -> int:
    """Return a whole number, or 0."""
    found = value_at(obj, *names)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def flag_at(obj: object, *names: str) -> bool:
    """Return True if the field is true."""
    return value_at(obj, *names) is True
