"""The next state of a cache, built beside the one that is read.

A relist brings the whole state again, most of it unchanged. So a rebuild starts as the state there is, shares its
dicts, copies each of them before its first change, and at the end becomes the state in one step. What has not changed
costs one look-up; no index function is run for it, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kinformer.cache.index import Index, IndexFork
from kinformer.cache.label_groups import LabelGroups, LabelGroupsFork
from kinformer.cache.store import SHARDS, Objects, Shards
from kinformer.objects.object import KubeObject

__all__ = ["IndexerRebuild"]

# Objects that leave in one step of a sweep: each may be the first of its bucket, which is copied then.
_STEP = 32


class IndexerRebuild:
    """What `Indexer.rebuild` gives: `add` every object that there is, then `commit`.

    Readers see the old state, whole, until `commit` has returned. Between the calls the loop may do anything but
    write to the indexer, which raises RuntimeError while a rebuild is open.

    ::

        rebuild = indexer.rebuild()
        for obj in objects:                     # in slices of some milliseconds
            rebuild.add(obj)
        for gone in rebuild.sweep():            # in slices too
            ...
        garbage = rebuild.commit()              # one step
        while garbage:                          # in slices: this is what frees the old objects
            garbage.pop()
    """

    def __init__(
        self,
        shards: Shards,
        indexes: tuple[Index, ...],
        groups: LabelGroups,
        *,
        key_of: Callable[[Any], str],
        namespace: str | None,
        mixed: Callable[[], None],
        close: Callable[[Shards | None], None],
    ) -> None:
        self._base: Shards = shards
        self._shards: Shards = shards.copy()
        self._own = bytearray(SHARDS)
        # No sets: a collection looks through those, which takes 10 ms.
        self._seen: list[dict[str, None]] = [{} for _ in range(SHARDS)]
        self._swept = 0
        self._indexes = [IndexFork(index) for index in indexes]
        self._groups = LabelGroupsFork(groups)
        self._key_of = key_of
        self._prefix = None if namespace is None else f"{namespace}/"
        self._mixed = mixed
        self._close = close
        self._open = True

    def add(self, obj: Any) -> Any:
        """Put an object into the new state: under a microsecond where it has not changed.

        An object of the same uid and resourceVersion as the one there is keeps that one, so that no second copy
        stays. Of objects with the same key the last one counts.

        Returns:
            What is (or was, where `obj` differs) there under its key, or None.

        Raises:
            KeyFuncError: there is no key for it; it is left out.
            RuntimeError: the rebuild has ended.
        """
        if not self._open:
            raise RuntimeError("this rebuild has been committed or discarded")
        key = self._key_of(obj)
        shard = hash(key) & 255
        self._seen[shard][key] = None
        old = self._shards[shard].get(key)
        if old is obj and old is not None:
            return old
        if not isinstance(obj, KubeObject):
            self._mixed()
        elif isinstance(old, KubeObject) and old == obj:
            return old
        self._own_shard(shard)[key] = obj
        for index in self._indexes:
            index.put(shard, key, obj)
        self._groups.put(key, old, obj)
        return old

    def sweep(self) -> Iterator[Objects]:
        """Take out what was not added, step by step: each step gives the objects that leave, often none.

        After all `add`s. A step looks at no more than a 256th of the cache, and takes out no more than 32 objects.
        `commit` does what is left of it at once, which is fine for a few thousand objects.
        """
        while self._swept < SHARDS:
            shard = self._swept
            gone: Objects = []
            for key in self._unseen(shard):
                old = self._own_shard(shard).pop(key)
                for index in self._indexes:
                    index.remove(shard, key)
                self._groups.remove(key, old)
                gone.append(old)
                if len(gone) == _STEP:
                    yield gone
                    if self._swept == SHARDS:
                        return  # committed or discarded meanwhile
                    gone = []
            self._swept += 1
            yield gone

    def commit(self) -> list[Any]:
        """Make the new state the one that is read, in one step.

        Returns:
            The dicts (and other pieces) of the old state that are no longer needed. Freeing many objects takes time:
            who must not stall a loop pops them one by one.

        Raises:
            RuntimeError: the rebuild has ended.
        """
        if not self._open:
            raise RuntimeError("this rebuild has been committed or discarded")
        for _ in self.sweep():
            pass
        garbage: list[Any] = [self._base[shard] for shard in range(SHARDS) if self._own[shard]]
        self._close(self._shards)
        # Buckets last, hence popped first: they only count down, and each old object is then freed with its shard.
        for index in self._indexes:
            garbage += index.merge()
        garbage += self._groups.merge()
        garbage += self._seen
        self._forget()
        return garbage

    def discard(self) -> None:
        """Forget the new state; the old one has not been touched. After a `commit` or `discard`: nothing."""
        if self._open:
            self._close(None)
            self._forget()

    def include(self, index: Index) -> None:
        """An index has been added to the cache meanwhile, with the old state in it: let it follow."""
        fork = IndexFork(index)
        for shard in range(SHARDS):
            if not self._own[shard]:
                continue
            before, after = self._base[shard], self._shards[shard]
            for key, obj in after.items():
                if before.get(key) is not obj:
                    fork.put(shard, key, obj)
            for key in before.keys() - after.keys():
                fork.remove(shard, key)
        self._indexes.append(fork)

    def _own_shard(self, shard: int) -> dict[str, Any]:
        if not self._own[shard]:
            self._own[shard] = 1
            self._shards[shard] = self._shards[shard].copy()
        return self._shards[shard]

    def _unseen(self, shard: int) -> list[str]:
        keys, seen = self._shards[shard], self._seen[shard]
        if len(keys) == len(seen):  # what was seen is there
            return []
        if self._prefix is None:
            return [key for key in keys if key not in seen]
        return [key for key in keys if key.startswith(self._prefix) and key not in seen]

    def _forget(self) -> None:
        # Whoever still holds this rebuild holds neither state.
        self._open = False
        self._swept = SHARDS
        self._base, self._shards, self._seen, self._indexes = [], [], [], []
        self._groups = LabelGroupsFork(LabelGroups())
