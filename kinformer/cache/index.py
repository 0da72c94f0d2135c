"""One index: which objects have which value.

A bucket is a dict of key -> object, never a set or a list per object, for those would make every object visible to
the garbage collector; and with it `by_index` is a copy made in one call. Beside the buckets an index records under
which values it filed each key. So an update asks the function about the new object only (a JSON path over a Pod
costs 20 us), and takes the old one out where it is, even if the function would not say the same again. Upstream
(client-go, tools/cache/thread_safe_store.go) runs the function on the old object, and panics where it fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, TypeAlias

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.partitioned_dict import PartitionedDict, Table, stored, tables_of
from kinformer.cache.store import Keys, Objects, Shards, new_shards
from kinformer.objects.json_path import PathIndex
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = ["NAMESPACE_INDEX", "Index", "IndexFork", "IndexFunc", "IndexFunction", "meta_namespace_index_func"]

log = get_logger("kinformer.indexer")

IndexFunc: TypeAlias = Callable[[ObjectT], Iterable[str]]

NAMESPACE_INDEX = "namespace"
"""The name of the index that an informer's cache always has (client-go, tools/cache/index.go: `NamespaceIndex`)."""

_Filed = str | tuple[str, ...] | None  # one value, several, none; most have one, and a str is cheaper than a tuple


def meta_namespace_index_func(obj: Any) -> list[str]:
    """The namespace of an object as its only value, `""` where it is cluster-scoped.

    Takes what `meta_namespace_key` takes, tombstones apart. Upstream: client-go, tools/cache/index.go,
    MetaNamespaceIndexFunc.

    Raises:
        TypeError: the object has no metadata.
    """
    if isinstance(obj, KubeObject):
        return [obj.namespace]
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)
    if metadata is None:
        raise TypeError(f"an object of type {type(obj).__name__} has no metadata, so no namespace")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else getattr(metadata, "namespace", None)
    return [namespace or ""]


class IndexFunction:
    """The function of an index, contained: what it raises is counted, and costs the object this index only.

    Args:
        name: The name of the index.
        func: object -> values, or a JSON path such as `"spec.nodeName"`.

    Raises:
        ConfigError: the path does not parse.
        TypeError: this is neither a callable nor a path.
    """

    __slots__ = ("_failing", "_told", "errors", "func", "name")

    def __init__(self, name: str, func: IndexFunc | str) -> None:
        if isinstance(func, str):
            func = PathIndex(func)
        elif not callable(func):
            raise TypeError(f"the index {name!r} needs a function or a JSON path, not {func!r}")
        self.name = name
        self.func: IndexFunc = func
        self.errors = 0
        self._told = LogOnce()
        self._failing: dict[str, None] = {}  # keys of objects that are left out now; bounded by what is stored

    def __call__(self, key: str, obj: Any) -> _Filed:
        """The values of an object, each once; None where there are none or the function failed."""
        try:
            values = _texts(self.func(obj))
        except Exception:
            self.errors += 1
            if key not in self._failing and self._told.is_news(key):
                text = "index %r: its function failed for %s, which is left out of this index"
                log.exception(text, self.name, key, key=key, reason="index_failed")
            self._failing[key] = None
            return None
        if self._failing:
            self._failing.pop(key, None)
            self._told.forget(key)
        if len(values) > 1:
            values = list(dict.fromkeys(values))
        if len(values) == 1:
            return values[0]
        return tuple(values) or None

    def forget(self, key: str) -> None:
        """The object is gone: should it come back and fail, that is news."""
        if self._failing:
            self._failing.pop(key, None)
            self._told.forget(key)


def _texts(values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        # It would be taken apart into its letters.
        raise TypeError(f"an index function gives an iterable of values, as [{values!r}], not the text itself")
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"an index value is text, not {value!r}")
        # The same text comes with thousands of objects: keep it once.
        texts.append(sys.intern(value) if type(value) is str else str(value))
    return texts


def _each(filed: _Filed) -> tuple[str, ...]:
    if filed is None:
        return ()
    return (filed,) if isinstance(filed, str) else filed


