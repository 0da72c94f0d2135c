"""A view of the cache as a mapping from key to object."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Protocol, TypeVar, overload

from kinformer.cache.store import Keys, Objects
from kinformer.objects.object import KubeObject

__all__ = ["KeyView"]

Obj = TypeVar("Obj", bound=KubeObject)
T = TypeVar("T")


class _Keyed(Protocol[Obj]):
    """The reads that a view needs."""

    def get_by_key(self, key: str, /) -> Obj | None: ...
    def list(self) -> Objects[Obj]: ...
    def list_keys(self) -> Keys: ...
    def any_key(self) -> str | None: ...
    def __len__(self) -> int: ...


class KeyView(Mapping[str, Obj]):
    """A read-only mapping from key (`"namespace/name"` or `"name"`) to object, which follows the cache.

    Lookups, `in` and `len` read the current cache. Iteration, `keys()`, `values()` and `items()` use a snapshot of one
    moment. All may be used from any thread.
    """

    __slots__ = ("_cache",)

    def __init__(self, cache: _Keyed[Obj]) -> None:
        self._cache = cache

    def __getitem__(self, key: str) -> Obj:
        obj = self._cache.get_by_key(key)
        if obj is None:
            raise KeyError(key if self._has_form(key) else f"{key!r}: the keys here are 'namespace/name'")
        return obj

    @overload
    def get(self, key: str, /) -> Obj | None: ...
    @overload
    def get(self, key: str, /, default: Obj | T) -> Obj | T: ...
    def get(self, key: str, /, default: object = None) -> object:
        """Return the object of a key, or `default` if there is none."""
        obj = self._cache.get_by_key(key)
        return default if obj is None else obj

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._cache.get_by_key(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._cache.list_keys())

    def __len__(self) -> int:
        return len(self._cache)

    def keys(self) -> KeysView[str]:
        """Return a snapshot of the keys."""
        return dict.fromkeys(self._cache.list_keys()).keys()

    def values(self) -> ValuesView[Obj]:
        """Return a snapshot of the objects."""
        return self._snapshot().values()

    def items(self) -> ItemsView[str, Obj]:
        """Return a snapshot of the keys and objects."""
        return self._snapshot().items()

    def _snapshot(self) -> dict[str, Obj]:
        return {obj.key: obj for obj in self._cache.list()}

    def _has_form(self, key: str) -> bool:
        return "/" in key or "/" not in (self._cache.any_key() or "")

    def __repr__(self) -> str:
        return f"<KeyView of {len(self)} objects>"
