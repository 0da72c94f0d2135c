"""The form in which a request gets stored objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from kinformer.serving.status import StatusError
from kinformer.serving.storage import Stored, StoredChange

__all__ = ["EventView", "View"]

T_co = TypeVar("T_co", covariant=True)


class EventView(Protocol[T_co]):
    """Makes the lines of a watch. Views with equal `key` make equal lines.

    Attributes:
        form: "" for whole objects, "partial" for their metadata, or "table" for rows.
        key: Part of the key of the lines that watchers share.
    """

    form: str
    key: Any

    def event(self, kind: str, stored: Stored, /, *, first: bool = False) -> T_co: ...
    def line(self, change: StoredChange, kind: str, stored: Stored, /) -> T_co: ...
    def moved(self, stored: Stored, revision: int, /) -> Stored: ...
    def bookmark(self, revision: int, /, *, initial_end: bool = False) -> T_co: ...
    def error(self, error: StatusError, /) -> T_co: ...


class View(EventView[bytes], Protocol):
    """Encodes stored objects."""

    def item(self, stored: Stored, /) -> bytes: ...
    def frame(self, metadata: Mapping[str, Any], /) -> tuple[bytes, bytes]: ...
