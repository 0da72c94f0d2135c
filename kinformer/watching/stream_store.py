"""The store of a stream: converts a reflector's writes to events, and keeps no objects that have been read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import MOST_AT_ONCE
from kinformer._runtime.waiters import WaiterQueue
from kinformer.exceptions import ExpiredError
from kinformer.list_watcher import WatchEvent
from kinformer.objects.accessors import is_gone, key_of, resource_version_of, uid_of
from kinformer.objects.object import UndecodableObject, view
from kinformer.reflector.relist import reaches
from kinformer.watching.differences import Listed, StreamEvent, difference, event_of
from kinformer.watching.version_index import Record, VersionIndex

__all__ = ["PAUSE", "StreamStore"]

PAUSE: Final = object()
"""Returned by `take` if other tasks should run before the next event."""

_TYPES: dict[str, Literal["ADDED", "UPDATED", "DELETED"]] = {
    "ADDED": "ADDED",
    "MODIFIED": "UPDATED",
    "DELETED": "DELETED",
}


class _Mark(NamedTuple):
    """A position between two events: the version reached there, or the end of the initial objects."""

    version: str
    synced: bool


class StreamStore:
    """Converts lists and events to the events of a stream.

    Args:
        size: The number of events that may wait for the reader. The reflector then pauses until half of them have been
            read. It also pauses while the difference of a list is being read.
        tell_initial: False to omit events for the existing objects.
        position: The version up to which changes were reported before, or "" for none.

    Attributes:
        told: The uid and version of each object, as already or soon reported to the reader.
        position: The version up to which the reader has read, or "" before the initial objects.
        initial_read: True once the reader has read all initial objects.
        catch_up: The version up to which `told` already includes the watch's events, or "" for none. It is the version
            of the list that a resumed stream has made.
    """

    known = None
    at_once = MOST_AT_ONCE

    def __init__(self, size: int, *, tell_initial: bool, position: str = "") -> None:
        self.told = VersionIndex()
        self.position = position
        self.initial_read = False
        self.catch_up = ""
        self._size = size
        self._tells = tell_initial
        self._listed = False  # True once a list is complete
        self._queue: deque[tuple[StreamEvent, str] | _Mark | Iterator[StreamEvent | None]] = deque()
        self._differs = False  # True while the difference of a list is in the queue
        self._objects = 0  # number of objects in the list whose difference is being read
        self._readers = WaiterQueue()
        self._writers = WaiterQueue()

    # --- writing (reflector) --------------------------------------------------------------------------------------

    def is_full(self) -> bool:
        """True if the reflector must wait for the reader."""
        return self._differs or len(self._queue) >= self._size

    async def room(self) -> None:
        """Wait until the reader has read enough."""
        while self.is_full():
            await self._writers.wait()

    @property
    def has_part(self) -> bool:
        """True if objects of a first list that is not complete have been reported."""
        return self._tells and not self._listed and len(self.told) > 0

    def sink(self) -> _Sink:
        """Return the sink for a new list."""
        if not (self._listed or self._tells):
            self.told = VersionIndex()  # it was filled by a list that was abandoned
        if self._listed or len(self.told):
            self.told.begin_marking()
        return _Sink(self)

    def write(self, events: Sequence[WatchEvent], resource_version: str) -> None:
        """Process events of a watch."""
        ordered = bool(events) and resource_version_of(events[-1].object) == resource_version
        for kind, obj in events:
            version = resource_version_of(obj) if ordered else ""
            if kind == "BOOKMARK":
                if self.catch_up and reaches(version, self.catch_up):
                    self.catch_up = ""
                self._mark(version)
                continue
            outgoing = self._events(kind, obj, version)
            for event in outgoing[:-1]:
                self._queue.append((event, ""))
            if outgoing:
                self._queue.append((outgoing[-1], version))
            else:
                self._mark(version)
        self._readers.wake()

    def replace(self, items: ChunkedList[Any], resource_version: str) -> None:
        """Process a complete list: the result of a sink, or all objects."""
        if not isinstance(items, Listed):
            sink = self.sink()
            for obj in items.drain():
                sink.put(obj)
            items = sink.result()
        first, self._listed = not self._listed, True
        if self.catch_up and not first:
            raise self.unresumable("a full list is necessary")
        if self.told.marking:
            self._objects = self.told.marked + len(items.versions)
            self._queue.append(difference(self.told, items))
            self._differs = True
        self._mark(resource_version, synced=first)
        self._readers.wake()

    def unresumable(self, reason: str) -> ExpiredError:
        """Return the error for a version that a stream cannot be resumed from."""
        message = f"{reason}; changes since resourceVersion {self._received} are lost; start without a version"
        return ExpiredError(410, "Expired", message)

    @property
    def _received(self) -> str:
        """The version up to which events have arrived. The last ones may not have been read yet."""
        for entry in reversed(self._queue):
            version = entry.version if isinstance(entry, _Mark) else entry[1] if isinstance(entry, tuple) else ""
            if version:
                return version
        return self.position

    def resync(self) -> None:
        """Do nothing, because there are no objects to replay."""

    def _events(self, kind: str, obj: Any, version: str) -> tuple[StreamEvent, ...]:
        key = key_of(obj)
        gone = type(obj) is UndecodableObject  # it is only known that it has changed
        if self._is_catching_up(version):
            if reaches(self._received, version):
                return ()  # repeated by the server, which `told` cannot tell, because it is ahead
            return (StreamEvent(_TYPES[kind], key, uid_of(obj), None if gone else view(obj)),)
        if kind != "DELETED":
            return event_of(self.told, obj)
        before = self._forget(key, uid_of(obj), version)
        return () if before is None else (StreamEvent("DELETED", key, before.uid, None if gone else view(obj)),)

    def _forget(self, key: str, uid: str, version: str) -> Record | None:
        """Remove and return what was told of a deleted object, or None if that is unknown or an earlier object's."""
        before = self.told.get(key)
        if before is None or not is_gone(before.uid, before.version, uid, version):
            return None
        return self.told.pop(key)

    def _is_catching_up(self, version: str) -> bool:
        if not self.catch_up or not reaches(version, self.catch_up, unknown=True):
            return bool(self.catch_up)
        last, self.catch_up = version == self.catch_up, ""
        return last

    def _mark(self, version: str, *, synced: bool = False) -> None:
        if not self._queue:
            self._reach(_Mark(version, synced))
        elif isinstance(last := self._queue[-1], _Mark):
            self._queue[-1] = _Mark(version or last.version, synced or last.synced)
        elif version or synced:
            self._queue.append(_Mark(version, synced))

    # --- receiving a list -------------------------------------------------------------------------------------------

    def listed(self, sink: _Sink, obj: Any) -> None:
        """Process an object of a list. It is reported immediately in the first list, and otherwise kept if changed."""
        key, uid, version = key_of(obj), uid_of(obj), resource_version_of(obj)
        told = self.told
        if self._listed:
            if version and told.mark(key, uid, version):
                sink.changed.versions.pop(key)
            else:
                told.unmark(key)
                sink.changed.versions.set(key, uid, version)
                sink.changed.append(obj)
            return
        if self._tells:
            self._queue.extend((event, "") for event in event_of(told, obj, initial=True))
            self._readers.wake()
        else:
            told.set(key, uid, version)

    def is_newer(self, sink: _Sink, obj: object) -> bool:
        """Return False if this state of an object, or a newer one, was taken from this list: only those are marked."""
        key = key_of(obj)
        before = sink.changed.versions.get(key) or self.told.marked_record(key)
        return before is None or not reaches(before.version, resource_version_of(obj))

    def discarded(self, sink: _Sink, key: str, obj: Any) -> None:
        """Record that an object of a list was deleted before the list is complete."""
        if self._listed:  # the difference reports it
            self.told.unmark(key)
            sink.changed.versions.pop(key)
            return
        before = self._forget(key, uid_of(obj), resource_version_of(obj))
        if before is not None and self._tells:
            self._queue.append((StreamEvent("DELETED", key, before.uid, view(obj)), ""))
            self._readers.wake()

    # --- reading ----------------------------------------------------------------------------------------------------

    @property
    def objects(self) -> int:
        """The number of objects of the resource."""
        return self._objects if self._differs else len(self.told)

    def __len__(self) -> int:
        return sum(not isinstance(entry, _Mark) for entry in self._queue)

    def take(self) -> StreamEvent | object | None:
        """Return the next event, None if there is none yet, or `PAUSE` if other tasks should run first."""
        queue = self._queue
        while queue:
            entry = queue[0]
            if isinstance(entry, _Mark):
                queue.popleft()
                self._reach(entry)
            elif isinstance(entry, tuple):
                queue.popleft()
                event, version = entry
                self.position = version or self.position
                if queue and isinstance(mark := queue[0], _Mark):  # passed together with the event
                    queue.popleft()
                    self._reach(mark)
                self._read()
                return event
            else:
                for event_or_pause in entry:
                    return PAUSE if event_or_pause is None else event_or_pause
                queue.popleft()
                self._differs = False
        self._read()
        return None

    def _reach(self, mark: _Mark) -> None:
        self.position = mark.version or self.position
        self.initial_read = self.initial_read or mark.synced

    def _read(self) -> None:
        if len(self._writers) and not self._differs and len(self._queue) <= self._size // 2:
            self._writers.wake_all()

    async def wait(self) -> None:
        """Wait for an event, or for `end`."""
        await self._readers.wait()

    def end(self, *, drop: bool = False) -> None:
        """Wake the reader, because no more events will follow. With `drop`, unread events are discarded."""
        if drop:
            self._queue.clear()
            self._differs = False
            self.told = VersionIndex()
        self._readers.wake_all()


class _Sink:
    """The sink for the objects of one list."""

    def __init__(self, store: StreamStore) -> None:
        self.changed = Listed()
        self._store = store

    def put(self, obj: Any) -> None:
        self._store.listed(self, obj)

    def is_newer(self, obj: object) -> bool:
        return self._store.is_newer(self, obj)

    def discard(self, key: str, obj: Any) -> None:
        self._store.discarded(self, key, obj)

    def result(self) -> Listed:
        return self.changed
