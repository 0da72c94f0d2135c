"""The caches that reconciles of a share read: informers, each on a source that is cut down to the share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kinformer.informer.collection import core_of
from kinformer.informer.informer import SharedInformer
from kinformer.sharding.source import ShardSource

__all__ = ["ShardCaches"]


class _Cache(NamedTuple):
    source: ShardSource
    informer: SharedInformer

    @property
    def settled(self) -> bool:
        """True if the cache holds everything in the slots of now, or will never hold anything."""
        if self.informer.optional and self.informer.health().state == "absent":
            return True
        applied: bool = core_of(self.informer).parts.lists_applied
        return self.source.settled and applied


class ShardCaches:
    """The cache of a share, and the caches of the objects that it owns.

    Args:
        source: Of the sharded resource.
        informer: On that source.
    """

    def __init__(self, source: ShardSource, informer: SharedInformer) -> None:
        self._caches = [_Cache(source, informer)]

    def add_owned(self, source: ShardSource, informer: SharedInformer) -> None:
        """Add the cache of an owned resource."""
        self._caches.append(_Cache(source, informer))

    @property
    def sources(self) -> tuple[ShardSource, ...]:
        """The sources, that of the sharded resource first."""
        return tuple(cache.source for cache in self._caches)

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers, that of the sharded resource first."""
        return tuple(cache.informer for cache in self._caches)

    @property
    def settled(self) -> bool:
        """True if all caches hold everything in the slots of now, and no list of other slots is on its way into one."""
        return all(cache.settled for cache in self._caches)

    def set_slots(self, slots: Iterable[int]) -> None:
        """Cut the caches down to these slots."""
        slots = frozenset(slots)
        for cache in self._caches:
            cache.source.set_slots(slots)

    def cached_uid(self, key: str) -> str | None:
        """Return the uid of the object of the sharded resource under a key; None if there is none."""
        obj = self._caches[0].informer.indexer.get_by_key(key)
        return None if obj is None else obj.uid
