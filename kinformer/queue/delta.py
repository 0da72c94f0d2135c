"""Deltas: the changes that wait in a `DeltaFIFO` (client-go, tools/cache/delta_fifo.go)."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple

__all__ = ["Delta", "DeltaType"]


class DeltaType(StrEnum):
    """The type of a delta, as the source reported it. Only the cache knows if an object is really new."""

    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED = "Replaced"
    """The object was in a full list."""
    SYNC = "Sync"
    """Nothing has happened. A resync delivers the object again."""


class Delta(NamedTuple):
    """A change of one key. The object of a `DELETED` is its last state, or a tombstone."""

    type: DeltaType
    object: Any
