"""The CEL types and values of custom resources, from their schema (apiserver/pkg/cel/common/schemas.go, values.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from kinformer.testing.cel.library.times import parse_duration, parse_timestamp
from kinformer.testing.cel.source.syntax import RESERVED
from kinformer.testing.cel.types import BOOL, DOUBLE, INT, STRING, Type, list_of, map_of, object_type
from kinformer.testing.cel.values import CELError, KeyedList, SetList

__all__ = ["REQUEST_BYTES", "declared", "escaped", "value_of"]

Schema = Mapping[str, Any]

REQUEST_BYTES = 3 * 1024 * 1024  # maximum size of a request
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_STRING = {"type": "string"}
_METADATA = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
# String format -> type, minimum bytes of its JSON, and maximum length.
_FORMATS: Mapping[str, tuple[str, int, int]] = {
    "byte": ("bytes", 2, REQUEST_BYTES - 2),
    "duration": ("google.protobuf.Duration", 3, 32),
    "date": ("google.protobuf.Timestamp", 12, 12),
    "date-time": ("google.protobuf.Timestamp", 21, 32),
}
_BYTES = {"bool": 4}


def escaped(name: str) -> str:
    """Return the name of a field in expressions, or "" if they cannot access it."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return ""
    return _ESCAPED.sub(lambda found: _ESCAPES[found.group()], name)


def _with_metadata(schema: Schema) -> Schema:
    properties = {**(schema.get("properties") or {}), "kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
    return {**schema, "type": "object", "properties": properties}


# -- types ------------------------------------------------------------------------------------------------------------


def declared(schema: Schema, *, root: bool = False) -> Type | None:
    """Return the type that a schema describes, or None if expressions cannot access it.

    `root` is True for an object.
    """
    if schema.get(_INT_OR_STRING):
        most = schema.get("maxLength")
        return Type("dyn", limit=REQUEST_BYTES - 2 if most is None else max(0, most) * 4, min_bytes=1)
    if root or schema.get(_EMBEDDED):
        schema = _with_metadata(schema)
    kind = schema.get("type")
    if kind == "array":
        return _list(schema)
    if kind == "object":
        return _object(schema)
    if kind == "string":
        return _string(schema)
    scalar = {"boolean": BOOL, "number": DOUBLE, "integer": INT}.get(kind or "")
    return Type(scalar.kind, limit=0, min_bytes=_BYTES.get(scalar.kind, 1)) if scalar is not None else None


def _list(schema: Schema) -> Type | None:
    items = schema.get("items")
    item = declared(items) if isinstance(items, Mapping) else None
    if item is None:
        return None
    most = schema.get("maxItems")
    found = list_of(item, (REQUEST_BYTES - 2) // (item.min_bytes + 1) if most is None else max(0, most))
    found.min_bytes = 2
    return found


def _object(schema: Schema) -> Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        value = declared(additional)
        if value is None:
            return None
        most = schema.get("maxProperties")
        found = map_of(STRING, value, (REQUEST_BYTES - 2) // (value.min_bytes + 6) if most is None else max(0, most))
        found.min_bytes = 2
        return found
    fields, needed, least = {}, set(schema.get("required") or ()), 2
    for name, inner in (schema.get("properties") or {}).items():
        field = declared(inner)
        if field is None:
            continue
        shown = escaped(name)
        if shown:
            fields[shown] = field
        if name in needed and inner.get("default") is None:
            least += len(name) + field.min_bytes + 4
    return object_type("object", fields, least)


def _string(schema: Schema) -> Type:
    most = schema.get("maxLength")
    known = _FORMATS.get(schema.get("format") or "")
    if known is not None:
        kind, least, longest = known
        return Type(kind, limit=max(0, most) if kind == "bytes" and most is not None else longest, min_bytes=least)
    if most is not None:
        limit = max(0, most) * 4
    elif schema.get("enum"):
        limit = max((len(one) for one in schema["enum"] if isinstance(one, str)), default=0)
    else:
        limit = REQUEST_BYTES - 2
    return Type("string", limit=limit, min_bytes=2)


# -- values -----------------------------------------------------------------------------------------------------------


def value_of(schema: Schema, value: Any, *, root: bool = False) -> Any:
    """Return the value for expressions, without fields that they cannot access."""
    if value is None or schema.get(_INT_OR_STRING):
        return value
    if root or schema.get(_EMBEDDED):
        schema = _with_metadata(schema)
    if isinstance(value, dict):
        return _object_value(schema, value)
    if isinstance(value, list):
        return _list_value(schema, value)
    if isinstance(value, str):
        return _string_value(schema, value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if schema.get("type") == "number" else int(value)
    return value


def _object_value(schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return {name: value_of(additional, inner) for name, inner in value.items()}
    properties = schema.get("properties") or {}
    return {
        escaped(name): value_of(properties[name], inner)
        for name, inner in value.items()
        if inner is not None and name in properties
    }


def _list_value(schema: Schema, value: list[Any]) -> list[Any]:
    items = schema.get("items")
    found = [value_of(items, one) for one in value] if isinstance(items, Mapping) else list(value)
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return SetList(found)
    if kind == "map":
        return KeyedList(found, tuple(map(escaped, schema.get("x-kubernetes-list-map-keys") or ())))
    return found


def _string_value(schema: Schema, value: str) -> Any:
    form = schema.get("format")
    try:
        if form == "duration":
            return parse_duration(value)
        if form == "date":
            return parse_timestamp(f"{value}T00:00:00Z")
        if form == "date-time":
            return parse_timestamp(value)
        if form == "byte":
            return base64.b64decode(value, validate=True)
    except (CELError, binascii.Error, ValueError):
        return value  # validation refuses it before expressions run
    return value
