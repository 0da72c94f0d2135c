"""One change of a watched resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["StreamEvent"]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event of a `WatchStream`.

    Attributes:
        type: `"ADDED"`, `"UPDATED"` or `"DELETED"`.
        key: `"namespace/name"`, or `"name"`.
        uid: The uid of the object.
        object: The object, of a DELETED its last state; None in a DELETED that a list has found, since no object is
            kept.
        is_in_initial_list: True for an ADDED of an object that existed when the stream was entered.
    """

    type: str
    key: str
    uid: str
    object: Any  # a KubeObject, unless the source has others
    is_in_initial_list: bool = False
