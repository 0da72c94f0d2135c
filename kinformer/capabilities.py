"""Optional abilities of a source besides `list` and `watch`, and how they are determined."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from anyio import CapacityLimiter

from kinformer.list_watcher import ClusterProbe, Events, MetadataLister, PresenceProbe, Resumable, TipProbe, WatchEvent

__all__ = [
    "Capabilities",
    "Connected",
    "IngestCounts",
    "PathReadingSource",
    "SharedHistory",
    "SnapshotSource",
    "capabilities_of",
    "find_capabilities",
]


@runtime_checkable
class SnapshotSource(Protocol):
    """A source that can convert an older object into the form of its objects."""

    def keep(self, obj: Any, /) -> Any: ...


@runtime_checkable
class SelectingSource(Protocol):
    """Optional method of a `ListerWatcher` with selectors: checks whether it selects an object in this state."""

    def selects(self, obj: Any, /) -> bool:
        """Return False if this `KubeObject`, from a server's response, is certainly not among its objects."""
        ...


@runtime_checkable
class ThreadedSource(Protocol):
    """A source whose informers share a limiter for the worker threads of handlers."""

    @property
    def handler_limiter(self) -> CapacityLimiter: ...


class Connected(Protocol):
    """The part of a client that identifies its server."""

    @property
    def server(self) -> str:
        """The URL of the server. Raises RuntimeError before it is known."""
        ...


@runtime_checkable
class ClientSource(Protocol):
    """A source that uses a client, so that the client's writes go to the same server."""

    client: Connected


@runtime_checkable
class WholeSource(Protocol):
    """A source that reports whether it has all objects of its resource and namespace, without selectors."""

    selects_all: bool


class IngestCounts(Protocol):
    """Counts of a source: received `bytes` of bodies, and objects skipped as undecodable."""

    bytes: int
    decode_errors: int


@runtime_checkable
class CountedSource(Protocol):
    """A source that counts received data."""

    @property
    def stats(self) -> IngestCounts: ...


@runtime_checkable
class PathReadingSource(Protocol):
    """A source that can read the values of JSON paths while decoding, so that a cache needs no second scan."""

    def read_paths(self, paths: Iterable[str], /) -> None:
        """Read these paths with each object from now on, in addition to earlier paths."""


@runtime_checkable
class PushingSource(Protocol):
    """A source that can pass on events of its streams in the callback in which they arrive."""

    def push(self, stream: AsyncIterator[Events], take: Callable[[Events], bool], /) -> bool:
        """Offer events of a stream to `take` while the reader of the stream waits, or return False.

        The stream continues after events for which `take` returned True. It has all others. An empty list is a sign of
        life. `take` is short and does not raise. Return False for a stream that is not one of `watch`, for example
        because a subclass changed it.
        """
        ...


@runtime_checkable
class LimitedSource(Protocol):
    """A source that remembers how long the heads of its LISTs take. `head_limit` is a `HeadLimit`."""

    head_limit: object


@runtime_checkable
class DecodingSource(Protocol):
    """A source that reports whether all its objects are `KubeObject`s, because it skips undecodable ones."""

    decodes: bool


@runtime_checkable
class NamedSource(Protocol):
    """A source with a name for logs and errors, such as `"v1/pods in default"`."""

    name: str


@runtime_checkable
class ResourceSource(Protocol):
    """A source of one resource. `resource` is a `GroupVersionResource`."""

    resource: Any


@runtime_checkable
class NamespacedSource(Protocol):
    """A source of one namespace, or of all (None)."""

    namespace: str | None


@runtime_checkable
class NamespaceProbe(Protocol):
    """A source of one namespace that can find out whether the namespace exists."""

    async def check_existence(self) -> None:
        """Log a warning if it does not exist."""


@runtime_checkable
class WatchListSource(Protocol):
    """A source that reports whether it supports a watch with initial events."""

    supports_watch_list: bool


