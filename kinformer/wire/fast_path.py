"""How a server writes its objects: what they begin with, and where their managedFields stand.

Nothing in JSON demands that one object begins as another does, but those of one stream do. So what
is known of one is a guess about the next, which costs a comparison of bytes in the place of a decoding.
"""

from __future__ import annotations

from sys import intern
from typing import NamedTuple

import msgspec

__all__ = [
    "MANAGED_FIELDS",
    "NO_BEGINNING",
    "UNKNOWN",
    "Beginning",
    "Opening",
    "managed_fields_at",
    "without_managed_fields",
]

MANAGED_FIELDS = b',"managedFields":'
"""What stands before their value, as servers write it."""

_LENGTH = len(MANAGED_FIELDS)
_BRACKETS = 8  # opening brackets of metadata that are looked at, before `find` takes over

_check = msgspec.json.Decoder(msgspec.Raw).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class Beginning(NamedTuple):
    """How the lines of one type of event begin: up to the brace that opens the metadata of their object.

    `object` and `metadata` are the places of the braces that open the two.
    """

    type: str
    text: bytes
    object: int
    metadata: int


class Opening(NamedTuple):
    """How the objects of a resource begin: up to the brace that opens their metadata.

    So kind and apiVersion, where both stand in it, need not be decoded again and again; `kind` is "" where they do not.
    The brace is at 0 where this fits no object. `beginnings` are those of the lines of a watch, by the first letter of
    their type; empty where kind is.
    """

    text: bytes
    kind: str
    api_version: str
    brace: int
    beginnings: dict[int, Beginning]

    @classmethod
    def of(cls, raw: bytes, kind: str | None, api_version: str | None) -> Opening:
        """That of one object."""
        brace = raw.find(b"{", 1)
        text = raw[: brace + 1]
        # The first brace within the object opens its metadata, as it does in all that the API server writes of Go
        # types; then these metadata are no deeper ones.
        if not text.endswith(b'"metadata":{'):
            return UNKNOWN
        if kind and api_version and b'"kind":' in text and b'"apiVersion":' in text:
            return cls(text, intern(kind), intern(api_version), brace, _beginnings(text, brace))
        return cls(text, "", "", brace, {})


NO_BEGINNING = Beginning("", b"\xff", 0, 0)
"""No line begins so, for no text in UTF-8 has this byte."""

UNKNOWN = Opening(b"", "", "", 0, {})


def _beginnings(text: bytes, brace: int) -> dict[int, Beginning]:
    found = {}
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        before = b'{"type":"%s","object":' % kind.encode()
        found[ord(kind[0])] = Beginning(kind, before + text, len(before), len(before) + brace)
    return found


def managed_fields_at(data: bytes, metadata: int, end: int) -> int:
    """Where a value of that name begins, behind the brace at `metadata`, which opens these; -1 where none does.

    It may be another's, deeper or behind the metadata. `end` is that of the object. Only what servers write is found:
    without spaces, and not as the first key.
    """
    # By their bracket, because looking for one byte is a memchr: looking for the name goes from byte to byte.
    value = data.find(b"[", metadata, end)
    for _ in range(_BRACKETS):
        if value < 0 or data[value - _LENGTH : value] == MANAGED_FIELDS:
            return value
        value = data.find(b"[", value + 1, end)
    found = data.find(MANAGED_FIELDS, metadata, end)
    return found if found < 0 else found + _LENGTH


def without_managed_fields(raw: bytes, metadata: int, fields: bytes, stamp: bytes) -> bytes:
    """An object without its managedFields, and with `stamp`, if it is any, in the place of its first brace.

    Its metadata open at the brace at `metadata`, 0 if that is unknown.
    """
    value = managed_fields_at(raw, metadata, len(raw)) if metadata else -1
    if value >= 0 and raw.startswith(fields, value) and _is_object(raw[metadata : value - _LENGTH] + b"}"):
        # By views: each copy that is made on the way, and freed, leaves a hole between objects that stay.
        view = memoryview(raw)
        return b"".join((stamp, view[1 if stamp else 0 : value - _LENGTH], view[value + len(fields) :]))
    # Whatever the order and spacing of its keys are like; each value stays as it was written.
    members = _decode_members(raw)
    inner = _decode_members(members["metadata"])
    inner.pop("managedFields", None)
    members["metadata"] = msgspec.Raw(_encode(inner))
    raw = _encode(members)
    return stamp + raw[1:] if stamp else raw


def _is_object(text: bytes) -> bool:
    """Whether the brace at the beginning of `text` is closed by its last one: then what precedes that is its own."""
    try:
        _check(text)
    except msgspec.DecodeError:
        return False
    return True
