"""JSON as Go's encoding/json writes it."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["dumps", "escaped"]

_encoder = msgspec.json.Encoder()


def escaped(raw: bytes) -> bytes:
    """Escape the characters that Go's encoding/json escapes. They occur only inside strings."""
    if b"<" in raw:
        raw = raw.replace(b"<", b"\\u003c")
    if b">" in raw:
        raw = raw.replace(b">", b"\\u003e")
    if b"&" in raw:
        raw = raw.replace(b"&", b"\\u0026")
    return raw


def dumps(value: Any) -> bytes:
    """Encode JSON as Go does, with keys in the dict's order."""
    return escaped(_encoder.encode(value))
