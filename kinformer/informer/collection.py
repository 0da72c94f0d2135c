"""The collection: the common interface of informers and derived collections, for readers and handlers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, runtime_checkable

from kinformer.cache.lister import Lister
from kinformer.cache.page import Page, Sort, page_of
from kinformer.objects.types import ObjectT
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import Handler, HandlerRegistration
from kinformer.reflector.health import InformerHealth

if TYPE_CHECKING:
    from kinformer._runtime.life import Life
    from kinformer.informer.core import CollectionCore

__all__ = ["Collection", "CollectionFace", "ComputedCollection", "Entered", "FollowedClusters", "core_of"]


@runtime_checkable
class Collection(Protocol[ObjectT]):
    """Changing objects or values by key: a `SharedInformer`, a result of `derive`, or a class of the program's own.

    Reads return snapshots and may come from any thread. The cache has a change before a handler is called for it. Every
    function that takes a collection (`derive` and its short forms, `wait_for`, controllers, fleets, `namespaces=`)
    needs only these members, so it accepts any class that has them. Callbacks and events are the same as an informer's.
    If the values have no attribute `key`, events have the key, and callbacks that take `key` get it.
    """

    @property
    def name(self) -> str:
        """The name in the log, errors and metrics."""
        ...

    @property
    def lister(self) -> Lister[ObjectT]:
        """The objects by name, namespace, selector and index."""
        ...

    @property
    def by_key(self) -> Mapping[str, ObjectT]:
        """The objects as a mapping from key (`"namespace/name"` or `"name"`). Iterating takes a snapshot."""
        ...

    def add_event_handler(
        self,
        handler: Any = None,
        *,
        on_add: Any = None,
        on_update: Any = None,
        on_delete: Any = None,
        resync_period: float | None = None,
        filter: Any = None,  # noqa: A002 - the contract's name
        queue_size: int | None = 1024,
        name: str | None = None,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Call callbacks for the existing objects, as adds, and then for every change."""
        ...

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Stop calling a handler."""
        ...

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Any = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream:
        """Return a stream of the changes: an async context manager and iterator over `InformerEvent`s."""
        ...

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Wait until all objects that existed at the start are present."""
        ...

    def health(self) -> InformerHealth:
        """Return how well the collection follows its sources."""
        ...