class SharedHistory(Protocol):
    """The past changes of a source, in the cache that several processes share."""

    @property
    def lineage(self) -> str:
        """An identifier that is equal where the same versions mean the same objects, or "" while it is unknown."""
        ...

    async def changes(self, since: str, until: str, label_selector: str) -> list[WatchEvent] | None:
        """Return the changes of selected objects between two versions, or None if they are not known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The optional abilities of a source besides `list` and `watch`. None means that an ability is missing.

    Attributes:
        name: The name for logs and errors. By default, the name of the source's class.
        resource: A `GroupVersionResource`.
        namespace: The namespace of its objects, or None for all.
        watch_list: False if the source does not support an initial stream.
        head_limit: A `HeadLimit`.
        decodes: True if all objects of the source are `KubeObject`s.
        selects_all: True if the source certainly has all objects.
        shared: Returns whether the process from whose cache it reads is live, and its process id.
        history: The past changes in that cache.
    """

    name: str
    resource: Any = None
    namespace: str | None = None
    namespace_probe: NamespaceProbe | None = None
    watch_list: bool = True
    head_limit: object = None
    decodes: bool = False
    selects_all: bool = False
    tip: TipProbe | None = None
    cluster: ClusterProbe | None = None
    presence: PresenceProbe | None = None
    resumable: Resumable | None = None
    metadata: MetadataLister | None = None
    snapshots: SnapshotSource | None = None
    selecting: SelectingSource | None = None
    stats: IngestCounts | None = None
    path_reading: PathReadingSource | None = None
    pushing: PushingSource | None = None
    threads: ThreadedSource | None = None
    client: Connected | None = None
    shared: Callable[[], tuple[bool, int | None]] | None = None
    history: SharedHistory | None = None

    def handler_limiter(self) -> CapacityLimiter | None:
        """Return the limiter of worker threads, or None for the event loop's limiter."""
        return None if self.threads is None else self.threads.handler_limiter


@runtime_checkable
class DescribedSource(Protocol):
    """A source that reports its abilities, for example a wrapper around another source."""

    @property
    def capabilities(self) -> Capabilities: ...


def capabilities_of(source: object) -> Capabilities:
    """Return the optional abilities of a source. No other function determines them."""
    return source.capabilities if isinstance(source, DescribedSource) else find_capabilities(source)


def find_capabilities(source: object) -> Capabilities:
    """Determine the optional abilities of a source with 20 Protocols, which takes 0.1 ms before Python 3.12."""
    return Capabilities(
        name=(source.name if isinstance(source, NamedSource) else "") or type(source).__name__,
        resource=source.resource if isinstance(source, ResourceSource) else None,
        namespace=(source.namespace or None) if isinstance(source, NamespacedSource) else None,
        namespace_probe=source if isinstance(source, NamespaceProbe) else None,
        watch_list=source.supports_watch_list if isinstance(source, WatchListSource) else True,
        head_limit=source.head_limit if isinstance(source, LimitedSource) else None,
        decodes=source.decodes is True if isinstance(source, DecodingSource) else False,
        selects_all=source.selects_all is True if isinstance(source, WholeSource) else False,
        tip=source if isinstance(source, TipProbe) else None,
        cluster=source if isinstance(source, ClusterProbe) else None,
        presence=source if isinstance(source, PresenceProbe) else None,
        resumable=source if isinstance(source, Resumable) else None,
        metadata=source if isinstance(source, MetadataLister) else None,
        snapshots=source if isinstance(source, SnapshotSource) else None,
        selecting=source if isinstance(source, SelectingSource) else None,
        stats=source.stats if isinstance(source, CountedSource) else None,
        path_reading=source if isinstance(source, PathReadingSource) else None,
        pushing=source if isinstance(source, PushingSource) else None,
        threads=source if isinstance(source, ThreadedSource) else None,
        client=source.client if isinstance(source, ClientSource) else None,
    )
