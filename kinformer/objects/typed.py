"""An object with its model: what a typed informer shows in the place of an object.

The model is decoded when it is first read, and kept in the view, which belongs to one reader: a handler has a view of
its own with each event, and each read of a lister gives a new one. So a model may be mutable (dataclasses and the
models of kubernetes_asyncio are): what a program does to it reaches neither the cache nor anybody else. Sharing one
decoded model among all handlers would save decodes, and would make a change in one handler the next one's truth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import msgspec

from kinformer.objects.models import check_model, decode_as
from kinformer.objects.object import KubeObject, ObjectView, view
from kinformer.objects.types import M

__all__ = ["Model", "ModelView"]

_T = TypeVar("_T")

_FIELDS = len(ObjectView.__struct_fields__)
_as_tuple = cast("Callable[[KubeObject], tuple[Any, ...]]", msgspec.structs.astuple)
_force_setattr = cast("Callable[[KubeObject, str, Any], None]", msgspec.structs.force_setattr)


class Model(Generic[M]):
    """A type of the user's choice, and the resource whose objects are read as it.

    Args:
        type: A msgspec Struct, dataclass, TypedDict, pydantic model or model of kubernetes_asyncio.
        resource: Named in errors.

    Raises:
        ConfigError: Nothing can be decoded as this type.
    """

    __slots__ = ("resource", "type")

    def __init__(self, type: type[M], resource: str) -> None:  # noqa: A002 - the word of `decode`
        check_model(type)
        self.type = type
        self.resource = resource

    def read(self, obj: Any) -> Any:
        """A view of an object with the model, nothing decoded yet; 0.5 us, and what unpacking takes where it is packed.

        What is no KubeObject stays as it is.
        """
        if not isinstance(obj, KubeObject):
            return obj
        # A handler's own view is taken over with what it has decoded: it is the same reader's.
        mine = obj if type(obj) is ObjectView else view(obj)
        if type(mine) is not ObjectView:
            mine = KubeObject._view(mine)  # its JSON, where that is packed
        return ModelView(*_as_tuple(mine)[:_FIELDS], self)

    def reading(self, function: Callable[[Any], _T]) -> Callable[[Any], _T]:
        """A function of one object (a filter, an index function), which gets it with the model.

        Equal for equal functions: an informer that is asked for the same index twice has it once.
        """
        return _Reading(self, function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and (self.type, self.resource) == (other.type, other.resource)

    def __hash__(self) -> int:
        return hash((self.type, self.resource))


class _Reading(Generic[_T]):
    """See `Model.reading`."""

    __slots__ = ("_function", "_model")

    def __init__(self, model: Model[Any], function: Callable[[Any], _T]) -> None:
        self._model = model
        self._function = function

    def __call__(self, obj: Any) -> _T:
        return self._function(self._model.read(obj))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reading) and (self._model, self._function) == (other._model, other._function)

    def __hash__(self) -> int:
        return hash((self._model, self._function))

    def __repr__(self) -> str:
        return repr(self._function)


class ModelView(ObjectView, Generic[M], frozen=True, gc=True, eq=False):
    """A view with a model; equal to, and hashed as, the object that it was made of."""

    _reads_as: Model[Any] | None = None
    _value: Any = msgspec.UNSET

    @property
    def model(self) -> M:
        """See `KubeObject.model`; the same instance at each read of this view."""
        value = self._value
        if value is msgspec.UNSET:
            reads_as = self._model()
            value = decode_as(self.raw, reads_as.type, f"{reads_as.resource} {self.key}")
            _force_setattr(self, "_value", value)
        return cast("M", value)

    def _model(self) -> Model[Any]:
        assert self._reads_as is not None
        return self._reads_as

    def _view(self) -> ObjectView:
        return cast("ObjectView", self._model().read(super()._view()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (super().__reduce__()[1], self._model().type, self._model().resource)


def _unpickled(fields: tuple[Any, ...], kind: type[Any], resource: str) -> KubeObject:
    return cast("KubeObject", Model(kind, resource).read(ObjectView(*fields)))
