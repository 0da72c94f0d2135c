"""The source of an informer that shares its cache: it reads from the server, a holder, or this process's own caches.

A watch goes on when the holder changes. The next stream begins at the version of the last event that was passed on, so
the informer gets each change once, and lists only if the next holder no longer has what follows that version.
"""

from __future__ import annotations

import asyncio
import builtins
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from kinformer.client.client import Client
from kinformer.exceptions import APIError, ConnectError, NotFoundError, NotWatchableError
from kinformer.list_watcher import ListerWatcher, ListOptions, ListPage, ServerTip, WatchEvent
from kinformer.listwatch.http_source import ListWatch
from kinformer.listwatch.sharing import StateOf
from kinformer.listwatch.wrapper import ListerWatcherWrapper
from kinformer.objects.accessors import ends_initial_events, resource_version_of
from kinformer.watchcache.share.key import SourceKey

__all__ = ["Direct", "FromHolder", "Route", "Routes", "SharedSource"]

T = TypeVar("T")

_MOVED = 2.0  # seconds within which a lost connection is followed by another route, if the holder has ended
_MARGIN = 1.0  # seconds by which a stream may end before its timeoutSeconds in order
_REFUSED = 5.0  # seconds for which requests to a holder fail before this process reads by itself
_QUICK_ENDS = 3  # streams in a row that end without an event before the informer is told


class Routes(Protocol):
    """The present route to the objects, which changes with the holder."""

    def is_live(self, key: SourceKey) -> bool:
        """Return True if the holder, if there is one, gives signs of life and follows the server."""
        ...

    @property
    def holder(self) -> int | None:
        """The process id of the holder, or None."""
        ...

    @property
    def cluster(self) -> str | None:
        """The identity of the cluster, or None while it is unknown."""
        ...

    async def current(self) -> Route:
        """Return the route, once it is decided."""
        ...

    async def replaced(self, route: Route, within: float) -> bool:
        """Wait until another route takes the place of `route`. Return False if none does in time."""
        ...


class Route(ABC):
    """One way to the objects.

    Attributes:
        is_direct: True if it leads to the server.
        is_gone: True once another route has taken the place of this one.
    """

    is_direct = False

    def __init__(self) -> None:
        self.is_gone = False
        self._waiting: set[asyncio.Timeout] = set()
        self._failing: WeakKeyDictionary[SharedSource, float] = WeakKeyDictionary()  # since which time each has failed

    @abstractmethod
    def source(self, shared: SharedSource) -> ListerWatcher:
        """Return the source on this route."""

    @property
    def is_refused(self) -> bool:
        """True once the requests of an informer have failed for 5 s."""
        since = min(self._failing.values(), default=math.inf)
        return asyncio.get_running_loop().time() - since >= _REFUSED

    def note(self, shared: SharedSource, error: BaseException | None) -> None:
        """Note the outcome of a request: the error that the holder could not be reached, or None."""
        if error is None:
            self._failing.pop(shared, None)
        else:
            self._failing.setdefault(shared, asyncio.get_running_loop().time())

    async def answer(self, awaited: Awaitable[T]) -> T:
        """Wait for an answer on this route.

        Raises:
            ConnectError: Another route has taken the place of this one. A holder that hangs would never answer.
        """
        try:
            async with asyncio.timeout(0 if self.is_gone else None) as limit:
                self._waiting.add(limit)
                try:
                    return await awaited
                finally:
                    self._waiting.discard(limit)
        except TimeoutError:
            if not self.is_gone:
                raise
            raise ConnectError("the holder of the shared cache has changed") from None

    def end(self) -> None:
        """Have the streams go on along another route."""
        self.is_gone = True
        now = asyncio.get_running_loop().time()
        for limit in tuple(self._waiting):
            limit.reschedule(now)


class Direct(Route):
    """The route to the server."""

    is_direct = True

    def source(self, shared: SharedSource) -> ListerWatcher:
        """Return the source on this route."""
        return shared.direct


