"""What an earlier life of the program knew: objects and a resourceVersion to go on from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from kinformer._runtime.chunks import Pieces
from kinformer.objects.object import KubeObject

__all__ = ["ReadBack", "Resumable", "Resume", "Resumption"]


@dataclass(slots=True)
class Resumption:
    """The state to go on from.

    Attributes:
        objects: All of them; they are their taker's to keep.
        resource_version: What they are of.
        cluster: Which cluster that was, or None where it is not known.
        newest: Those of them with the highest resourceVersions.
    """

    objects: Pieces[KubeObject]
    resource_version: str
    cluster: str | None = None
    newest: list[KubeObject] = field(default_factory=list)


Resume = Callable[[], Awaitable[Resumption | None]]
"""Asked by a reflector before its first list; None: there is nothing to go on from. Errors are tried again."""


class ReadBack(NamedTuple):
    """One object as the server has it, its metadata alone will do, or None; and the version of that answer."""

    object: KubeObject | None
    resource_version: str


@runtime_checkable
class Resumable(Protocol):
    """What a source has to offer beside list and watch, so that a snapshot of its objects can be trusted.

    `contents` says in words what the objects are, so that a snapshot of others is known: two sources of equal contents
    give the same objects in the same form. `read_back` asks the server, and no cache of it, for one object.
    """

    @property
    def contents(self) -> Mapping[str, str]: ...

    async def read_back(self, namespace: str, name: str) -> ReadBack: ...
