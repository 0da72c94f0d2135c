"""Values as Go prints them: JSON of encoding/json, and texts of client-go's util/jsonpath."""

from __future__ import annotations

from decimal import Decimal

import msgspec

__all__ = ["escaped", "go_json", "printed"]

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def escaped(raw: bytes) -> bytes:
    """Escape the characters that Go's encoding/json escapes. They occur only inside strings."""
    if b"<" in raw:
        raw = raw.replace(b"<", b"\\u003c")
    if b">" in raw:
        raw = raw.replace(b">", b"\\u003e")
    if b"&" in raw:
        raw = raw.replace(b"&", b"\\u0026")
    if b"\xe2\x80" in raw:  # U+2028 and U+2029
        raw = raw.replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    return raw


def go_json(value: object) -> bytes:
    """Encode JSON as Go does, with keys in the dict's order."""
    return escaped(_encode(value))


def printed(value: object) -> str:
    """Return the text of a value at a path: a string unchanged, an object or array as JSON, a number as by `%v`."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return _float_text(value)
    try:
        return escaped(_encode_sorted(value)).decode()
    except RecursionError:
        return "<unreadable>"


def _float_text(value: float) -> str:
    """Format a number: `1.5`, `2`, `1e+21`, `1.5e-07` (Go, strconv, ftoa.go, 'g' with the shortest precision)."""
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if number and not -4 <= exponent < 6:
        return f"{number.scaleb(-exponent):f}e{exponent:+03}"
    return f"{number:f}"
