"""The port to a cache that several processes share, for the informers of a factory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from kinformer.list_watcher import ListerWatcher
from kinformer.listwatch.http_source import ListWatch
from kinformer.objects.object import KubeObject

__all__ = ["CacheState", "Role", "SharedCache", "SharingForm", "StateOf"]

Role = Literal["holder", "follower", "alone"]


CacheState: TypeAlias = tuple[Sequence[KubeObject], str]
"""All whole objects of a source that a cache has, and their version."""


StateOf: TypeAlias = Callable[[float], Awaitable[CacheState | None]]
"""Waits at most so many seconds for the state of an informer's cache. None if it is not known, or not whole objects."""


class SharingForm(NamedTuple):
    """The form in which a source asks for its objects, besides its resource, namespace and selectors."""

    label_selector: str | None
    field_selector: str | None
    shard_selector: str | None
    metadata_only: bool
    keep_managed_fields: bool
    fields: tuple[str, ...] | None
    max_event_bytes: int


class SharedCache(Protocol):
    """A cache that processes share. `kinformer.watchcache.Share` is one."""

    @property
    def role(self) -> Role:
        """The part of this process: it holds the cache, follows the holder, or reads from the server by itself."""
        ...

    @property
    def holder(self) -> int | None:
        """The process id of the holder, or None if this process is alone."""
        ...

    def begin(self, client: Any, options: Mapping[str, object]) -> None:  # Any: `Client` is above this package
        """Start to share, on the running event loop.

        Args:
            client: The client of the factory.
            options: How its informers follow the server, as keyword arguments of a reflector.

        Raises:
            ConfigError: The socket cannot be used. The message says what to do.
        """
        ...

    async def end(self) -> None:
        """Stop sharing. If this process is the holder, another one takes over."""
        ...

    def source(self, direct: ListWatch, form: SharingForm, state: StateOf) -> ListerWatcher:
        """Return a source that reads from the shared cache.

        Args:
            direct: The source of the same objects at the server.
            form: The form of the objects.
            state: Returns the state of the informer's cache of these objects, once all that was received is in it.
        """
        ...
