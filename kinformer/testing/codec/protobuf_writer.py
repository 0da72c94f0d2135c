"""Writes protobuf's wire format: tags, integers, and length-delimited fields."""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["double_field", "field", "integer_field", "text_field", "texts_field"]

_LENGTH = 2  # the wire type of fields that begin with their length
_MODULUS = 1 << 64  # negative integers are written modulo this


def _varint(value: int) -> bytes:
    if value < 0:
        value += _MODULUS
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, data: bytes) -> bytes:
    """Encode a message or bytes."""
    return _varint(number << 3 | _LENGTH) + _varint(len(data)) + data


def text_field(number: int, text: str) -> bytes:
    """Encode a string."""
    return field(number, text.encode())


def texts_field(number: int, texts: Iterable[str]) -> bytes:
    """Encode a repeated string."""
    return b"".join(text_field(number, text) for text in texts)


def integer_field(number: int, value: int) -> bytes:
    """Encode an integer or a boolean."""
    return _varint(number << 3) + _varint(value)


def double_field(number: int, value: float) -> bytes:
    """Encode a floating-point number."""
    return _varint(number << 3 | 1) + struct.pack("<d", value)
