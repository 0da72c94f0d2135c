"""An object whose JSON is kept in a smaller form, and all else about it is as with any other."""

from __future__ import annotations

from typing import Any, Protocol

from kinformer.objects.object import KubeObject, ObjectView, UndecodableObject

__all__ = ["PackedObject", "Packing", "as_entry", "packed", "with_json"]


class Packing(Protocol):
    """What gives the JSON of a packed object back, from any thread. It never leads back to an object."""

    def unpack(self, obj: KubeObject) -> bytes: ...


class PackedObject(KubeObject, frozen=True, gc=False, eq=False):
    """A `KubeObject` that keeps its JSON packed; each read of it unpacks (3 to 5 us for a Pod of 6 KB).

    Invisible to the garbage collector like any other: a packing holds bytes and text, and nothing of the user's.
    """

    _packing: Packing

    @property
    def raw(self) -> bytes:
        """The JSON as it is kept: without managedFields unless these were asked for."""
        return self._packing.unpack(self)

    def _view(self) -> ObjectView:
        return _PackedView(*_head(self), self._data, None, self._packing)

    def __reduce__(self) -> tuple[Any, ...]:
        return KubeObject, (*_head(self), self.raw)  # a packing belongs to one process


class _PackedView(ObjectView, frozen=True, gc=True, eq=False):
    """What a handler gets of it: nothing is unpacked before something is read."""

    _packing: Packing | None = None

    @property
    def raw(self) -> bytes:
        assert self._packing is not None
        return self._packing.unpack(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectView, (*_head(self), self.raw)


def packed(obj: KubeObject, data: bytes, packing: Packing) -> PackedObject:
    """The same object, with `data` for its JSON."""
    return PackedObject(*_head(obj), data, packing)


def with_json(obj: KubeObject, raw: bytes) -> KubeObject:
    """The same object, with `raw` for its JSON, as it is."""
    return KubeObject(*_head(obj), raw)


def _head(obj: KubeObject) -> tuple[Any, ...]:
    head = (obj.key, obj.namespace, obj.uid, obj.resource_version, obj.api_version, obj.kind)
    return (*head, obj._labels, obj.owner_references)


def as_entry(obj: Any) -> KubeObject:
    """The object in the form that the cache holds; sources of the user's own may give dicts."""
    if type(obj) is PackedObject or type(obj) is UndecodableObject:
        return obj
    if isinstance(obj, KubeObject):
        # A view remembers what it decoded: the cache must not.
        return KubeObject.from_dict(obj.to_dict())
    return KubeObject.from_dict(obj)
