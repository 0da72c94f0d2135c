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
    converted = {name: value for name, value in schema.items() if name not in _JUNCTORS}
    keeps = bool(schema.get(_KEEP))
    if schema.get("nullable"):
        converted.pop("type", None)
    if schema.get("nullable") or keeps:
        converted.pop("items", None)
        converted.pop("properties", None)
    if (converted.get("type") == "array" and "items" not in converted) or (converted.get("type") == "object" and keeps):
        del converted["type"]
    if isinstance(converted.get("items"), dict):
        converted["items"] = schema_for_v2(converted["items"])
    if isinstance(converted.get("additionalProperties"), dict):
        converted["additionalProperties"] = schema_for_v2(converted["additionalProperties"])
    _convert_properties(converted)
    return converted


def _convert_properties(converted: Object) -> None:
    """Convert the properties, in place. Those that may be null are not required any longer, as v2 knows no null."""
    properties = converted.get("properties")
    if not isinstance(properties, dict):
        return
    nullable = {name for name, inner in properties.items() if inner.get("nullable")}
    required = [name for name in converted.get("required", ()) if name not in nullable]
    converted.pop("required", None)
    if required:
        converted["required"] = required
    converted["properties"] = {name: schema_for_v2(inner) for name, inner in properties.items()}
