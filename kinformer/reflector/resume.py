"""The state of an earlier run of the program: objects and a resourceVersion from which a watch can be resumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from kinformer._runtime.chunks import ChunkedList
from kinformer.objects.object import KubeObject

__all__ = ["Resume", "Resumption"]


@dataclass(slots=True)
class Resumption:
    """A state to resume from.

    Attributes:
        objects: All objects. The reflector takes ownership of them.
        resource_version: The version of the state.
        cluster: The identity of the cluster, or None if it is unknown.
        newest: The objects with the highest resourceVersions.
    """

    objects: ChunkedList[KubeObject]
    resource_version: str
    cluster: str | None = None
    newest: list[KubeObject] = field(default_factory=list)


Resume = Callable[[], Awaitable[Resumption | None]]
"""Called by a reflector before its first list. Returns a state to resume from, or None. Errors are retried."""
