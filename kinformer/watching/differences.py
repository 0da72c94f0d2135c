"""The difference between what a reader has been told and a full list, told bit by bit as it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kinformer._runtime.chunks import ChunkedList
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.object import view
from kinformer.watching.version_index import VersionIndex

__all__ = ["Listed", "StreamEvent", "difference", "event_of"]

_LOOKED_AT = 16  # buckets without an event, after which other tasks may run


class Listed(ChunkedList[Any]):
    """The result of a list: the objects that the reader has not been told of in this state.

    The others have a mark in the index of what the reader has been told.

    Attributes:
        versions: The uid and version in which each of the objects is in the list; one that has been told since, or
            is gone, has none here.
    """

    __slots__ = ("versions",)

    def __init__(self) -> None:
        super().__init__()
        self.versions = VersionIndex()


def event_of(told: VersionIndex, obj: object, *, initial: bool = False) -> tuple[StreamEvent, ...]:
    """Return the events that tell a reader of this state of an object, and record it as told.

    There are none if the reader has been told, and two if another object had the key: a delete, and an add.
    """
    key, uid, version = key_of(obj), uid_of(obj), resource_version_of(obj)
    if version and told.mark(key, uid, version):
        return ()
    before = told.get(key)
    told.set(key, uid, version)
    obj = view(obj)
    if before is None:
        return (StreamEvent("ADDED", key, uid, obj, initial),)
    if before.uid == uid:
        return (StreamEvent("UPDATED", key, uid, obj, initial),)
    return (StreamEvent("DELETED", key, before.uid, None), StreamEvent("ADDED", key, uid, obj, initial))


def difference(told: VersionIndex, listed: Listed) -> Iterator[StreamEvent | None]:
    """Tell what a list has changed: first the objects that are new or different, then the deletes.

    Args:
        told: What the reader has been told, with a mark on each object that the list has in the same state; it becomes
            what the list has. It must not change until this has been read.
        listed: The list; it is emptied.

    Yields:
        Events, and None now and then for other tasks to run.
    """
    for obj in listed.drain():
        # An initial stream may have had a newer state behind it, or a delete.
        if listed.versions.has(key_of(obj), uid_of(obj), resource_version_of(obj)):
            yield from event_of(told, obj)
    listed.versions = VersionIndex()
    for number, gone in enumerate(told.sweep(), 1):
        for record in gone:
            yield StreamEvent("DELETED", record.key, record.uid, None)
        if number % _LOOKED_AT == 0:
            yield None


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a `WatchStream`.

    Attributes:
        type: `"ADDED"`, `"UPDATED"` or `"DELETED"`.
        key: `"namespace/name"`, or `"name"`.
        uid: The uid of the object.
        object: The object, of a DELETED its last state; None in a DELETED that a list has found, since no object is
            kept.
        is_in_initial_list: True for an ADDED of an object that existed when the stream was entered.
    """

    type: Literal["ADDED", "UPDATED", "DELETED"]
    key: str
    uid: str
    object: Any  # a KubeObject, unless the source has others
    is_in_initial_list: bool = False
