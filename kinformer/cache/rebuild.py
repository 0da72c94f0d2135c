"""The next state of a cache, built while readers use the current one.

A relist delivers the whole state again, most of it unchanged. So a rebuild starts with the dicts of the current state,
copies each dict before its first change, and finally replaces the state in one step. An unchanged object costs one
lookup: no index function is called for it, and nothing is copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, NamedTuple

from kinformer.cache.index import Index, IndexFork
from kinformer.cache.label_groups import LabelGroups, LabelGroupsFork
from kinformer.cache.namespace_index import NamespaceIndex
from kinformer.cache.store import PARTITIONS, Objects, Partitions, StoreState
from kinformer.objects.object import KubeObject, force_setattr
from kinformer.objects.types import ObjectT

__all__ = ["IndexerRebuild", "IndexerState", "Next"]


# The number of objects that one step of a sweep removes. Each removal may be the first change of a bucket, and copy it.
_STEP = 32

_ENDED = "this rebuild has been committed or discarded"


class IndexerState(StoreState[ObjectT]):
    """The state of an indexer. A read takes it once, so its result is consistent.

    Attributes:
        indexes: Name -> the index in which the writer files objects. The dict is never changed.
        reads: Name -> the index in which readers find objects.
        groups: The label groups of the objects.
    """

    __slots__ = ("groups", "indexes", "reads")

    def __init__(
        self, partitions: Partitions[ObjectT], indexes: Mapping[str, Index[ObjectT]], groups: LabelGroups[ObjectT]
    ) -> None:
        super().__init__(partitions)
        self.indexes = indexes
        self.reads: Mapping[str, Index[ObjectT] | NamespaceIndex[ObjectT]] = {
            name: index if index.function.files_objects else NamespaceIndex(index, groups, partitions)
            for name, index in indexes.items()
        }
        self.groups = groups


class Next(NamedTuple, Generic[ObjectT]):
    """The parts of the next state. `indexes` maps each index to its replacement."""

    partitions: Partitions[ObjectT]
    groups: LabelGroups[ObjectT]
    indexes: Mapping[Index[ObjectT], Index[ObjectT]]


class IndexerRebuild(Generic[ObjectT]):
    """The next state of an indexer, created by `Indexer.rebuild`: `add` every existing object, then `commit`.

    Readers see the complete old state until `commit` has returned. Between the calls the event loop may do anything
    except write to the indexer, which raises RuntimeError while a rebuild is open.

    ::

        rebuild = indexer.rebuild()
        for obj in objects:                     # in slices of some milliseconds
            rebuild.add(obj)
        for gone in rebuild.sweep():            # in slices too
            ...
        for _ in rebuild.commit():              # one step, and then slices, in which the old objects are freed
            ...
    """

    def __init__(
        self,
        state: IndexerState[ObjectT],
        indexes: Iterable[Index[ObjectT]],
        *,
        key_of: Callable[[ObjectT], str],
        namespace: str | None,
        close: Callable[[Next[ObjectT] | None], None],
    ) -> None:
        # All of this is the rebuild's own, until `commit` hands it to the indexer. `_forget` lets go of it at the end.
        self._base = state.partitions
        self._partitions = state.partitions.copy()
        self._own = bytearray(PARTITIONS)
        # The keys that are in both states. Dicts, because the garbage collector scans sets, which takes 10 ms.
        self._seen: list[dict[str, None]] = [{} for _ in range(PARTITIONS)]
        self._swept = 0
        self._indexes: list[IndexFork[ObjectT]] = []
        self._written: list[IndexFork[ObjectT]] = []  # the indexes that file a KubeObject
        for index in indexes:
            self._follow(IndexFork(index))
        self._groups = LabelGroupsFork(state.groups)
        self._key_of = key_of
        self._prefix = None if namespace is None else f"{namespace}/"
        self._close = close
        self._open = True

    def add(self, obj: ObjectT) -> ObjectT | None:
        """Put an object into the new state, as `put` does, under the key that the key function returns.

        Raises:
            KeyFuncError: The object has no key. It is left out.
            RuntimeError: The rebuild has ended.
        """
        if not self._open:
            raise RuntimeError(_ENDED)
        return self.put(self._key_of(obj), obj)

    def put(self, key: str, obj: ObjectT) -> ObjectT | None:
        """Put an object into the new state, under a known key. This takes under a microsecond if it has not changed.

        If the stored object has the same uid and resourceVersion, it is kept, so that there is no second copy. Of
        objects with the same key the last one counts.

        Returns:
            The object that was stored under the key (and still is, if `obj` equals it), or None.

        Raises:
            RuntimeError: The rebuild has ended.
        """
        if not self._open:
            raise RuntimeError(_ENDED)
        number = hash(key) & 63
        partition = self._partitions[number]
        old = partition.get(key)
        indexes = self._written if isinstance(obj, KubeObject) else self._indexes
        if old is not None:
            if not self._own[number] or key in self._base[number]:
                self._seen[number][key] = None
            if old is obj:
                return old
            if not isinstance(old, KubeObject):
                indexes = self._indexes
            elif isinstance(obj, KubeObject):
                if old == obj:
                    return old
                if obj.key == old.key:
                    force_setattr(obj, "key", key := old.key)  # as in `Indexer.advance`
        if not self._own[number]:
            partition = self._own_partition(number)
        partition[key] = obj
        for index in indexes:
            index.put(number, key, obj)
        self._groups.put(key, old, obj)
        return old

    def sweep(self) -> Iterator[Objects[ObjectT]]:
        """Remove the objects that were not added, in steps. Each step yields the removed objects, often none.

        Call it after all `add`s. A step scans at most a 256th of the cache, and removes at most 32 objects. `commit`
        does the remaining steps at once, which is fine for a few thousand objects.
        """
        while self._swept < PARTITIONS:
            number = self._swept
            if len(self._base[number]) == len(self._seen[number]):  # all objects were added again
                self._swept += 1
                continue
            gone: Objects[ObjectT] = []
            for key in self._unseen(number):
                old = self._own_partition(number).pop(key)
                for index in self._indexes:
                    index.remove(number, key)
                self._groups.remove(key, old)
                gone.append(old)
                if len(gone) == _STEP:
                    yield gone
                    if self._swept == PARTITIONS:
                        return  # committed or discarded in the meantime
                    gone = []
            self._swept += 1
            yield gone

    def commit(self) -> Iterator[None]:
        """Make the new state visible to readers, in one step that takes microseconds.

        Returns:
            An iterator that frees the old state in steps. Freeing many objects takes time, so a caller that must not
            stall the event loop takes the steps one by one. Dropping the iterator frees everything at once.

        Raises:
            RuntimeError: The rebuild has ended.
        """
        if not self._open:
            raise RuntimeError(_ENDED)
        for _ in self.sweep():
            pass
        settled = {fork.origin: fork.settled() for fork in self._indexes}
        self._close(Next(self._partitions, self._groups.settled(), settled))
        replaced = (self._base[number] for number in range(PARTITIONS) if self._own[number])
        old: deque[object] = deque(chain(replaced, filter(None, self._seen)))
        # The objects are freed with their partitions, so tables that merely refer to them come first.
        releases = [*(fork.release() for fork in self._indexes), self._groups.release(), _drop(old)]
        self._forget()
        return chain.from_iterable(releases)

    def discard(self) -> None:
        """Drop the new state. The old one is unchanged. Does nothing after a `commit` or `discard`."""
        if self._open:
            self._close(None)
            self._forget()

    def include(self, index: Index[ObjectT]) -> None:
        """Include an index that was added to the cache during the rebuild, and that has the old state."""
        fork = IndexFork(index)
        for number in range(PARTITIONS):
            if not self._own[number]:
                continue
            before, after = self._base[number], self._partitions[number]
            for key, obj in after.items():
                if before.get(key) is not obj:
                    fork.put(number, key, obj)
            for key in before.keys() - after.keys():
                fork.remove(number, key)
        self._follow(fork)

    def _follow(self, fork: IndexFork[ObjectT]) -> None:
        self._indexes.append(fork)
        if fork.function.files_objects:
            self._written.append(fork)

    def _own_partition(self, number: int) -> dict[str, ObjectT]:
        if not self._own[number]:
            self._own[number] = 1
            self._partitions[number] = self._partitions[number].copy()
        return self._partitions[number]

    def _unseen(self, number: int) -> list[str]:
        """Return the keys of one partition of the old state that were not added again."""
        keys, seen, left = self._base[number], self._seen[number], self._partitions[number]
        prefix = self._prefix or ""
        return [key for key in keys if key not in seen and key.startswith(prefix) and key in left]

    def _forget(self) -> None:
        # A caller that keeps a reference to this rebuild must not keep either state alive.
        self._open = False
        self._swept = PARTITIONS
        self._base, self._partitions, self._seen = [], [], []
        self._indexes, self._written = [], []
        self._groups = LabelGroupsFork(LabelGroups())


def _drop(parts: deque[object]) -> Iterator[None]:
    while parts:
        parts.popleft()
        yield
