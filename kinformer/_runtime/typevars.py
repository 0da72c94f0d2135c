"""What is left open in the types: the model that a program reads objects as, and the objects of a store.

Each has a default, so that a bare ``SharedInformer`` or ``Indexer`` in an annotation says "of anything". Defaults are
for type checkers (PEP 696), which bring `typing_extensions` along; at run time they would need Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

__all__ = ["M", "M_co", "M_contra", "ObjectT"]
