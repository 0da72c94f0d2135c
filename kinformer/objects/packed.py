"""Objects that keep their JSON in a smaller form, and otherwise behave like any other."""

from __future__ import annotations

from typing import Any, Protocol

from kinformer.objects.object import KubeObject, ObjectView, UndecodableObject

__all__ = ["PackedObject", "Packing", "as_entry", "packed", "with_json"]


class Packing(Protocol):
    """Unpacks the JSON of packed objects, from any thread. It must not lead back to an object."""

    def unpack(self, obj: KubeObject) -> bytes: ...


class PackedObject(KubeObject, frozen=True, gc=False, eq=False):
    """A `KubeObject` that keeps its JSON packed; each read of it unpacks (3 to 5 us for a Pod of 6 KB).

    The garbage collector does not track it, like any other: a packing holds bytes and text, and no object of the
        program.
    """

    _packing: Packing | None = None

    @property
    def raw(self) -> bytes:
        """The JSON as it is kept: without managedFields, unless these were requested."""
        assert self._packing is not None
        return self._packing.unpack(self)

    def _view(self) -> ObjectView:
        return _PackedView(*_head(self), self._data, self._path_values, None, self._packing)

    def __reduce__(self) -> tuple[object, ...]:
        return KubeObject, (*_head(self), self.raw)  # a packing belongs to one process


class _PackedView(ObjectView, frozen=True, gc=True, eq=False):
    """The view of a packed object: nothing is unpacked until something is read."""

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
    """Return the same object with the JSON `raw`, which has the same values at the paths that were read."""
    return KubeObject(*_head(obj), raw, obj._path_values)


def _head(obj: KubeObject) -> tuple[object, ...]:
    head = (obj.key, obj.namespace, obj.uid, obj.resource_version, obj.api_version, obj.kind)
    return (*head, obj._labels, obj.owner_references)


def as_entry(obj: Any) -> KubeObject:
    """Return the object in the form that the cache holds; a source of the program's own may send dicts."""
    if type(obj) is PackedObject or type(obj) is UndecodableObject:
        return obj
    if isinstance(obj, KubeObject):
        # A view keeps the values that it decoded: the cache must not.
        return KubeObject.from_dict(obj.to_dict())
    return KubeObject.from_dict(obj)
