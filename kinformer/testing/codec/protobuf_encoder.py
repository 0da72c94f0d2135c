"""Encodes responses as protobuf: objects, lists, metadata and watch events, from their JSON.

Field numbers are from the recorded types. Messages shared by all kinds are in the tables here (`generated.proto` of
apimachinery). It is for metadata, and for clients that accept nothing else, because objects are stored as JSON.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from kinformer.apiserver.accept import PROTOBUF
from kinformer.testing.codec.protobuf import PREFIX, field_table
from kinformer.testing.codec.protobuf_writer import double_field, field, integer_field, text_field, texts_field
from kinformer.testing.kinds.builtin_schemas import builtin_node, object_meta, type_of
from kinformer.testing.kinds.schema import SchemaNode

__all__ = ["PROTOBUF_STREAM", "encode_lines", "encode_protobuf"]

PROTOBUF_STREAM = f"{PROTOBUF};stream=watch"
_PARTIAL = "PartialObjectMetadata"
Object = Mapping[str, Any]


def encode_protobuf(body: bytes) -> bytes:
    """Encode a JSON document: an object, a list, a Status, PartialObjectMetadata or PartialObjectMetadataList."""
    return _envelope(msgspec.json.decode(body))


def encode_lines(data: bytes) -> bytes:
    """Encode the lines of a watch as frames, each preceded by its length."""
    return b"".join(_frame(line) for line in data.splitlines() if line)


def _frame(line: bytes) -> bytes:
    event = msgspec.json.decode(line)
    message = text_field(1, event["type"]) + field(2, field(1, _envelope(event["object"])))
    return len(message).to_bytes(4, "big") + message


def _envelope(document: Object) -> bytes:
    """Encode a runtime.Unknown: the kind, and the bytes of the object."""
    api_version, kind = document.get("apiVersion", "v1"), document.get("kind", "Status")
    type_meta = text_field(1, api_version) + text_field(2, kind)
    raw = _object(document, api_version, kind)
    return PREFIX + field(1, type_meta) + field(2, raw) + text_field(3, "") + text_field(4, "")


def _object(document: Object, api_version: str, kind: str) -> bytes:
    if kind == "Status":
        return _status(document)
    if "items" in document and kind.endswith("List"):
        of = kind.removesuffix("List")
        items = (field(2, _object(item, api_version, of)) for item in document["items"] or ())
        return field(1, _list_meta(document.get("metadata") or {})) + b"".join(items)
    if kind == _PARTIAL:
        return field(1, _message(object_meta(), document["metadata"]))
    return _message(builtin_node(type_of(api_version, kind)), document)


def _list_meta(metadata: Object) -> bytes:
    out = [text_field(2, metadata.get("resourceVersion", "")), text_field(3, metadata.get("continue", ""))]
    if metadata.get("remainingItemCount") is not None:
        out.append(integer_field(4, metadata["remainingItemCount"]))
    return b"".join(out)


def _status(status: Object) -> bytes:
    out = [field(1, _list_meta(status.get("metadata") or {}))]
    out += [text_field(number, status.get(name, "")) for number, name in ((2, "status"), (3, "message"), (4, "reason"))]
    if status.get("details"):
        out.append(field(5, _details(status["details"])))
    return b"".join([*out, integer_field(6, status.get("code", 0))])


def _details(details: Object) -> bytes:
    out = [text_field(number, details.get(name, "")) for number, name in ((1, "name"), (2, "group"), (3, "kind"))]
    for cause in details.get("causes") or ():
        texts = ((1, "reason"), (2, "message"), (3, "field"))
        out.append(field(4, b"".join(text_field(number, cause.get(name, "")) for number, name in texts)))
    out.append(integer_field(5, details.get("retryAfterSeconds", 0)))
    return b"".join([*out, text_field(6, details.get("uid", ""))])


def _message(node: SchemaNode, value: Object) -> bytes:
    return b"".join(_fields(field_table(node), value))


def _fields(table: Mapping[int, Any], value: Object) -> Iterator[bytes]:
    for number, entry in table.items():
        if isinstance(entry, dict):  # a struct that is inlined in JSON
            inlined = b"".join(_fields(entry, value))
            if inlined:
                yield field(number, inlined)
            continue
        name, node = entry
        inner = value.get(name)
        if inner is not None:
            yield from _field(number, node, inner)


def _field(number: int, node: SchemaNode, value: Any) -> Iterable[bytes]:
    if node.kind == "list":
        assert node.item is not None, "a list has items"
        for item in value:
            yield from _field(number, node.item, item)
    elif node.kind == "map":
        assert node.item is not None, "a map has values"
        for name, inner in value.items():
            yield field(number, text_field(1, name) + b"".join(_field(2, node.item, inner)))
    elif node.kind == "struct":
        yield field(number, _message(node, value))
    else:
        yield _SCALARS[node.kind](number, value, node)


def _time(number: int, value: str, node: SchemaNode) -> bytes:
    moment = datetime.fromisoformat(value).astimezone(UTC)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return field(number, integer_field(1, seconds) + integer_field(2, moment.microsecond * 1000))


def _int_or_string(number: int, value: int | str, node: SchemaNode) -> bytes:
    if isinstance(value, str):
        return field(number, integer_field(1, 1) + text_field(3, value))
    return field(number, integer_field(1, 0) + integer_field(2, value))


def _any(number: int, value: Any, node: SchemaNode) -> bytes:
    """Encode a value that contains JSON, or a union in the schema of a definition."""
    schema = builtin_node("apiextensions.v1.JSONSchemaProps")
    if node.go.endswith("JSONSchemaPropsOrArray"):
        many = isinstance(value, list)
        return field(
            number, b"".join(field(1 + many, _message(schema, inner)) for inner in (value if many else [value]))
        )
    if node.go.endswith("JSONSchemaPropsOrBool"):
        allows = integer_field(1, value is not False)
        return field(number, allows if isinstance(value, bool) else allows + field(2, _message(schema, value)))
    if node.go.endswith("JSONSchemaPropsOrStringArray"):
        return field(number, texts_field(2, value) if isinstance(value, list) else field(1, _message(schema, value)))
    return field(number, field(1, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()))


_SCALARS: Mapping[str, Callable[[int, Any, SchemaNode], bytes]] = {
    "string": lambda number, value, node: text_field(number, value),
    "bytes": lambda number, value, node: field(number, base64.b64decode(value)),
    "bool": lambda number, value, node: integer_field(number, value),
    "int32": lambda number, value, node: integer_field(number, value),
    "int64": lambda number, value, node: integer_field(number, value),
    "float64": lambda number, value, node: double_field(number, value),
    "time": _time,
    "microtime": _time,
    "quantity": lambda number, value, node: field(number, text_field(1, str(value))),
    "intstr": _int_or_string,
    "any": _any,
}
