"""The uid and resourceVersion of many objects by their keys, in about 100 bytes for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Record", "VersionIndex"]

# Bytes that UTF-8 never has, so they separate any texts.
_RECORD, _FIELD = b"\xff", b"\xfe"
_LOAD = 6  # records in a bucket, on the average: more save little memory, and cost time


class Record(NamedTuple):
    """The part of an object that is kept."""

    key: str
    uid: str
    version: str


class VersionIndex:
    """Records by key, packed: a dict of strings takes three times as much.

    The records of a bucket follow one another in one bytes object, as text. Buckets are split one by one as records
    come (linear hashing), so no insert pays for the growth of the whole.
    """

    __slots__ = ("_buckets", "_count", "_half", "_split")

    def __init__(self) -> None:
        self._buckets: list[bytes] = [b""] * 8
        self._count = 0
        self._half = 8  # buckets when the present round of splits began; a power of two
        self._split = 0  # the next bucket to split

    def __len__(self) -> int:
        return self._count

    def __contains__(self, key: str) -> bool:
        return _prefix(key) in self._buckets[self._number(key)]

    def get(self, key: str) -> Record | None:
        """Return the record of a key, or None."""
        bucket = self._buckets[self._number(key)]
        start = bucket.find(_prefix(key))
        return None if start < 0 else _record(bucket[start + 1 : _end(bucket, start)])

    def has(self, key: str, uid: str, version: str) -> bool:
        """True if this is the record of the key."""
        bucket, record = self._buckets[self._number(key)], _packed(key, uid, version)
        start = bucket.find(record)
        return start >= 0 and _end(bucket, start) == start + len(record)

    def set(self, key: str, uid: str, version: str) -> None:
        """Set the record of a key."""
        number, record = self._number(key), _packed(key, uid, version)
        bucket = self._buckets[number]
        start = bucket.find(_prefix(key))
        if start >= 0:
            self._buckets[number] = bucket[:start] + record + bucket[_end(bucket, start) :]
            return
        self._buckets[number] = bucket + record
        self._count += 1
        if self._count > _LOAD * len(self._buckets):
            self._split_one()

    def pop(self, key: str) -> Record | None:
        """Remove and return the record of a key, or return None."""
        number = self._number(key)
        bucket = self._buckets[number]
        start = bucket.find(_prefix(key))
        if start < 0:
            return None
        end = _end(bucket, start)
        self._buckets[number] = bucket[:start] + bucket[end:]
        self._count -= 1
        return _record(bucket[start + 1 : end])

    def buckets(self) -> Iterator[list[Record]]:
        """Iterate over all records, in small lists. The index must not change meanwhile."""
        for bucket in self._buckets:
            yield [_record(text) for text in bucket.split(_RECORD) if text]

    def _number(self, key: str) -> int:
        value = hash(key)
        number = value & (self._half - 1)
        return number if number >= self._split else value & (2 * self._half - 1)

    def _split_one(self) -> None:
        number, self._split = self._split, self._split + 1
        texts = [text for text in self._buckets[number].split(_RECORD) if text]
        self._buckets[number] = b""
        self._buckets.append(b"")
        if self._split == self._half:
            self._half, self._split = 2 * self._half, 0
        parts: dict[int, list[bytes]] = {}
        for text in texts:
            parts.setdefault(self._number(text[: text.index(_FIELD)].decode()), []).append(text)
        for place, found in parts.items():
            self._buckets[place] = _RECORD + _RECORD.join(found)


def _prefix(key: str) -> bytes:
    return _RECORD + key.encode() + _FIELD


def _packed(key: str, uid: str, version: str) -> bytes:
    return b"\xff%b\xfe%b\xfe%b" % (key.encode(), uid.encode(), version.encode())


def _end(bucket: bytes, start: int) -> int:
    end = bucket.find(_RECORD, start + 1)
    return end if end >= 0 else len(bucket)


def _record(text: bytes) -> Record:
    key, uid, version = text.split(_FIELD)
    return Record(key.decode(), uid.decode(), version.decode())
