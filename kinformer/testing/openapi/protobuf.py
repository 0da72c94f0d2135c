"""OpenAPI v2 as protobuf, which client-go's `OpenAPISchema()` asks for (gnostic-models, openapiv2/OpenAPIv2.proto)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kinformer.testing.codec.protobuf_writer import double_field, field, integer_field, text_field, texts_field

__all__ = ["encode_openapi_v2"]

Object = Mapping[str, Any]

_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_DOUBLES = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_INTEGERS = {
    "exclusiveMaximum": 8,
    "exclusiveMinimum": 10,
    "maxLength": 11,
    "minLength": 12,
    "maxItems": 14,
    "minItems": 15,
    "uniqueItems": 16,
    "maxProperties": 17,
    "minProperties": 18,
}
_SCHEMA_EXTENSION = 31


def encode_openapi_v2(document: Object) -> bytes:
    """Encode a document."""
    info = document["info"]
    paths = b"".join(_named(2, path, _path(item)) for path, item in document["paths"].items())
    definitions = b"".join(_named(1, name, _schema(schema)) for name, schema in document["definitions"].items())
    return b"".join(
        (
            text_field(1, document["swagger"]),
            field(2, text_field(1, info["title"]) + text_field(2, info["version"])),
            field(8, paths),
            field(9, definitions),
        )
    )


def _named(number: int, name: str, value: bytes) -> bytes:
    return field(number, text_field(1, name) + field(2, value))


def _any(value: Any) -> bytes:
    """Encode any value as YAML, of which JSON is a subset."""
    return text_field(2, f"{json.dumps(value)}\n")


def _extensions(number: int, value: Object) -> bytes:
    return b"".join(_named(number, name, _any(inner)) for name, inner in value.items() if name.startswith("x-"))


def _path(item: Object) -> bytes:
    return field(8, _operation(item["patch"])) if "patch" in item else b""


def _operation(operation: Object) -> bytes:
    responses = b"".join(
        _named(1, code, field(1, text_field(1, response["description"])))
        for code, response in operation["responses"].items()
    )
    parameters = (field(8, _parameter(parameter)) for parameter in operation["parameters"])
    described = text_field(3, operation["description"])
    return b"".join((described, *parameters, field(9, responses), _extensions(13, operation)))


def _parameter(parameter: Object) -> bytes:
    """Encode a query parameter: Parameter, NonBodyParameter, QueryParameterSubSchema."""
    query = text_field(2, parameter["in"]) + text_field(4, parameter["name"]) + text_field(6, parameter["type"])
    return field(1, field(2, field(3, query + integer_field(20, bool(parameter.get("uniqueItems"))))))


def _schema(schema: Object) -> bytes:
    out = [text_field(number, schema[name]) for name, number in _TEXTS.items() if schema.get(name)]
    out += [double_field(number, schema[name]) for name, number in _DOUBLES.items() if schema.get(name) is not None]
    out += [integer_field(number, schema[name]) for name, number in _INTEGERS.items() if schema.get(name) is not None]
    if "default" in schema:
        out.append(field(5, _any(schema["default"])))
    out.append(texts_field(19, schema.get("required") or ()))
    out += [field(20, _any(value)) for value in schema.get("enum") or ()]
    if schema.get("type"):
        out.append(field(22, text_field(1, schema["type"])))
    out += _nested(schema)
    out.append(_extensions(_SCHEMA_EXTENSION, schema))
    return b"".join(out)


def _nested(schema: Object) -> Iterable[bytes]:
    """Yield the encoded schemas within a schema."""
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        yield field(21, field(1, _schema(more)))
    elif more is not None:
        yield field(21, integer_field(2, bool(more)))
    if "items" in schema:
        yield field(23, field(1, _schema(schema["items"])))
    if schema.get("properties"):
        named = (_named(1, name, _schema(inner)) for name, inner in schema["properties"].items())
        yield field(25, b"".join(named))
