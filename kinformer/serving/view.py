"""The form in which a request gets stored objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kinformer.serving.storage import Stored, StoredChange

__all__ = ["View"]


class View(Protocol):
    """Encodes stored objects. Views with equal `key` encode them equally.

    Attributes:
        form: "" for whole objects, "partial" for their metadata, or "table" for rows.
        key: Part of the key of the lines that watchers share.
    """

    form: str
    key: Any

    def item(self, stored: Stored, /) -> bytes: ...
    def frame(self, metadata: Mapping[str, Any], /) -> tuple[bytes, bytes]: ...
    def event(self, kind: str, stored: Stored, /, *, first: bool = False) -> bytes: ...
    def line(self, change: StoredChange, kind: str, stored: Stored, /) -> bytes: ...
    def moved(self, stored: Stored, revision: int, /) -> Stored: ...
    def bookmark(self, revision: int, /, *, initial_end: bool = False) -> bytes: ...
