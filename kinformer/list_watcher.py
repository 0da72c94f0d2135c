"""The port to a source of objects: the requests of a reflector, and their answers."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from anyio import CapacityLimiter

from kinformer.exceptions import ConfigError

__all__ = [
    "ClusterProbe",
    "ListOptions",
    "ListPage",
    "ListerWatcher",
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

    A field that is None or empty is not sent. `timeout_seconds` is whole seconds, as on the wire;
    `extra` holds further query parameters, and wins over a field of the same name.
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
        """Return the query parameters, by their names on the wire."""
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
    """The metadata of a page, which a server may write behind its items; shared by a page and the pages made of it."""

    resource_version: str = ""
    continue_token: str = ""


class ListPage:
    """One page of a LIST.

    Args:
        items: An iterable of objects, or an async iterable of lists of them. With the latter the two other fields are
            read after its last list. The reader of a page closes it: `items.aclose()`, if there is such a method.
        resource_version: The version of the list.
        continue_token: The start of the next page; "" on the last one.
        header: An object that will hold the other two once the items have been read; given instead of them.
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
        self.items = items
        self.header = PageHeader(resource_version, continue_token) if header is None else header

    @property
    def resource_version(self) -> str:
        """The version of the list; of a page whose items come as a stream, after the last of them."""
        return self.header.resource_version

    @resource_version.setter
    def resource_version(self, value: str) -> None:
        self.header.resource_version = value

    @property
    def continue_token(self) -> str:
        """The start of the next page; "" on the last one."""
        return self.header.continue_token

    @continue_token.setter
    def continue_token(self, value: str) -> None:
        self.header.continue_token = value

    def __repr__(self) -> str:
        return f"ListPage({self.items!r}, {self.resource_version!r}, {self.continue_token!r})"


class WatchEvent(NamedTuple):
    """One event of a watch: `type` is `"ADDED"`, `"MODIFIED"`, `"DELETED"` or `"BOOKMARK"`."""

    type: str
    object: Any


Events = list[WatchEvent]


@runtime_checkable
class ListerWatcher(Protocol):
    """A source of objects that can be listed once and watched from there (client-go, listwatch.go).

    Errors are raised, also those that come inside a stream: `ExpiredError` for a 410, and so on.
    """

    async def list(self, options: ListOptions) -> ListPage:
        """List one page."""
        ...

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        """Open a stream of lists of events, which ends when the server ends it."""
        ...


class ServerTip(NamedTuple):
    """The newest resourceVersion of a server, and an identity of its cluster (None: unknown); see `ServerProbe`."""

    resource_version: str
    cluster: str | None = None


# --- what a source may offer beside list and watch --------------------------------------------------------------------


@runtime_checkable
class TipProbe(Protocol):
    """Optional method of a `ListerWatcher`: asks how far its server is, before a watch is resumed after a gap."""

    async def tip(self) -> ServerTip:
        """Ask for the newest resourceVersion of the resource, without selectors."""
        ...


@runtime_checkable
class ClusterProbe(Protocol):
    """Optional method of a `ListerWatcher`: asks which cluster its objects are in, more cheaply than by `tip`."""

    async def cluster(self) -> str | None:
        """Return an identity of the cluster, None if it cannot be known."""
        ...


@runtime_checkable
class PresenceProbe(Protocol):
    """Optional method of a `ListerWatcher`: asks whether its resource still exists."""

    async def presence(self) -> bool | None:
        """Ask discovery whether the resource is served; None if the answer is not available or not to be trusted."""
        ...


@runtime_checkable
class ServerProbe(TipProbe, PresenceProbe, Protocol):
    """Optional methods of a `ListerWatcher` that let a reflector verify the server after a gap: both at once.

    With `tip` it notices that a server was rolled back or replaced, with `presence` that a resource was removed.
    """


