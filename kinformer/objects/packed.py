"""Objects that store their JSON in a smaller form, and otherwise behave like any other."""

from __future__ import annotations

from typing import Any, Protocol

from kinformer.objects.object import KubeObject, ObjectView, UndecodableObject

__all__ = ["PackedObject", "Packing", "as_entry", "packed", "with_json"]


class Packing(Protocol):
    """Unpacks the JSON of packed objects, on any thread. It must not reference any object."""

    def unpack(self, obj: KubeObject) -> bytes: ...


class PackedObject(KubeObject, frozen=True, gc=False, eq=False):
    """A `KubeObject` that stores its JSON packed. Each read unpacks it (3 to 5 us for a Pod of 6 KB).

    Like any `KubeObject`, it is not tracked by the garbage collector. A packing holds bytes and strings, but no object
    of the program.
    """

    _packing: Packing | None = None

    @property
    def raw(self) -> bytes:
        """The stored JSON, without managedFields unless these were requested."""
        assert self._packing is not None
        return self._packing.unpack(self)

    def _view(self) -> ObjectView:
        return _PackedView(*_head(self), self._data, self._path_values, None, self._packing)

    def __reduce__(self) -> tuple[object, ...]:
        return KubeObject, (*_head(self), self.raw)  # a packing belongs to one process


class _PackedView(ObjectView, frozen=True, gc=True, eq=False):
    """The view of a packed object. Nothing is unpacked before the first read."""

    _packing: Packing | None = None

    @property
    def raw(self) -> bytes:
        assert self._packing is not None
        return self._packing.unpack(self)

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectView, (*_head(self), self.raw)


def packed(obj: KubeObject, data: bytes, packing: Packing) -> PackedObject:
    """Return the same object with the packed JSON `data`."""
    return PackedObject(*_head(obj), data, obj._path_values, packing)


def with_json(obj: KubeObject, raw: bytes) -> KubeObject:
    """Return the same object with the JSON `raw`, which must have the same values at the indexed paths."""
    return KubeObject(*_head(obj), raw, obj._path_values)


def _head(obj: KubeObject) -> tuple[object, ...]:
    head = (obj.key, obj.namespace, obj.uid, obj.resource_version, obj.api_version, obj.kind)
    return (*head, obj._labels, obj.owner_references)


def as_entry(obj: Any) -> KubeObject:
    """Return the object in the form for the cache. A custom source may send dicts."""
    if type(obj) is PackedObject or type(obj) is UndecodableObject:
        return obj
    if isinstance(obj, KubeObject):
        # A view keeps its decoded values, but the cache must not.
        return KubeObject.from_dict(obj.to_dict())
    return KubeObject.from_dict(obj)
