"""The interface to sources of objects: the requests of a reflector, and their responses."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, MappingView, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

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
    """Optional method of a `ListerWatcher`: checks whether its collection still exists.

    If two answers, at least 45 s apart, are False, its objects count as deleted.
    """

    async def presence(self) -> bool | None:
        """Return True if it exists, in another version too, False if it is gone, or None if nothing proves either."""
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
