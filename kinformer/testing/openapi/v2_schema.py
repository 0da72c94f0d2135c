"""Converts the schema of a custom kind to OpenAPI v2 (apiextensions-apiserver, openapi/v2/conversion.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["schema_for_v2"]

Object = dict[str, Any]

_KEEP = "x-kubernetes-preserve-unknown-fields"
_JUNCTORS = ("allOf", "oneOf", "anyOf", "not", "nullable")


def schema_for_v2(schema: Mapping[str, Any]) -> Object:
    """Return a copy without the keywords that v2 lacks or that kubectl misinterprets."""
    found = {name: value for name, value in schema.items() if name not in _JUNCTORS}
    keeps = bool(schema.get(_KEEP))
    if schema.get("nullable"):
        found.pop("type", None)
    if schema.get("nullable") or keeps:
        found.pop("items", None)
        found.pop("properties", None)
    if (found.get("type") == "array" and "items" not in found) or (found.get("type") == "object" and keeps):
        del found["type"]
    if isinstance(found.get("items"), dict):
        found["items"] = schema_for_v2(found["items"])
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = schema_for_v2(found["additionalProperties"])
    _convert_properties(found)
    return found


def _convert_properties(found: Object) -> None:
    properties = found.get("properties")
    if not isinstance(properties, dict):
        return
    nullable = {name for name, inner in properties.items() if inner.get("nullable")}
    required = [name for name in found.get("required", ()) if name not in nullable]
    found.pop("required", None)
    if required:
        found["required"] = required
    found["properties"] = {name: schema_for_v2(inner) for name, inner in properties.items()}
