"""The difference between the state that a reader knows and a full list, computed incrementally as it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from kinformer._runtime.chunks import ChunkedList
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.object import view
from kinformer.watching.version_index import VersionIndex

__all__ = ["Listed", "StreamEvent", "difference", "event_of"]

_LOOKED_AT = 16  # buckets without an event after which other tasks may run


class Listed(ChunkedList[Any]):
    """The result of a list: the objects whose state the reader does not know yet.

    The other objects are marked in the reader's index.

    Attributes:
        versions: The uid and version of each object in the list, except for objects that have been reported or deleted
            since.
    """

    __slots__ = ("versions",)

    def __init__(self) -> None:
        super().__init__()
        self.versions = VersionIndex()


def event_of(told: VersionIndex, obj: object, *, initial: bool = False) -> tuple[StreamEvent, ...]:
    """Return the events that report this state of an object, and record it as reported.

    There are none if the reader already knows the state, and two if another object had the key: a delete and an add.
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
    """Yield the changes in a list: first new or different objects, then deletes.

    Args:
        told: The index of the reported state, with a mark on each object that is unchanged in the list. It is updated
            to the state of the list. It must not change until all events have been read.
        listed: The list, which is emptied.

    Yields:
        Events, and None now and then to let other tasks run.
    """
    for obj in listed.drain():
        # An initial stream may have been followed by a newer state or a delete.
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
    """An event of a `WatchStream`.

    Attributes:
        type: `"ADDED"`, `"UPDATED"` or `"DELETED"`.
        key: `"namespace/name"`, or `"name"`.
        uid: The uid of the object.
        object: The object or, for a DELETED, its last state. None in a DELETED detected by a list, because no objects
            are kept.
        is_in_initial_list: True for an ADDED of an object that existed when the stream was entered.
    """

    type: Literal["ADDED", "UPDATED", "DELETED"]
    key: str
    uid: str
    object: Any  # a KubeObject, unless the source returns others
    is_in_initial_list: bool = False
