"""Objects with their model, as passed to handlers and readers by a typed informer.

The model is decoded on first use and kept in the view, which belongs to one reader. A handler gets its own view with
each event, and each read of a lister returns a new one. So a model may be mutable, like dataclasses and the models of
kubernetes_asyncio, because changes to it affect neither the cache nor other readers. Sharing one decoded model among
all handlers would save decodes, but a change by one handler would be visible to the next.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from kinformer.objects.models.decoding import check_model, decode_as
from kinformer.objects.object import KubeObject, ObjectView, fields_of, force_setattr, view
from kinformer.objects.types import M, M_co

__all__ = ["Model", "ModelView", "models_of", "read_like"]

_M = TypeVar("_M")
_T = TypeVar("_T")

_FIELDS = len(ObjectView.__struct_fields__)


class Model(Generic[M]):
    """A model type, and the resource whose objects are read as it.

    Args:
        type: A msgspec Struct, dataclass, TypedDict, pydantic model or model of kubernetes_asyncio.
        resource: The resource to name in errors.

    Raises:
        ConfigError: Objects cannot be decoded as this type.
    """

    __slots__ = ("resource", "type")

    def __init__(self, type: type[M], resource: str) -> None:  # noqa: A002 - the word of `decode`
        check_model(type)
        self.type = type
        self.resource = resource

    def read(self, obj: KubeObject) -> ModelView[M]:
        """Return a new view of an object with the model. Takes 0.5 us, and the time to unpack a packed object."""
        # A handler's own view is reused with its decoded values, because it has the same reader.
        mine = obj if type(obj) is ObjectView else view(obj)
        if type(mine) is not ObjectView:
            mine = KubeObject._view(mine)  # unpacks the JSON of a packed object
        return ModelView(*fields_of(mine)[:_FIELDS], self)

    def reading(self, function: Callable[[KubeObject[M]], _T]) -> Callable[[KubeObject], _T]:
        """Wrap a function of one object (a filter or an index function), so that it gets the object with its model.

        The results for equal functions are equal, so that an index requested twice exists only once.
        """
        return _OfModel(self, function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (self.type, self.resource) == (other.type, other.resource)

    def __hash__(self) -> int:
        return hash((self.type, self.resource))


class _OfModel(Generic[_T]):
    """See `Model.reading`."""

    __slots__ = ("_function", "_model")

    def __init__(self, model: Model[_M], function: Callable[[KubeObject[_M]], _T]) -> None:
        self._model = model
        self._function = function

    def __call__(self, obj: KubeObject) -> _T:
        return self._function(self._model.read(obj))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _OfModel) and (self._model, self._function) == (other._model, other._function)

    def __hash__(self) -> int:
        return hash((self._model, self._function))

    def __repr__(self) -> str:
        return repr(self._function)

    @property
    def __wrapped__(self) -> Callable[..., _T]:
        return self._function

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            return inspect.signature(self._function, follow_wrapped=False)
        except (TypeError, ValueError) as error:
            raise AttributeError(str(error)) from None


class ModelView(ObjectView[M_co], frozen=True, gc=True, eq=False):
    """A view with a model. It equals its original object, and has the same hash."""

    _reads_as: Model[Any] | None = None
    _value: object = msgspec.UNSET

    @property
    def model(self) -> M_co:
        """See `KubeObject.model`. Each read of this view returns the same instance."""
        value = self._value
        if value is msgspec.UNSET:
            reads_as = self._model()
            value = decode_as(self.raw, reads_as.type, f"{reads_as.resource} {self.key}")
            force_setattr(self, "_value", value)
        return cast("M_co", value)

    def _model(self) -> Model[Any]:
        assert self._reads_as is not None
        return self._reads_as

    def _view(self) -> ModelView[M_co]:
        return self._model().read(super()._view())

    def __reduce__(self) -> tuple[object, ...]:
        return _unpickled, (super().__reduce__()[1], self._model().type, self._model().resource)


def read_like(obj: object, stored: KubeObject) -> KubeObject:
    """Return a response to a write of `obj` with the model of `obj`, if that has one and is of the same kind."""
    if isinstance(obj, ModelView) and obj is not stored and obj.kind == stored.kind:
        return obj._model().read(stored)
    return stored


def models_of(obj: object) -> tuple[object, object] | None:
    """Return the model that was read from an object, and the same decoded anew. None if it was not read."""
    if not isinstance(obj, ModelView) or obj._value is msgspec.UNSET:
        return None
    return obj._value, decode_as(obj.raw, obj._model().type, obj)


def _unpickled(fields: tuple[object, ...], kind: type[_T], resource: str) -> KubeObject[_T]:
    return Model(kind, resource).read(ObjectView(*fields))
