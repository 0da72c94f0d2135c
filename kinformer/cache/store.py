"""The store: objects by key, read from anywhere, written by one.

(client-go, tools/cache/store.go and thread_safe_store.go. Upstream guards one map by a lock, so that somebody who
lists all the time starves the writer; here a read is a copy made in one call into C, which needs no lock at all.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import chain, islice
from operator import iconcat
from random import randrange
from typing import Any, Generic, Protocol, TypeAlias

from kinformer.exceptions import KeyFuncError
from kinformer.objects.meta import DeletedFinalStateUnknown, meta_namespace_key
from kinformer.objects.types import ObjectT

__all__ = [
    "SHARDS",
    "KeyFunc",
    "Keys",
    "KnownObjects",
    "Objects",
    "Shards",
    "Store",
    "new_shards",
    "object_key",
    "objects_of",
]

KeyFunc = Callable[[Any], str]
Objects: TypeAlias = list[ObjectT]
Keys = list[str]
Shards = list[dict[str, Any]]

SHARDS = 256
"""Into how many dicts the objects are spread, by `hash(key) & 255`, so that no insert pays for one big resize."""

_dict_values = dict.values


class KnownObjects(Protocol):
    """What a queue asks a cache: a `Store`, an `Indexer`, or the user's own."""

    def list_keys(self) -> Iterable[str]: ...
    def get_by_key(self, key: str) -> Any: ...


def new_shards() -> Shards:
    """Empty shards."""
    return [{} for _ in range(SHARDS)]


def objects_of(tables: Iterable[dict[Any, Any]]) -> Objects:
    """All values of some dicts, of one moment.

    It is one call into C, so that no other thread runs in between; and half the time of a `chain`.
    """
    return reduce(iconcat, map(_dict_values, tables), [])


def object_key(key_func: KeyFunc, obj: Any) -> str:
    """The key of an object, or of a tombstone, which knows its own.

    Raises:
        KeyFuncError: the key function failed, or gave something else than text.
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
        raise KeyFuncError(f"the key function gave {key!r} for an object of type {type(obj).__name__}, no key", obj)
    return key


class Store(Generic[ObjectT]):
    """Any objects by their key.

    Reads return snapshots: what `list` gave is the caller's list, may be kept across awaits, and is of one moment.
    They may come from any thread. Writes come from one thread (or one event loop), and never block. The objects
    themselves are shared with all readers: treat what is mutable as if it were not.

    A store keeps nothing but its dicts, so a thousand small stores cost 16 KB each.

    Args:
        key_func: object -> key, a text that is not empty; default `meta_namespace_key`.
    """

    def __init__(self, key_func: Callable[[ObjectT], str] = meta_namespace_key) -> None:
        self._key_func = key_func
        self._shards = new_shards()
        self._resource_version = ""

    # --- writes ------------------------------------------------------------------------------

    def add(self, obj: ObjectT) -> None:
        """Put an object in; one of the same key gives way, as with `update`.

        Raises:
            KeyFuncError: there is no key for it; nothing has changed.
        """
        self.put(object_key(self._key_func, obj), obj)

    def update(self, obj: ObjectT) -> None:
        """The same as `add`: whether the object is new is not the caller's to know.

        Raises:
            KeyFuncError: there is no key for it; nothing has changed.
        """
        self.put(object_key(self._key_func, obj), obj)

    def delete(self, obj: ObjectT | DeletedFinalStateUnknown) -> None:
        """Take an object out, by its key; a tombstone will do. One that is not there is no error.

        Raises:
            KeyFuncError: there is no key for it.
        """
        self.pop(object_key(self._key_func, obj))

    def put(self, key: str, obj: Any) -> Any:
        """Put an object in under a key that the caller knows already; returns what was there before, or None."""
        shard = self._shards[hash(key) & 255]
        old = shard.get(key)
        shard[key] = obj
        return old

    def pop(self, key: str) -> Any:
        """Take out and return what is under a key, or None."""
        return self._shards[hash(key) & 255].pop(key, None)

    def replace(self, items: Iterable[ObjectT], resource_version: str = "") -> None:
        """Put `items` in the place of all there is, in one step: a reader sees all the old or all the new.

        Of items with the same key the last one stays.

        Raises:
            KeyFuncError: there is no key for an item; nothing has changed.
        """
        shards = new_shards()
        for obj in items:
            key = object_key(self._key_func, obj)
            shards[hash(key) & 255][key] = obj
        self._shards = shards
        self._resource_version = resource_version

    def bookmark(self, resource_version: str) -> None:
        """Note that the source has nothing newer up to `resource_version`."""
        self._resource_version = resource_version

    def resync(self) -> None:
        """Nothing: a store has nobody to tell. It is here because a reflector calls it."""

    # --- reads -------------------------------------------------------------------------------

    def list(self) -> Objects[ObjectT]:
        """All objects, in no order."""
        return objects_of(self._shards)

    def tables(self) -> Iterator[dict[str, Any]]:
        """All objects, by key, in dicts that are the caller's; each is copied when it is reached."""
        return map(dict.copy, self._shards)

    def list_keys(self) -> Keys:
        """All keys, in no order."""
        return list(chain.from_iterable(self._shards))

    def get(self, obj: ObjectT | DeletedFinalStateUnknown) -> ObjectT | None:
        """What is stored under the key of `obj`, or None.

        Raises:
            KeyFuncError: there is no key for it.
        """
        return self.get_by_key(object_key(self._key_func, obj))

    def get_by_key(self, key: str) -> ObjectT | None:
        """What is stored under `key`, or None."""
        return self._shards[hash(key) & 255].get(key)

    def known(self, key: str) -> Any:
        """`get_by_key`, under the name by which a reflector asks, so that a relist need not hold a second copy."""
        return self._shards[hash(key) & 255].get(key)

    def sample(self, count: int) -> Sequence[ObjectT]:
        """Some `count` objects, or all where there are fewer; which ones is as good as chance, and differs by call."""
        first = randrange(SHARDS)
        shards = chain(self._shards[first:], self._shards[:first])
        return list(islice(chain.from_iterable(map(list, map(_dict_values, shards))), count))

    def any_key(self) -> str | None:
        """Some key, or None where there is none: it tells what keys look like here."""
        for shard in self._shards:
            if shard:
                for key in list(shard):
                    return key
        return None

    @property
    def resource_version(self) -> str:
        """That of the last `replace` or `bookmark`; `""` before."""
        return self._resource_version

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    def __bool__(self) -> bool:
        return True  # an empty store is a store

    def __iter__(self) -> Iterator[ObjectT]:
        """Over a snapshot of the objects."""
        return iter(self.list())

    def __contains__(self, key: object) -> bool:
        """Whether something is stored under a key."""
        return key in self._shards[hash(key) & 255]
