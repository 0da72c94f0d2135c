"""Decodes protobuf bodies, which kubectl and Go clients send, to the same dicts as their JSON form.

Field numbers are from the recorded types (`generated.proto` of k8s.io/api).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from kinformer.testing.codec.typed import conform
from kinformer.testing.kinds.builtin_schemas import builtin_node, type_of
from kinformer.testing.kinds.schema import SchemaNode

__all__ = ["PREFIX", "ProtobufError", "decode_protobuf", "field_table"]

PREFIX = b"k8s\0"  # runtime/serializer/protobuf
_INLINED = 1000  # a field of an inlined struct is recorded as the struct's number times this, plus its own
Object = dict[str, Any]


class ProtobufError(ValueError):
    """The bytes are not valid protobuf of the kind that they name."""


def decode_protobuf(body: bytes) -> Object:
    """Decode the object in a body. Raises `ProtobufError`, or `LookupError` for a kind that is not built in."""
    if not body.startswith(PREFIX):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    try:
        return _unknown(body[len(PREFIX) :])
    except (IndexError, struct.error, UnicodeDecodeError, TypeError) as error:
        raise ProtobufError(f"unexpected EOF ({error})") from None


def _unknown(data: bytes) -> Object:
    """Decode a runtime.Unknown: the kind, and the bytes of the object."""
    api_version, kind, raw = "", "", b""
    for number, value in _fields(data):
        if number == 1:
            names = {inner: bytes(content).decode() for inner, content in _fields(value)}
            api_version, kind = names.get(1, ""), names.get(2, "")
        elif number == 2:
            raw = value
    name = type_of(api_version, kind)
    if not name:
        raise LookupError(f"{kind} of {api_version} is not a built-in kind")
    return {"apiVersion": api_version, "kind": kind, **_message(builtin_node(name), raw)}


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of a message. Values are integers, or bytes for length-delimited and fixed-size fields."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, position = _varint(data, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _varint(data, position)
        else:
            length = {1: 8, 5: 4}[wire]
        if position + length > len(data):
            raise IndexError("the message is cut off")
        yield number, data[position : position + length]
        position += length


def _table(numbers: Mapping[str, int], node: SchemaNode) -> dict[int, Any]:
    """Return the fields by number, with a table for each inlined struct."""
    table: dict[int, Any] = {}
    inlined: dict[int, dict[str, int]] = {}
    for name, number in numbers.items():
        outer = number
        while outer >= _INLINED:
            outer //= _INLINED
        if outer == number:
            if number:
                table[number] = (name, node.fields[name])
            continue
        scale = _INLINED
        while number // scale != outer:
            scale *= _INLINED
        inlined.setdefault(outer, {})[name] = number % scale
    for outer, below in inlined.items():
        table[outer] = _table(below, node)
    return table


def _message(node: SchemaNode, data: bytes) -> Object:
    decoded: Object = {}
    _read(field_table(node), data, decoded)
    return decoded


def field_table(node: SchemaNode) -> dict[int, Any]:
    """Return the fields of a type by number: name and node, or a table for an inlined struct."""
    key = id(node.fields)  # shared by all references to a type, and alive as long as the program
    table = _by_fields.get(key)
    if table is None:
        table = _by_fields[key] = _table({name: inner.number for name, inner in node.fields.items()}, node)
    return table


_by_fields: dict[int, dict[int, Any]] = {}


def _read(table: dict[int, Any], data: bytes, decoded: Object) -> None:
    for number, value in _fields(data):
        entry = table.get(number)
        if entry is None:
            continue  # a newer client may send fields that are not recorded
        if isinstance(entry, dict):
            _read(entry, value, decoded)
            continue
        name, node = entry
        if node.kind == "list":
            decoded.setdefault(name, []).append(_value(node.item, value))
        elif node.kind == "map":
            pair = dict(_fields(value))
            decoded.setdefault(name, {})[bytes(pair.get(1, b"")).decode()] = _value(node.item, pair.get(2, b""))
        else:
            decoded[name] = _value(node, value)


def _value(node: SchemaNode, value: Any) -> Any:
    if node.kind == "struct":
        return _message(node, value)
    return _SCALARS[node.kind](value, node)


def _integer(value: int, node: SchemaNode) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _time(value: bytes, node: SchemaNode) -> str | None:
    parts = dict(_fields(value))
    seconds = _integer(parts.get(1, 0), node)
    if not parts:
        return None
    timestamp = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{timestamp}.{parts.get(2, 0) // 1000:06}Z" if node.kind == "microtime" else f"{timestamp}Z"


def _quantity(value: bytes, node: SchemaNode) -> str:
    return bytes(dict(_fields(value)).get(1, b"0")).decode()


def _int_or_string(value: bytes, node: SchemaNode) -> int | str:
    parts = dict(_fields(value))
    return bytes(parts.get(3, b"")).decode() if parts.get(1) else _integer(parts.get(2, 0), node)


def _any(value: bytes, node: SchemaNode) -> Any:
    """Decode a value that contains JSON, or a union in the schema of a definition."""
    parts = list(_fields(value))
    if node.go.endswith("JSONSchemaPropsOrArray"):
        many = [_schema(inner) for number, inner in parts if number == 2]
        return many or next((_schema(inner) for number, inner in parts if number == 1), None)
    if node.go.endswith("JSONSchemaPropsOrBool"):
        values = dict(parts)
        return _schema(values[2]) if 2 in values else bool(values.get(1, 0))
    if node.go.endswith("JSONSchemaPropsOrStringArray"):
        names = [bytes(inner).decode() for number, inner in parts if number == 2]
        return names or next((_schema(inner) for number, inner in parts if number == 1), None)
    raw = dict(parts).get(1, b"")
    return json.loads(raw) if raw else None


def _schema(data: bytes) -> Object:
    """Decode a schema within a union, without zero values, which Go writes to a message but not to JSON."""
    node = builtin_node("apiextensions.v1.JSONSchemaProps")
    return conform(node, _message(node, data))[0]


_SCALARS: Mapping[str, Callable[[Any, SchemaNode], Any]] = {
    "string": lambda value, node: bytes(value).decode(),
    "bytes": lambda value, node: base64.b64encode(value).decode(),
    "bool": lambda value, node: bool(value),
    "int32": _integer,
    "int64": _integer,
    "float64": lambda value, node: struct.unpack("<d", value)[0],
    "time": _time,
    "microtime": _time,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "any": _any,
}
