"""An index of a cache: a bucket of objects for each value.

A bucket is a dict of key -> object. A set or a list per object would be tracked by the garbage collector. A dict also
makes `by_index` a copy in one call. Beside the buckets, an index records the values under which it filed each key. So
an update calls the index function with the new object only (a JSON path over a Pod costs 20 us), and removes the old
object from its buckets even if the function would return different values now. Upstream (client-go,
tools/cache/thread_safe_store.go) calls the function with the old object, and panics if it fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Generic, TypeAlias

from kinformer._runtime.clock import UserFunction
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.partitioned_dict import Table, TableCopies, stored, tables_of
from kinformer._runtime.signatures import check_callback
from kinformer.cache.store import Keys, Objects, new_partitions
from kinformer.objects.object import KubeObject
from kinformer.objects.paths.json_path import PathIndex
from kinformer.objects.types import ObjectT

__all__ = ["Filed", "Index", "IndexFork", "IndexFunc", "IndexFunction", "check_indexers"]

log = get_logger("kinformer.indexer")

IndexFunc: TypeAlias = Callable[[ObjectT], Iterable[str]]

Filed = str | tuple[str, ...] | None  # one value, several, or none. Most have one, and a str is cheaper than a tuple.


def check_indexers(indexers: Mapping[str, IndexFunc[Any] | str], owner: str) -> None:
    """Raise TypeError unless each value is a path, or a function that can be called with an object."""
    for name, func in indexers.items():
        if isinstance(func, str):
            continue
        if not callable(func):
            raise TypeError(
                f"{owner}: index {name!r}: expected a function or a JSON path such as 'spec.nodeName', got {func!r}"
            )
        check_callback(func, f"indexers[{name!r}]", "obj", owner, plain=True)


class IndexFunction(Generic[ObjectT]):
    """The function of an index. If it raises, the error is counted, and the object is left out of this index only.

    Args:
        name: The name of the index.
        func: Returns the values of an object. Or a JSON path such as `"spec.nodeName"`.

    Attributes:
        files_objects: False for the namespace index, which files only objects that are not a `KubeObject`.
        segments: The segments of the path, the key of the value that an object's decoder has read. None without a path.

    Raises:
        ConfigError: The path does not parse.
        TypeError: `func` is neither a path nor a function of an object.
    """

    __slots__ = ("_failing", "_told", "_user_function", "errors", "func", "name", "segments")

    files_objects = True

    def __init__(self, name: str, func: IndexFunc[ObjectT] | str) -> None:
        check_indexers({name: func}, "Indexer")
        if isinstance(func, str):
            func = PathIndex(func)
        self.name = name
        self.func: IndexFunc[ObjectT] = func
        self.segments = func.path.segments if isinstance(func, PathIndex) else None
        self.errors = 0
        self._user_function = UserFunction(f"the index function {name!r}", log)
        self._told = LogOnce()
        self._failing: dict[str, None] = {}  # the keys of the stored objects that are left out

    def __call__(self, key: str, obj: ObjectT) -> Filed:
        """Return the distinct values of an object, or None if there are none or the function failed."""
        if self.segments is not None and isinstance(obj, KubeObject):
            decoded = obj._path_values  # the values that the decoder has read already
            if decoded is not None and self.segments in decoded:
                self.forget(key)
                return decoded[self.segments]
        try:
            values = _texts(self.func(obj))
        except Exception:
            self.errors += 1
            if key not in self._failing and self._told.is_news(key):
                message = "index %r: its function failed for %s, which is left out of this index"
                log.exception(message, self.name, key, key=key, reason="index_failed")
            self._failing[key] = None
            return None
        finally:
            self._user_function.returned(key)
        if self._failing:
            self._failing.pop(key, None)
            self._told.forget(key)
        if len(values) > 1:
            values = list(dict.fromkeys(values))
        if len(values) == 1:
            return values[0]
        return tuple(values) or None

    def values(self, obj: ObjectT) -> tuple[str, ...]:
        """Return the values of an object, filed or not. If the function fails, return none and do not count it."""
        if self.segments is not None and isinstance(obj, KubeObject):
            decoded = obj._path_values
            if decoded is not None and self.segments in decoded:
                return _each(decoded[self.segments])
        try:
            return tuple(_texts(self.func(obj)))
        except Exception:  # noqa: BLE001 - counted and logged when the object was filed
            return ()

    @property
    def path(self) -> str | None:
        """The JSON path, or None if the index has a function."""
        return self.func.path.text if isinstance(self.func, PathIndex) else None

    def forget(self, key: str) -> None:
        """Forget a deleted object, so that its next failure is logged again."""
        if self._failing:
            self._failing.pop(key, None)
            self._told.forget(key)


def _texts(values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        # Iterating over it would yield its letters.
        raise TypeError(
            f"an index function returned the string {values!r}, expected an iterable of strings: [{values!r}]"
        )
    texts: list[str] = []
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"an index function returned the value {value!r}, expected a string")
        # Thousands of objects have the same value: keep it once.
        texts.append(sys.intern(value) if type(value) is str else str(value))
    return texts


def _each(filed: Filed) -> tuple[str, ...]:
    if filed is None:
        return ()
    return (filed,) if isinstance(filed, str) else filed


class Index(Generic[ObjectT]):
    """The buckets of one index.

    Every write takes the number of the key's partition, `hash(key) & 63`, which the caller has computed already.
    """

    __slots__ = ("_filed", "buckets", "function")

    def __init__(self, function: IndexFunction[ObjectT]) -> None:
        self.function = function
        self.buckets: Table[str, Table[str, ObjectT]] = {}
        self._filed: list[dict[str, str | tuple[str, ...]]] = new_partitions()

    def put(self, number: int, key: str, obj: ObjectT) -> None:
        """File an object, replacing the one that is filed under its key."""
        segments = self.function.segments
        if segments is not None and isinstance(obj, KubeObject) and (decoded := obj._path_values) is not None:
            # Nearly always the value has not changed. A path has at most one value, so only this bucket has the key.
            value = decoded.get(segments)
            bucket = None if value is None else self.buckets.get(value)
            if bucket is not None and key in bucket:
                bucket[key] = obj
                return
        filed = self._filed[number]
        values = self.function(key, obj)
        old = filed.get(key)
        if values == old:
            if type(values) is str:
                self.buckets[values][key] = obj
                return
            if values is None:
                return
        self._move(filed, key, obj, old, values)

    def remove(self, number: int, key: str) -> None:
        """Remove the object of a key."""
        self.function.forget(key)
        old = self._filed[number].pop(key, None)
        for value in _each(old):
            self._unlink(value, key)

    def get(self, value: str) -> Objects[ObjectT]:
        """Return the objects that have a value."""
        bucket = self.buckets.get(value)
        return [] if bucket is None else list(bucket.values())

    def keys(self, value: str) -> Keys:
        """Return the keys of the objects that have a value, in no order."""
        bucket = self.buckets.get(value)
        return [] if bucket is None else list(chain.from_iterable(tables_of([bucket])))

    def values(self) -> Keys:
        """Return all values that have an object."""
        return list(self.buckets)

    def _move(self, filed: dict[str, str | tuple[str, ...]], key: str, obj: ObjectT, old: Filed, values: Filed) -> None:
        # Add before removing, so that a reader in another thread never misses an object whose value does not change.
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
            del self.buckets[value]  # values such as node names come and go, so empty buckets would pile up


class IndexFork(Index[ObjectT]):
    """A copy-on-write copy of an index: it shares the dicts of its origin, and copies each before changing it.

    Readers of the origin see no change. `settled` returns the index that replaces the origin.
    """

    __slots__ = ("_copies", "origin")

    def __init__(self, origin: Index[ObjectT]) -> None:
        self.origin = origin
        self.function = origin.function
        # Shared with the origin, until the first change of each copies it.
        self.buckets = origin.buckets
        self._filed = origin._filed
        self._copies = TableCopies()

    def put(self, number: int, key: str, obj: ObjectT) -> None:
        """File an object, replacing the one that is filed under its key."""
        values = self.function(key, obj)
        old = self._filed[number].get(key)
        if values == old:
            # Most changes leave an object in its bucket, so only the bucket changes, not the record of its values.
            for value in _each(values):
                self._own_bucket(value)
                self.buckets[value][key] = obj
            return
        filed = self._own_filed(number)
        for value in (*_each(old), *_each(values)):
            self._own_bucket(value)
        self._move(filed, key, obj, old, values)

    def remove(self, number: int, key: str) -> None:
        """Remove the object of a key."""
        self.function.forget(key)
        if key not in self._filed[number]:
            return
        old = self._own_filed(number).pop(key)
        for value in _each(old):
            self._own_bucket(value)
            self._unlink(value, key)

    def settled(self) -> Index[ObjectT]:
        """Return the index that replaces the origin. The fork must not be changed after this."""
        index: Index[ObjectT] = Index(self.function)
        index.buckets, index._filed = self.buckets, self._filed
        return index

    def release(self) -> Iterator[None]:
        """Free the origin's dicts that the new index does not share, in small steps."""
        return self._copies.release()

    def _own_filed(self, number: int) -> dict[str, str | tuple[str, ...]]:
        if self._filed is self.origin._filed:
            self._filed = self._filed.copy()
        filed = self._filed[number]
        if filed is self.origin._filed[number]:
            self._filed[number] = filed = self._copies.of(filed)
        return filed

    def _own_bucket(self, value: str) -> None:
        origin = self.origin.buckets
        if self.buckets is origin:
            self.buckets = self._copies.of(origin)
        bucket = self.buckets.get(value)
        if bucket is not None and bucket is origin.get(value):
            self.buckets[value] = self._copies.of(bucket)
