"""The state of a server: encoded objects under one global revision, with a history for watches and past lists.

It models etcd and the watch cache (apiserver/pkg/storage/etcd3, pkg/storage/cacher). All resources share one counter.
Each resource has a history with a floor, below which watches cannot start. Exact lists of the past are available as
far back as the history.
"""

from __future__ import annotations

import sys
import time
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from kinformer.apiserver.status import StatusError, expired

__all__ = [
    "BytesView",
    "Compacted",
    "EventView",
    "Limits",
    "RevisionSnapshot",
    "Storage",
    "Stored",
    "StoredChange",
    "StoredCollection",
]

T_co = TypeVar("T_co", covariant=True)

# The watch cache keeps at least 75 s of history, in a ring of 100 to 102400 events (cacher/watch_cache.go). The
# minimum is larger here, because tests create events faster than clusters do, and look back further.
HISTORY_MINIMUM = 10_000
HISTORY_MAXIMUM = 102_400
HISTORY_SECONDS = 75.0
SNAPSHOTS = 8  # past lists kept for the next pages


class Stored(msgspec.Struct, gc=False):
    """A stored object. `raw` is its JSON as a list item, and is never changed in place.

    For built-in kinds, `raw` has neither kind nor apiVersion, as in their lists. `fields` is filled on first use by a
    field selector.
    """

    key: str
    namespace: str
    name: str
    uid: str
    revision: int
    labels: dict[str, str]
    raw: bytes
    fields: dict[str, str] | None = None

    @property
    def size(self) -> int:
        """The bytes of JSON that it holds."""
        return len(self.raw)


class StoredChange(msgspec.Struct, gc=False):
    """One event. `new` is the object after it or, for DELETED, its last state at the revision of the deletion."""

    revision: int
    type: str
    new: Stored
    old: Stored | None
    moment: float
    lines: dict[tuple[object, str], object] = {}  # encoded once for all watchers with the same view


class RevisionSnapshot(NamedTuple):
    """All objects of a resource at one revision, in key order."""

    keys: Sequence[str]
    items: Sequence[Stored]

    def within(self, namespace: str) -> RevisionSnapshot:
        """Return the objects of one namespace, or all for `""`."""
        if not namespace:
            return self
        start = bisect_left(self.keys, f"{namespace}/")
        end = bisect_left(self.keys, f"{namespace}0")  # "0" follows "/"
        return RevisionSnapshot(self.keys[start:end], self.items[start:end])

    def onwards(self, key: str) -> RevisionSnapshot:
        """Return the objects from a key on."""
        start = bisect_left(self.keys, key)
        return RevisionSnapshot(self.keys[start:], self.items[start:])


class Limits(NamedTuple):
    """The limits of a history: the most events and bytes, and seconds that count above the least number of events."""

    maximum: int = HISTORY_MAXIMUM
    minimum: int = HISTORY_MINIMUM
    seconds: float = HISTORY_SECONDS
    bytes: int = sys.maxsize


class Compacted(Exception):
    """The requested revision has been discarded."""


