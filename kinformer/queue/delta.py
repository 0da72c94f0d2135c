"""What waits in a queue: one thing that happened to one key.

(client-go, tools/cache/delta_fifo.go: `Delta`, `DeltaType`; the_real_fifo.go: the deltas of everything at once.)
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from kinformer._runtime.chunks import ChunkedList

__all__ = ["Bookmark", "Delta", "DeltaType", "Replacement"]


class DeltaType(StrEnum):
    """What happened. The type is what the source said; whether an object is new the cache knows better."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """The object was in a full list."""
    SYNC = "Sync"
    """Nothing happened; the object is told again."""
    REPLACED_ALL = "ReplacedAll"
    """A full list as one delta; its object is a `Replacement`."""
    SYNC_ALL = "SyncAll"
    """All objects are to be told again; its object is None."""
    BOOKMARK = "Bookmark"
    """The source has nothing newer up to a resourceVersion; its object is a `Bookmark`."""


class Delta(NamedTuple):
    """One thing that happened to one key. The object of a `DELETED` is its last state, or a tombstone."""

    type: DeltaType
    object: Any


class Replacement(NamedTuple):
    """The object of a `REPLACED_ALL`: a full list, of all namespaces (None) or of one."""

    items: list[object] | ChunkedList[object]
    resource_version: str
    namespace: str | None = None


class Bookmark(NamedTuple):
    """The object of a `BOOKMARK`."""

    resource_version: str
    namespace: str | None = None
