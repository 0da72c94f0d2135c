"""The entries of a cache, as a derived collection reads them: a `KubeObject`, or a value with its key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer.objects.keyed_value import KeyedValue
from kinformer.objects.object import KubeObject

__all__ = ["labels_of", "namespace_of", "owners_of", "value_of"]


def value_of(entry: Any) -> Any:
    """Return the value of an entry."""
    return entry.value if type(entry) is KeyedValue else entry


def labels_of(entry: Any) -> Mapping[str, str]:
    """Return the labels of an entry; none if its value has no attribute of this name."""
    return entry._labels if isinstance(entry, KubeObject) else entry.labels


def namespace_of(entry: Any) -> str:
    """Return the namespace of an entry: that of its object, else the part of its key before the last slash."""
    value = value_of(entry)
    if isinstance(value, KubeObject):
        return value.namespace
    return str(entry.key).rpartition("/")[0]


def owners_of(entry: Any) -> tuple[str, ...]:
    """Return the uids of the owners of an entry; none if its value is no object of Kubernetes."""
    value = value_of(entry)
    return tuple(owner.uid for owner in value.owner_references) if isinstance(value, KubeObject) else ()
