"""The shared informer: the only place that wires reflectors, queue, processor, cache and handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import TracebackType
from typing import Any, Generic, Self

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Tasks
from kinformer.cache.indexer import NAMESPACE_INDEX, Indexer, Indexers, meta_namespace_index_func
from kinformer.cache.lister import IndexView, Lister
from kinformer.exceptions import APIError, NotSyncedError, StoppedError, describe
from kinformer.informer.informer_statistics import gather_statistics
from kinformer.informer.metrics import InformerMetrics
from kinformer.informer.source_stack import stack_sources
from kinformer.informer.statistics import InformerStatistics
from kinformer.informer.waiters import FailFast, VersionWaiters
from kinformer.list_watcher import ListerWatcher, by_scope, followed_namespaces
from kinformer.metrics import Metrics
from kinformer.objects.meta import version_number
from kinformer.objects.object import KubeObject
from kinformer.objects.types import M
from kinformer.processor.callbacks import EventHandler, Filter, OnAdd, OnDelete, OnUpdate, Transform
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import Handler, HandlerRegistration
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.processor import Processor
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.queue.delta_fifo import DeltaFIFO
from kinformer.queue.writer import QueueWriter
from kinformer.reflector.health import InformerHealth, combine_health
from kinformer.reflector.reflector import Reflector
from kinformer.snapshot.keeper import SnapshotKeeper
from kinformer.snapshot.option import SnapshotOption

__all__ = ["SharedInformer"]

log = get_logger("kinformer.informer")


class SharedInformer(Generic[M]):
    """A live, indexed copy of one resource, shared by any number of handlers and readers.

    ``async with`` starts and stops it. Entering returns at once; `wait_synced` waits for the first list.
    Leaving stops the reflectors, lets what is queued reach the handlers within `shutdown_timeout`
    seconds, then cancels each task once and gives it 1 s. Entering and leaving may happen in different
    tasks of one loop. (client-go, tools/cache/shared_informer.go)

    What it promises: the cache has a change before any handler hears of it; a handler's calls are in
    order and never overlap; a slow or failing handler holds up nothing but itself; a handler that joins
    late starts with the cache as adds and misses nothing after.

    Args:
        list_watch: The source, or a mapping from namespace to source for one merged cache.
        name: What the log, `health()` and errors call it; default: the source's `name` or class.
        indexers: Name to index function (object -> values) or JSON path.
        transform: dict -> dict (or None to leave the object out), applied once, before the cache.
        resync_period: Seconds between replays of the cache to handlers that set none; 0 is off, the default,
            because a replay asks nobody anything: it helps only handlers that forgot what they were told.
        optional: A resource that is absent counts as synced.
        on_error: Called with (informer, error) for every error that ends a request or a stream. What it
            raises stops this informer, and becomes its `last_error`.
        page_size, watch_list, watch_timeout, idle_timeout, backoff: See `Reflector`.
        compact: Keep objects compressed, a Pod in a ninth of its JSON; each read decompresses (needs zstandard).
        snapshot: A path, or a `Snapshot`: the cache is kept there, and the next start goes on from it.
        shutdown_timeout: Seconds that leaving may take before tasks are cancelled.
        metrics: A sink, such as `kinformer.contrib.prometheus.PrometheusMetrics`.
    """

    def __init__(
        self,
        list_watch: ListerWatcher | Mapping[str, ListerWatcher],
        *,
        name: str | None = None,
        indexers: Indexers[KubeObject[M]] | None = None,
        transform: Transform | None = None,
        resync_period: float = 0,
        page_size: int | None = None,
        watch_list: bool | None = None,
        watch_timeout: float = 300,
        idle_timeout: float = 120,
        backoff: Backoff | None = None,
        shutdown_timeout: float = 5,
        optional: bool = False,
        on_error: Callable[[Any, BaseException], Any] | None = None,
        compact: bool = False,
        snapshot: SnapshotOption = None,
        metrics: Metrics | None = None,
    ) -> None:
        sources = by_scope(list_watch)
        source = next(iter(sources.values()))
        self.name = name or getattr(source, "name", None) or type(source).__name__
        self.optional = optional
        self.shutdown_timeout = shutdown_timeout
        self._resync_period = resync_period
        self._on_error = on_error
        given: Indexers = {NAMESPACE_INDEX: meta_namespace_index_func, **(indexers or {})}
        self._indexer: Indexer = Indexer(attrgetter("key"), given)
        self._fifo = DeltaFIFO(attrgetter("key"), atomic=True)
        self._schedule = ResyncSchedule(self._fifo.resync)
        self._versions = VersionWaiters(sources)
        self._intakes = {scope: QueueWriter(self._fifo, self._indexer, scope) for scope in sources}
        self._sources = stack_sources(sources, self._intakes, transform=transform, compact=compact)
        self._keeper = self._keep(snapshot, sources, transform)
        self._processor = self._process(sources)
        self._reflectors = self._reflect(
            page_size=page_size,
            watch_list=watch_list,
            watch_timeout=watch_timeout,
            idle_timeout=idle_timeout,
            backoff=backoff or Backoff(),
        )
        self.indexer: IndexView[KubeObject[M]] = IndexView(self._indexer)
        """The cache by key and by index; reads return snapshots and may come from any thread."""
        default_namespace: str = getattr(source, "namespace", None) or ""
        self.lister: Lister[KubeObject[M]] = Lister(self._indexer, default_namespace=default_namespace)
        """The cache as the Kubernetes field reads it: by name, namespace and selector."""
        self.namespaces = followed_namespaces(sources)  # None is all
        self.resource: Any = getattr(source, "resource", None)  # a GroupVersionResource, if the source is a ListWatch
        self._tasks = Tasks(self._crashed)
        self._metrics = InformerMetrics(metrics, self)
        self._handlers = HandlerSet(
            self.name, self._processor, self._schedule, self._tasks, self._usable, self._metrics.handler
        )
        self._feeding: list[asyncio.Task[Any]] = []
        self._processing: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stopped = False
        self._error: BaseException | None = None
        self._denials = FailFast()
        self.snapshot_file = self._keeper.file

    # --- assembly: who is told of what by whom ------------------------------------------------------

    def _keep(
        self, snapshot: SnapshotOption, sources: Mapping[str | None, ListerWatcher], transform: Transform | None
    ) -> SnapshotKeeper:
        return SnapshotKeeper(
            snapshot,
            sources,
            self._sources,
            transform=transform,
            name=self.name,
            indexer=self._indexer,
            intakes=self._intakes,
            cluster=lambda: next((found for r in self._reflectors.values() if (found := r.cluster)), None),
        )

    def _process(self, scopes: Iterable[str | None]) -> Processor:
        return Processor(
            self._fifo,
            self._indexer,
            scopes=tuple(scopes),
            taken=lambda: {scope: intake.resource_version for scope, intake in self._intakes.items()},
            replaced=self._versions.replaced,
            applied=self._keeper.beside(self._versions.applied),
            resync_due=self._schedule.take_due,
        )

    def _reflect(self, **options: Any) -> dict[str | None, Reflector]:
        return {
            scope: Reflector(
                source,
                self._intakes[scope],
                name=self.name if scope is None else f"{self.name} in {scope}",
                on_error=self._failed,
                resume=self._keeper.resume(scope),
                **options,
            )
            for scope, source in self._sources.items()
        }

    # --- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.start_tasks()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.leave(asyncio.get_running_loop().time() + self.shutdown_timeout)
        if self._error is not None and error is None:
            raise self._error

    async def run(self) -> None:
        """Enter, stay until cancelled, leave; for people with a task group of their own. Raises what it crashed of."""
        async with self:
            assert self._ended is not None
            await asyncio.shield(self._ended)

    def start_tasks(self) -> None:
        """Start following the source. What `async with` does on entering, for the factory."""
        if self._loop is not None:
            raise RuntimeError(f"informer {self.name} was entered before; make a new one")
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._metrics.start()
        self._processing = self._tasks.start(self._processor.run(), f"kinformer processor of {self.name}")
        with unfenced():  # it may be started by a leader's body, and outlive that
            self._feeding = [
                self._tasks.start(reflector.run(), f"kinformer reflector of {self.name}")
                for reflector in self._reflectors.values()
            ]
        self._feeding.append(self._tasks.start(self._schedule.run(), f"kinformer resync of {self.name}"))
        self._feeding += self._keeper.start(self._tasks)
        self._handlers.start()

    @shielded_from_scopes
    async def leave(self, deadline: float) -> None:
        """Stop within `deadline` on the loop's clock: producers, then the queue, then the handlers.

        Raises:
            RuntimeError: Called from inside one of the handlers that it would wait for.
        """
        self.refuse_leaving()
        self._stopped = True
        try:
            await self._tasks.cancel(self._feeding)
            self._fifo.close()
            if self._processing is not None:
                await self._tasks.finish([self._processing], deadline)
            saving = self._keeper.finish(self._tasks, self._processing) if self._error is None else ()
            await self._handlers.finish(deadline)
            await self._tasks.finish(saving, deadline)
        finally:
            self._give_up(StoppedError(f"informer {self.name} has been left"))
            await self._tasks.cancel()
            self._metrics.close()
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def refuse_leaving(self) -> None:
        """Raise RuntimeError where `leave` would."""
        self._own_loop()
        self._handlers.refuse_inside(f"informer {self.name} cannot be left")

    def _give_up(self, error: BaseException) -> None:
        """Whoever waits on this informer has waited in vain."""
        self._processor.fail(self._error or error)
        self._versions.fail(self._error or error)
        self._handlers.end_streams(self._error)

    def _crashed(self, task: str, error: BaseException) -> None:
        if self._error is not None:
            return
        log.error("%s ended by %s", task, describe(error), exc_info=error, resource=self.name, reason=error)
        self._error = error
        for feeding in self._feeding:
            feeding.cancel()
        self._fifo.close()
        self._give_up(error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # leaving raises it too: a log of "never retrieved" would be a second one

    def _failed(self, reflector: Any, error: BaseException) -> None:
        """What a reflector reports: each error that ended a request or a stream."""
        if self.optional and isinstance(error, APIError) and error.status == 404:
            for scope, candidate in self._reflectors.items():
                if candidate is reflector:
                    self._processor.scope_synced(scope)
        self._denials.note(error)
        self._metrics.failed(error)
        if self._on_error is not None:
            self._on_error(self, error)

    def _own_loop(self) -> None:
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(f"informer {self.name} belongs to another event loop")

    def _usable(self, what: str) -> None:
        self._own_loop()
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise StoppedError(f"{what}: informer {self.name} has been left")

    @property
    def started(self) -> bool:
        """It has been entered."""
        return self._loop is not None

    @property
    def crash(self) -> BaseException | None:
        """What it ended by, where it ended by itself."""
        return self._error

    # --- the sync ---------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """The first full list is in the cache (of every namespace, where there are several)."""
        return self._processor.synced

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool = False) -> None:
        """Until `has_synced`.

        Raises:
            NotSyncedError: `timeout` seconds have passed; `unsynced` and the text name the last error.
            APIError: With `fail_fast`, the second 401, 403 or 404.
            StoppedError: The informer has been left; what it crashed of, if it crashed.
        """
        self._own_loop()
        if self.has_synced:
            return
        try:
            async with asyncio.timeout(timeout):
                waiting = self._processor.wait_synced()
                await (self._denials.unless_refused(waiting) if fail_fast else waiting)
        except TimeoutError:
            error = self.health().last_error
            raise NotSyncedError(
                f"{self.name} has not synced after {timeout:g} s: {describe(error)}", {self.name: error}
            ) from error

    @property
    def lists_applied(self) -> bool:
        """Every list that has come, the first and later ones, is in the cache."""
        return sum(intake.lists for intake in self._intakes.values()) == self._versions.lists

    @property
    def handlers_synced(self) -> bool:
        """Every handler has finished the adds that it started with."""
        return self._handlers.synced

    async def wait_handlers_synced(self) -> None:
        """Until `handlers_synced`, for the handlers that there are now."""
        await self._handlers.wait_synced()

    @property
    def last_sync_resource_version(self) -> str:
        """Of what the cache holds; of several namespaces the lowest; "" before the first list."""
        return self._versions.lowest()

    async def wait_for_resource_version(
        self, resource_version: str, *, namespace: str | None = None, timeout: float | None = None
    ) -> None:
        """Read your own writes: until the cache holds everything up to `resource_version`.

        Where nothing passes it within 5 s (a quiet selector gets no event) a list at that version is made.

        Args:
            resource_version: As the answer to a write gave it.
            namespace: Required where the informer follows several.

        Raises:
            ValueError: No number, or the namespace is missing or not followed.
            TimeoutError: `timeout` seconds have passed.
            WatchError: The server went back in time: that version is of another past.
        """
        self._usable("wait_for_resource_version")
        scope = self._versions.scope_of(namespace, self.name)
        async with asyncio.timeout(timeout):
            await self._versions.wait(
                scope, version_number(resource_version), lambda: self._reflectors[scope].refresh(resource_version)
            )

    # --- handlers ---------------------------------------------------------------------------------------

    def add_event_handler(
        self,
        handler: EventHandler[M] | None = None,
        *,
        on_add: OnAdd[M] | None = None,
        on_update: OnUpdate[M] | None = None,
        on_delete: OnDelete[M] | None = None,
        resync_period: float | None = None,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        queue_size: int = 1024,
        name: str | None = None,
    ) -> HandlerRegistration:
        """Have callbacks called for what is in the cache, as adds, and for every change; at any time before the stop.

        Args:
            handler: An object with some of `on_add(obj, *, is_in_initial_list)`, `on_update(old, new)`,
                `on_delete(obj, *, final_state_unknown)`; or give the callbacks. Coroutine functions or plain
                ones; the flags are passed only to callbacks that take them.
            resync_period: Seconds between replays of the cache to this handler; None takes the informer's,
                0 is off.
            filter: Shows the handler only objects for which it is true; a change across its edge is an add
                or a delete.
            queue_size: Waiting calls above which calls of one key are folded; 1024, which is client-go's
                initial ring, bounds memory and is never reached by a handler that keeps up.
            name: For `statistics().pending` and the log; default: the handler's own name.

        Raises:
            StoppedError: The informer has been left.
            ConfigError: There is no callback, or both a handler and callbacks.
        """
        target = Handler(handler, on_add=on_add, on_update=on_update, on_delete=on_delete)
        period = self._resync_period if resync_period is None else resync_period
        return self._handlers.add(target, name=name, queue_size=queue_size, only=filter, resync_period=period)

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Call a handler no more. Idempotent.

        What waits for it is dropped, and the running call is not waited for; with `drain` what waits is
        delivered first, and this returns when the last call has.

        Raises:
            RuntimeError: `drain` from inside the handler itself.
        """
        self._own_loop()
        await self._handlers.remove(registration, drain=drain)

    def events(
        self,
        *,
        queue_size: int = 1024,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """The changes to iterate over: ``async with informer.events() as stream: async for event in stream``.

        Registered on entering, late or not, like a handler, and folded like one above `queue_size`.
        """
        period = self._resync_period
        return self._handlers.stream(name or "events", queue_size=queue_size, only=filter, resync_period=period)

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes, before or after the start; what is cached is indexed at once, which takes its time.

        Raises:
            ValueError: Another function is known under one of the names; then none is added.
        """
        self._own_loop()
        self._indexer.add_indexers(indexers)

    async def build_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Like `add_indexers`, in slices that leave the loop its turns; the indexes are there on return."""
        self._own_loop()
        await self._indexer.build_indexers(indexers)

    def health(self) -> InformerHealth:
        """How well the cache follows the server, at this moment."""
        return combine_health(
            [reflector.health() for reflector in self._reflectors.values()],
            synced=self.has_synced,
            stopped=self._stopped or self._error is not None,
            error=self._error,
            resource_version=self.last_sync_resource_version,
        )

    def statistics(self) -> InformerStatistics:
        """What has gone through, and what waits."""
        return gather_statistics(
            fifo=self._fifo,
            indexer=self._indexer,
            processor=self._processor,
            handlers=self._handlers,
            sources=self._sources.values(),
            reflectors=self._reflectors.values(),
            snapshots=self._keeper.counts,
        )

    def __repr__(self) -> str:
        return f"<SharedInformer {self.name}: {len(self._indexer)} objects, {self.health().state}>"
