"""Types shared by signatures: a decoded document, the model of an object, and the objects of a store.

The type variables have defaults, so that a bare ``SharedInformer`` or ``Indexer`` in an annotation means "of
anything". Defaults (PEP 696) are only for type checkers, which include `typing_extensions`. At run time they need
Python 3.13.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    M = TypeVar("M", default=Any)
    M_co = TypeVar("M_co", covariant=True, default=Any)
    M_contra = TypeVar("M_contra", contravariant=True, default=Any)
    ModelT = TypeVar("ModelT", default="NoModel")
    ObjectT = TypeVar("ObjectT", default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")
    M_co = TypeVar("M_co", covariant=True)
    M_contra = TypeVar("M_contra", contravariant=True)
    ModelT = TypeVar("ModelT")  # the model that a call asks for, or NoModel
    ObjectT = TypeVar("ObjectT")

__all__ = [
    "JSON",
    "ApiModel",
    "ApiObject",
    "KeyedValue",
    "M",
    "M_co",
    "M_contra",
    "ModelT",
    "NoModel",
    "Object",
    "ObjectT",
    "TrackedValue",
]


class NoModel:
    """Marks, for type checkers, the objects of an informer without a model: `KubeObject[NoModel]`.

    There are no instances. `obj.model` of such an object raises AttributeError. `obj.decode(...)` needs no model.
    """


JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A decoded document, or a part of one.

For code that inspects a document. Programs that read an object get `Any`, which they can index freely.
"""


Object: TypeAlias = Mapping[str, Any]
"""A decoded API object, for code that reads its fields by what the API promises of them."""


class ApiModel(Protocol):
    """An object of a client library, such as kubernetes_asyncio's `V1Pod`."""

    @property
    def metadata(self) -> object:
        """Has the attributes `name`, `namespace`, `uid` and `resource_version`."""
        ...


ApiObject: TypeAlias = Mapping[str, object] | ApiModel
"""An API object. A `KubeObject` is such a mapping."""


class KeyedValue(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A value with its key, as stored in the cache of a derived collection.

    The garbage collector does not track it, so its value must not be able to form a cycle. It may be a string, a
    number, a `KubeObject` or a tuple of these. Any other value is stored in a `TrackedValue`.
    """

    key: str
    value: Any

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the value, for selectors. Empty if it has no attribute `labels`."""
        labels = getattr(self.value, "labels", None)
        return labels if isinstance(labels, Mapping) else {}


class TrackedValue(KeyedValue, frozen=True, eq=False, gc=True):
    """An arbitrary value with its key, which the garbage collector tracks."""
