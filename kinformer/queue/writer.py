"""The door between a reflector and the queue: the store that the reflector of an informer writes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kinformer.cache.indexer import Indexer
from kinformer.list_watcher import WatchEvent
from kinformer.objects.object import KubeObject
from kinformer.objects.packed import as_entry
from kinformer.queue.delta import DeltaType
from kinformer.queue.delta_fifo import DeltaFIFO

__all__ = ["QueueWriter"]

ADDED, UPDATED, DELETED = DeltaType.ADDED, DeltaType.UPDATED, DeltaType.DELETED  # a member of an enum takes 30 ns


class QueueWriter:
    """What one reflector writes to: everything goes into the queue, single objects as `KubeObject`.

    `resource_version` is the newest that went in. The processor reads it in the step in which it takes
    the whole queue, so that it knows what the cache holds once it has applied that. `lists` is how many full lists went
    in.

    Args:
        fifo: The informer's queue, with `atomic=True`.
        cache: What the processor has applied; read only, for `known`.
        namespace: The namespace of this reflector where the informer has several, else None.
    """

    __slots__ = ("_cache", "_fifo", "lists", "namespace", "resource_version")

    takes_chunks = True

    def __init__(self, fifo: DeltaFIFO, cache: Indexer, namespace: str | None = None) -> None:
        self._fifo = fifo
        self._cache = cache
        self.namespace = namespace
        self.resource_version = ""
        self.lists = 0

    def write(self, events: Sequence[WatchEvent]) -> int:
        """Queue events of a watch, as `add`, `update` and `delete` do, up to the first that says something else.

        Returns how many it has queued.
        """
        written = self._fifo.put_events(events)
        if written:
            self.resource_version = events[written - 1].object.resource_version
        return written

    def add(self, obj: Any) -> None:
        """Queue an object that is new to the source."""
        entry = obj if type(obj) is KubeObject else as_entry(obj)
        self.resource_version = entry.resource_version
        self._fifo.put(entry.key, ADDED, entry)

    def update(self, obj: Any) -> None:
        """Queue a newer state of an object."""
        entry = obj if type(obj) is KubeObject else as_entry(obj)
        self.resource_version = entry.resource_version
        self._fifo.put(entry.key, UPDATED, entry)

    def delete(self, obj: Any) -> None:
        """Queue the last state of an object that is gone."""
        entry = obj if type(obj) is KubeObject else as_entry(obj)
        self.resource_version = entry.resource_version
        self._fifo.put(entry.key, DELETED, entry)

    def replace(self, items: Iterable[Any], resource_version: str) -> None:
        """Queue a full list as one delta; it is the queue's from here on.

        Nothing looks at its objects here: at 100,000 of them that would stall the loop. The processor makes
        entries of them, in slices.
        """
        self.resource_version = resource_version
        self.lists += 1
        self._fifo.replace(items, resource_version, namespace=self.namespace, copy=False)

    def resync(self) -> None:
        """Queue a replay of the cache as one delta."""
        self._fifo.resync()

    def bookmark(self, resource_version: str) -> None:
        """The source has nothing newer up to `resource_version`."""
        self.resource_version = resource_version
        self._fifo.bookmark(resource_version, namespace=self.namespace)

    def known(self, key: str) -> KubeObject | None:
        """What the cache holds under `key`, so that a relist need not hold a second copy of it."""
        found: KubeObject | None = self._cache.get_by_key(key)
        return found
