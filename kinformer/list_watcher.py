"""The interface to sources of objects: the requests of a reflector, and their responses."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, MappingView, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from anyio import CapacityLimiter

__all__ = [
    "ClusterProbe",
    "ListOptions",
    "ListPage",
    "ListerWatcher",
    "MetadataList",
    "MetadataLister",
    "PresenceProbe",
    "ReadBack",
    "Resumable",
    "ServerProbe",
    "ServerTip",
    "TipProbe",
    "WatchEvent",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The query of one LIST or watch request (apimachinery/pkg/apis/meta/v1/types.go, ListOptions).

    A field that is None or empty is not sent. `timeout_seconds` is in whole seconds, as on the wire. `extra` has
    further query parameters, which take precedence over fields with the same name.
    """

    label_selector: str | None = None
    field_selector: str | None = None
    shard_selector: str | None = None
    resource_version: str | None = None
    resource_version_match: str | None = None
    limit: int | None = None
    continue_token: str | None = None
    timeout_seconds: int | None = None
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)

    def replace(self, **changes: Any) -> ListOptions:
        """Return a copy with some fields changed: `options.replace(limit=100)`."""
        return replace(self, **changes)

    def params(self) -> dict[str, str]:
        """Return the query parameters by their names on the wire."""
        pairs: dict[str, str | int | None] = {
            "labelSelector": self.label_selector,
            "fieldSelector": self.field_selector,
            "shardSelector": self.shard_selector,
            "resourceVersion": self.resource_version,
            "resourceVersionMatch": self.resource_version_match,
            "limit": self.limit,
            "continue": self.continue_token,
            "timeoutSeconds": self.timeout_seconds,
        }
        params = {name: str(value) for name, value in pairs.items() if value not in (None, "")}
        if self.allow_watch_bookmarks:
            params["allowWatchBookmarks"] = "true"
        if self.send_initial_events is not None:
            params["sendInitialEvents"] = "true" if self.send_initial_events else "false"
        return {**params, **self.extra}


@dataclass(slots=True)
class PageHeader:
    """The metadata of a page, which may follow its items. Shared by a page and the pages derived from it."""

    resource_version: str = ""
    continue_token: str = ""


_MUTABLE = (list, set, deque, Mapping, MappingView)  # copied in a step, about 10 ns for each object


class ListPage:
    """One page of a LIST.

    Args:
        items: An iterable of objects, or an async iterable of lists of objects. With the latter, the other two fields
            are only valid after the last list. The reader of a page must call `items.aclose()` if that exists. A list,
            set or dict, or a view of one, is copied, because it may change while the page is read.
        resource_version: The version of the list.
        continue_token: The start of the next page, or "" for the last page.
        header: Pass this instead of the other two. It has their values once the items have been read.
    """

    __slots__ = ("header", "items")

    def __init__(
        self,
        items: Iterable[Any] | AsyncIterable[list[Any]],
        resource_version: str = "",
        continue_token: str = "",
        *,
        header: PageHeader | None = None,
    ) -> None:
        self.items = list(items) if isinstance(items, _MUTABLE) else items
        self.header = PageHeader(resource_version, continue_token) if header is None else header

    @property
    def resource_version(self) -> str:
        """The version of the list. If the items are streamed, valid only after the last one."""
        return self.header.resource_version

    @resource_version.setter
    def resource_version(self, value: str) -> None:
        self.header.resource_version = value

    @property
    def continue_token(self) -> str:
        """The start of the next page, or "" for the last page."""
        return self.header.continue_token

    @continue_token.setter
    def continue_token(self, value: str) -> None:
        self.header.continue_token = value

    def __repr__(self) -> str:
        return f"ListPage({self.items!r}, {self.resource_version!r}, {self.continue_token!r})"


class WatchEvent(NamedTuple):
    """An event of a watch. `type` is `"ADDED"`, `"MODIFIED"`, `"DELETED"` or `"BOOKMARK"`."""

    type: str
    object: Any


Events = list[WatchEvent]


@runtime_checkable
class ListerWatcher(Protocol):
    """A source of objects that can be listed, and watched from that version (client-go, listwatch.go).

    Errors are raised, including errors within a stream: `ExpiredError` for a 410, and so on.
    """

    async def list(self, options: ListOptions) -> ListPage:
        """List one page."""
        ...

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        """Open a stream of lists of events, which ends when the server ends it."""
        ...


