"""The caches that reconciles of a share read: informers, each on a source that is limited to the share."""

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
        """True if the cache holds everything in the current slots, or its resource is optional and absent."""
        if self.informer.optional and self.informer.health().state == "absent":
            return True
        applied: bool = core_of(self.informer).parts.lists_applied
        return self.source.settled and applied


class ShardCaches:
    """The cache of a share, and the caches of the objects that it owns.

    Args:
        source: The source of the sharded resource.
        informer: The informer on that source.
    """

    def __init__(self, source: ShardSource, informer: SharedInformer) -> None:
        self._caches = [_Cache(source, informer)]

    def add_owned(self, source: ShardSource, informer: SharedInformer) -> None:
        """Add the cache of an owned resource."""
        self._caches.append(_Cache(source, informer))

    @property
    def sources(self) -> tuple[ShardSource, ...]:
        """The sources, beginning with the sharded resource."""
        return tuple(cache.source for cache in self._caches)

    @property
    def informers(self) -> tuple[SharedInformer, ...]:
        """The informers, beginning with the sharded resource."""
        return tuple(cache.informer for cache in self._caches)

    @property
    def settled(self) -> bool:
        """True if all caches hold everything in the current slots, and none is still receiving a list of others."""
        return all(cache.settled for cache in self._caches)

    def set_slots(self, slots: Iterable[int]) -> None:
        """Limit the caches to these slots."""
        slots = frozenset(slots)
        for cache in self._caches:
            cache.source.set_slots(slots)

    def cached_uid(self, key: str) -> str | None:
        """Return the uid of the cached object of the sharded resource with this key, or None."""
        obj = self._caches[0].informer.indexer.get_by_key(key)
        return None if obj is None else obj.uid
