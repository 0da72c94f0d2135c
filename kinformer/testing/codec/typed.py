"""Decodes objects into Go's types, as kube-apiserver does for built-in objects.

Fields unknown to the type are dropped and reported. Values of the wrong type are refused with Go's message. Values
that Go does not write (empty ones, except pointers) are dropped (sigs.k8s.io/json, encoding/json).
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from typing import Any

from kinformer.objects.units import canonical
from kinformer.testing.kinds.schema import SchemaNode

__all__ = ["UnmarshalError", "conform", "zero"]

QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")
# It matches most valid times. `_wrong_time` decides about the others.
_TIME = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})"
)
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_BOUNDS = {"int32": 1 << 31, "int64": 1 << 63}


class UnmarshalError(Exception):
    """Go cannot decode a value. The message is Go's."""


class _DecodingPass:
    """One pass over a document: the current position, and the unknown fields so far.

    The functions that read a value append to `names` and `where` on their way down, and remove it on their way up.
    """

    __slots__ = ("names", "unknown", "where")

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self.names: list[str] = []  # only fields, as in Go's errors
        self.where: list[str] = []  # with indices, as in warnings

    def mismatch(self, value: Any, go: str, struct: str) -> UnmarshalError:
        """Return `json: cannot unmarshal string into Go struct field PodSpec.spec.x of type []v1.Container`."""
        what = _json_kind(value)
        place = f"Go struct field {struct}.{'.'.join(self.names)}" if self.names else "Go value"
        return UnmarshalError(f"json: cannot unmarshal {what} into {place} of type {go}")


