"""The entries of a cache, which are objects or values with keys, and the reads that a derived collection offers."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kinformer.cache.indexer import Indexer
from kinformer.cache.key_view import KeyView
from kinformer.cache.label_groups import Matches
from kinformer.cache.store import Keys, Objects
from kinformer.objects.object import KubeObject, view
from kinformer.objects.types import KeyedValue, TrackedValue

__all__ = [
    "Entry",
    "EntryChange",
    "Joined",
    "ValueView",
    "ValuesByKey",
    "entry_of",
    "is_same",
    "labels_of",
    "namespace_of",
    "owners_of",
    "value_of",
]

V = TypeVar("V")
T = TypeVar("T")
R = TypeVar("R")

Entry: TypeAlias = Any
"""An object of an informer, or the value of a derived collection with its key."""

EntryChange: TypeAlias = tuple[str, Entry, Entry]
"""The key, the previous entry or None, and the current entry or None."""

_COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC: the garbage collector traverses objects of the type
_PARTS = 16  # parts of a tuple that are checked: longer tuples are rare, or were checked by the collector


_WITHOUT_PARTS = frozenset((str, bytes, int, float, bool, NoneType))


class Joined(msgspec.Struct, Generic[T, R], frozen=True):
    """An object with its related objects in another collection. It can be unpacked by `left, right = joined`."""

    left: T
    right: R

    def __iter__(self) -> Iterator[T | R]:
        yield self.left
        yield self.right


def entry_of(key: str, value: object) -> Entry:
    """Return the entry for a value. An object under its own key is its own entry."""
    if isinstance(value, KubeObject) and value.key == key:
        return value
    return KeyedValue(key, value) if _is_plain(value) else TrackedValue(key, value)


def _is_plain(value: Any) -> bool:
    """Return True if the value can never refer back to its entry, so that the garbage collector can ignore the entry.

    A hundred thousand entries that it tracks make a garbage collection tens of milliseconds longer, and many of these
    happen during the first sync.
    """
    kind = type(value)
    if not kind.__flags__ & _COLLECTED:
        return True
    if kind is tuple:
        return not gc.is_tracked(value) or (len(value) <= _PARTS and all(map(_is_plain, value)))
    # A Struct is not tracked if it was created from plain parts. If it is frozen, it keeps these parts.
    return isinstance(value, msgspec.Struct) and value.__struct_config__.frozen and not gc.is_tracked(value)


def value_of(entry: Entry) -> Any:
    """Return the value of an entry."""
    return entry.value if isinstance(entry, KeyedValue) else entry


def is_same(old: object, new: object) -> bool:
    """Return True if two values are equal, and the objects in them have the same contents.

    `KubeObject`s are equal if they have the same uid and resourceVersion. A function may return one that it has
    changed, so the JSON is compared too, also in tuples, lists, sets, dicts, Structs and dataclasses.
    """
    if old is new:
        return True
    try:
        return bool(old == new) and _is_alike(old, new)
    except Exception:  # noqa: BLE001 - values that cannot be compared count as changed
        return False


def _is_alike(old: Any, new: Any) -> bool:
    """Return True if the objects in two equal values have the same contents."""
    if old is new or type(old) in _WITHOUT_PARTS:
        return True
    if isinstance(old, KubeObject):
        # The bytes of one object differ if one copy is from a list and the other one from a watch.
        return bool(old.raw == new.raw or old.to_dict() == new.to_dict())
    if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
        return _WITHOUT_PARTS.issuperset(map(type, old)) or all(map(_is_alike, old, new))
    if isinstance(old, dict) and isinstance(new, dict):
        return _are_alike(old, new) and all(_is_alike(value, new[key]) for key, value in old.items())
    if isinstance(old, (set, frozenset)) and isinstance(new, (set, frozenset)):
        return _are_alike(old, new)
    if isinstance(old, msgspec.Struct) and type(old) is type(new):
        return all(_is_alike(getattr(old, name), getattr(new, name)) for name in old.__struct_fields__)
    if is_dataclass(old) and type(old) is type(new):
        compared = (field.name for field in fields(old) if field.compare)
        return all(_is_alike(getattr(old, name), getattr(new, name)) for name in compared)
    return True


def _are_alike(old: Collection[Any], new: Collection[Any]) -> bool:
    """Return True if the objects among equal members of a set, or keys of a dict, have the same contents."""
    if _WITHOUT_PARTS.issuperset(map(type, old)):
        return True
    twins = {twin: twin for twin in new}
    return all(_is_alike(member, twins[member]) for member in old)


def labels_of(entry: Entry) -> Mapping[str, str]:
    """Return the labels of an entry, which are empty if its value has no attribute `labels`."""
    return entry._labels if isinstance(entry, KubeObject) else entry.labels


def namespace_of(entry: Entry) -> str:
    """Return the namespace of an entry's object, or else the part of its key before the last slash."""
    value = value_of(entry)
    if isinstance(value, KubeObject):
        return value.namespace
    return str(entry.key).rpartition("/")[0]