class StoredCollection:
    """The objects of one resource, their history, and their watchers."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self.name = name
        self.objects: dict[str, Stored] = {}
        self.history: deque[StoredChange] = deque()
        self.floor = storage.floor  # a watch from an older revision gets a 410
        self.undoable = storage.compacted  # oldest revision for past lists
        self.revision = 0  # revision of the last change
        self.watchers: dict[Callable[[StoredChange | StatusError | None], None], None] = {}
        self.is_bulk = False  # more changes follow in this step, so watchers gather them
        # The sorted keys at the last snapshot, and the keys added and removed since then. A write costs no search, and
        # the next list costs one pass. Snapshots share the list of keys, so it is never changed in place.
        self._sorted: list[str] = []
        self._fresh: dict[str, None] = {}
        self._gone: set[str] = set()
        self._current: RevisionSnapshot | None = None
        self._written: dict[str, tuple[Stored, Stored]] = {}  # objects whose current form differs from the written one
        self._past: OrderedDict[int, RevisionSnapshot] = OrderedDict()
        self._bytes = 0  # the bytes of the objects in the history

    def get(self, key: str) -> Stored | None:
        """Return the object with a key, or None."""
        return self.objects.get(key)

    def put(self, stored: Stored) -> StoredChange:
        """Store an object whose revision came from `Storage.next_revision`, and notify the watchers."""
        old = self.objects.get(stored.key)
        if old is None:
            self._note_added(stored.key)
        self.objects[stored.key] = stored
        return self._commit("ADDED" if old is None else "MODIFIED", stored, old)

    def load(self, stored: Stored) -> None:
        """Store a new object without history. For generated data, before any watch is open."""
        if stored.key not in self.objects:
            self._note_added(stored.key)
        self.objects[stored.key] = stored
        self.revision = self._storage.revision = stored.revision
        self.floor = self.undoable = stored.revision
        self._current = None

    def restart(
        self, objects: dict[str, Stored], sorted_: RevisionSnapshot, revision: int
    ) -> tuple[deque[StoredChange], dict[str, Stored]]:
        """Replace all objects, without the events that lead to them. Open watches get a 410, and so do older ones.

        Args:
            objects: The objects by key.
            sorted_: The same objects in key order.
            revision: Their revision.

        Returns:
            The old history and objects. To free many of them at once would stall the event loop.
        """
        self.end_watches(expired(f"too old resource version: {self.revision} ({revision})"))
        old = (self.history, self.objects)
        self.objects, self.history = objects, deque()
        self._sorted, self._fresh, self._gone = list(sorted_.keys), {}, set()
        self._current = sorted_
        self._past.clear()
        self._bytes = 0
        self.revision = self.floor = self.undoable = self._storage.revision = revision
        return old

    def read_anew(self, read: Callable[[Stored], Stored]) -> None:
        """Convert objects to a new form without changing their revisions, after their definition has changed.

        `read` is called with each object as written, and returns its new form, or the same object if that is
        unchanged. Watches must start again.
        """
        written: dict[str, tuple[Stored, Stored]] = {}
        for key, stored in self.objects.items():
            previous = self._written.get(key)
            original = previous[1] if previous is not None and previous[0] is stored else stored
            shown = self.objects[key] = read(original)
            if shown is not original:
                written[key] = (shown, original)
        self._written = written
        self._current = None
        self._past.clear()
        self.floor = self._storage.revision

    def remove(self, tombstone: Stored) -> StoredChange:
        """Remove an object. The tombstone is its last state with the revision of the deletion."""
        old = self.objects.pop(tombstone.key)
        if tombstone.key in self._fresh:
            del self._fresh[tombstone.key]
        else:
            self._gone.add(tombstone.key)
        return self._commit("DELETED", tombstone, old)

    def snapshot(self) -> RevisionSnapshot:
        """Return the current objects."""
        if self._current is None:
            self._sort()
            self._current = RevisionSnapshot(self._sorted, [self.objects[key] for key in self._sorted])
        return self._current

    def at(self, revision: int) -> RevisionSnapshot:
        """Return the objects at a past revision. Raises `Compacted` if the history does not reach back that far."""
        if revision < self.undoable:
            raise Compacted
        if revision >= self.revision:
            return self.snapshot()
        kept = self._past.get(revision)
        if kept is None:
            objects = self._objects_at(revision)
            keys = sorted(objects)
            kept = RevisionSnapshot(keys, [objects[key] for key in keys])
            self._keep(revision, kept)
        return kept

    def keep_snapshot(self, revision: int) -> None:
        """Keep the current list for later pages, so that they need not undo changes."""
        if revision >= self.revision:
            self._keep(revision, self.snapshot())

    def _keep(self, revision: int, snapshot: RevisionSnapshot) -> None:
        self._past[revision] = snapshot
        self._past.move_to_end(revision)
        if len(self._past) > SNAPSHOTS:
            self._past.popitem(last=False)

    def since(self, revision: int) -> Iterable[StoredChange]:
        """Return the changes after a revision, oldest first."""
        newer: list[StoredChange] = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            newer.append(change)
        return reversed(newer)

    def compact(self, revision: int) -> None:
        """Discard the changes up to a revision, and the lists before it. A watch that misses none of them may start."""
        while self.history and self.history[0].revision <= revision:
            self._drop_oldest()
        self.undoable = max(self.undoable, revision)
        self._past = OrderedDict((past, kept) for past, kept in self._past.items() if past >= revision)

    def _drop_oldest(self) -> None:
        oldest = self.history.popleft()
        self._bytes -= oldest.new.size
        self.floor = max(self.floor, oldest.revision)
        self.undoable = max(self.undoable, oldest.revision)

    def end_watches(self, error: StatusError | None = None) -> None:
        """End the open watches with an error, or cleanly, as a change of the CRD does."""
        for watcher in list(self.watchers):
            watcher(error)

    def rewind(self, revision: int) -> None:
        """Go back to a revision, and discard all later changes. Raises `Compacted`."""
        if revision < self.undoable and self.revision > revision:
            raise Compacted
        self.objects = self._objects_at(revision)
        while self.history and self.history[-1].revision > revision:
            self._bytes -= self.history.pop().new.size
        self._sorted, self._fresh, self._gone = sorted(self.objects), {}, set()
        self._current = None
        self._past.clear()
        self.revision = min(self.revision, revision)
        self.floor = min(self.floor, revision)

    def _objects_at(self, revision: int) -> dict[str, Stored]:
        objects = dict(self.objects)
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            if change.old is None:
                objects.pop(change.new.key, None)
            else:
                objects[change.new.key] = change.old
        return objects

    def _note_added(self, key: str) -> None:
        if key in self._gone:
            self._gone.discard(key)  # it was created again, and still has its place
        else:
            self._fresh[key] = None

    def _sort(self) -> None:
        if self._gone:
            self._sorted = [key for key in self._sorted if key not in self._gone]
        if self._fresh:
            self._sorted = [*self._sorted, *sorted(self._fresh)]
            self._sorted.sort()  # two sorted runs, so one pass
        self._fresh, self._gone = {}, set()

    def _commit(self, kind: str, new: Stored, old: Stored | None) -> StoredChange:
        now = time.monotonic()
        change = StoredChange(new.revision, kind, new, old, now, {})
        self.revision = self._storage.revision = new.revision
        self._current = None
        history = self.history
        history.append(change)
        self._bytes += new.size
        limits = self._storage.limits
        while history and (
            len(history) > limits.maximum
            or self._bytes > limits.bytes
            or (len(history) > limits.minimum and now - history[0].moment > limits.seconds)
        ):
            self._drop_oldest()
        for watcher in list(self.watchers):
            watcher(change)
        return change


class Storage:
    """All collections, and their shared revision. It starts at 1, as in etcd."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        self.limits = limits
        self.revision = 1
        self.compacted = 0
        self.floor = 0  # the floor of a resource that is not in use yet
        self.collections: dict[str, StoredCollection] = {}

    def next_revision(self) -> int:
        """Return the revision of the next write. It becomes current with `put` or `remove`."""
        return self.revision + 1

    def collection(self, name: str) -> StoredCollection:
        """Return the collection with this name, creating it on first use."""
        collection = self.collections.get(name)
        if collection is None:
            collection = self.collections[name] = StoredCollection(self, name)
        return collection

    def compact(self, revision: int) -> None:
        """Discard the changes up to a revision. Exact lists and continue tokens of earlier ones get a 410.

        So does a watch that would need a discarded change.
        """
        self.compacted = max(self.compacted, revision)
        for collection in self.collections.values():
            collection.compact(revision)

    def end_watches(self) -> None:
        """End all open watches cleanly."""
        for collection in self.collections.values():
            collection.end_watches()

    def raise_floors(self) -> None:
        """Raise all floors, as a restart does. Watches must start again, but past lists remain available."""
        self.floor = self.revision
        for collection in self.collections.values():
            collection.floor = self.revision

    def rewind(self, revisions: int) -> None:
        """Restore an older backup of etcd. Raises ValueError if the history does not reach back that far."""
        target = self.revision - revisions
        if revisions < 0 or target < 1:
            raise ValueError(f"cannot rewind {revisions} revisions from {self.revision}")
        if any(stored.revision > target and target < stored.undoable for stored in self.collections.values()):
            raise ValueError(f"the history that leads back to revision {target} is compacted")
        for collection in self.collections.values():
            collection.rewind(target)
        self.revision = target
        self.floor = min(self.floor, target)


class EventView(Protocol[T_co]):
    """Makes the lines of a watch. Views with equal `key` make equal lines.

    Attributes:
        form: "" for whole objects, "partial" for their metadata, or "table" for rows.
        key: Part of the key of the lines that watchers share.
    """

    form: str

    @property
    def key(self) -> object: ...
    def event(self, kind: str, stored: Stored, /, *, first: bool = False) -> T_co: ...
    def line(self, change: StoredChange, kind: str, stored: Stored, /) -> T_co: ...
    def moved(self, stored: Stored, revision: int, /) -> Stored: ...
    def bookmark(self, revision: int, /, *, initial_end: bool = False) -> T_co: ...
    def error(self, error: StatusError, /) -> T_co: ...


class BytesView(EventView[bytes], Protocol):
    """Encodes stored objects."""

    def item(self, stored: Stored, /) -> bytes: ...
    def frame(self, metadata: Mapping[str, object], /) -> tuple[bytes, bytes]: ...
