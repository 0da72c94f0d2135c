"""The parts of a list around its items: kind, apiVersion and the metadata of the list itself.

A key that occurs twice makes it undefined which value counts. Readers take the last one, and so would lose the items of
a first `items`. No server writes such a list, so it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import msgspec

from kinformer._runtime.json_depth import bounded
from kinformer.exceptions import MALFORMED, DecodeError
from kinformer.objects.excerpts import excerpt_of
from kinformer.wire.json_scan import members

__all__ = ["MAX_HEADER_BYTES", "Envelope", "ListHeader", "after_space", "decode_rest", "no_list"]

MAX_HEADER_BYTES = 1024 * 1024
"""The maximum length of the part before the items, and of the part after them. In practice it is a kilobyte."""

# Nested "items" keys to try before giving up on the list's own. Each try parses everything before it again.
_MAX_NOT_ITEMS = 64

_ITEMS_KEY = re.compile(rb'"items"[ \t\r\n]*+(:[ \t\r\n]*+)?')
_SPACE = re.compile(rb"[ \t\r\n]*+")


class _ShardInfo(msgspec.Struct):
    selector: str | None = None


class _ListMeta(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    name: str | None = None  # only a document that is not a list has it
    resource_version: str | None = None
    continue_token: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None
    shard_info: _ShardInfo | None = None


class _Head(msgspec.Struct, rename="camel"):
    """The fields before the items, or after them."""

    kind: str | None = None
    api_version: str | None = None
    metadata: _ListMeta | None = None


class _Rest(msgspec.Struct):
    """The last items. The fields after them are only checked to be JSON."""

    items: list[msgspec.Raw] = []


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 0


class ListHeader(msgspec.Struct, frozen=True):
    """A list without its items (apimachinery, pkg/apis/meta/v1/types.go, ListMeta).

    `remaining_item_count` is an estimate, or None if the server sent none. `shard_info` is the selector of a sharded
    list, or None.
    """

    kind: str
    api_version: str
    resource_version: str
    continue_token: str
    remaining_item_count: int | None
    shard_info: str | None


_decode_head = bounded(msgspec.json.Decoder(_Head).decode)
_decode_status = bounded(msgspec.json.Decoder(_Status).decode)

_decode_key = msgspec.json.Decoder(str).decode

decode_rest = msgspec.json.Decoder(_Rest).decode
"""Decodes the last items, together with the fields after them."""


def after_space(data: bytearray, start: int = 0) -> int:
    """Return the offset of the first byte from `start` on that is not white space."""
    return cast("re.Match[bytes]", _SPACE.match(data, start)).end()


class Envelope:
    """The parts of a list before its items and after them.

    Attributes:
        api_version, kind: The values of the items if they precede them in the list, else "".
        after: The part after the items, if it arrived together with the last of them.
    """

    def __init__(self) -> None:
        self.api_version = ""
        self.kind = ""
        self.after: bytes | None = None
        self._before = b""
        self._searched = 0
        self._not_items = 0

    def find_items(self, data: bytearray) -> int:
        """Return the offset of the value of the list's own `items` in the body so far, or -1 if it has not arrived.

        Raises:
            DecodeError: The body is not a JSON object, or has no items where a list has them.
        """
        start = after_space(data)
        if start < len(data) and data[start] != 0x7B:
            raise DecodeError(f"the body is not a JSON list: {excerpt_of(bytes(data), 200)}")
        while (match := _ITEMS_KEY.search(data, self._searched)) is not None:
            if match.end() == len(data):
                self._searched = match.start()
                return -1
            self._searched = match.end()
            # Without a colon it is a value.
            if match[1] is not None and self._begin_items(bytes(data[: match.start()]) + b'"items":null'):
                return match.end()
        self._searched = max(0, len(data) - len(b'"items"') + 1)
        if len(data) > MAX_HEADER_BYTES:
            raise DecodeError(f"no items within the first {MAX_HEADER_BYTES} bytes: {excerpt_of(bytes(data), 200)}")
        return -1

    def _begin_items(self, before: bytes) -> bool:
        # It is the list's own key exactly if the bytes before it and a value form a complete document. A nested key
        # would leave brackets open, and one inside a string a quote.
        try:
            head = _decode_head(before + b"}")
        except MALFORMED as error:
            self._not_items += 1
            if self._not_items > _MAX_NOT_ITEMS:
                raise DecodeError(f"no items of a list after {_MAX_NOT_ITEMS} nested keys of that name") from error
            return False
        kind = head.kind or ""
        self.kind = kind.removesuffix("List") if kind.endswith("List") else ""
        self.api_version = head.api_version or ""
        self._before = before
        return True

    def has_null_items(self) -> None:
        """Leave the value of `items` to `header`, which decodes it strictly with the rest."""
        self._before = self._before.removesuffix(b"null")

    def header(self, after: bytes, length: int) -> ListHeader:
        """Return the header of the list.

        Args:
            after: The bytes after the items that are not in `self.after`.
            length: The length of the body, for errors.

        Raises:
            DecodeError: The parts are not JSON, have a key twice, or belong to another document.
        """
        data = self._before + (self.after or b"") + after
        try:
            data.decode()
            head = _decode_head(data)
        except MALFORMED as error:
            raise DecodeError(f"the list is truncated or malformed after {length} bytes: {error}") from error
        _refuse_twins(data)
        meta = head.metadata or _ListMeta()
        kind = head.kind or ""
        # A custom resource may give its list any name (CustomResourceDefinition, spec.names.listKind).
        if kind and not kind.endswith("List") and (meta.name or not meta.resource_version):
            raise DecodeError(f"expected a list, got a {kind}")
        return ListHeader(
            kind,
            head.api_version or "",
            meta.resource_version or "",
            meta.continue_token or "",
            meta.remaining_item_count,
            meta.shard_info.selector if meta.shard_info else None,
        )


def _refuse_twins(data: bytes) -> None:
    """Raise DecodeError if a key occurs twice in a list without its items, or in the metadata of the list."""
    for key, value in _unique_members(data, ""):
        if key == "metadata" and value.startswith(b"{"):
            for _ in _unique_members(value, "metadata."):
                pass


def _unique_members(data: bytes, path: str) -> Iterator[tuple[str, bytes]]:
    seen: set[str] = set()
    for written, value in members(data):
        try:
            key = _decode_key(b'"%b"' % written)
        except MALFORMED as error:
            raise DecodeError(f"the list has an invalid key: {error}: {excerpt_of(written)}") from error
        if key in seen:
            raise DecodeError(f"the list has the key '{path}{key}' twice")
        seen.add(key)
        yield key, value


def no_list(body: bytes, length: int) -> DecodeError:
    """Return the error for a body of this length that ended before the items of a list."""
    try:
        head = _decode_head(body)
    except MALFORMED as error:
        return DecodeError(f"the list is truncated: it ended after {length} bytes ({error}): {excerpt_of(body, 200)}")
    if head.kind == "Status":
        try:
            status = _decode_status(body)
        except msgspec.ValidationError:
            return DecodeError(f"expected a list, got a Status: {excerpt_of(body, 200)}")
        return DecodeError(f"expected a list, got a Status: {status.code} {status.message}".rstrip())
    return DecodeError(f"expected a list, got a {head.kind or 'document'} without items: {excerpt_of(body, 200)}")