def _json_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def zero(node: SchemaNode) -> Any:
    """Return the value that Go writes for an unset field of this type."""
    if node.pointer:
        return None
    if node.kind == "struct":
        return {name: zero(field) for name, field in node.fields.items() if field.always}
    scalars = {"string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "quantity": "0", "intstr": 0}
    return scalars.get(node.kind)


def conform(node: SchemaNode, value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Decode a document to the type of `node`. Returns it with the paths of unknown fields. Raises `UnmarshalError`."""
    reading = _DecodingPass()
    decoded: dict[str, Any] = _struct(node, value, reading, node.struct)
    unknown = reading.unknown
    return decoded, unknown if len(unknown) < 2 else _in_order(value, set(unknown))


def _in_order(value: Any, unknown: set[str], path: str = "") -> list[str]:
    """Return the unknown paths in document order."""
    paths: list[str] = []
    if isinstance(value, dict):
        for name, inner in value.items():
            below = f"{path}.{name}" if path else name
            paths += [below] if below in unknown else _in_order(inner, unknown, below)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            paths += _in_order(inner, unknown, f"{path}[{index}]")
    return paths


def _struct(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, dict):
        raise reading.mismatch(value, node.go, owner)
    fields, decoded = node.fields, {}
    if not value.keys() <= fields.keys():
        for name in value:
            if name not in fields:
                reading.unknown.append(".".join([*reading.where, name]).replace(".[", "["))
    for name, field in fields.items():
        inner = value.get(name)
        if inner is None:
            if field.always:
                decoded[name] = zero(field)
            continue
        kind = field.kind
        # A fast path for the most frequent kind.
        if kind == "string" and type(inner) is str:
            if inner or field.always or field.pointer:
                decoded[name] = inner
            continue
        reading.names.append(name)
        reading.where.append(name)
        result = _READ[kind](field, inner, reading, node.struct)
        reading.names.pop()
        reading.where.pop()
        if field.always or field.pointer or not _is_empty(kind, result):
            decoded[name] = result
    return decoded


def _is_empty(kind: str, value: Any) -> bool:
    if kind in ("struct", "any", "quantity", "intstr"):
        return False
    return not value


def _list(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, list):
        raise reading.mismatch(value, node.go, owner)
    item = node.item
    assert item is not None
    if item.kind == "string" and all(type(inner) is str for inner in value):
        return list(value)
    read, decoded = _READ[item.kind], []
    for index, inner in enumerate(value):
        reading.where.append(f"[{index}]")
        decoded.append(zero(item) if inner is None else read(item, inner, reading, owner))
        reading.where.pop()
    return decoded


def _map(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, dict):
        raise reading.mismatch(value, node.go, owner)
    item = node.item
    assert item is not None
    names = value if len(value) < 2 else sorted(value)  # Go writes sorted maps
    if item.kind == "string" and all(type(text) is str for text in value.values()):
        return {name: value[name] for name in names}
    read, decoded = _READ[item.kind], {}
    for name in names:
        reading.where.append(name)
        decoded[name] = zero(item) if value[name] is None else read(item, value[name], reading, owner)
        reading.where.pop()
    return decoded


def _string(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, str):
        raise reading.mismatch(value, node.go, owner)
    return value


def _bool(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, bool):
        raise reading.mismatch(value, node.go, owner)
    return value


def _integer(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise reading.mismatch(value, node.go, owner)
    bound = _BOUNDS[node.kind]
    if isinstance(value, float) or not -bound <= value < bound:
        error = reading.mismatch(value, node.go, owner)
        raise UnmarshalError(str(error).replace("unmarshal number", f"unmarshal number {value}", 1))
    return value


def _float(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise reading.mismatch(value, node.go, owner)
    return value


def _bytes(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, str):
        raise reading.mismatch(value, node.go, owner)
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise UnmarshalError(f"illegal base64 data at input byte {_first_bad_byte(value)}") from None
    return value


def _first_bad_byte(text: str) -> int:
    """Return where Go's decoder stops: at the first invalid byte, or else the end of the last whole group."""
    bad = re.search(r"[^A-Za-z0-9+/=\r\n]", text)
    return bad.start() if bad else len(text) // 4 * 4


def _time(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if not isinstance(value, str):
        raise reading.mismatch(value, "string", owner)
    if not _TIME.fullmatch(value):
        wrong = _wrong_time(value, _MICRO_LAYOUT if node.kind == "microtime" else _LAYOUT)
        if wrong:
            raise UnmarshalError(f'parsing time "{value}"{wrong}')
    if node.kind == "microtime":
        fraction = re.search(r"(\.\d+)?([Zz]|[+-]\d\d:\d\d)$", value)
        if fraction is not None and len(fraction[1] or "") != 7:  # Go's layout requires exactly six digits
            raise UnmarshalError(
                f'parsing time "{value}" as "{_MICRO_LAYOUT}": cannot parse "{fraction[0]}" as ".000000"'
            )
        return value
    return re.sub(r"\.\d+", "", value) if "." in value else value


_TIME_PARTS = (
    *((r"\d{4}", "2006"), ("-", "-"), (r"\d\d", "01"), ("-", "-"), (r"\d\d", "02"), ("T", "T"), (r"\d\d", "15")),
    *((":", ":"), (r"\d\d", "04"), (":", ":"), (r"\d\d", "05"), (r"(?:[.,]\d+)?(?:Z|[+-]\d\d:\d\d)", "Z07:00")),
)


def _wrong_time(text: str, layout: str) -> str:
    """Return what Go says about a text that is no time, or "". The parts of a layout are read in order."""
    position, numbers = 0, []
    for pattern, part in _TIME_PARTS:
        match = re.compile(pattern, re.ASCII).match(text, position)
        if match is None:
            return f' as "{layout}": cannot parse "{text[position:]}" as "{part}"'
        position = match.end()
        numbers += [int(match[0])] if match[0].isdigit() else []
    year, month, day, *clock = numbers
    if not 1 <= month <= 12:
        return ": month out of range"
    for number, most, name in zip(clock, (23, 59, 59), ("hour", "minute", "second"), strict=True):
        if number > most:
            return f": {name} out of range"
    if not 1 <= day <= monthrange(year or 4, month)[1]:
        return ": day out of range"
    return f': extra text: "{text[position:]}"' if position < len(text) else ""


def _quantity(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UnmarshalError("quantities must match the regular expression '" + QUANTITY.pattern + "'")
    if isinstance(value, str) and not QUANTITY.match(value):
        raise UnmarshalError("quantities must match the regular expression '" + QUANTITY.pattern + "'")
    return canonical(str(value))


def _int_or_string(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise reading.mismatch(value, "int32", owner)
    return value


def _any(node: SchemaNode, value: Any, reading: _DecodingPass, owner: str) -> Any:
    return copy.deepcopy(value) if isinstance(value, (dict, list)) else value


_READ: Mapping[str, Callable[[SchemaNode, Any, _DecodingPass, str], Any]] = {
    "struct": _struct,
    "list": _list,
    "map": _map,
    "string": _string,
    "bool": _bool,
    "int32": _integer,
    "int64": _integer,
    "float64": _float,
    "bytes": _bytes,
    "time": _time,
    "microtime": _time,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "any": _any,
}
