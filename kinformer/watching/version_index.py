"""An index of uid and resourceVersion by object key, which takes about 100 bytes per object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Record", "VersionIndex"]

# Bytes that never occur in UTF-8, so they can separate any strings.
_RECORD, _FIELD = b"\xff", b"\xfe"
_LOAD = 6  # average records per bucket. More would save little memory and cost time


class Record(NamedTuple):
    """The stored part of an object."""

    key: str
    uid: str
    version: str


class VersionIndex:
    """Packed records by key. A dict of strings would take three times as much memory.

    The records of a bucket are concatenated in one bytes object. Buckets are split one by one as records are added
    (linear hashing), so no insert pays for growing the whole index.

    Between `begin_marking` and the end of `sweep`, each record may have a mark, which is one bit. `sweep` removes
    records without a mark. So a list is compared with the records as it arrives, without a second index.

    Attributes:
        marked: The number of marked records.
    """

    __slots__ = ("_buckets", "_count", "_half", "_marks", "_split", "marked")

    def __init__(self) -> None:
        self._buckets: list[bytes] = [b""] * 8
        self._marks: list[int] | None = None  # for each bucket, a bit for each record, in order
        self.marked = 0
        self._count = 0
        self._half = 8  # buckets when the current round of splits began, a power of two
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

    def marked_record(self, key: str) -> Record | None:
        """Return the record of a key if it has a mark, or if there are no marks, and otherwise None."""
        number = self._number(key)
        bucket = self._buckets[number]
        start = bucket.find(_prefix(key))
        if start < 0 or (self._marks is not None and not self._marks[number] & _bit(bucket, start)):
            return None
        return _record(bucket[start + 1 : _end(bucket, start)])

    def has(self, key: str, uid: str, version: str) -> bool:
        """Return True if this is the record of the key."""
        bucket, record = self._buckets[self._number(key)], _packed(key, uid, version)
        start = bucket.find(record)
        return start >= 0 and _end(bucket, start) == start + len(record)

    def set(self, key: str, uid: str, version: str) -> None:
        """Set the record of a key, and mark it."""
        number, record = self._number(key), _packed(key, uid, version)
        bucket = self._buckets[number]
        start = bucket.find(_prefix(key))
        if start >= 0:
            self._buckets[number] = bucket[:start] + record + bucket[_end(bucket, start) :]
            self._mark(number, start)
            return
        self._buckets[number] = bucket + record
        self._mark(number, len(bucket))
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
        self._unmark(number, start)
        if self._marks is not None:
            ahead, marks = (1 << bucket.count(_RECORD, 0, start)) - 1, self._marks[number]
            self._marks[number] = marks & ahead | marks >> 1 & ~ahead
        self._buckets[number] = bucket[:start] + bucket[end:]
        self._count -= 1
        return _record(bucket[start + 1 : end])

    # --- mark and sweep ---------------------------------------------------------------------------------------------

    @property
    def marking(self) -> bool:
        """True between `begin_marking` and the end of `sweep`."""
        return self._marks is not None

    def begin_marking(self) -> None:
        """Start without marks. Marks of an abandoned list are dropped."""
        self._marks, self.marked = [0] * len(self._buckets), 0

    def mark(self, key: str, uid: str, version: str) -> bool:
        """Mark the record of the key and return True if it is this one, and otherwise return False."""
        number, record = self._number(key), _packed(key, uid, version)
        bucket = self._buckets[number]
        start = bucket.find(record)
        if start < 0 or _end(bucket, start) != start + len(record):
            return False
        self._mark(number, start)
        return True

    def unmark(self, key: str) -> None:
        """Remove the mark from the record of a key, if any."""
        number = self._number(key)
        start = self._buckets[number].find(_prefix(key))
        if start >= 0:
            self._unmark(number, start)

    def sweep(self) -> Iterator[list[Record]]:
        """Remove the records without a mark, and yield them by bucket. Marking ends with the last bucket.

        The index must not be changed otherwise in the meantime.
        """
        marks = self._marks
        assert marks is not None
        for number, bucket in enumerate(self._buckets):
            records = bucket.split(_RECORD)[1:]
            gone = [_record(record) for place, record in enumerate(records) if not marks[number] >> place & 1]
            if gone:
                kept = [_RECORD + record for place, record in enumerate(records) if marks[number] >> place & 1]
                self._buckets[number], marks[number] = b"".join(kept), (1 << len(kept)) - 1
                self._count -= len(gone)
            yield gone
        self._marks, self.marked = None, 0

    def _mark(self, number: int, start: int) -> None:
        if self._marks is not None:
            bit = _bit(self._buckets[number], start)
            self.marked += not self._marks[number] & bit
            self._marks[number] |= bit

    def _unmark(self, number: int, start: int) -> None:
        if self._marks is not None:
            bit = _bit(self._buckets[number], start)
            self.marked -= bool(self._marks[number] & bit)
            self._marks[number] &= ~bit

    # --- buckets ----------------------------------------------------------------------------------------------------

    def _number(self, key: str) -> int:
        value = hash(key)
        number = value & (self._half - 1)
        return number if number >= self._split else value & (2 * self._half - 1)

    def _split_one(self) -> None:
        number, self._split = self._split, self._split + 1
        records = self._buckets[number].split(_RECORD)[1:]
        self._buckets[number] = b""
        self._buckets.append(b"")
        if self._split == self._half:
            self._half, self._split = 2 * self._half, 0
        marks = 0
        if self._marks is not None:
            marks, self._marks[number] = self._marks[number], 0
            self._marks.append(0)
        parts: dict[int, list[bytes]] = {}
        for place, record in enumerate(records):
            to = self._number(record[: record.index(_FIELD)].decode())
            part = parts.setdefault(to, [])
            if self._marks is not None:
                self._marks[to] |= (marks >> place & 1) << len(part)
            part.append(record)
        for to, part in parts.items():
            self._buckets[to] = _RECORD + _RECORD.join(part)


def _prefix(key: str) -> bytes:
    return _RECORD + key.encode() + _FIELD


def _packed(key: str, uid: str, version: str) -> bytes:
    return b"\xff%b\xfe%b\xfe%b" % (key.encode(), uid.encode(), version.encode())


def _bit(bucket: bytes, start: int) -> int:
    """Return the bit of the record that starts there in the marks of its bucket."""
    return 1 << bucket.count(_RECORD, 0, start)


def _end(bucket: bytes, start: int) -> int:
    end = bucket.find(_RECORD, start + 1)
    return end if end >= 0 else len(bucket)


def _record(text: bytes) -> Record:
    key, uid, version = text.split(_FIELD)
    return Record(key.decode(), uid.decode(), version.decode())
