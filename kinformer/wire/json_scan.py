"""Scans JSON that the decoder rejects, for bracket depth and the identity of objects that are nested too deeply.

A decoder recurses at each level, so a few hundred levels raise RecursionError. An API server stores objects with ten
thousand levels. A user who may write such an object must not be able to stop programs that only watch it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import msgspec

from kinformer.exceptions import MALFORMED, DecodeError

__all__ = ["BracketWalker", "identity_of", "members"]

_UP_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class BracketWalker:
    """Finds the end of a JSON object or array by its brackets, while it arrives in chunks.

    Scans each byte once, and assumes well-formed JSON, so the result must be decoded strictly.
    """

    __slots__ = ("depth", "in_string", "position")

    def __init__(self) -> None:
        self.position = 0
        self.depth = 0
        self.in_string = False

    def find_end(self, data: bytearray) -> int:
        """Return the offset after the end of the value that begins at offset 0, or -1 if more data is needed.

        `data` must be the data of the last call with more data appended.
        """
        position = self.position
        while True:
            if self.in_string:
                position = cast("re.Match[bytes]", _REST_OF_STRING.match(data, position)).end()
                if position == len(data) or data[position] != 0x22:  # the escaped character has not arrived
                    self.position = position
                    return -1
                position += 1
                self.in_string = False
            position = cast("re.Match[bytes]", _UP_TO_BRACKET.match(data, position)).end()
            if position == len(data):
                self.position = position
                return -1
            byte = data[position]
            position += 1
            if byte == 0x22:
                self.in_string = True
            elif byte in b"{[":
                self.depth += 1
            else:
                self.depth -= 1
                if self.depth == 0:
                    return position


_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^ \t\r\n,:{}\[\]"]++')

_decode_text = msgspec.json.Decoder(str).decode


def members(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over the keys (as written, without quotes) and values of exactly one JSON object, in order.

    Scans each byte once. The content of a value is not checked, except that its strings and brackets must be closed.

    Raises:
        DecodeError: The data is not exactly one complete JSON object.
    """
    position = _skip(data, 0)
    if data[position : position + 1] != b"{":
        raise _malformed(data, position)
    position = _skip(data, position + 1)
    more = data[position : position + 1] != b"}"
    while more:
        key = _STRING.match(data, position)
        position = _skip(data, key.end() if key else position)
        if key is None or data[position : position + 1] != b":":
            raise _malformed(data, position)
        start = _skip(data, position + 1)
        end = _end_of_value(data, start)
        yield key[0][1:-1], data[start:end]
        position = _skip(data, end)
        more = data[position : position + 1] == b","
        if more:
            position = _skip(data, position + 1)
    if data[position : position + 1] != b"}" or _skip(data, position + 1) != len(data):
        raise _malformed(data, position)


def identity_of(raw: bytes) -> tuple[str, str, str]:
    """Return name, namespace and resourceVersion of one object, with "" for a value that is missing or not a string.

    Raises:
        DecodeError: As for `members`, for the object and its metadata.
    """
    metadata = dict(members(raw)).get(b"metadata", b"{}")
    fields = dict(members(metadata)) if metadata.startswith(b"{") else {}
    name, namespace, version = (_text(fields.get(field)) for field in (b"name", b"namespace", b"resourceVersion"))
    return name, namespace, version


def _text(value: bytes | None) -> str:
    if value is None:
        return ""
    try:
        return _decode_text(value)
    except MALFORMED:
        return ""


def _skip(data: bytes, position: int) -> int:
    match = _SPACE.match(data, position)
    return match.end() if match else position


def _end_of_value(data: bytes, position: int) -> int:
    first = data[position : position + 1]
    if first not in (b"{", b"["):
        match = (_STRING if first == b'"' else _SCALAR).match(data, position)
        if match is None:
            raise _malformed(data, position)
        return match.end()
    depth = 0
    while True:
        match = _UP_TO_BRACKET.match(data, position)
        position = match.end() if match else position
        byte = data[position : position + 1]
        if byte not in (b"{", b"[", b"}", b"]") or not byte:
            raise _malformed(data, position)
        depth += 1 if byte in (b"{", b"[") else -1
        position += 1
        if depth == 0:
            return position


def _malformed(data: bytes, position: int) -> DecodeError:
    return DecodeError(f"malformed JSON at byte {position} of {len(data)}")
