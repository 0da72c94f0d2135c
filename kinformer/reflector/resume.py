"""What an earlier life of the program knew: objects and a resourceVersion to go on from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kinformer._runtime.chunks import ChunkedList
from kinformer.objects.object import KubeObject

__all__ = ["Resume", "Resumption"]


@dataclass(slots=True)
class Resumption:
    """The state to go on from.

    Attributes:
        objects: All of them; they are their taker's to keep.
        resource_version: What they are of.
        cluster: Which cluster that was, or None where it is not known.
        newest: Those of them with the highest resourceVersions.
    """

    objects: ChunkedList[KubeObject]
    resource_version: str
    cluster: str | None = None
    newest: list[KubeObject] = field(default_factory=list)


Resume = Callable[[], Awaitable[Resumption | None]]
"""Asked by a reflector before its first list; None: there is nothing to go on from. Errors are tried again."""
