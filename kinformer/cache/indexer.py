"""The indexer: a store with named indexes, whose state is swapped, not rewritten, by a relist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeAlias

from kinformer._runtime.clock import YieldBudget
from kinformer.cache.index import NAMESPACE_INDEX, Index, IndexFunc, IndexFunction, meta_namespace_index_func
from kinformer.cache.label_groups import LabelGroups, Matches, filter_by_labels
from kinformer.cache.rebuild import IndexerRebuild
from kinformer.cache.store import Keys, Objects, Shards, Store, object_key
from kinformer.exceptions import IndexNotFoundError
from kinformer.objects.meta import meta_namespace_key
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = ["NAMESPACE_INDEX", "IndexFunc", "Indexer", "meta_namespace_index_func"]

Indexers: TypeAlias = Mapping[str, IndexFunc[ObjectT] | str]


class Indexer(Store[ObjectT]):
    """A store that also finds objects by the values of index functions, and by their labels.

    An index function may give any number of values for an object; with none it is not in that index, and the empty
    text is a value like any other. One that raises, or gives what is no text, leaves the object stored and out of
    that index; it is counted in `index_errors` and logged once per index and key.

    Reads and writes are as those of `Store`: snapshots, from any thread; writes from one. A change is in the store
    and in all indexes before the write returns. What an update costs depends on the index functions; the rest is
    about half a microsecond, and as much again for each index. (client-go, tools/cache/index.go)

    Args:
        key_func: object -> key; default `meta_namespace_key`.
        indexers: Name -> function (object -> values), or a JSON path such as `"spec.nodeName"`. There are no others
            than these: for the one by namespace give `{NAMESPACE_INDEX: meta_namespace_index_func}`.

    Raises:
        ConfigError: a path does not parse.
    """

    def __init__(
        self, key_func: Callable[[ObjectT], str] = meta_namespace_key, indexers: Indexers[ObjectT] | None = None
    ) -> None:
        super().__init__(key_func)
        self._groups = LabelGroups()
        self._indexes: dict[str, Index] = {}
        self._building: dict[str, Index] = {}
        self._written: tuple[Index, ...] = ()  # those that follow every change: the two above
        self._plain = True  # nothing but KubeObjects has come: the index by namespace has nothing to follow
        self._rebuild: IndexerRebuild | None = None
        self._settled = asyncio.Event()  # no rebuild is open
        self._settled.set()
        self._build_lock = asyncio.Lock()
        self._past_errors = 0  # of builds that were given up
        self.add_indexers(indexers or {})

    # --- writes ------------------------------------------------------------------------------

    def put(self, key: str, obj: Any) -> Any:
        """Put an object in under a key that the caller knows already; returns what was there before, or None.

        Raises:
            RuntimeError: a rebuild is open.
        """
        if self._rebuild is not None:
            raise RuntimeError("a rebuild of this indexer is open; commit or discard it before you write")
        if self._plain and not isinstance(obj, KubeObject):
            self._mix()
        number = hash(key) & 255
        shard = self._shards[number]
        old = shard.get(key)
        shard[key] = obj
        for index in self._written:
            index.put(number, key, obj)
        self._groups.put(key, old, obj)
        return old

    def advance(self, key: str, obj: KubeObject, is_news: Callable[[KubeObject, KubeObject], bool]) -> Any:
        """`put`, unless `is_news(obj, old)` says no of what is there: then nothing changes, and `obj` is returned.

        Otherwise returns what was there before, or None. The hot path of a watch: it looks for the place once.

        Raises:
            RuntimeError: a rebuild is open.
        """
        number = hash(key) & 255
        shard = self._shards[number]
        old = shard.get(key)
        if type(old) is not KubeObject or type(obj) is not KubeObject or self._rebuild is not None:
            return obj if old is not None and not is_news(obj, old) else self.put(key, obj)
        if not is_news(obj, old):
            return obj
        shard[key] = obj
        for index in self._written:
            index.put(number, key, obj)
        self._groups.put(key, old, obj)
        return old

    def pop(self, key: str) -> Any:
        """Take out and return what is under a key, or None.

        Raises:
            RuntimeError: a rebuild is open.
        """
        if self._rebuild is not None:
            raise RuntimeError("a rebuild of this indexer is open; commit or discard it before you write")
        number = hash(key) & 255
        old = self._shards[number].pop(key, None)
        if old is not None:
            for index in self._written:
                index.remove(number, key)
            self._groups.remove(key, old)
        return old

    def replace(self, items: Iterable[ObjectT], resource_version: str = "") -> None:
        """Put `items` in the place of all there is, in one step; see `rebuild` for doing it in slices.

        A `KubeObject` that equals the stored one (same uid and resourceVersion) leaves that one where it is.

        Raises:
            KeyFuncError: there is no key for an item; nothing has changed.
            RuntimeError: a rebuild is open.
        """
        rebuild = self.rebuild()
        try:
            for obj in items:
                rebuild.add(obj)
            rebuild.commit()
        finally:
            rebuild.discard()
        self._resource_version = resource_version

    def rebuild(self, namespace: str | None = None) -> IndexerRebuild:
        """Start on the next state of the whole cache, or of one namespace in it; all others are carried over.

        For a namespace the keys have to be `"namespace/name"`. One rebuild may be open at a time, and while it is
        nothing else may write.

        Raises:
            RuntimeError: another rebuild is open.
        """
        if self._rebuild is not None:
            raise RuntimeError("another rebuild of this indexer is open")
        self._rebuild = IndexerRebuild(
            self._shards,
            (*self._indexes.values(), *self._building.values()),
            self._groups,
            key_of=partial(object_key, self._key_func),
            namespace=namespace,
            mixed=self._mix,
            close=self._close_rebuild,
        )
        self._settled.clear()
        return self._rebuild

    def _close_rebuild(self, shards: Shards | None) -> None:
        if shards is not None:
            self._shards = shards
        self._rebuild = None
        self._settled.set()

    # --- indexes -----------------------------------------------------------------------------

    def add_indexers(self, indexers: Indexers[ObjectT]) -> None:
        """Add indexes, all or none; what is stored is indexed at once.

        With many objects that takes its time (a JSON path over 100,000 Pods 2 s): `build_indexers` is for that.
        A name that has the same function or path already is left as it is.

        Raises:
            ValueError: a name is taken by another function. Nothing has been added.
            ConfigError: a path does not parse. Nothing has been added.
        """
        fresh = self._fresh_indexes(indexers)
        for number, shard in enumerate(self._shards):
            for key, obj in shard.items():
                for index in fresh.values():
                    index.put(number, key, obj)
        if self._rebuild is not None:
            for index in fresh.values():
                self._rebuild.include(index)
        self._publish(fresh)

    async def build_indexers(self, indexers: Indexers[ObjectT]) -> None:
        """`add_indexers` in slices of 1 ms, while changes keep coming.

        The indexes appear when they are complete, all at once. Cancelled, none appears and nothing is left behind.

        Raises:
            ValueError: a name is taken by another function. Nothing has been added.
            ConfigError: a path does not parse. Nothing has been added.
        """
        self._fresh_indexes(indexers)  # what is wrong is said at once, whoever else is building
        async with self._build_lock:
            await self._no_rebuild()
            fresh = self._fresh_indexes(indexers)
            self._building = fresh
            self._refresh_written()
            try:
                await self._fill(fresh)
            except BaseException:
                self._past_errors += sum(index.function.errors for index in fresh.values())
                raise
            finally:
                self._building = {}
                self._refresh_written()
            # Somebody may have added one of them at once meanwhile.
            self._publish({name: index for name, index in fresh.items() if name not in self._indexes})

    async def _fill(self, fresh: dict[str, Index]) -> None:
        budget = YieldBudget()
        for number in range(len(self._shards)):
            # Changes file themselves; a key of the snapshot that had one is filed once more, as it is now.
            for key in list(self._shards[number]):
                obj = self._shards[number].get(key)
                if obj is not None:
                    for index in fresh.values():
                        index.put(number, key, obj)
                if budget.exhausted():
                    await budget.pause()
                    await self._no_rebuild()

    async def _no_rebuild(self) -> None:
        while self._rebuild is not None:  # the step that closed one may have opened the next
            await self._settled.wait()

    def _fresh_indexes(self, indexers: Indexers) -> dict[str, Index]:
        fresh: dict[str, Index] = {}
        for name, func in indexers.items():
            function = IndexFunction(name, func)
            taken = self._indexes.get(name) or self._building.get(name)
            if taken is not None and taken.function.func != function.func:
                raise ValueError(f"the index {name!r} exists already, with another function")
            if name not in self._indexes:
                fresh[name] = Index(function)
        return fresh

    def _publish(self, fresh: dict[str, Index]) -> None:
        # A new dict: a reader in another thread may be looking at the old one.
        self._indexes = {**self._indexes, **fresh}
        self._refresh_written()

    def _mix(self) -> None:
        """From now on there may be objects that are no KubeObject."""
        self._plain = False
        self._refresh_written()

    def _refresh_written(self) -> None:
        every = (*self._indexes.values(), *self._building.values())
        self._written = tuple(index for index in every if not (index.by_namespace and self._plain))

    # --- reads -------------------------------------------------------------------------------

    def by_index(self, name: str, value: str) -> Objects[ObjectT]:
        """The objects that have `value` in the index `name`, in no order; none is no error.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        index = self._indexes.get(name)
        if index is None:
            raise self._no_index(name)
        return self._with_value(index, value)

    def index(self, name: str, obj: ObjectT) -> Objects[ObjectT]:
        """The objects that share a value with `obj` in the index `name`, each once; `obj` need not be stored.

        Raises:
            IndexNotFoundError: there is no such index.
            Exception: what the index function raises for `obj`.
        """
        found = self._index(name)
        values = list(found.function.func(obj))
        if len(values) == 1:
            return self._with_value(found, values[0])
        return list({id(other): other for value in values for other in self._with_value(found, value)}.values())

    def index_keys(self, name: str, value: str) -> Keys:
        """The keys of the objects that have `value` in the index `name`, sorted.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        index = self._index(name)
        keys = index.keys(value)
        return sorted(keys + self._groups.keys_in(value) if index.by_namespace else keys)

    def index_values(self, name: str) -> Keys:
        """All values in the index `name` that an object has, in no order.

        Raises:
            IndexNotFoundError: there is no such index.
        """
        index = self._index(name)
        values = index.values()
        return list(dict.fromkeys(values + self._groups.namespaces())) if index.by_namespace else values

    def select(self, matches: Matches, namespace: str | None = None) -> Objects[ObjectT]:
        """The objects whose labels `matches` says yes to, of one namespace or all.

        It is asked once per label set: among 100,000 Pods about a thousand times. (A scan does it for objects that
        are no `KubeObject`.)
        """
        found = self._groups.select(matches, namespace)
        if found is not None:
            return found
        # There are other objects, or a writer in another thread was just moving one.
        return filter_by_labels(self.list() if namespace is None else self.in_namespace(namespace), matches)

    def in_namespace(self, namespace: str) -> Objects[ObjectT]:
        """The objects of one namespace: by the index of that name, else by label groups, at worst by their keys."""
        index = self._indexes.get(NAMESPACE_INDEX)
        if index is not None:
            return self._with_value(index, namespace)
        found = self._groups.in_namespace(namespace)
        if found is not None:
            return found
        prefix = f"{namespace}/"
        return [
            obj
            for shard in self._shards
            for key, obj in list(shard.items())
            if (key.startswith(prefix) if namespace else "/" not in key)
        ]

    def _with_value(self, index: Index, value: str) -> Objects:
        if not index.by_namespace:
            return index.get(value)
        found = self._groups.in_namespace(value)
        if found is not None:
            return found
        listed = [obj for obj in self.list() if isinstance(obj, KubeObject) and obj.namespace == value]
        return listed + index.get(value)

    @property
    def index_names(self) -> tuple[str, ...]:
        """The names of the indexes."""
        return tuple(self._indexes)

    @property
    def index_errors(self) -> int:
        """How often an index function has failed."""
        return self._past_errors + sum(index.function.errors for index in self._written)

    def _index(self, name: str) -> Index:
        index = self._indexes.get(name)
        if index is None:
            raise self._no_index(name)
        return index

    def _no_index(self, name: str) -> IndexNotFoundError:
        there = ", ".join(repr(other) for other in self._indexes) or "none"
        return IndexNotFoundError(f"there is no index {name!r}; there are: {there}")
