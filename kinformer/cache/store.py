"""A store of objects by key, read from any thread and written by one.

(client-go, tools/cache/store.go and thread_safe_store.go. Upstream guards one map with a lock, so a reader that lists
all the time starves the writer. Here a read is a copy made by one call into C, which needs no lock with the GIL.
Without the GIL, reads of one key need no lock either, and methods that read several dicts are `exclusive`.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from operator import iconcat
from random import randrange
from typing import Generic, Protocol, TypeAlias

from kinformer._runtime.signatures import check_callback
from kinformer.cache.exclusion import exclusion, exclusive
from kinformer.exceptions import KeyFuncError
from kinformer.objects.meta import DeletedFinalStateUnknown, meta_namespace_key
from kinformer.objects.types import ObjectT

__all__ = [
    "PARTITIONS",
    "KeyFunc",
    "Keys",
    "KnownObjects",
    "Objects",
    "Partitions",
    "Store",
    "StoreState",
    "items_of",
    "new_partitions",
    "object_key",
    "objects_of",
]

KeyFunc: TypeAlias = Callable[[ObjectT], str]
Objects: TypeAlias = list[ObjectT]
Keys = list[str]
Partitions: TypeAlias = list[dict[str, ObjectT]]

PARTITIONS = 64
"""The number of dicts that hold the objects, chosen by `hash(key) & 63`. So no insert has to resize one big dict."""

_dict_items, _dict_values = dict.items, dict.values


class KnownObjects(Protocol):
    """The reads of a cache that a queue needs: a `Store`, an `Indexer`, or the program's own cache."""

    def list_keys(self) -> Iterable[str]: ...
    def get_by_key(self, key: str) -> object: ...


def new_partitions() -> Partitions[ObjectT]:
    """Create empty partitions."""
    return [{} for _ in range(PARTITIONS)]


def objects_of(tables: Iterable[dict[str, ObjectT]]) -> Objects[ObjectT]:
    """List all values of some dicts, at one moment.

    This is one call into C, so with the GIL no other thread runs in between. It also takes half the time of a `chain`.
    Without the GIL only each single dict is copied at one moment, so the caller must be `exclusive`.
    """
    return reduce(iconcat, map(_dict_values, tables), [])


def items_of(tables: Iterable[dict[str, ObjectT]]) -> list[tuple[str, ObjectT]]:
    """List all keys and values of some dicts, at one moment, as in `objects_of`."""
    return reduce(iconcat, map(_dict_items, tables), [])


def object_key(key_func: KeyFunc[ObjectT], obj: ObjectT | DeletedFinalStateUnknown) -> str:
    """Return the key of an object, or the key that a tombstone has.

    Raises:
        KeyFuncError: The key function failed, or did not return a non-empty string.
    """
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.key
    try:
        key = key_func(obj)
    except KeyFuncError:
        raise
    except Exception as error:
        raise KeyFuncError(f"no key for an object of type {type(obj).__name__}: {error!r}", obj) from error
    if not isinstance(key, str) or not key:
        raise KeyFuncError(
            f"no key for an object of type {type(obj).__name__}: the key function returned {key!r}, expected a "
            "non-empty string",
            obj,
        )
    return key


class StoreState(Generic[ObjectT]):
    """The state of a store in one object, so that replacing it is one step for readers in any thread.

    Attributes:
        partitions: The objects by key, in `PARTITIONS` dicts.
    """

    __slots__ = ("partitions",)

    def __init__(self, partitions: Partitions[ObjectT]) -> None:
        self.partitions = partitions