def owners_of(entry: Entry) -> tuple[str, ...]:
    """Return the uids of the owners of an entry, which has none if its value is not a Kubernetes object."""
    value = value_of(entry)
    return tuple(owner.uid for owner in value.owner_references) if isinstance(value, KubeObject) else ()


class ValueView(Generic[V]):
    """The values of a cache. As in `IndexView`, every read is a snapshot and may come from any thread."""

    def __init__(self, indexer: Indexer[Entry]) -> None:
        self._indexer = indexer
        self.view: Callable[[Entry], Any] = view
        self.any_key: Callable[[], str | None] = indexer.any_key
        self.list_keys: Callable[[], Keys] = indexer.list_keys
        self.index_keys: Callable[[str, str], Keys] = indexer.index_keys
        self.index_values: Callable[[str], Keys] = indexer.index_values

    def get_by_key(self, key: str) -> V | None:
        """Return the value of a key, or None."""
        entry = self._indexer.get_by_key(key)
        value: V | None = entry.value if isinstance(entry, KeyedValue) else entry
        return value

    def list(self) -> Objects[V]:
        """Return all values, in no particular order."""
        return _values(self._indexer.list())

    def items(self) -> Objects[tuple[str, V]]:
        """Return all keys and values of one moment, in no particular order."""
        return [(entry.key, value_of(entry)) for entry in self._indexer.list()]

    def by_index(self, name: str, value: str) -> Objects[V]:
        """Return the values that have `value` in the index `name`, in no particular order.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        return _values(self._indexer.by_index(name, value))

    def in_namespace(self, namespace: str) -> Objects[V]:
        """Return the values of one namespace, which their object or else their key up to the last slash determines."""
        return [value_of(entry) for entry in self._indexer.list() if namespace_of(entry) == namespace]

    def select(self, matches: Matches, namespace: str | None = None) -> Objects[V]:
        """Return the values for whose labels `matches` returns True, in one namespace or all."""
        entries = self._indexer.select(matches)
        return [value_of(entry) for entry in entries if namespace is None or namespace_of(entry) == namespace]

    def sample(self, count: int) -> Sequence[V]:
        """Return any `count` values, or all if there are fewer."""
        return _values(self._indexer.sample(count))

    def __len__(self) -> int:
        return len(self._indexer)


def _values(entries: Sequence[Entry]) -> list[Any]:
    return [entry.value if isinstance(entry, KeyedValue) else entry for entry in entries]


class ValuesByKey(KeyView[Any]):
    """A derived collection as a mapping from key to value. See `KeyView`."""

    __slots__ = ("_values",)

    def __init__(self, values: ValueView[Any]) -> None:
        super().__init__(values)
        self._values = values

    def _snapshot(self) -> dict[str, Any]:
        return dict(self._values.items())