class Identified(Protocol):
    """The identity of one state of one object; a `KubeObject` has it."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class ReadBack(NamedTuple):
    """An object as the server has it now (its metadata suffices), or None; and the resourceVersion of the answer.

    See `Resumable`.
    """

    object: Identified | None
    resource_version: str


@runtime_checkable
class Resumable(Protocol):
    """Optional methods of a `ListerWatcher` that let an informer go on from a snapshot of its objects."""

    @property
    def contents(self) -> Mapping[str, str]:
        """A description of the objects: two sources with equal contents give the same objects in the same form.

        A snapshot with other contents is not used.
        """
        ...

    async def read_back(self, namespace: str, name: str) -> ReadBack:
        """Ask the server itself, not a cache of it, for one object."""
        ...


@runtime_checkable
class SnapshotSource(Protocol):
    """A source that brings an object of an earlier time into the form in which it gives objects."""

    def keep(self, obj: Any, /) -> Any: ...


@runtime_checkable
class SelectingSource(Protocol):
    """Optional method of a `ListerWatcher` that has selectors: tells if it gives an object in this state."""

    def selects(self, obj: Any, /) -> bool:
        """Return False if this `KubeObject`, as a server has answered it, is certainly not among its objects."""
        ...


@runtime_checkable
class ThreadedSource(Protocol):
    """A source whose informers share a limiter of the worker threads of their handlers."""

    @property
    def handler_limiter(self) -> CapacityLimiter: ...


class Connected(Protocol):
    """The part of a client that tells two servers apart."""

    @property
    def server(self) -> str:
        """The URL of the server. Raises RuntimeError before it is known."""
        ...


@runtime_checkable
class ClientSource(Protocol):
    """A source whose objects come through a client, so that a write of that client is one to the same server."""

    client: Connected


@runtime_checkable
class WholeSource(Protocol):
    """A source that says whether it gives all objects of its resource and namespace: no selector leaves one out."""

    selects_all: bool


class IngestCounts(Protocol):
    """Counts of what a source has received: `bytes` of bodies, and objects that it left out as undecodable."""

    bytes: int
    decode_errors: int


@runtime_checkable
class CountedSource(Protocol):
    """A source that counts what it receives."""

    @property
    def stats(self) -> IngestCounts: ...


@runtime_checkable
class PathReadingSource(Protocol):
    """A source that can read the values of JSON paths while it decodes, so that a cache needs no second scan."""

    def read_paths(self, paths: Iterable[str], /) -> None:
        """Read these paths, beside those of earlier calls, with each object from now on."""


@runtime_checkable
class DecodingSource(Protocol):
    """A source that says whether it gives only `KubeObject`s, because it leaves out objects that it cannot decode."""

    decodes: bool


@runtime_checkable
class NamedSource(Protocol):
    """A source with a name for logs and errors, such as `"v1/pods in default"`."""

    name: str


@runtime_checkable
class ResourceSource(Protocol):
    """A source of one resource; `resource` is a `GroupVersionResource`."""

    resource: Any


@runtime_checkable
class NamespacedSource(Protocol):
    """A source of one namespace, or of all (None)."""

    namespace: str | None


@runtime_checkable
class WatchListSource(Protocol):
    """A source that says whether it understands a watch with initial events."""

    supports_watch_list: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """The optional abilities of a source, beside `list` and `watch`; None stands for a missing one.

    Attributes:
        name: For logs and errors; the name of its class if the source has none.
        resource: A `GroupVersionResource`.
        namespace: The one that its objects are of; None is all.
        watch_list: False if the source would not understand an initial stream.
        decodes: True if all objects that the source gives are `KubeObject`s.
        selects_all: True if the source certainly leaves no object out.
    """

    name: str
    resource: Any = None
    namespace: str | None = None
    watch_list: bool = True
    decodes: bool = False
    selects_all: bool = False
    tip: TipProbe | None = None
    cluster: ClusterProbe | None = None
    presence: PresenceProbe | None = None
    resumable: Resumable | None = None
    snapshots: SnapshotSource | None = None
    selecting: SelectingSource | None = None
    stats: IngestCounts | None = None
    path_reading: PathReadingSource | None = None
    threads: ThreadedSource | None = None
    client: Connected | None = None

    def handler_limiter(self) -> CapacityLimiter | None:
        """Return the limiter of worker threads; None is that of the event loop."""
        return None if self.threads is None else self.threads.handler_limiter


@runtime_checkable
class DescribedSource(Protocol):
    """A source that says what it offers: one around another what that offers, for example."""

    @property
    def capabilities(self) -> Capabilities: ...


def capabilities_of(source: object) -> Capabilities:
    """Return the optional abilities of a source. No other function looks for them."""
    return source.capabilities if isinstance(source, DescribedSource) else find_capabilities(source)


def find_capabilities(source: object) -> Capabilities:
    """Find the optional abilities of a source by what it has: 16 Protocols, which takes 0.1 ms before Python 3.12."""
    return Capabilities(
        name=(source.name if isinstance(source, NamedSource) else "") or type(source).__name__,
        resource=source.resource if isinstance(source, ResourceSource) else None,
        namespace=(source.namespace or None) if isinstance(source, NamespacedSource) else None,
        watch_list=source.supports_watch_list if isinstance(source, WatchListSource) else True,
        decodes=source.decodes is True if isinstance(source, DecodingSource) else False,
        selects_all=source.selects_all is True if isinstance(source, WholeSource) else False,
        tip=source if isinstance(source, TipProbe) else None,
        cluster=source if isinstance(source, ClusterProbe) else None,
        presence=source if isinstance(source, PresenceProbe) else None,
        resumable=source if isinstance(source, Resumable) else None,
        snapshots=source if isinstance(source, SnapshotSource) else None,
        selecting=source if isinstance(source, SelectingSource) else None,
        stats=source.stats if isinstance(source, CountedSource) else None,
        path_reading=source if isinstance(source, PathReadingSource) else None,
        threads=source if isinstance(source, ThreadedSource) else None,
        client=source.client if isinstance(source, ClientSource) else None,
    )


# --- several sources for one cache ------------------------------------------------------------------------------------


def by_scope(list_watch: ListerWatcher | Mapping[str, ListerWatcher]) -> dict[str | None, ListerWatcher]:
    """The sources of one cache, by namespace; the key is None if one source covers all.

    Raises:
        ConfigError: There is none.
    """
    if not isinstance(list_watch, Mapping):
        return {None: list_watch}
    if not list_watch:
        raise ConfigError("namespaces: an informer needs one at least")
    if len(list_watch) == 1:
        return {None: next(iter(list_watch.values()))}
    scopes: dict[str | None, ListerWatcher] = dict(list_watch.items())
    return scopes


def followed_namespaces(sources: Mapping[str | None, ListerWatcher]) -> tuple[str, ...] | None:
    """The namespaces of the objects that these sources, by scope, can give; None is all."""
    if None not in sources:
        return tuple(name for name in tuple(sources) if name is not None)
    only = capabilities_of(sources[None]).namespace
    return (only,) if only else None