class Store(Generic[ObjectT]):
    """Objects of any type, by key.

    Reads return snapshots: the list that `list` returns belongs to the caller, may be kept across awaits, and is of one
    moment. Reads may come from any thread. Writes come from one thread (or one event loop), and never block. Readers
    share the objects themselves, so do not change them, even if they are mutable.

    A small store takes 6 KB, because it has only its dicts.

    Args:
        key_func: Returns the key of an object, a non-empty string. Default: `meta_namespace_key`.

    Raises:
        TypeError: `key_func` cannot be called with an object.
    """

    def __init__(self, key_func: KeyFunc[ObjectT] = meta_namespace_key) -> None:
        check_callback(key_func, "key_func", "obj", type(self).__name__, plain=True)
        self._key_func = key_func
        # A write changes the state in place, and `replace` puts another one in its place. Only the writer does either.
        self._state: StoreState[ObjectT] = StoreState(new_partitions())
        self._resource_version = ""
        self._exclusion = exclusion()

    # --- writes ------------------------------------------------------------------------------

    def add(self, obj: ObjectT) -> None:
        """Store an object, replacing any object with its key. The same as `update`.

        Raises:
            KeyFuncError: It has no key. Nothing has changed.
        """
        self.put(object_key(self._key_func, obj), obj)

    def update(self, obj: ObjectT) -> None:
        """Store an object. The same as `add`, because the caller need not know whether the object is new.

        Raises:
            KeyFuncError: It has no key. Nothing has changed.
        """
        self.put(object_key(self._key_func, obj), obj)

    def delete(self, obj: ObjectT | DeletedFinalStateUnknown) -> None:
        """Remove an object or a tombstone's object, by key. Does nothing if it is not stored.

        Raises:
            KeyFuncError: It has no key.
        """
        self.pop(object_key(self._key_func, obj))

    @exclusive
    def put(self, key: str, obj: ObjectT) -> ObjectT | None:
        """Store an object under a known key, and return the object that it replaces, or None.

        :meta private:
        """
        partition = self._state.partitions[hash(key) & 63]
        old = partition.get(key)
        partition[key] = obj
        return old

    @exclusive
    def pop(self, key: str) -> ObjectT | None:
        """Remove and return the object of a key, or None if there is none.

        :meta private:
        """
        return self._state.partitions[hash(key) & 63].pop(key, None)

    def replace(self, items: Iterable[ObjectT], resource_version: str = "") -> None:
        """Replace all objects with `items`, in one step: a reader sees all the old ones or all the new ones.

        Of items with the same key the last one is stored.

        Raises:
            KeyFuncError: An item has no key. Nothing has changed.
        """
        partitions: Partitions[ObjectT] = new_partitions()
        for obj in items:
            key = object_key(self._key_func, obj)
            partitions[hash(key) & 63][key] = obj
        self._state = StoreState(partitions)
        self._resource_version = resource_version

    def bookmark(self, resource_version: str) -> None:
        """Record that the store has all changes up to `resource_version`."""
        self._resource_version = resource_version

    def resync(self) -> None:
        """Do nothing, because a store has no listeners. A reflector calls this."""

    # --- reads -------------------------------------------------------------------------------

    @exclusive
    def list(self) -> Objects[ObjectT]:
        """Return all objects, in no order."""
        while True:
            state = self._state
            objects = objects_of(state.partitions)
            if self._state is state:  # otherwise its dicts may have been changed as parts of the next state
                return objects

    def tables(self) -> Iterator[dict[str, ObjectT]]:
        """Iterate over all objects by key, in dicts that belong to the caller. Each is copied when it is reached.

        :meta private:
        """
        return map(dict.copy, self._state.partitions)

    @exclusive
    def list_keys(self) -> Keys:
        """Return all keys, in no order."""
        return list(chain.from_iterable(self._state.partitions))

    def get(self, obj: ObjectT | DeletedFinalStateUnknown) -> ObjectT | None:
        """Return the object that is stored under the key of `obj`, or None.

        Raises:
            KeyFuncError: `obj` has no key.
        """
        return self.get_by_key(object_key(self._key_func, obj))

    def get_by_key(self, key: str) -> ObjectT | None:
        """Return the object that is stored under `key`, or None."""
        return self._state.partitions[hash(key) & 63].get(key)

    @exclusive
    def sample(self, count: int) -> Sequence[ObjectT]:
        """Return `count` objects, or all if there are fewer, from a random place that differs between calls.

        :meta private:
        """
        partitions, first = self._state.partitions, randrange(PARTITIONS)
        tables = chain(partitions[first:], partitions[:first])
        return list(islice(chain.from_iterable(map(list, map(_dict_values, tables))), count))

    def any_key(self) -> str | None:
        """Return any one key, which shows the form of the keys, or None if the store is empty.

        :meta private:
        """
        return next(chain.from_iterable(map(list, self._state.partitions)), None)

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the last `replace` or `bookmark`, or `""` before the first."""
        return self._resource_version

    @exclusive
    def __len__(self) -> int:
        return sum(map(len, self._state.partitions))

    def __bool__(self) -> bool:
        return True  # an empty store is truthy

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over a snapshot of the objects."""
        return iter(self.list())

    def __contains__(self, key: object) -> bool:
        """True if an object is stored under this key."""
        return key in self._state.partitions[hash(key) & 63]