class Index:
    """The buckets of one index. The caller passes the shard number of each key, `hash(key) & 255`.

    The one by namespace holds only objects that are no `KubeObject`: the others are found by their label groups, which
    know their namespace, at half the price of one more dict to keep up.
    """

    __slots__ = ("_filed", "buckets", "by_namespace", "function")

    def __init__(self, function: IndexFunction) -> None:
        self.function = function
        self.by_namespace = function.func is meta_namespace_index_func
        self.buckets: Table[str, Table[str, Any]] = {}
        self._filed: Shards = new_shards()

    def put(self, shard: int, key: str, obj: Any) -> None:
        """File an object, in the place of what is filed under its key."""
        filed = self._filed[shard]
        values = self._values(key, obj)
        old = filed.get(key)
        if values == old:
            if type(values) is str:
                self.buckets[values][key] = obj
                return
            if values is None:
                return
        self._move(filed, key, obj, old, values)

    def remove(self, shard: int, key: str) -> None:
        """Take out what is filed under a key."""
        self.function.forget(key)
        old = self._filed[shard].pop(key, None)
        for value in _each(old):
            self._unlink(value, key)

    def get(self, value: str) -> Objects:
        """The objects that have a value."""
        bucket = self.buckets.get(value)
        return [] if bucket is None else list(bucket.values())

    def keys(self, value: str) -> Keys:
        """The keys of the objects that have a value, in no order."""
        bucket = self.buckets.get(value)
        return [] if bucket is None else list(chain.from_iterable(tables_of([bucket])))

    def values(self) -> Keys:
        """All values that an object has."""
        return list(self.buckets)

    def _values(self, key: str, obj: Any) -> _Filed:
        return None if self.by_namespace and isinstance(obj, KubeObject) else self.function(key, obj)

    def _move(self, filed: dict[str, Any], key: str, obj: Any, old: _Filed, values: _Filed) -> None:
        # In before out: a reader in another thread never misses an object that has the value before and after.
        for value in _each(values):
            bucket = self.buckets.get(value)
            if bucket is None:
                self.buckets = stored(self.buckets, value, {key: obj})
                continue
            grown = stored(bucket, key, obj)
            if grown is not bucket:
                self.buckets[value] = grown
        for value in _each(old):
            if value != values and (values is None or value not in _each(values)):
                self._unlink(value, key)
        if values is None:
            filed.pop(key, None)
        else:
            filed[key] = values

    def _unlink(self, value: str, key: str) -> None:
        bucket = self.buckets[value]
        del bucket[key]
        if not bucket:
            del self.buckets[value]  # values come and go, as node names do: an empty bucket would stay for ever


class IndexFork(Index):
    """An index that starts as another one, shares its dicts, and copies each before it changes it.

    While it grows, readers of the other one see none of it; `merge` makes it the other one's state in one step.
    """

    __slots__ = ("_replaced", "_wide", "origin")

    def __init__(self, origin: Index) -> None:
        self.origin = origin
        self.function = origin.function
        self.by_namespace = origin.by_namespace
        self.buckets = origin.buckets
        self._filed = origin._filed
        self._replaced: list[Any] = []
        self._wide: list[PartitionedDict[Any, Any]] = []

    def put(self, shard: int, key: str, obj: Any) -> None:
        """File an object, in the place of what is filed under its key."""
        values = self._values(key, obj)
        old = self._filed[shard].get(key)
        if values == old:
            # Most changes leave an object where it is: its bucket changes, the record of where it is does not.
            for value in _each(values):
                self._own_bucket(value)
                self.buckets[value][key] = obj
            return
        filed = self._own_filed(shard)
        for value in (*_each(old), *_each(values)):
            self._own_bucket(value)
        self._move(filed, key, obj, old, values)

    def remove(self, shard: int, key: str) -> None:
        """Take out what is filed under a key."""
        self.function.forget(key)
        if key not in self._filed[shard]:
            return
        old = self._own_filed(shard).pop(key)
        for value in _each(old):
            self._own_bucket(value)
            self._unlink(value, key)

    def merge(self) -> list[Any]:
        """Make this the state of the origin; returns the dicts that it no longer needs."""
        self.origin.buckets = self.buckets
        self.origin._filed = self._filed
        for wide in self._wide:
            self._replaced += wide.settle()
        return self._replaced

    def _own_filed(self, shard: int) -> dict[str, Any]:
        if self._filed is self.origin._filed:
            self._filed = self._filed.copy()
        filed = self._filed[shard]
        if filed is self.origin._filed[shard]:
            self._filed[shard] = filed = self._copy(filed)
        return filed

    def _own_bucket(self, value: str) -> None:
        origin = self.origin.buckets
        if self.buckets is origin:
            self.buckets = self._copy(origin)
        bucket = self.buckets.get(value)
        if bucket is not None and bucket is origin.get(value):
            self.buckets[value] = self._copy(bucket)

    def _copy(self, table: Any) -> Any:
        made = table.copy()
        if type(made) is dict:
            self._replaced.append(table)
        else:
            self._wide.append(made)
        return made
