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
    """The result of a list: the objects that the reader has not been told of in this state, and all versions.

    Args:
        index: The uid and version of every object of the list.
    """

    __slots__ = ("index",)

    def __init__(self, index: VersionIndex) -> None:
        super().__init__()
        self.index = index


def event_of(told: VersionIndex, obj: object, *, initial: bool = False) -> tuple[StreamEvent, ...]:
    """Return the events that tell a reader of this state of an object, and record it as told.

    There are none if the reader has been told, and two if another object had the key: a delete, and an add.
    """
    key, uid, version = key_of(obj), uid_of(obj), resource_version_of(obj)
    before = told.get(key)
    if before is not None and before.uid == uid and before.version == version and version:
        return ()
    told.set(key, uid, version)
    obj = view(obj)
    if before is None:
        return (StreamEvent("ADDED", key, uid, obj, initial),)
    if before.uid == uid:
        return (StreamEvent("UPDATED", key, uid, obj, initial),)
    return (StreamEvent("DELETED", key, before.uid, None), StreamEvent("ADDED", key, uid, obj, initial))


def difference(told: VersionIndex, listed: VersionIndex, changed: ChunkedList[object]) -> Iterator[StreamEvent | None]:
    """Tell what a list has changed: first the objects that are new or different, then the deletes.

    Args:
        told: The objects that the reader knows; it is changed here, and given up.
        listed: The objects of the list. It must not change until this has been read.
        changed: The objects of the list that differ from those that the reader knows.

    Yields:
        Events, and None now and then for other tasks to run.
    """
    for obj in changed.drain():
        # An initial stream may have had a newer state behind it, or a delete.
        if listed.has(key_of(obj), uid_of(obj), resource_version_of(obj)):
            yield from event_of(told, obj)
    for number, bucket in enumerate(told.buckets(), 1):
        for record in bucket:
            if record.key not in listed:
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
