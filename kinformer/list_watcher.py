"""The port to a source of objects: what a reflector asks, and what it gets back."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kinformer.exceptions import ConfigError

__all__ = [
    "ListOptions",
    "ListPage",
    "ListerWatcher",
    "ReadBack",
    "Resumable",
    "ServerProbe",
    "ServerTip",
    "WatchEvent",
    "by_scope",
    "followed_namespaces",
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
        """A copy with some fields changed: `options.replace(limit=100)`."""
        return replace(self, **changes)

    def params(self) -> dict[str, str]:
        """The query parameters, by their names on the wire."""
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
class ListPage:
    """One page of a LIST.

    `items` is an iterable of objects, or an async iterable of lists of them; with the latter the two
    other fields are read after its last list, for a server may write them behind the items.
    """

    items: Iterable[Any] | AsyncIterable[list[Any]]
    resource_version: str = ""
    continue_token: str = ""


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
        """One page."""
        ...

    def watch(self, options: ListOptions) -> AbstractAsyncContextManager[AsyncIterator[Events]]:
        """A stream of lists of events; the stream ends when the server ends it."""
        ...


class ServerTip(NamedTuple):
    """Where a server stands now: its newest resourceVersion, and which cluster it is (None: unknown)."""

    resource_version: str
    cluster: str | None = None


@runtime_checkable
class ServerProbe(Protocol):
    """What a source may offer beside list and watch, so that a reflector can doubt it.

    `tip` asks for the newest resourceVersion, without selectors. `presence` asks discovery whether the
    resource is served: True, False, or None where the answer cannot be had or trusted.
    """

    async def tip(self) -> ServerTip: ...

    async def presence(self) -> bool | None: ...


class Identified(Protocol):
    """What identifies one state of one object; a `KubeObject` has it."""

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class ReadBack(NamedTuple):
    """One object as the server has it, of which the metadata suffices, or None; and the version of that answer."""

    object: Identified | None
    resource_version: str


@runtime_checkable
class Resumable(Protocol):
    """Optional methods of a source that allow a snapshot of its objects to be trusted.

    `contents` describes what the objects are, so that a snapshot of others is recognised: two sources of equal contents
    give the same objects in the same form. `read_back` asks the server, and no cache of it, for one object.
    """

    @property
    def contents(self) -> Mapping[str, str]: ...

    async def read_back(self, namespace: str, name: str) -> ReadBack: ...


def by_scope(list_watch: ListerWatcher | Mapping[str, ListerWatcher]) -> dict[str | None, ListerWatcher]:
    """The sources of one cache, by namespace; None where there is one for all that the cache holds.

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
        return tuple(name for name in sources if name is not None)
    only = getattr(sources[None], "namespace", None)
    return (only,) if only else None
