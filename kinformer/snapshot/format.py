r"""The format of a snapshot: a sequence of blocks, each with a checksum of itself and everything before it.

::

    kinformer snapshot 1\n
    block: header     what the cache holds, of which server, at which resourceVersion, and how many objects
    block: objects    some objects: the identity of each, then their JSON as it is kept
    ...
    block: end        and nothing behind it

A block consists of its kind, the lengths of its two parts, a CRC-32, and the parts. The CRC continues the CRC of the
previous block, so a block that is changed, missing, duplicated or misplaced is detected before it is used.

The identity of an object is stored separately from its JSON, so that reading need not parse the JSON. Parts that many
objects share (namespace, kind, labels, owners: a *stamp*) are written once, and shared again when read.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from kinformer.objects.meta import OwnerReference
from kinformer.objects.object import KubeObject

__all__ = ["OBJECTS", "BlockReader", "ObjectReader", "ObjectWriter", "Seal", "SnapshotHeader", "SnapshotRefusedError"]

MAGIC = b"kinformer snapshot 1\n"
_ANY_VERSION = b"kinformer snapshot "
HEADER, OBJECTS, END = 1, 2, 3

_FRAME = struct.Struct("<BIII")  # kind, length of the head, length of the body, checksum


class SnapshotRefusedError(Exception):
    """A snapshot cannot be used. `reason` is one word for statistics, and the message has the details."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class SnapshotHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a snapshot, at the start of its file.

    Attributes:
        contents: A description of the objects in the cache, for comparison: resource, selectors, fields and so on.
        resource_versions: The version for each namespace, or for `""` if one source covers all.
        cluster: The cluster, or None if unknown.
        objects: The number of objects that follow.
        taken_at: Seconds since 1970, for people.
    """

    contents: Mapping[str, str]
    resource_versions: Mapping[str, str]
    cluster: str | None
    objects: int
    taken_at: float


class Block(NamedTuple):
    """A block with a valid checksum."""

    kind: int
    head: bytes
    body: bytes


class _Stamp(msgspec.Struct, frozen=True, array_like=True):
    namespace: str
    api_version: str
    kind: str
    labels: dict[str, str]
    owners: tuple[OwnerReference, ...]


class _Record(NamedTuple):
    key: str
    uid: str
    resource_version: str
    stamp: Annotated[int, msgspec.Meta(ge=0)]
    length: Annotated[int, msgspec.Meta(ge=0)]


class _Objects(msgspec.Struct, frozen=True, array_like=True):
    stamps: list[_Stamp]  # the new stamps of this block, numbered from the first block on
    records: list[_Record]


_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(SnapshotHeader).decode
_decode_objects = msgspec.msgpack.Decoder(_Objects).decode


class Seal:
    """Frames blocks. Each file needs its own, because each block continues the checksum of the last."""

    def __init__(self) -> None:
        self._crc = zlib.crc32(MAGIC)

    def header(self, header: SnapshotHeader) -> list[bytes]:
        """Return the beginning of the file."""
        return [MAGIC, *self.block(HEADER, _encode(header), ())]

    def block(self, kind: int, head: bytes, body: Sequence[bytes]) -> list[bytes]:
        """Return the pieces of a block, in order."""
        lengths = len(head), sum(map(len, body))
        crc = zlib.crc32(head, zlib.crc32(_FRAME.pack(kind, *lengths, 0), self._crc))
        for piece in body:
            crc = zlib.crc32(piece, crc)
        self._crc = crc
        return [_FRAME.pack(kind, *lengths, crc), head, *body]

    def end(self) -> list[bytes]:
        """Return the end of the file."""
        return self.block(END, b"", ())


class ObjectWriter:
    """Encodes objects to blocks.

    Args:
        secrets: True if Secrets are allowed.
    """

    def __init__(self, *, secrets: bool = False) -> None:
        self._secrets = secrets
        self._numbers: dict[tuple[int, int, str, str, str], int] = {}  # of the stamps so far
        self._kept: list[tuple[Any, Any]] = []  # objects identified by their id must stay alive

    def block(self, objects: Sequence[KubeObject]) -> tuple[bytes, list[bytes]]:
        """Return the head and the body of a block.

        Raises:
            SnapshotRefusedError: An object is a Secret, and Secrets are not allowed.
        """
        stamps: list[_Stamp] = []
        records: list[tuple[str, str, str, int, int]] = []
        body: list[bytes] = []
        numbers = self._numbers
        for obj in objects:
            labels, owners = obj._labels, obj.owner_references
            mark = (id(labels), id(owners), obj.namespace, obj.api_version, obj.kind)
            number = numbers.get(mark)
            if number is None:
                if obj.kind == "Secret" and obj.api_version == "v1" and not self._secrets:
                    raise SnapshotRefusedError("secrets", f"{obj!r} is a Secret, and secrets=True is not set")
                number = numbers[mark] = len(numbers)
                self._kept.append((labels, owners))
                stamps.append(_Stamp(obj.namespace, obj.api_version, obj.kind, labels, owners))
            raw = obj.raw
            records.append((obj.key, obj.uid, obj.resource_version, number, len(raw)))
            body.append(raw)
        return _encode((stamps, records)), body


class BlockReader:
    """Reads the blocks of a file, and uses nothing before its checksum is verified.

    Args:
        read: Returns the requested number of bytes, or fewer at the end of the file.
        size: The size of the file in bytes, which limits all lengths in it.

    Raises:
        SnapshotRefusedError: `format` if it is not a snapshot or has another version, or `torn` if it is damaged.
    """

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read = read
        self._size = size
        magic = read(len(MAGIC))
        if magic != MAGIC:
            if MAGIC.startswith(magic):
                raise SnapshotRefusedError("torn", "it ends too early")
            other = "its format has another version" if magic.startswith(_ANY_VERSION) else "it is not a snapshot"
            raise SnapshotRefusedError("format", other)
        self._crc = zlib.crc32(magic)
        self._ended = False
        try:
            self.header: SnapshotHeader = _decode_header(self._block(HEADER).head)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise SnapshotRefusedError("torn", f"its header cannot be read: {error}") from error

    def objects(self) -> Block | None:
        """Return the next block of objects, or None at the end of the file.

        Raises:
            SnapshotRefusedError: `torn`.
        """
        if self._ended:
            return None
        block = self._block(OBJECTS, END)
        if block.kind == OBJECTS:
            return block
        self._ended = True
        if self._read(1):
            raise SnapshotRefusedError("torn", "there is data after its end")
        return None

    def _block(self, *kinds: int) -> Block:
        frame = self._read(_FRAME.size)
        if len(frame) < _FRAME.size:
            raise SnapshotRefusedError("torn", "it ends too early")
        kind, head_length, body_length, checksum = _FRAME.unpack(frame)
        if kind not in kinds or head_length + body_length > self._size:
            raise SnapshotRefusedError("torn", "it has an invalid block")
        head, body = self._read(head_length), self._read(body_length)
        crc = zlib.crc32(_FRAME.pack(kind, head_length, body_length, 0), self._crc)
        crc = zlib.crc32(body, zlib.crc32(head, crc))
        if crc != checksum or len(head) != head_length or len(body) != body_length:
            raise SnapshotRefusedError("torn", "a checksum in it is wrong")
        self._crc = crc
        return Block(kind, head, body)


class ObjectReader:
    """Decodes blocks to objects, in the order of the file."""

    def __init__(self) -> None:
        self._stamps: list[_Stamp] = []  # of all blocks so far, because later ones refer to them
        self._labels: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._owners: dict[tuple[OwnerReference, ...], tuple[OwnerReference, ...]] = {}

    def read(self, block: Block) -> list[KubeObject]:
        """Return the objects of a block.

        Raises:
            SnapshotRefusedError: `torn`, if the checksum is valid but the block is not.
        """
        try:
            head = _decode_objects(block.head)
            self._stamps += [self._shared(stamp) for stamp in head.stamps]
            stamps, body, at = self._stamps, block.body, 0
            objects: list[KubeObject] = []
            for key, uid, version, number, length in head.records:
                stamp = stamps[number]
                raw = body[at : at + length]
                at += length
                objects.append(
                    KubeObject(
                        key,
                        stamp.namespace,
                        uid,
                        version,
                        stamp.api_version,
                        stamp.kind,
                        stamp.labels,
                        stamp.owners,
                        raw,
                    )
                )
        except (msgspec.MsgspecError, UnicodeDecodeError, IndexError, RecursionError) as error:
            raise SnapshotRefusedError("torn", f"a block of it cannot be read: {error}") from error
        if at != len(body):
            raise SnapshotRefusedError("torn", "the length of a block differs from that of its objects")
        return objects

    def _shared(self, stamp: _Stamp) -> _Stamp:
        owners = stamp.owners
        return _Stamp(
            sys.intern(stamp.namespace),
            sys.intern(stamp.api_version),
            sys.intern(stamp.kind),
            self._labels.setdefault(tuple(stamp.labels.items()), stamp.labels),
            self._owners.setdefault(owners, owners),
        )
