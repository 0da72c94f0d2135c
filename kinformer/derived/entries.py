"""The entries of a cache as a derived collection reads them: objects, or values with keys; and the reads of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""The key, the entry before (None: there was none), the entry now (None: there is none)."""

_COLLECTED = 1 << 14  # Py_TPFLAGS_HAVE_GC: the garbage collector asks objects of the type what they refer to
_PARTS = 16  # parts of a tuple that are looked at; longer ones are few, or were looked at by the collector


class Joined(msgspec.Struct, Generic[T, R], frozen=True):
    """An object with what belongs to it in another collection; `left, right = joined` takes it apart."""

    left: T
    right: R

    def __iter__(self) -> Iterator[T | R]:
        yield self.left
        yield self.right


def entry_of(key: str, value: object) -> Entry:
    """Return the entry for a value: an object under its own key is one itself."""
    if isinstance(value, KubeObject) and value.key == key:
        return value
    return KeyedValue(key, value) if _is_plain(value) else TrackedValue(key, value)


def _is_plain(value: Any) -> bool:
    """True if the value cannot ever lead back to what holds it, so that the garbage collector need not see that.

    A hundred thousand entries that it sees make a collection tens of milliseconds longer, and many of these fall into
    the first sync.
    """
    kind = type(value)
    if not kind.__flags__ & _COLLECTED:
        return True
    if kind is tuple:
        return not gc.is_tracked(value) or (len(value) <= _PARTS and all(map(_is_plain, value)))
    # A Struct is not tracked if it was made of plain parts, and has the same parts for ever if it is frozen.
    return isinstance(value, msgspec.Struct) and value.__struct_config__.frozen and not gc.is_tracked(value)


def value_of(entry: Entry) -> Any:
    """Return the value of an entry."""
    return entry.value if isinstance(entry, KeyedValue) else entry


def labels_of(entry: Entry) -> Mapping[str, str]:
    """Return the labels of an entry; none if its value has no attribute of this name."""
    return entry._labels if isinstance(entry, KubeObject) else entry.labels


def namespace_of(entry: Entry) -> str:
    """Return the namespace of an entry: that of its object, else the part of its key before the last slash."""
    value = value_of(entry)
    if isinstance(value, KubeObject):
        return value.namespace
    return str(entry.key).rpartition("/")[0]


def owners_of(entry: Entry) -> tuple[str, ...]:
    """Return the uids of the owners of an entry; none if its value is no object of Kubernetes."""
    value = value_of(entry)
    return tuple(owner.uid for owner in value.owner_references) if isinstance(value, KubeObject) else ()


class ValueView(Generic[V]):
    """The values of a cache; every read is a snapshot and may come from any thread, as of `IndexView`."""

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
        """Return all values, in no order."""
        return _values(self._indexer.list())

    def items(self) -> Objects[tuple[str, V]]:
        """Return all keys and values of one moment, in no order."""
        return [(entry.key, value_of(entry)) for entry in self._indexer.list()]

    def by_index(self, name: str, value: str) -> Objects[V]:
        """Return the values that have `value` in the index `name`, in no order.

        Raises:
            IndexNotFoundError: There is no such index.
        """
        return _values(self._indexer.by_index(name, value))

    def in_namespace(self, namespace: str) -> Objects[V]:
        """Return the values of one namespace: that of their object, else their key up to the last slash."""
        return [value_of(entry) for entry in self._indexer.list() if namespace_of(entry) == namespace]

    def select(self, matches: Matches, namespace: str | None = None) -> Objects[V]:
        """Return the values for whose labels `matches` returns True, of one namespace or all."""
        found = self._indexer.select(matches)
        return [value_of(entry) for entry in found if namespace is None or namespace_of(entry) == namespace]

    def sample(self, count: int) -> Sequence[V]:
        """Return some `count` values, or all if there are fewer."""
        return _values(self._indexer.sample(count))

    def __len__(self) -> int:
        return len(self._indexer)


def _values(entries: Sequence[Entry]) -> list[Any]:
    return [entry.value if isinstance(entry, KeyedValue) else entry for entry in entries]


class ValuesByKey(KeyView[Any]):
    """A derived collection as a mapping from key to value: see `KeyView`."""

    __slots__ = ("_values",)

    def __init__(self, values: ValueView[Any]) -> None:
        super().__init__(values)
        self._values = values

    def _snapshot(self) -> dict[str, Any]:
        return dict(self._values.items())
