"""The fast path of decoding: reads lines that look like lines that were decoded before.

Nothing in JSON demands that one object begins as another does, but the objects of one stream do. What is known of one
is a guess about the next, which costs a comparison of bytes instead of a decoding: 3.5 us a line, against 6.5 us by
`EntryDecoder.event`. The fast path gives up instead of guessing, and a property test holds it to `event`.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import intern
from typing import NamedTuple, TypeVar

import msgspec

from kinformer.exceptions import MALFORMED
from kinformer.list_watcher import WatchEvent
from kinformer.objects.meta import decode_owner_references
from kinformer.objects.object import KubeObject
from kinformer.wire.field_packing import FieldLayout
from kinformer.wire.lines import Lines

__all__ = ["FastPath", "Metadata", "ObjectPrefix", "decode_untyped", "without_managed_fields"]

V = TypeVar("V")

MANAGED_FIELDS = b',"managedFields":'
"""What stands before their value, as servers write it."""

_MARK = MANAGED_FIELDS + b"1"  # replaces what is cut while the object is decoded
_LENGTH = len(MANAGED_FIELDS)
_BRACKETS = 8  # opening brackets of metadata that are looked at, before `find` takes over

_EMPTY = msgspec.Raw()
_UNUSUAL: tuple[type[Exception], ...] = (*MALFORMED, IndexError)  # IndexError: of a line of a few bytes

_new_tuple = tuple.__new__  # a third of the price of WatchEvent(...), which is a Python function

_check = msgspec.json.Decoder(msgspec.Raw).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_labels = msgspec.json.Decoder(dict[str, str] | None).decode
_encode = msgspec.json.Encoder().encode


class LinePrefix(NamedTuple):
    """How the lines of one type of event begin: up to the brace that opens the metadata of their object.

    `object` and `metadata` are the places of the braces that open the two.
    """

    type: str
    text: bytes
    object: int
    metadata: int


class ObjectPrefix(NamedTuple):
    """How the objects of a resource begin: up to the brace that opens their metadata.

    So kind and apiVersion, where both stand in it, need not be decoded again and again; `kind` is "" where they do not.
    The brace is at 0 where this fits no object. `beginnings` are those of the lines of a watch, by the first letter of
    their type; empty where kind is.
    """

    text: bytes
    kind: str
    api_version: str
    brace: int
    beginnings: dict[int, LinePrefix]

    @classmethod
    def of(cls, raw: bytes, kind: str | None, api_version: str | None) -> ObjectPrefix:
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


NO_BEGINNING = LinePrefix("", b"\xff", 0, 0)
"""No line begins so, for no text in UTF-8 has this byte."""

UNKNOWN = ObjectPrefix(b"", "", "", 0, {})


def _beginnings(text: bytes, brace: int) -> dict[int, LinePrefix]:
    found = {}
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        before = b'{"type":"%s","object":' % kind.encode()
        found[ord(kind[0])] = LinePrefix(kind, before + text, len(before), len(before) + brace)
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


class _Head(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: msgspec.Raw = _EMPTY
    owner_references: msgspec.Raw = _EMPTY


class Metadata(_Head, gc=False, rename="camel"):
    """The metadata of an object, as far as an entry needs them; labels and owners as they were written."""

    managed_fields: msgspec.Raw = _EMPTY


class _Untyped(msgspec.Struct, gc=False):
    metadata: Metadata


# Of an object with a mark instead of its managedFields; any other value of that name is refused, because of its type.
class _MarkedMetadata(_Head, gc=False, rename="camel"):
    managed_fields: int = 0


class _Marked(msgspec.Struct, gc=False):
    metadata: _MarkedMetadata


decode_untyped = msgspec.json.Decoder(_Untyped).decode
_decode_marked = msgspec.json.Decoder(_Marked).decode


# At most twice as many are held. 30,000 Pods of a real cluster have some 1,000 label sets; if every object has labels
# of its own, sharing costs some 10 MB.
_SHARED = 16_384


class SharedValues(dict[bytes, V]):
    """Interns values: `shared[raw]` is one and the same value for equal bytes, as long as they keep coming.

    There are two generations. A value that is asked for is in the young one, which is this dict, or moves into it; when
    that is full it becomes the old one, and the previous old one is dropped. So memory is bounded, and values in use
    stay shared.

    Args:
        make: Makes the value of some bytes.
        limit: Values of one generation.
    """

    __slots__ = ("_limit", "_make", "_old")

    def __init__(self, make: Callable[[bytes], V], limit: int = _SHARED) -> None:
        super().__init__()
        self._make = make
        self._limit = limit
        self._old: dict[bytes, V] = {}

    def __missing__(self, raw: bytes) -> V:
        value = self._old.get(raw)
        if value is None:
            value = self._make(raw)
        if len(self) >= self._limit:
            self._old = dict(self)
            self.clear()
        self[raw] = value
        return value


def _make_labels(raw: bytes) -> dict[str, str]:
    return (_decode_labels(raw) or {}) if raw else {}


class FastPath:
    """Reads the lines of a watch that have the form in which servers write them.

    Args:
        keep_managed_fields: Keep them.
        layout: Which fields of an object are kept; None keeps everything.

    Attributes:
        prefix: How the objects of this resource begin, as far as is known.
        cutting: True if the last object had managedFields, and they are not kept.
        labels, owners: What is shared by the objects of one decoder.
    """

    __slots__ = ("_keep", "_layout", "cutting", "labels", "owners", "prefix")

    def __init__(self, *, keep_managed_fields: bool, layout: FieldLayout | None) -> None:
        self._keep = keep_managed_fields
        self._layout = layout
        self.labels = SharedValues(_make_labels)
        self.owners = SharedValues(decode_owner_references)
        self.prefix = UNKNOWN
        self.cutting = False

    def read(self, lines: Lines, most: int, found: list[WatchEvent]) -> None:
        """Read lines in the usual form, and append their events to `found`.

        Stops after `most` of them, and before a line of another form or with an object that cannot be kept:
        `EntryDecoder.event` handles those. This is the hot path of a watch: what `event` does, written out in one loop
        that reads the bytes where they are. It accepts only prefixes that `event` has accepted before. Bytes within
        managedFields that are dropped are not validated, so garbage there, which `event` rejects, is accepted.
        """
        beginnings = self.prefix.beginnings
        if not beginnings:
            return
        _, kind, api_version, _, _ = self.prefix
        labels, owners, keep, layout = self.labels, self.owners, self._keep, self._layout
        cutting, name_of_them, length = self.cutting, MANAGED_FIELDS, len(MANAGED_FIELDS)
        data, start, is_ascii = lines.data, lines.start, lines.is_ascii
        view, find, begins, decode, append = memoryview(data), data.find, data.startswith, decode_untyped, found.append
        decode_marked, mark = _decode_marked, _MARK
        type_, text, before, brace = NO_BEGINNING
        read = 0
        metadata: Metadata | _MarkedMetadata
        try:
            for end in lines.ends[lines.read : lines.read + most]:
                last = end - 1
                if not begins(text, start):  # of another type than the last line
                    type_, text, before, brace = beginnings.get(data[start + 9], NO_BEGINNING)
                    if not begins(text, start):
                        break
                if data[last] != 0x7D:
                    break
                first = start + before
                value = -1
                if cutting:
                    value = find(b"[", start + brace, last)
                    if data[value - length : value] != name_of_them:
                        value = find(b"[", value + 1, last)  # behind that of ownerReferences, as in Pods
                        if data[value - length : value] != name_of_them:
                            value = managed_fields_at(data, start + brace, last)
                # Strict: if more than the object stands there this raises, and the long way tells what it is.
                if value < 0:
                    raw = data[first:last]
                    metadata = decode(raw).metadata
                    if metadata.managed_fields is not _EMPTY and not keep:
                        break
                else:
                    # Up to the first bracket that closes. If that stands within a string, or closes another array, then
                    # what is left has an open string or, unless bytes are missing, a bracket too many: no JSON, and
                    # decoding refuses it. The mark is read back only where they are those of the object itself.
                    head, tail = view[first : value - length], view[find(b"]", value, last) + 1 : last]
                    raw = b"".join((head, tail))
                    metadata = decode_marked(b"".join((head, mark, tail))).metadata
                    if not metadata.managed_fields:
                        break
                name, namespace = metadata.name, metadata.namespace
                if not name:
                    break
                if not is_ascii:
                    data[start:end].decode()  # what msgspec skips it does not check to be UTF-8
                obj = KubeObject(
                    f"{namespace}/{name}" if namespace else name,
                    intern(namespace) if namespace else "",
                    metadata.uid or "",
                    metadata.resource_version or "",
                    api_version,
                    kind,
                    labels[bytes(metadata.labels)],
                    () if metadata.owner_references is _EMPTY else owners[bytes(metadata.owner_references)],
                    raw,
                )
                append(_new_tuple(WatchEvent, (type_, obj if layout is None else layout.kept(obj))))
                start = end + 1
                read += 1
        except _UNUSUAL:
            pass  # the long way says what is wrong
        lines.start = start
        lines.read += read
