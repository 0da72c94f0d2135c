"""The next state of a cache, built beside the one that is read.

A relist delivers the whole state again, most of it unchanged. So a rebuild starts as the current state, shares its
dicts, copies each of them before its first change, and at the end becomes the state in one step. An object that has not
changed costs one lookup; no index function is called for it, and nothing is copied.
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


# Objects that one step of a sweep removes: each may be the first of its bucket to change, which is copied then.
_STEP = 32

_ENDED = "this rebuild has been committed or discarded"


class IndexerState(StoreState[ObjectT]):
    """The state of an indexer that a read sees: a read takes it once, and so is of one moment.

    Attributes:
        indexes: By name, as the writer files objects. The dict is never changed.
        reads: By name, as readers find objects.
        groups: The groups of the objects.
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
    """The parts of the next state; `indexes` maps each index to the one that takes its place."""

    partitions: Partitions[ObjectT]
    groups: LabelGroups[ObjectT]
    indexes: Mapping[Index[ObjectT], Index[ObjectT]]


class IndexerRebuild(Generic[ObjectT]):
    """The next state of an indexer, made by `Indexer.rebuild`: `add` every object that there is, then `commit`.

    Readers see the old state, whole, until `commit` has returned. Between the calls the event loop may do anything
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
        self._base = state.partitions
        self._partitions = state.partitions.copy()
        self._own = bytearray(PARTITIONS)
        # The keys of the old state that are in the new one too. No sets: a collection scans those, which takes 10 ms.
        self._seen: list[dict[str, None]] = [{} for _ in range(PARTITIONS)]
        self._swept = 0
        self._indexes: list[IndexFork[ObjectT]] = []
        self._written: list[IndexFork[ObjectT]] = []  # those that file a KubeObject
        for index in indexes:
            self._follow(IndexFork(index))
        self._groups = LabelGroupsFork(state.groups)
        self._key_of = key_of
        self._prefix = None if namespace is None else f"{namespace}/"
        self._close = close
        self._open = True

    def add(self, obj: ObjectT) -> ObjectT | None:
        """Put an object into the new state, under the key that the cache gives it; see `put`.

        Raises:
            KeyFuncError: It has no key; it is left out.
            RuntimeError: The rebuild has ended.
        """
        if not self._open:
            raise RuntimeError(_ENDED)
        return self.put(self._key_of(obj), obj)

    def put(self, key: str, obj: ObjectT) -> ObjectT | None:
        """Put an object into the new state, under a known key: less than a microsecond if it has not changed.

        An object of the same uid and resourceVersion as the stored one keeps that one, so that there is no second copy.
        Of objects with the same key the last one counts.

        Returns:
            The object that is stored under its key (or was, if `obj` differs), or None.

        Raises:
            RuntimeError: The rebuild has ended.
        """
        if not self._open:
            raise RuntimeError(_ENDED)
        number = hash(key) & 255
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
        """Remove the objects that were not added, step by step; each step yields the objects that leave, often none.

        To be called after all `add`s. A step scans no more than a 256th of the cache, and removes no more than 32
        objects. `commit` does at once what is left of it, which is fine for a few thousand objects.
        """
        while self._swept < PARTITIONS:
            number = self._swept
            if len(self._base[number]) == len(self._seen[number]):  # everything was seen
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
                        return  # committed or discarded meanwhile
                    gone = []
            self._swept += 1
            yield gone

    def commit(self) -> Iterator[None]:
        """Make the new state the one that is read, in one step that takes microseconds.

        Returns:
            The steps in which the old state is freed. Freeing many objects takes time: a caller that must not stall the
            event loop takes them one by one. They may be dropped, which frees everything at once.

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
        # The objects go with their partitions, so what merely refers to them goes before.
        releases = [*(fork.release() for fork in self._indexes), self._groups.release(), _drop(old)]
        self._forget()
        return chain.from_iterable(releases)

    def discard(self) -> None:
        """Drop the new state; the old one has not been touched. Does nothing after a `commit` or `discard`."""
        if self._open:
            self._close(None)
            self._forget()

    def include(self, index: Index[ObjectT]) -> None:
        """Follow an index that was added to the cache meanwhile, with the old state in it."""
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
        """Return the keys of one partition that were there before, and were not added again."""
        keys, seen, left = self._base[number], self._seen[number], self._partitions[number]
        prefix = self._prefix or ""
        return [key for key in keys if key not in seen and key.startswith(prefix) and key in left]

    def _forget(self) -> None:
        # A caller that keeps this rebuild keeps neither state.
        self._open = False
        self._swept = PARTITIONS
        self._base, self._partitions, self._seen = [], [], []
        self._indexes, self._written = [], []
        self._groups = LabelGroupsFork(LabelGroups())


def _drop(parts: deque[object]) -> Iterator[None]:
    while parts:
        parts.popleft()
        yield