class FromHolder(Route):
    """The route to a holder.

    Args:
        client: The client for it.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._sources: WeakKeyDictionary[SharedSource, ListWatch] = WeakKeyDictionary()

    def source(self, shared: SharedSource) -> ListerWatcher:
        """Return the source on this route."""
        if shared not in self._sources:
            self._sources[shared] = shared.at_holder(self._client)
        return self._sources[shared]

    def forget(self, shared: SharedSource) -> None:
        """Make the source anew when it is asked for."""
        self._sources.pop(shared, None)


class SharedSource(ListerWatcherWrapper):
    """A `ListerWatcher` that reads from wherever the cache of its objects is.

    Args:
        direct: The source of these objects at the server.
        key: The key of these objects.
        routes: See `Routes`.
        state: See `StateOf`, of the informer that reads from this source.

    Attributes:
        direct, state: See above.
        has_listed: True once its informer has listed the objects.
    """

    supports_watch_list = False

    def __init__(
        self,
        direct: ListWatch,
        key: SourceKey,
        routes: Routes,
        state: StateOf,
    ) -> None:
        super().__init__(direct)
        self.direct = direct
        self._key = key
        self.state = state
        self.has_listed = False
        self._routes = routes
        self._paths: list[str] = []  # `read_paths` adds to them
        self._at_holder: ListWatch | None = None  # the source at the last holder that was asked

    @property
    def key(self) -> SourceKey:
        """The key of these objects."""
        return replace(self._key, namespace=self.direct.namespace)

    def shared(self) -> tuple[bool, int | None]:
        """Return whether the holder gives signs of life and follows the server, and its process id."""
        return self._routes.is_live(self.key), self._routes.holder

    def at_holder(self, client: Client) -> ListWatch:
        """Return the source of these objects at a holder, which counts what it receives with the direct one."""
        made = self.key.source_at_holder(client)
        made.stats = self.direct.stats
        made.read_paths(self._paths)
        self._at_holder = made
        return made

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each object. See `ListWatch.read_paths`."""
        self._paths = [*self._paths, *paths]
        self.direct.read_paths(self._paths)
        if self._at_holder is not None:
            self._at_holder.read_paths(self._paths)

    async def tip(self) -> ServerTip:
        """Return the server's current version. The holder asks for all its followers at once."""
        route = await self._routes.current()
        if route.is_direct:
            return await self.direct.tip()
        page = await self.list(ListOptions(limit=1))  # goes on over another route if this one ends meanwhile
        items = page.items
        if isinstance(items, AsyncIterator):
            async for _ in items:
                pass  # the version is known only after the last item
        return ServerTip(page.resource_version, self._routes.cluster)

    async def cluster(self) -> str | None:
        """Return the identity of the cluster, or None if unknown."""
        return self._routes.cluster or await self.direct.cluster()

    async def presence(self) -> bool | None:
        """Return whether the collection exists. The server proves it only for the cluster of the shared cache."""
        present = await self.direct.presence()
        if present is False and self._routes.cluster not in (None, "", await self.direct.cluster()):
            return None
        return present

    async def list(self, options: ListOptions) -> ListPage:
        """List one page."""
        route = await self._routes.current()
        try:
            listing = route.source(self).list(options)
            page = await (listing if route.is_direct else route.answer(listing))
        except NotFoundError as error:
            if self._at_holder is None or not isinstance(route, FromHolder):
                raise
            if self._at_holder.namespace == self.direct.namespace:
                await self.direct.relocate(error)
            self._at_holder = None
            route.forget(self)
            return await self.list(options)
        except APIError as error:
            if route.is_direct or error.status != 405:
                raise
            raise NotWatchableError(error.message) from None  # the holder answers 405 when its informer knows that
        except (ConnectError, OSError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not route.is_gone:
                raise
            if route.is_direct or not await self._routes.replaced(route, _MOVED):
                route.note(self, error)
                raise _lost(error) from error
            return await self.list(options)
        route.note(self, None)
        if not route.is_direct and isinstance(page.items, AsyncIterator):
            page.items = _read(page.items, route)
        return page

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open a stream of lists of events, which goes on when the route changes."""
        self.has_listed = True
        stream = _Stream(self, self._routes, options)
        try:
            await stream.open()
            yield stream
        finally:
            await stream.aclose()


async def _read(items: AsyncIterator[T], route: Route) -> AsyncGenerator[T, None]:
    """Read a page. The end of its route is a lost connection."""
    try:
        while True:
            try:
                objects = await route.answer(anext(items))
            except StopAsyncIteration:
                return
            yield objects
    except RuntimeError as error:
        if not route.is_gone:
            raise
        raise _lost(error) from error
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


def _lost(error: Exception) -> Exception:
    """Return the error for requests to a holder whose client was closed."""
    return ConnectError("the holder of the shared cache has changed") if isinstance(error, RuntimeError) else error


class _Stream:
    """One watch, over one or more routes."""

    def __init__(self, shared: SharedSource, routes: Routes, options: ListOptions) -> None:
        self._shared = shared
        self._routes = routes
        self._options = options
        self._connection = AsyncExitStack()
        self._route: Route | None = None
        self._events: AsyncIterator[list[WatchEvent]] | None = None
        self._last: object = None  # of the last event that was passed on
        self._initial = bool(options.send_initial_events)
        self._ends = 0  # streams in a row without an event
        loop = asyncio.get_running_loop()
        self._time = loop.time
        self._until = loop.time() + (options.timeout_seconds or 0) - _MARGIN

    def __aiter__(self) -> _Stream:
        return self

    async def __anext__(self) -> list[WatchEvent]:
        while True:
            try:
                events = await self._next()
            except StopAsyncIteration:
                if not self._goes_on():
                    raise
            except (ConnectError, OSError, RuntimeError) as error:
                if not self._route_ended(error) or not await self._has_moved():
                    raise
            else:
                if events:
                    self._note(events)
                return events
            await self.open()

    def _note(self, events: list[WatchEvent]) -> None:
        self._ends = 0
        last = events[-1]
        self._last = last.object
        if self._initial and last.type == "BOOKMARK" and ends_initial_events(last.object):
            self._initial = False

    async def _next(self) -> list[WatchEvent]:
        assert self._events is not None
        assert self._route is not None
        return await self._route.answer(anext(self._events))

    def _goes_on(self) -> bool:
        """Return True if a stream that has ended is followed by another one, without telling the informer."""
        assert self._route is not None
        if self._route.is_gone:
            return self._may_resume
        self._ends += 1
        is_early = not self._route.is_direct and self._time() < self._until
        return is_early and self._may_resume and self._ends < _QUICK_ENDS

    @property
    def _may_resume(self) -> bool:
        """True if the version that the next stream has to begin at is known."""
        return not self._initial and self._version() not in ("", "0")

    def _route_ended(self, error: BaseException) -> bool:
        """Return False for a RuntimeError that does not come from closing the client of a route that is gone."""
        return not isinstance(error, RuntimeError) or (self._route is not None and self._route.is_gone)

    async def _has_moved(self) -> bool:
        assert self._route is not None
        route = self._route
        if not self._may_resume or (route.is_direct and not route.is_gone):
            return False
        return await self._routes.replaced(route, _MOVED)

    def _version(self) -> str:
        return (
            (resource_version_of(self._last) if self._last is not None else "") or self._options.resource_version or ""
        )

    async def open(self) -> None:
        """Open a stream on the present route."""
        while True:
            await self.aclose()
            self._route = await self._routes.current()
            options = self._options
            if not self._initial and self._last is not None:
                options = options.replace(resource_version=self._version(), send_initial_events=None)
            try:
                opening = self._route.source(self._shared).watch(options)
                self._events = await self._route.answer(self._connection.enter_async_context(opening))
            except (ConnectError, OSError, RuntimeError) as error:
                if not self._route_ended(error) or not await self._has_moved():
                    self._route.note(self._shared, error)
                    raise
            except APIError as error:
                if error.status != 503 or not await self._has_moved():  # 503: the holder is about to end
                    raise
            else:
                self._route.note(self._shared, None)
                return

    async def aclose(self) -> None:
        """Close the stream that is open."""
        connection, self._connection, self._events = self._connection, AsyncExitStack(), None
        await connection.aclose()
