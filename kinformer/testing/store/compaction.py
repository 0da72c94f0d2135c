"""Compaction: the history of a server reaches back five to ten minutes, as with etcd, or less if it is large."""

from __future__ import annotations

import asyncio
from collections import deque

from kinformer.apiserver.storage import Storage, StoredChange

__all__ = ["Compactor"]

INTERVAL = 300.0  # seconds (kube-apiserver, --etcd-compaction-interval)
MOST = 32 << 20  # bytes of the history, unless there are more objects than changes in it
_LESS = 24 << 20  # bytes that are left when there were too many
_EACH = 700  # bytes of a change, besides the JSON of its object and of its line


class Compactor:
    """Compacts the history of a storage at each write and request, so it needs no task, and no timer.

    Every five minutes it discards the changes up to the revision of five minutes before
    (storage/etcd3/compact.go). A history that takes more than 32 MB is compacted earlier, unless it has fewer changes
    than there are objects: then it takes no more memory than these.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._noted: tuple[float, int] | None = None  # the last time, and the revision at that time
        self._costs: deque[tuple[int, int]] = deque()  # revisions, and the bytes that their changes take
        self._bytes = 0

    def add(self, change: StoredChange) -> None:
        """Count a change, and compact."""
        cost = 2 * change.new.size + _EACH
        self._costs.append((change.revision, cost))
        self._bytes += cost
        if self._bytes > MOST:
            self._compact_largest()
        self._compact_oldest(change.revision - 1)

    def look(self) -> None:
        """Compact, before a request."""
        self._compact_oldest(self._storage.revision)

    def _compact_oldest(self, newest: int) -> None:
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:
            return  # a server that no event loop runs has no time
        before, revision = self._noted = self._noted or (now, newest)
        if now - before >= INTERVAL:
            self._noted = (now, newest)
            # Without a call for two intervals, there was no write in the second one.
            self._storage.compact(newest if now - before >= 2 * INTERVAL else min(revision, newest))

    def _compact_largest(self) -> None:
        least = sum(len(collection.objects) for collection in self._storage.collections.values())
        revision = 0
        while self._bytes > _LESS and len(self._costs) > least:
            revision, cost = self._costs.popleft()
            self._bytes -= cost
        if revision:
            self._storage.compact(revision)

    def rewound(self) -> None:
        """Forget the changes that the server went back behind."""
        while self._costs and self._costs[-1][0] > self._storage.revision:
            self._bytes -= self._costs.pop()[1]
