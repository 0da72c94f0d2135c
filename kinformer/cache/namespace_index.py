"""The index by namespace, which finds objects by their label groups.

Every informer has this index. Reading the label groups saves a second dict of all objects. Objects that are not a
`KubeObject` are in no group, so they are filed in an ordinary index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic

from kinformer.cache.index import Filed, Index, IndexFunc, IndexFunction
from kinformer.cache.label_groups import LabelGroups
from kinformer.cache.store import Keys, Objects, Partitions, objects_of
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = ["NAMESPACE_INDEX", "NamespaceIndex", "index_function", "meta_namespace_index_func"]

NAMESPACE_INDEX = "namespace"
"""The name of the index that an informer's cache always has (client-go, tools/cache/index.go: `NamespaceIndex`)."""


def meta_namespace_index_func(obj: Any) -> list[str]:  # any object, as in `meta_namespace_key`
    """Return the namespace of an object as its only value, or `""` if it is cluster-scoped.

    Accepts the same objects as `meta_namespace_key`, except tombstones. Upstream: client-go, tools/cache/index.go,
    MetaNamespaceIndexFunc.

    Raises:
        TypeError: The object has no metadata.
    """
    if isinstance(obj, KubeObject):
        return [obj.namespace]
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)
    if metadata is None:
        raise TypeError(f"no namespace for an object of type {type(obj).__name__}: it has no metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else getattr(metadata, "namespace", None)
    return [namespace or ""]


class _NamespaceFunction(IndexFunction[ObjectT]):
    """`meta_namespace_index_func` as an index function. It files only objects that are not a `KubeObject`."""

    __slots__ = ()

    files_objects = False

    def __call__(self, key: str, obj: ObjectT) -> Filed:
        if isinstance(obj, KubeObject):
            self.forget(key)
            return None
        return super().__call__(key, obj)


def index_function(name: str, func: IndexFunc[ObjectT] | str) -> IndexFunction[ObjectT]:
    """Create the function of an index, from the arguments of `IndexFunction`."""
    made = _NamespaceFunction if func is meta_namespace_index_func else IndexFunction
    return made(name, func)


class NamespaceIndex(Generic[ObjectT]):
    """The reads of the index by namespace, in one state of a cache.

    Args:
        others: The index of the objects that are not a `KubeObject`.
        groups: The label groups of the state.
        partitions: All objects of the state.
    """

    __slots__ = ("_groups", "_others", "_partitions")

    def __init__(self, others: Index[ObjectT], groups: LabelGroups[ObjectT], partitions: Partitions[ObjectT]) -> None:
        self._others = others
        self._groups = groups
        self._partitions = partitions

    @property
    def function(self) -> IndexFunction[ObjectT]:
        """The function of the index."""
        return self._others.function

    def get(self, value: str) -> Objects[ObjectT]:
        """Return the objects of a namespace."""
        members = self._groups.in_namespace(value)
        if members is None:  # a writer in another thread is moving an object
            objects = objects_of(self._partitions)
            members = [obj for obj in objects if isinstance(obj, KubeObject) and obj.namespace == value]
        return members + self._others.get(value) if self._others.buckets else members

    def keys(self, value: str) -> Keys:
        """Return the keys of the objects of a namespace, in no order."""
        return self._others.keys(value) + self._groups.keys_in(value)

    def values(self) -> Keys:
        """Return the namespaces that have an object."""
        return list(dict.fromkeys(self._others.values() + self._groups.namespaces()))
