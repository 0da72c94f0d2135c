"""The indexer: a store with named indexes, whose state a relist replaces in one step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias

from kinformer._runtime.clock import YieldBudget
from kinformer.cache.exclusion import exclusive
from kinformer.cache.index import Index, IndexFunc
from kinformer.cache.label_groups import NO_LABELS, LabelGroups, Matches, filter_by_labels
from kinformer.cache.namespace_index import NAMESPACE_INDEX, NamespaceIndex, index_function
from kinformer.cache.rebuild import IndexerRebuild, IndexerState, Next
from kinformer.cache.store import (
    PARTITIONS,
    Keys,
    Objects,
    Partitions,
    Store,
    items_of,
    new_partitions,
    object_key,
    objects_of,
)
from kinformer.exceptions import IndexNotFoundError
from kinformer.objects.meta import meta_namespace_key
from kinformer.objects.object import KubeObject, force_setattr
from kinformer.objects.types import ObjectT

__all__ = ["Indexer", "Indexers", "is_newer"]

Indexers: TypeAlias = Mapping[str, IndexFunc[ObjectT] | str]


class Indexer(Store[ObjectT]):
    """A store that also finds objects by the values of index functions, and by their labels.

    An index function may return any number of values for an object. An object without values is not in that index. The
    empty string is a value like any other. If the function raises, or returns anything but strings, the object is
    stored but left out of that index. This is counted in `index_errors`, and logged once per index and key.

    As in `Store`, reads are snapshots and may come from any thread, and writes come from one thread. A change is in the
    store and in all indexes before the write returns. An update costs about half a microsecond, as much again for each
    index, and the time of the index functions. (client-go, tools/cache/index.go)

    Args:
        key_func: Returns the key of an object. Default: `meta_namespace_key`.
        indexers: Name -> function (object -> values), or a JSON path such as `"spec.nodeName"`. No index is built in:
            for the index by namespace pass `{NAMESPACE_INDEX: meta_namespace_index_func}`.

    Raises:
        ConfigError: A path does not parse.
    """

    _state: IndexerState[ObjectT]

    def __init__(
        self, key_func: Callable[[ObjectT], str] = meta_namespace_key, indexers: Indexers[ObjectT] | None = None
    ) -> None:
        super().__init__(key_func)
        # Writes change it in place. A rebuild or a new index replaces it. All other attributes are the writer's own.
        self._state = IndexerState(new_partitions(), {}, LabelGroups())
        self._building: dict[str, Index[ObjectT]] = {}
        # All indexes, and the ones that file a KubeObject: the index by namespace leaves these to the label groups.
        self._all: tuple[Index[ObjectT], ...] = ()
        self._written: tuple[Index[ObjectT], ...] = ()
        self._calls_functions = False
        self._rebuild: IndexerRebuild[ObjectT] | None = None
        self._settled = asyncio.Event()  # set while no rebuild is open
        self._settled.set()
        self._build_lock = asyncio.Lock()
        self._past_errors = 0  # errors of cancelled builds
        self.add_indexers(indexers or {})

    # --- writes ------------------------------------------------------------------------------

    @exclusive
    def put(self, key: str, obj: ObjectT) -> ObjectT | None:
        """Store an object under a known key, and return the object that it replaces, or None.

        Raises:
            RuntimeError: A rebuild is open.

        :meta private:
        """
        if self._rebuild is not None:
            raise _open_rebuild()
        number = hash(key) & 63
        state = self._state
        partition = state.partitions[number]
        old = partition.get(key)
        partition[key] = obj
        plain = isinstance(obj, KubeObject) and (old is None or isinstance(old, KubeObject))
        for index in self._written if plain else self._all:
            index.put(number, key, obj)
        state.groups.put(key, old, obj)
        return old

    @exclusive
    def advance(self: Indexer[KubeObject], key: str, obj: KubeObject) -> KubeObject | None:
        """Store `obj` if it is newer than the stored object (`is_newer`). Otherwise do nothing, and return `obj`.

        If it was stored, return the object that it replaced, or None. This is the hot path of a watch: one lookup.

        Raises:
            RuntimeError: A rebuild is open.

        :meta private:
        """
        number = hash(key) & 63
        state = self._state
        partition = state.partitions[number]
        old = partition.get(key)
        if type(old) is not KubeObject or type(obj) is not KubeObject or self._rebuild is not None:
            return obj if old is not None and not is_newer(obj, old) else self.put(key, obj)
        version, before = obj.resource_version, old.resource_version
        # The first test of `is_newer`, inlined.
        if not (len(version) == len(before) and version > before) and not is_newer(obj, old):
            return obj
        if obj.key == old.key:  # share the key string, which is a twentieth of a small object
            force_setattr(obj, "key", key := old.key)
        partition[key] = obj
        for index in self._written:
            index.put(number, key, obj)
        labels = obj._labels
        if labels is old._labels and obj.namespace is old.namespace:
            # The usual case of `LabelGroups.put`, inlined: the call would take a tenth of this method's time.
            state.groups.spaces[obj.namespace][id(labels) if labels else NO_LABELS].members[key] = obj
        else:
            state.groups.put(key, old, obj)
        return old

    @exclusive
    def pop(self, key: str) -> ObjectT | None:
        """Remove and return the object of a key, or None if there is none.

        Raises:
            RuntimeError: A rebuild is open.

        :meta private:
        """
        if self._rebuild is not None:
            raise _open_rebuild()
        number = hash(key) & 63
        state = self._state
        old = state.partitions[number].pop(key, None)
        if old is not None:
            for index in self._written if isinstance(old, KubeObject) else self._all:
                index.remove(number, key)
            state.groups.remove(key, old)
        return old

    def replace(self, items: Iterable[ObjectT], resource_version: str = "") -> None:
        """Replace all objects with `items`, in one step. `rebuild` does it in slices.

        A `KubeObject` that equals the stored one (same uid and resourceVersion) does not replace it.

        Raises:
            KeyFuncError: An item has no key. Nothing has changed.
            RuntimeError: A rebuild is open.
        """
        rebuild = self.rebuild()
        try:
            for obj in items:
                rebuild.add(obj)
            rebuild.commit()
        finally:
            rebuild.discard()
        self._resource_version = resource_version

    def rebuild(self, namespace: str | None = None) -> IndexerRebuild[ObjectT]:
        """Start the next state of the whole cache, or of one namespace. Other namespaces are carried over.

        For a namespace the keys must be `"namespace/name"`. One rebuild may be open at a time. Until it ends, any other
        write raises RuntimeError.

        Raises:
            RuntimeError: Another rebuild is open.

        :meta private:
        """
        if self._rebuild is not None:
            raise RuntimeError("another rebuild of this indexer is open; commit or discard it first")
        self._rebuild = IndexerRebuild(
            self._state,
            self._all,
            key_of=partial(object_key, self._key_func),
            namespace=namespace,
            close=self._close_rebuild,
        )
        self._settled.clear()
        return self._rebuild

    def _close_rebuild(self, following: Next[ObjectT] | None) -> None:
        if following is not None:
            partitions, groups, indexes = following
            self._building = {name: indexes[index] for name, index in self._building.items()}
            self._set_state(partitions, {name: indexes[index] for name, index in self._state.indexes.items()}, groups)
        self._rebuild = None
        self._settled.set()

    # --- indexes -----------------------------------------------------------------------------

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths by which objects are indexed, or will be when a build has ended.

        :meta private:
        """
        indexes = (*self._state.indexes.values(), *self._building.values())
        return tuple(path for index in indexes if (path := index.function.path) is not None)

    def add_indexers(self, indexers: Indexers[ObjectT]) -> None:
        """Add indexes, all or none. An index that exists with the same function or path is left as it is.

        The stored objects are indexed at once. A JSON path over 100,000 Pods takes 2 s: then use `build_indexers`.

        Raises:
            ValueError: A name is used by another function. Nothing has been added.
            ConfigError: A path does not parse. Nothing has been added.
        """
        fresh = self._fresh_indexes(indexers)
        for number, partition in enumerate(self._state.partitions):
            for key, obj in partition.items():
                for index in fresh.values():
                    index.put(number, key, obj)
        if self._rebuild is not None:
            for index in fresh.values():
                self._rebuild.include(index)
        self._publish(fresh)

    async def build_indexers(self, indexers: Indexers[ObjectT]) -> None:
        """Add indexes as `add_indexers` does, but in slices of 1 ms, while changes keep coming.

        The indexes appear all at once, when they are complete. If this is cancelled, none appears and nothing is left.

        Raises:
            ValueError: A name is used by another function. Nothing has been added.
            ConfigError: A path does not parse. Nothing has been added.
        """
        self._fresh_indexes(indexers)  # raises at once, even while another build is running
        async with self._build_lock:
            await self._no_rebuild()
            fresh = self._fresh_indexes(indexers)
            self._building = fresh
            self._refresh_written()
            try:
                await self._fill()
                fresh = self._building
            except BaseException:
                self._past_errors += sum(index.function.errors for index in fresh.values())
                raise
            finally:
                self._building = {}
                self._refresh_written()
            # `add_indexers` may have added one of them in the meantime.
            self._publish({name: index for name, index in fresh.items() if name not in self._state.indexes})

    async def _fill(self) -> None:
        budget = YieldBudget()
        for number in range(PARTITIONS):
            # A change files its object itself. If the key is in the snapshot, the object is filed again, as it is now.
            for key in list(self._state.partitions[number]):
                obj = self._state.partitions[number].get(key)
                if obj is not None:
                    for index in self._building.values():  # read again: a relist replaces them
                        index.put(number, key, obj)
                if budget.exhausted():
                    await budget.pause()
                    await self._no_rebuild()

    async def _no_rebuild(self) -> None:
        while self._rebuild is not None:  # the step that closed a rebuild may have opened the next
            await self._settled.wait()

    def _fresh_indexes(self, indexers: Indexers[ObjectT]) -> dict[str, Index[ObjectT]]:
        fresh: dict[str, Index[ObjectT]] = {}
        for name, func in indexers.items():
            function = index_function(name, func)
            taken = self._state.indexes.get(name) or self._building.get(name)
            if taken is not None and taken.function.func != function.func:
                raise ValueError(
                    f"the index {name!r} already exists with a different function: {taken.function.func!r}; "
                    f"choose another name for {function.func!r}"
                )
            if name not in self._state.indexes:
                fresh[name] = Index(function)
        return fresh

    def _publish(self, fresh: dict[str, Index[ObjectT]]) -> None:
        state = self._state
        self._set_state(state.partitions, {**state.indexes, **fresh}, state.groups)

    @exclusive
    def _set_state(
        self, partitions: Partitions[ObjectT], indexes: Mapping[str, Index[ObjectT]], groups: LabelGroups[ObjectT]
    ) -> None:
        # One assignment: a reader in another thread sees all of the old state, or all of the new one.
        # Only this class sets it, so the narrower type is safe.
        self._state = IndexerState(partitions, indexes, groups)  # pyright: ignore[reportIncompatibleVariableOverride]
        self._refresh_written()

    def _refresh_written(self) -> None:
        self._all = (*self._state.indexes.values(), *self._building.values())
        self._written = tuple(index for index in self._all if index.function.files_objects)
        self._calls_functions = any(index.function.segments is None for index in self._written)

    @property
    def calls_functions(self) -> bool:
        """True if objects are filed by functions, and not only by paths.

        :meta private:
        """
        return self._calls_functions

    # --- reads -------------------------------------------------------------------------------

    @exclusive
    def by_index(self, name: str, value: str) -> Objects[ObjectT]:
        """Return the objects that have `value` in the index `name`, in no order.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        state = self._state
        objects = _index(state, name).get(value)
        return objects if self._state is state else self.by_index(name, value)

    @exclusive
    def index(self, name: str, obj: ObjectT) -> Objects[ObjectT]:
        """Return the distinct objects that share a value with `obj` in the index `name`. `obj` need not be stored.

        Raises:
            IndexNotFoundError: There is no such index.
            Exception: Any exception that the index function raises for `obj`.
        """
        values = list(_index(self._state, name).function.func(obj))
        if len(values) == 1:
            return self.by_index(name, values[0])
        return list({id(other): other for value in values for other in self.by_index(name, value)}.values())

    @exclusive
    def index_keys(self, name: str, value: str) -> Keys:
        """Return the keys of the objects that have `value` in the index `name`, sorted.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        return sorted(_index(self._state, name).keys(value))

    @exclusive
    def index_values(self, name: str) -> Keys:
        """Return all values in the index `name` that have an object, in no order.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        return _index(self._state, name).values()

    @exclusive
    def select(self, matches: Matches, namespace: str | None = None) -> Objects[ObjectT]:
        """Return the objects of one namespace, or of all, for whose labels `matches` returns True.

        `matches` is called once per label set, about a thousand times for 100,000 Pods. For objects that are not a
        `KubeObject` it is called once each.

        :meta private:
        """
        state = self._state
        objects = _select(state, matches, namespace)
        # If a relist replaced the state in the meantime, the dicts may have been read at different moments.
        return objects if self._state is state else self.select(matches, namespace)

    @exclusive
    def in_namespace(self, namespace: str) -> Objects[ObjectT]:
        """Return the objects of one namespace, from the namespace index, else the label groups, else a scan of keys.

        :meta private:
        """
        state = self._state
        objects = _in_namespace(state, namespace)
        return objects if self._state is state else self.in_namespace(namespace)

    def values_of(self, name: str, obj: ObjectT) -> tuple[str, ...]:
        """Return the values of an object in an index, or none if there is no such index or its function fails.

        :meta private:
        """
        return self._state.indexes[name].function.values(obj) if name in self._state.indexes else ()

    @property
    def index_names(self) -> tuple[str, ...]:
        """The names of the indexes."""
        return tuple(self._state.indexes)

    @property
    def index_errors(self) -> int:
        """The number of times that an index function has failed."""
        return self._past_errors + sum(index.function.errors for index in self._all)


def _select(state: IndexerState[ObjectT], matches: Matches, namespace: str | None) -> Objects[ObjectT]:
    grouped = state.groups.select(matches, namespace)
    if grouped is not None:
        return grouped
    # There are objects that are not a KubeObject, or a writer in another thread is moving an object.
    objects = objects_of(state.partitions) if namespace is None else _in_namespace(state, namespace)
    return filter_by_labels(objects, matches)


def _in_namespace(state: IndexerState[ObjectT], namespace: str) -> Objects[ObjectT]:
    index = state.reads.get(NAMESPACE_INDEX)
    if index is not None:
        return index.get(namespace)
    grouped = state.groups.in_namespace(namespace)
    if grouped is not None and state.groups.is_complete:
        return grouped
    prefix = f"{namespace}/"
    items = items_of(state.partitions)
    return [obj for key, obj in items if (key.startswith(prefix) if namespace else "/" not in key)]


def _index(state: IndexerState[ObjectT], name: str) -> Index[ObjectT] | NamespaceIndex[ObjectT]:
    index = state.reads.get(name)
    if index is None:
        names = ", ".join(repr(other) for other in state.indexes) or "none"
        raise IndexNotFoundError(f"there is no index {name!r}; known indexes: {names}")
    return index


def _open_rebuild() -> RuntimeError:
    return RuntimeError("a rebuild of this indexer is open; commit or discard it before you write")


def is_newer(obj: KubeObject, old: KubeObject) -> bool:
    """Return True if an event is newer than the cached state: a replayed event must not take the cache back in time.

    Versions compare as numbers of any length (KEP-5504), also those of two objects that had the name one after the
    other. If one of them is not a number, any different state is newer.
    """
    new_version, old_version = obj.resource_version, old.resource_version
    if len(new_version) == len(old_version) and new_version > old_version:
        return True  # newer, or not numbers: the usual case
    if new_version == old_version:
        return obj.uid != old.uid or (not new_version and obj.raw != old.raw)
    if new_version.isdigit() and old_version.isdigit():
        return len(new_version) > len(old_version)
    return True