class ComputedCollection(Collection[ObjectT], Protocol[ObjectT]):
    """A collection that is computed from others, such as a result of `derive`."""

    @property
    def has_synced(self) -> bool:
        """True once every collection that it reads is complete, and every value has been computed."""
        ...

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the collections that it reads."""
        ...

    def statistics(self) -> Any:
        """Return its counts, a `DerivedStatistics`."""
        ...


class FollowedClusters(Protocol):
    """Clusters that join and leave: a `Fleet`."""

    @property
    def name(self) -> str: ...
    @property
    def has_synced(self) -> bool:
        """True once the first clusters are known, and each union has synced."""
        ...

    @property
    def source_error(self) -> BaseException | None:
        """The error that prevents reading the clusters at present, or None."""
        ...

    def health(self) -> Mapping[str, Any]:
        """Return the `ClusterHealth` of each cluster, by name."""
        ...

    def statistics(self) -> Any:
        """Return its counts, a `FleetStatistics`."""
        ...


class Entered:
    """Entering and exiting with ``async with``, for the public face of a `ProgramPart`."""

    _core: Any  # a `ProgramPart`, whose class each subclass declares

    async def __aenter__(self) -> Self:
        self._core.life.begin()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        life: Life = self._core.life
        await life.leave_in_time()
        if life.crash is not None and error is None:
            raise life.crash


class CollectionFace(Entered, Generic[ObjectT]):
    """The members that `SharedInformer` and `DerivedCollection` share."""

    name: str
    lister: Lister[ObjectT]
    """The cache with the usual Kubernetes reads: by name, namespace and selector."""
    by_key: Mapping[str, ObjectT]
    """The cache as a mapping: ``informer.by_key["default/web-1"]``. Iterating takes a snapshot."""

    @property
    def shutdown_timeout(self) -> float:
        """Seconds that exiting may take before tasks are cancelled."""
        life: Life = self._core.life
        return life.shutdown_timeout

    @property
    def has_synced(self) -> bool:
        """True once all objects that existed at the start are in the cache."""
        core: CollectionCore = self._core
        return core.publisher.synced.is_open

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `has_synced`. After 5 s, and every 10 s from then on, log a warning with the reason.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: Which refusals of the server end the wait. See `SharedInformerFactory.wait_for_cache_sync`. A
                member of a union that has a name ends it only if this is True.

        Raises:
            NotSyncedError: `timeout` seconds have passed. `unsynced` and the message have the last error.
            APIError: The server keeps refusing, also only the watch that must follow the first list.
            NotWatchableError: The resource can only be polled.
            StoppedError: The collection, or one that it reads, was stopped. If that crashed, its error is raised
                instead.
        """
        core: CollectionCore = self._core
        core.life.require_loop("wait_synced")
        await core.sync.wait(timeout, fail_fast=fail_fast)

    def health(self) -> InformerHealth:
        """Return the current health: how well the cache follows its sources."""
        core: CollectionCore = self._core
        return core.health()

    async def page(
        self,
        *,
        sort: Sort[ObjectT] = "metadata.name",
        where: Callable[[ObjectT], object] | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[ObjectT]:
        """Return a page of the cache, for a web page: `await pods.page(sort="-metadata.creationTimestamp", limit=20)`.

        It reads the whole cache, in slices that do not hold the event loop. The cursor is the last place of a page, so
        it never expires, and pages show the present state: an object whose sort value changes between two calls may be
        missed, or seen twice.

        Args:
            sort: A path, with `-` in front for the reverse order, or a function of the object that returns a number, a
                string or None. Missing values come first, then numbers, then strings. Equal ones are sorted by key.
            where: A plain function that returns True for the objects to show.
            limit: The most objects of the page.
            after: The `next` of the page before.

        Raises:
            ConfigError: An argument is invalid. The message names it.
        """
        return await page_of(self, sort, where, limit, after)

    # --- handlers -----------------------------------------------------------------------------------

    def add_event_handler(
        self,
        handler: Any = None,
        *,
        on_add: Any = None,
        on_update: Any = None,
        on_delete: Any = None,
        resync_period: float | None = None,
        filter: Any = None,  # noqa: A002 - the contract's name
        queue_size: int | None = 1024,
        name: str | None = None,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Call callbacks for the existing values, as adds, and then for every change of a value.

        The arguments and the order of calls are as in `SharedInformer.add_event_handler`, but callbacks and the filter
        get values. A callback that takes `key` also gets the key.

        Raises:
            StoppedError: The collection, or one that it reads, was stopped.
            ConfigError: There is no callback, or both a handler and callbacks.
        """
        core: CollectionCore = self._core
        return core.handlers.add(
            self._handler(handler, on_add=on_add, on_update=on_update, on_delete=on_delete, owner=core.life.owner),
            name=name,
            queue_size=queue_size,
            only=self._filter(filter),
            resync_period=core.resync_period if resync_period is None else resync_period,
            thread=thread,
        )

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Stop calling a handler. Idempotent.

        Calls that wait for it are dropped, and the running call is not waited for. With `drain`, the waiting calls are
        delivered first, and this returns after the last one.

        Raises:
            RuntimeError: Called with `drain` inside the handler itself.
        """
        core: CollectionCore = self._core
        core.life.require_loop("remove_event_handler")
        await core.handlers.remove(registration, drain=drain)

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Any = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream:
        """Return a stream of the changes, with values as `object` and `old`. See `SharedInformer.events`."""
        core: CollectionCore = self._core
        return core.handlers.stream(
            name or "events",
            queue_size=queue_size,
            only=self._filter(filter),
            resync_period=core.resync_period,
            make=self._stream(),
        )

    # --- views of the objects -------------------------------------------------------------------------

    def _handler(self, handler: Any, **callbacks: Any) -> Handler:
        """Return a handler for callbacks."""
        return Handler(handler, **callbacks)

    def _filter(self, only: Any) -> Any:
        """Return a handler's filter as a function of the objects in the cache."""
        return only

    def _stream(self) -> Callable[..., EventStream]:
        """Return the function that creates a stream."""
        return EventStream


async def wait_until_synced(collection: Collection[Any]) -> None:
    """Wait for the first sync of a collection as long as it takes, for a part that works in the background."""
    core = core_of(collection)
    if core is None:
        await collection.wait_synced()
    else:
        await core.sync.wait(None, fail_fast=False)


def core_of(face: object) -> Any:
    """Return the core of an informer, derived collection, fleet or factory, or None for any other object."""
    return getattr(face, "_core", None)
