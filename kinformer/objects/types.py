"""The types that signatures share: a decoded document, the model of an object, and the objects of a store.

The type variables have defaults, so that a bare ``SharedInformer`` or ``Indexer`` in an annotation means "of anything".
Defaults exist for type checkers only (PEP 696), which bring `typing_extensions`; at run time they need Python 3.13.
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
    ObjectT = TypeVar("ObjectT", default=Any)
else:
    from typing import TypeVar

    M = TypeVar("M")
    M_co = TypeVar("M_co", covariant=True)
    M_contra = TypeVar("M_contra", contravariant=True)
    ObjectT = TypeVar("ObjectT")

__all__ = ["JSON", "ApiModel", "ApiObject", "KeyedValue", "M", "M_co", "M_contra", "NoModel", "ObjectT", "TrackedValue"]


class NoModel:
    """Marks, for type checkers, the objects of an informer without a model: `KubeObject[NoModel]`.

    There are no instances. `obj.model` of such an object is an AttributeError; `obj.decode(...)` needs no model.
    """


JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A decoded document, or a part of one.

For code that inspects a document. Programs that read an object get `Any`, which they can index freely.
"""


class ApiModel(Protocol):
    """An object of a client library, such as kubernetes_asyncio's `V1Pod`."""

    @property
    def metadata(self) -> object:
        """Has the attributes `name`, `namespace`, `uid` and `resource_version`."""
        ...


ApiObject: TypeAlias = Mapping[str, object] | ApiModel
"""An object of the API; a `KubeObject` is such a mapping."""


class KeyedValue(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A value under its key, as the cache of a derived collection holds it.

    The garbage collector does not track it: its value has to be one that cannot lead back to it, such as a text, a
    number, a `KubeObject` or a tuple of these. Any other is under a `TrackedValue`.
    """

    key: str
    value: Any

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the value, by which selectors find it; none if it has no attribute of this name."""
        labels = getattr(self.value, "labels", None)
        return labels if isinstance(labels, Mapping) else {}


class TrackedValue(KeyedValue, frozen=True, eq=False, gc=True):
    """A value that may hold anything, under its key: the garbage collector sees it."""
