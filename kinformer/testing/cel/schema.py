"""The CEL types and values of custom resources, from their schema (apiserver/pkg/cel/common/schemas.go, values.go)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from kinformer.testing.cel.library.times import parse_duration, parse_timestamp
from kinformer.testing.cel.source.syntax import RESERVED
from kinformer.testing.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
)
from kinformer.testing.cel.values import CELError, KeyedList, SetList

__all__ = ["declared", "escaped", "value_of"]

Schema = Mapping[str, Any]

_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_STRING = {"type": "string"}
_METADATA = {"type": "object", "properties": {"name": _STRING, "generateName": _STRING}}
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[-./]")
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_FORMATS: Mapping[str, Type] = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}


def escaped(name: str) -> str:
    """Return the name of a field in expressions, or "" if they cannot access it."""
    if name in RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return ""
    return _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)


def _with_metadata(schema: Schema) -> Schema:
    properties = {**(schema.get("properties") or {}), "kind": _STRING, "apiVersion": _STRING, "metadata": _METADATA}
    return {**schema, "type": "object", "properties": properties}


# -- types ------------------------------------------------------------------------------------------------------------


def declared(schema: Schema, *, root: bool = False) -> Type | None:
    """Return the type that a schema describes, or None if expressions cannot access it.

    `root` is True for the schema of a whole object, which has metadata even if the schema does not say so.
    """
    if schema.get(_INT_OR_STRING):
        return DYN
    if root or schema.get(_EMBEDDED):
        schema = _with_metadata(schema)
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items")
        item = declared(items) if isinstance(items, Mapping) else None
        return None if item is None else list_of(item)
    if kind == "object":
        return _object(schema)
    if kind == "string":
        return _FORMATS.get(schema.get("format") or "", STRING)
    return {"boolean": BOOL, "number": DOUBLE, "integer": INT}.get(kind or "")


def _object(schema: Schema) -> Type | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        value = declared(additional)
        return None if value is None else map_of(STRING, value)
    fields = {}
    for name, inner in (schema.get("properties") or {}).items():
        field, shown = declared(inner), escaped(name)
        if field is not None and shown:
            fields[shown] = field
    return object_type("object", fields)


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
    values = [value_of(items, item) for item in value] if isinstance(items, Mapping) else list(value)
    kind = schema.get("x-kubernetes-list-type")
    if kind == "set":
        return SetList(values)
    if kind == "map":
        return KeyedList(values, tuple(map(escaped, schema.get("x-kubernetes-list-map-keys") or ())))
    return values


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
