"""The interface to sources of objects: the requests of a reflector, and their responses."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, MappingView, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import msgspec

if TYPE_CHECKING:
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
    "Source",
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


class PageHeader(msgspec.Struct):
    """The metadata of a page, which may follow its items. Shared by a page and the pages derived from it."""

    resource_version: str = ""
    continue_token: str = ""


_MUTABLE = (list, set, deque, Mapping, MappingView)  # these are copied in one step, in about 10 ns for each object


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
    """A source of objects that can be listed, and watched from that version (client-go, tools/cache/listwatch.go).

    Errors are raised, including errors within a stream: `ExpiredError` for a 410, and so on.
    """

    async def list(self, options: ListOptions) -> ListPage:
        """List one page."""
        ...

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        """Open a stream of lists of events, which ends when the server ends it."""
        ...


class ServerTip(NamedTuple):
    """The newest resourceVersion of a server, and the identity of its cluster (None: unknown). See `Source.tip`."""

    resource_version: str
    cluster: str | None = None


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
    """The current object on the server (or only its metadata) or None, and the resourceVersion of the response."""

    object: Identified | None
    resource_version: str


class MetadataList(NamedTuple):
    """The current objects on the server (or only their metadata), and the resourceVersion of the response."""

    objects: Sequence[IdentifiedByKey]
    resource_version: str


class Connected(Protocol):
    """The part of a client that identifies its server."""

    @property
    def server(self) -> str:
        """The URL of the server. Raises RuntimeError before it is known."""
        ...


class IngestCounts(Protocol):
    """Counts of a source: received `bytes` of bodies, and objects skipped as undecodable."""

    bytes: int
    decode_errors: int


class Source(ListerWatcher):
    """A `ListerWatcher` with all optional abilities of one. What a source cannot do keeps the answer that it has here.

    A source need not derive from it: the same names are read from any object with `list` and `watch`.

    Attributes:
        name: The name for logs and errors, such as `"v1/pods in default"`. By default that of the class.
        resource: A `GroupVersionResource`.
        namespace: The namespace of its objects, or None for all.
        supports_watch_list: False if a watch cannot begin with all objects.
        sends_bookmarks: True if a watch sends a bookmark before it ends by `timeout_seconds`.
        decodes: True if all objects are `KubeObject`s, because undecodable ones are skipped.
        selects_all: True if it certainly has all objects of its resource and namespace.
        head_limit: A `HeadLimit`, which remembers how long the heads of its LISTs take.
        stats: What it has received.
        client: The client that it uses, so that writes of the client go to the same server.
        handler_limiter: The limiter of worker threads that its informers share. None is the event loop's.
        contents: A description of the objects. Two sources with equal contents have the same objects in the same form.
            An informer resumes from a snapshot with the same contents, if `read_back` is there too.
    """

    name: str = ""
    resource: Any = None
    namespace: str | None = None
    supports_watch_list: bool = True
    sends_bookmarks: bool = False
    decodes: bool = False
    selects_all: bool = False
    head_limit: object = None
    stats: IngestCounts | None = None
    client: Connected | None = None
    handler_limiter: CapacityLimiter | None = None
    contents: Mapping[str, str] | None = None

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.name = cls.name or cls.__name__

    # --- the server ------------------------------------------------------------------------------------------

    async def tip(self) -> ServerTip | None:
        """Return the newest resourceVersion of the resource, without selectors, before a watch resumes after a gap."""
        return None

    async def cluster(self) -> str | None:
        """Return the identity of the cluster, or None if unknown. It should be cheaper than `tip`."""
        tip = await self.tip()
        return None if tip is None else tip.cluster

    async def presence(self) -> bool | None:
        """Return True if the collection exists, in another version too, False if it is gone, or None if unproved.

        If two answers, at least 45 s apart, are False, its objects count as deleted.
        """
        return None

    async def read_back(self, namespace: str, name: str) -> ReadBack | None:
        """Read one object from the server itself, not from a cache."""
        return None

    async def list_metadata(
        self, namespace: str = "", *, name: str = "", label_selector: str = ""
    ) -> MetadataList | None:
        """List the identities of those of its objects that meet these conditions, from the server itself."""
        return None

    async def check_existence(self) -> None:
        """Log a warning if its namespace does not exist."""

    def shared(self) -> tuple[bool, int | None] | None:
        """Return whether the process from whose cache it reads is live, and its process id. None: it reads itself.

        :meta private:
        """
        return None

    # --- objects and events ------------------------------------------------------------------------------------

    def keep(self, obj: Any, /) -> Any:
        """Convert an older object into the form of its objects."""
        return obj

    def selects(self, obj: Any, /) -> bool:
        """Return False if this `KubeObject`, from a server's response, is certainly not among its objects."""
        return True

    def read_paths(self, paths: Iterable[str], /) -> None:
        """Read these paths with each object from now on, besides earlier ones, so that a cache needs no second scan."""

    def push(self, stream: AsyncIterator[Events], take: Callable[[Events], bool], /) -> bool:
        """Offer events of a stream to `take` in the callback in which they arrive, or return False.

        The stream continues after events for which `take` returned True. It has all others. An empty list is a sign of
        life. `take` is short and does not raise. Return False for a stream that is not one of `watch`, for example
        because a subclass changed it.
        """
        return False


TipProbe = ClusterProbe = PresenceProbe = ServerProbe = Resumable = MetadataLister = Source
"""Former names of parts of `Source`."""

ABILITIES = tuple(name for name in (*Source.__annotations__, *vars(Source)) if not name.startswith("_"))
"""The names of what a source has besides `list` and `watch`."""


class _Adapted(Source):
    """An object with `list` and `watch`, and perhaps with abilities."""

    def __init__(self, own: ListerWatcher) -> None:
        self._own = own
        given = {name: value for name in ABILITIES if (value := getattr(own, name, None)) is not None}
        vars(self).update({"name": type(own).__name__, "sends_bookmarks": "list_metadata" in given}, **given)

    def __repr__(self) -> str:
        return repr(self._own)

    async def list(self, options: ListOptions) -> ListPage:
        return await self._own.list(options)

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        return self._own.watch(options)


def source_of(source: ListerWatcher) -> Source:
    """Return a source with its abilities: itself, or a `Source` that has those of an object of a user's class."""
    return source if isinstance(source, Source) else _Adapted(source)
