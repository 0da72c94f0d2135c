"""The ledger used by all writes: reads, stores and removes objects under new revisions, and notifies watchers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer.apiserver.storage import Storage, Stored, StoredCollection
from kinformer.testing.kinds.resources import Registry, ResourceType
from kinformer.testing.store.compaction import Compactor
from kinformer.testing.store.forms import decode_stored, to_stored, with_revision

__all__ = ["Ledger", "WriteResult", "managers_of", "same_content", "spec_differs"]

Object = dict[str, Any]


@dataclass(slots=True)
class WriteResult:
    """The object after a write. `created` is True for a 201. `status` is set if the response is a Status instead."""

    stored: Stored
    created: bool = False
    status: Object | None = None
    warnings: tuple[str, ...] = ()
    obj: Object | None = None  # the same object as a dict, exclusively owned


class Ledger:
    """Storage with a clock and listeners.

    `on_change` functions are called with (resource, old, new) synchronously on every write, in order. `new` is None
    for a deletion. They may write too. `on_rewind` functions are called after the server went back in time. The parts
    of the server append their own when they are made, and controllers while they run.
    """

    def __init__(self, storage: Storage, registry: Registry, clock: Clock = SYSTEM) -> None:
        self.storage = storage
        self.registry = registry
        self._clock = clock
        self._stamped = (-1, "")  # the second of the last timestamp, and that timestamp
        self.compactor = Compactor(storage)
        self.on_change: list[Callable[[ResourceType, Object | None, Object | None], None]] = []
        self.on_rewind: list[Callable[[], None]] = [self.compactor.rewound]

    def collection(self, resource: ResourceType) -> StoredCollection:
        """Return the collection that stores objects of a kind."""
        return self.storage.collection(resource.storage_name)

    def stored(self, resource: ResourceType, namespace: str, name: str) -> Stored:
        """Return an object. Raises a 404 `StatusError`."""
        stored = self.collection(resource).get(resource.key(namespace, name))
        if stored is None:
            raise resource.not_found(name)
        return stored

    def wall(self) -> float:
        """Return the seconds since 1970."""
        return self._clock.wall()

    def read(self, resource: ResourceType, stored: Stored) -> Object:
        """Decode a stored object into a new dict."""
        return decode_stored(resource, stored)

    def timestamp(self, later: float = 0) -> str:
        """Return a timestamp for metadata, some seconds from now, in whole seconds and UTC."""
        second = int(self._clock.wall() + later)
        if second != self._stamped[0]:  # many writes occur in the same second
            timestamp = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            if later:
                return timestamp
            self._stamped = (second, timestamp)
        return self._stamped[1]

    def save(
        self, resource: ResourceType, old: Object | None, obj: Object, *, dry_run: bool = False, preview: bool = False
    ) -> Stored:
        """Store an object under the next revision.

        A dry run only returns the result, without a resourceVersion if the object is new. A preview returns the result
        with its resourceVersion unchanged.
        """
        metadata = obj["metadata"]
        if preview:
            return to_stored(resource, _as_stored(resource, obj))
        if dry_run:
            if old is None:
                metadata.pop("resourceVersion", None)
            return to_stored(resource, _as_stored(resource, obj))
        metadata["resourceVersion"] = str(self.storage.next_revision())
        stored = to_stored(resource, _as_stored(resource, obj))
        self.compactor.add(self.collection(resource).put(stored))
        self._notify(resource, old, obj)
        return stored

    def remove(self, resource: ResourceType, obj: Object, *, dry_run: bool = False) -> tuple[Stored, Stored]:
        """Remove an object whose last state is `obj`.

        Returns that state, before and at the revision of the deletion.
        """
        last = to_stored(resource, _as_stored(resource, obj))
        collection = self.collection(resource)
        if dry_run or last.key not in collection.objects:
            return last, last
        tombstone = with_revision(resource, last, self.storage.next_revision())
        self.compactor.add(collection.remove(tombstone))
        self._notify(resource, obj, None)
        return last, tombstone

    def _notify(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        for listener in self.on_change:
            listener(resource, old, new)


def _as_stored(resource: ResourceType, obj: Object) -> Object:
    if resource.is_storage:
        return obj
    obj = dict(obj)
    if resource.to_storage is not None:
        obj = resource.to_storage(obj)
    obj["apiVersion"] = resource.storage_version
    return obj


def managers_of(obj: Object) -> list[Any]:
    """Return managedFields without their times."""
    return [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in obj["metadata"].get("managedFields") or []
    ]


def _without(metadata: Object) -> Object:
    return {
        name: value
        for name, value in metadata.items()
        if name not in ("managedFields", "resourceVersion") and value not in (None, {}, [])
    }


def same_content(old: Object, new: Object) -> bool:
    """Return True if a write would change only resourceVersion and managedFields."""
    return _without(old["metadata"]) == _without(new["metadata"]) and _rest(old, ()) == _rest(new, ())


def _rest(obj: Object, left_out: tuple[str, ...]) -> Object:
    return {name: value for name, value in obj.items() if name != "metadata" and name not in left_out}


def spec_differs(resource: ResourceType, old: Object, new: Object) -> bool:
    """Return True if the write increments the generation."""
    # With a status subresource, everything except status counts. Without it, everything counts.
    left_out = ("status",) if resource.has_status or resource.builtin else ()
    if resource.plural == "endpointslices" and old["metadata"].get("labels") != new["metadata"].get("labels"):
        return True  # discovery/endpointslice/strategy.go includes labels
    if resource.plural == "deployments" and old["metadata"].get("annotations") != new["metadata"].get("annotations"):
        return True  # apps/deployment/strategy.go includes annotations
    return _rest(old, left_out) != _rest(new, left_out)
