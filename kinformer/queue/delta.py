"""Deltas: the changes that wait in a `DeltaFIFO`.

Upstream: client-go, tools/cache/delta_fifo.go (`Delta`, `DeltaType`), and the_real_fifo.go for the deltas of all
objects at once.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

from kinformer._runtime.chunks import ChunkedList

__all__ = ["Bookmark", "Delta", "DeltaType", "Replacement"]


class DeltaType(StrEnum):
    """The type of a delta, as the source reported it; only the cache knows if an object is really new."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """The object was in a full list."""
    SYNC = "Sync"
    """Nothing happened; the object is delivered again, by a resync."""
    REPLACED_ALL = "ReplacedAll"
    """A full list as one delta; its object is a `Replacement`."""
    SYNC_ALL = "SyncAll"
    """A resync of all objects as one delta; its object is None."""
    BOOKMARK = "Bookmark"
    """The source has nothing newer up to a resourceVersion; its object is a `Bookmark`."""


class Delta(NamedTuple):
    """One change of one key. The object of a `DELETED` is its last state, or a tombstone."""

    type: DeltaType
    object: Any


class Replacement(NamedTuple):
    """The object of a `REPLACED_ALL`: a full list of one namespace, or of all (None)."""

    items: list[object] | ChunkedList[object]
    resource_version: str
    namespace: str | None = None


class Bookmark(NamedTuple):
    """The object of a `BOOKMARK`: the version that the source has reached, in one namespace or in all (None)."""

    resource_version: str
    namespace: str | None = None