class ServerTip(NamedTuple):
    """The newest resourceVersion of a server, and the identity of its cluster (None: unknown). See `ServerProbe`."""

    resource_version: str
    cluster: str | None = None


# --- optional abilities of a source -----------------------------------------------------------------------------------


@runtime_checkable
class TipProbe(Protocol):
    """Optional method of a `ListerWatcher`: gets the server's version, before a watch is resumed after a gap."""

    async def tip(self) -> ServerTip:
        """Return the newest resourceVersion of the resource, without selectors."""
        ...


@runtime_checkable
class ClusterProbe(Protocol):
    """Optional method of a `ListerWatcher`: gets the identity of its cluster, more cheaply than `tip`."""

    async def cluster(self) -> str | None:
        """Return the identity of the cluster, or None if unknown."""
        ...


@runtime_checkable
class PresenceProbe(Protocol):
    """Optional method of a `ListerWatcher`: checks whether its resource still exists."""

    async def presence(self) -> bool | None:
        """Return whether discovery has the resource, or None if the response is missing or unreliable."""
        ...


@runtime_checkable
class ServerProbe(TipProbe, PresenceProbe, Protocol):
    """Both optional methods of a `ListerWatcher` with which a reflector verifies the server after a gap.

    `tip` detects that a server was rolled back or replaced, and `presence` that a resource was removed.
    """


class Identified(Protocol):
    """The identity of one state of an object, which a `KubeObject` has."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class IdentifiedByKey(Identified, Protocol):
    """The identity and the key of one object, which a `KubeObject` has."""

    @property
    def key(self) -> str: ...


class ReadBack(NamedTuple):
    """The current object on the server (or only its metadata) or None, and the resourceVersion of the response.

    See `Resumable`.
    """

    object: Identified | None
    resource_version: str


@runtime_checkable
class Resumable(Protocol):
    """Optional methods of a `ListerWatcher` with which an informer resumes from a snapshot of its objects."""

    @property
    def contents(self) -> Mapping[str, str]:
        """A description of the objects. Two sources with equal contents have the same objects in the same form.

        A snapshot with other contents is not used.
        """
        ...

    async def read_back(self, namespace: str, name: str) -> ReadBack:
        """Read one object from the server itself, not from a cache."""
        ...


class MetadataList(NamedTuple):
    """The current objects on the server (or only their metadata), and the resourceVersion of the response."""

    objects: Sequence[IdentifiedByKey]
    resource_version: str


@runtime_checkable
class MetadataLister(Protocol):
    """Optional method of a `ListerWatcher`: reads identities from the server itself, for `SharedInformer.confirm`."""

    async def list_metadata(self, namespace: str = "", *, name: str = "", label_selector: str = "") -> MetadataList:
        """List those of its objects that meet these conditions."""
        ...


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The optional abilities of a source besides `list` and `watch`. None means that an ability is missing.

    Attributes:
        name: The name for logs and errors. By default, the name of the source's class.
        resource: A `GroupVersionResource`.
        namespace: The namespace of its objects, or None for all.
        watch_list: False if the source does not support an initial stream.
        decodes: True if all objects of the source are `KubeObject`s.
        selects_all: True if the source certainly has all objects.
        shared: Returns whether the process from whose cache it reads is live, and its process id.
    """

    name: str
    resource: Any = None
    namespace: str | None = None
    namespace_probe: NamespaceProbe | None = None
    watch_list: bool = True
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
    threads: ThreadedSource | None = None
    client: Connected | None = None
    shared: Callable[[], tuple[bool, int | None]] | None = None

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
    """Determine the optional abilities of a source with 18 Protocols, which takes 0.1 ms before Python 3.12."""
    return Capabilities(
        name=(source.name if isinstance(source, NamedSource) else "") or type(source).__name__,
        resource=source.resource if isinstance(source, ResourceSource) else None,
        namespace=(source.namespace or None) if isinstance(source, NamespacedSource) else None,
        namespace_probe=source if isinstance(source, NamespaceProbe) else None,
        watch_list=source.supports_watch_list if isinstance(source, WatchListSource) else True,
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
        threads=source if isinstance(source, ThreadedSource) else None,
        client=source.client if isinstance(source, ClientSource) else None,
    )
