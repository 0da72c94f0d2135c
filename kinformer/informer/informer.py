"""The shared informer: a live, indexed copy of one resource, with its life, its handlers and its health."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, Unpack

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Tasks, require_loop
from kinformer.cache.index import check_indexers
from kinformer.cache.indexer import Indexers
from kinformer.cache.key_view import KeyView
from kinformer.cache.lister import IndexView, Lister
from kinformer.exceptions import APIError, ForbiddenError, StoppedError, describe
from kinformer.informer.collection import CollectionReads
from kinformer.informer.metrics import InformerMetrics
from kinformer.informer.namespaces import ChosenNamespaces, NamespaceFollower, sources_of
from kinformer.informer.options import InformerKeywords, InformerOptions
from kinformer.informer.statistics import InformerStatistics
from kinformer.informer.sync_wait import SyncWait
from kinformer.informer.wait_for import is_gone, wait_for
from kinformer.informer.wiring import Wiring
from kinformer.informer.written import Written
from kinformer.list_watcher import ListerWatcher, followed_namespaces
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ApiObject, M
from kinformer.processor.callbacks import EventHandler, Filter, OnAdd, OnDelete, OnUpdate
from kinformer.processor.event_stream import EventStream
from kinformer.processor.handler import Handler, HandlerRegistration
from kinformer.processor.handler_set import HandlerSet
from kinformer.processor.publisher import Readable
from kinformer.reflector.health import InformerHealth, combine_health
from kinformer.reflector.reflector import Reflector

__all__ = ["SharedInformer"]

log = get_logger("kinformer.informer")


class SharedInformer(CollectionReads[KubeObject[M]], Generic[M]):
    """A live, indexed copy of one resource, shared by any number of handlers and readers.

    ``async with`` starts and stops it. Entering returns at once; `wait_synced` waits for the first list.
    Leaving stops the reflectors, lets queued changes reach the handlers within `shutdown_timeout`
    seconds, then cancels each task once and gives it 1 s. Entering and leaving may happen in different
    tasks of one loop. (client-go, tools/cache/shared_informer.go)

    It promises that the cache has a change before any handler is called for it; that a handler's calls are in
    order and never overlap; that a slow or failing handler delays only itself; and that a handler that is
    added late starts with the cached objects as adds and misses nothing after that.

    Args:
        list_watch: The source, or a mapping from namespace to source for one merged cache.
        name: For the log, `health()` and errors; default: the source's `name` or class.
        indexers: Name to index function (object -> values) or JSON path.
        options: All other options as one value; the keywords below override it.
        transform, resync_period, shutdown_timeout, optional, on_error, compact, snapshot, metrics: See
            `InformerOptions`.
        page_size, watch_list, watch_timeout, idle_timeout, backoff: See `ReflectorOptions`.

    Raises:
        ConfigError: An option that cannot work, by name.
    """

    def __init__(
        self,
        list_watch: ListerWatcher | Mapping[str, ListerWatcher] | ChosenNamespaces,
        *,
        name: str | None = None,
        indexers: Indexers[KubeObject[M]] | None = None,
        options: InformerOptions | None = None,
        **keywords: Unpack[InformerKeywords],
    ) -> None:
        sources, source = sources_of(list_watch)
        self.name = name or source.name
        self.resource: Any = source.resource  # a GroupVersionResource, if the source is a ListWatch
        self._client = source.client
        chosen = self._options = replace(options or InformerOptions(), **keywords)
        self._parts = Wiring.of(sources, self.name, chosen, indexers=indexers or {}, on_error=self._request_failed)
        self.indexer: IndexView[KubeObject[M]] = IndexView(self._parts.indexer)
        """The cache by key and by index; reads return snapshots and may come from any thread."""
        self.lister: Lister[KubeObject[M]] = Lister(self._parts.indexer, default_namespace=source.namespace or "")
        """The cache as the Kubernetes field reads it: by name, namespace and selector."""
        self.by_key: Mapping[str, KubeObject[M]] = KeyView(self.indexer)
        """The cache as a mapping: ``informer.by_key["default/web-1"]``; iterating takes a snapshot."""
        self._readable = Readable(self, self._parts.processor, metrics=self._options.metrics)
        self._tasks = Tasks(self._crashed)
        self._metrics = InformerMetrics(self._options.metrics, self)
        by = (self._parts.processor, self._parts.schedule, self._tasks, self._usable, self._metrics.handler)
        self._handlers = HandlerSet(
            self.name, *by, limiter=source.handler_limiter, unlisted_reason=self._unlisted_reason
        )
        self._sync = SyncWait(self.name, self._parts, self._handlers, self.health)
        self._namespaces = NamespaceFollower(self.name, self._parts, self._run_reflector, self._tasks)
        self._feeding: list[asyncio.Task[None]] = []
        self._processing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._stopped = False
        self._error: BaseException | None = None

    @property
    def namespaces(self) -> tuple[str, ...] | None:
        """The namespaces that it follows; None is all."""
        return followed_namespaces(self._parts.sources)

    @property
    def optional(self) -> bool:
        """True if an absent resource counts as synced."""
        return self._options.optional

    @property
    def shutdown_timeout(self) -> float:
        """Seconds that leaving may take before tasks are cancelled."""
        return self._options.shutdown_timeout

    @property
    def snapshot_file(self) -> Path | None:
        """The file that the cache is kept in, if there is one."""
        return self._parts.snapshots.file if self._parts.snapshots is not None else None

    # --- the loop -----------------------------------------------------------------------------------

    async def _process(self) -> None:
        """Move changes from the queue to the cache and the handlers, until the queue is closed and empty.

        A small batch that comes while this waits takes the same way without it: see `AtomicDeltaFIFO.direct`.
        """
        parts = self._parts
        while (entries := await parts.queue.take()) is not None:
            await parts.processor.apply(entries)  # cache first, then the mailboxes, then who waits for a version
            if parts.snapshots is not None:
                await parts.snapshots.cut_if_wanted()

    # --- life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._start_tasks()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._leave(asyncio.get_running_loop().time() + self.shutdown_timeout)
        if self._error is not None and error is None:
            raise self._error

    async def run(self) -> None:
        """Run until cancelled, then stop; for programs with their own task group. Raises the error of a crash."""
        async with self:
            assert self._ended is not None
            await asyncio.shield(self._ended)

    def _start_tasks(self) -> None:
        """Start following the source. What `async with` does on entering, for the factory."""
        if self._loop is not None:
            raise RuntimeError(f"informer {self.name} was entered before; make a new one")
        self._loop = asyncio.get_running_loop()
        reflectors = list(self._parts.reflectors.values())  # without those of namespaces, which the follower runs
        self._namespaces.start()  # raises if what they are read from has ended: then there is no task to end
        self._sync.entered = True
        self._ended = self._loop.create_future()
        self._metrics.start()
        self._processing = self._tasks.start(self._process(), f"kinformer processor of {self.name}")
        for reflector in reflectors:
            self._run_reflector(reflector)
        self._feeding.append(self._tasks.start(self._parts.schedule.run(), f"kinformer resync of {self.name}"))
        if self._parts.snapshots is not None:
            self._feeding.append(self._tasks.start(self._parts.snapshots.run(), f"kinformer snapshot of {self.name}"))
        self._handlers.start()

    def _run_reflector(self, reflector: Reflector) -> asyncio.Task[None]:
        with unfenced():  # it may be started by a leader's body, and outlive that
            task = self._tasks.start(reflector.run(), f"kinformer reflector of {reflector.name}")
        self._feeding = [*(feeding for feeding in self._feeding if not feeding.done()), task]
        return task

    @shielded_from_scopes
    async def _leave(self, deadline: float) -> None:
        """Stop within `deadline` on the loop's clock: producers, then the queue, then the handlers.

        Raises:
            RuntimeError: Called from inside one of the handlers that it would wait for.
        """
        self._refuse_leaving()
        self._stopped = True
        self._namespaces.stop()
        try:
            await self._tasks.cancel(self._feeding)
            self._parts.queue.close()
            if self._processing is not None:
                await self._tasks.finish([self._processing], deadline)
            saving = self._save_last()
            await self._handlers.finish(deadline)
            await self._tasks.finish(saving, deadline)
        finally:
            self._give_up(StoppedError(f"informer {self.name} has been left"))
            await self._tasks.cancel()
            self._metrics.close()
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def _save_last(self) -> list[asyncio.Task[None]]:
        """The task that writes the snapshot for the last time; none if not all that came has been applied."""
        snapshots, is_whole = self._parts.snapshots, self._processing is not None and self._processing.done()
        if snapshots is None or self._error is not None or not is_whole:
            return []
        return [self._tasks.start(snapshots.save_last(), f"kinformer last snapshot of {self.name}")]

    def _refuse_leaving(self) -> None:
        """Raise RuntimeError where `leave` would."""
        self._own_loop("leaving")
        self._handlers.refuse_inside(f"informer {self.name} cannot be left")

    def _refuse_inside_handlers(self, what: str) -> None:
        """Raise RuntimeError if one of the handlers calls this; `what` says what would wait for it."""
        self._handlers.refuse_inside(f"{what} would wait for informer {self.name}")

    def _give_up(self, error: BaseException) -> None:
        """End every wait on this informer with an error."""
        self._parts.processor.fail(self._error or error)
        self._handlers.end_streams(self._error)

    def _crashed(self, task: str, error: BaseException) -> None:
        if self._error is not None:
            return
        log.error("%s ended by %s", task, describe(error), exc_info=error, resource=self.name, reason=error)
        self._error = error
        for feeding in self._feeding:
            feeding.cancel()
        self._parts.queue.close()
        self._give_up(error)
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)
            self._ended.exception()  # leaving raises it too: a log of "never retrieved" would be a second one

    def _request_failed(self, reflector: Reflector, error: Exception) -> None:
        """Take note of an error that ended a request or a stream of a reflector."""
        is_absent = self.optional and isinstance(error, APIError) and error.status == 404
        if is_absent or (self._parts.chosen is not None and isinstance(error, ForbiddenError)):
            self._parts.complete_without(reflector)
        self._sync.fail_fast.note(error)
        self._metrics.failed(error)
        if self._options.on_error is not None:
            self._options.on_error(self, error)

    def _own_loop(self, method: str) -> None:
        require_loop(self._loop, method, f"informer {self.name}")

    def _usable(self, what: str) -> None:
        self._own_loop(what)
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise StoppedError(f"{what}: informer {self.name} has been left")

    @property
    def _started(self) -> bool:
        """True if it has been entered."""
        return self._loop is not None

    # --- the sync ---------------------------------------------------------------------------------------

    @property
    def has_synced(self) -> bool:
        """True if the first full list, of every namespace that it follows, is in the cache."""
        return self._parts.processor.synced.is_open

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool = False) -> None:
        """Wait until `has_synced`. After 5 s, and every 10 s from then on, a warning says what is missing and why.

        Raises:
            NotSyncedError: `timeout` seconds have passed; `unsynced` and the text name the last error.
            APIError: With `fail_fast`, the second 401, 403 or 404.
            StoppedError: The informer has been left. If it has crashed, its error is raised instead.
        """
        self._own_loop("wait_synced")
        if self.has_synced:
            return
        await self._sync.wait(timeout, fail_fast=fail_fast)

    def _unlisted_reason(self) -> str:
        return self._sync.unlisted_reason()

    @property
    def _lists_applied(self) -> bool:
        """True if every list that has come, the first and later ones, is in the cache."""
        return self._parts.queue.lists == self._parts.processor.applied.lists

    @property
    def handlers_synced(self) -> bool:
        """True if every handler has finished the adds that it started with."""
        return self._handlers.synced

    async def wait_handlers_synced(self) -> None:
        """Wait until `handlers_synced`, for the handlers that there are now."""
        await self._handlers.wait_synced()

    @property
    def last_sync_resource_version(self) -> str:
        """The version of the cache; of several namespaces the lowest; "" before the first list."""
        return self._parts.processor.applied.lowest()

    async def wait_for_resource_version(
        self, resource_version: str | ApiObject, *, namespace: str | None = None, timeout: float | None = None
    ) -> None:
        """Wait until the cache holds everything up to a resourceVersion, to read your own writes.

        If no event passes that version within 5 s (a quiet selector gets none), a list at that version is made.

        Args:
            resource_version: The answer to a write, as it is (a KubeObject, a dict, or a model of a client library),
                or its resourceVersion. If it is the last state of an object, the object's end is waited for.
            namespace: Required if the informer follows several namespaces and the answer names none.

        Raises:
            ValueError: There is no resourceVersion, or it is not a number; the namespace is missing or not followed.
            TimeoutError: `timeout` seconds have passed.
            WatchError: The server went back in time, so the cache will never hold that version.
        """
        self._usable("wait_for_resource_version")
        written = Written.of(resource_version, namespace)
        async with asyncio.timeout(timeout):
            await self._parts.reached(written.version, written.namespace, self.name)
            if written.ended is not None:
                await wait_for(self, written.ended.key, is_gone(written.ended.uid))

    @property
    def _selects_all(self) -> bool:
        """True if no selector leaves objects of its namespaces out."""
        return self._parts.selects_all

    def _selects(self, obj: KubeObject[Any]) -> bool:
        """Return False if a namespace or a selector certainly leaves this object out, as the server answered it."""
        return self._parts.selects(obj)

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
        queue_size: int | None = 1024,
        name: str | None = None,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Have callbacks called for the cached objects, as adds, and for every change; at any time before the stop.

        Args:
            handler: An object with some of `on_add(obj, *, is_in_initial_list)`, `on_update(old, new)`,
                `on_delete(obj, *, final_state_unknown)`; or give the callbacks. Coroutine functions or plain
                ones; the flags are passed only to callbacks that take them.
            resync_period: Seconds between replays of the cache to this handler; None takes the informer's,
                0 is off.
            filter: Shows the handler only objects for which it is true; a change across its edge is an add
                or a delete.
            queue_size: Waiting calls above which calls of one key are folded; 1024, which is client-go's
                initial ring, bounds memory and is never reached by a handler that keeps up. With None they are never
                folded: each change is one call, and as many wait as a slow handler lets wait.
            name: For `statistics().pending` and the log; default: the handler's own name.
            thread: Call plain functions in a worker thread, in order and one at a time, so that they may block. The
                informers of a client share `Client.handler_limiter`.

        Raises:
            StoppedError: The informer has been left.
            ConfigError: There is no callback, or both a handler and callbacks; with `thread` a coroutine function.
            TypeError: A callback or the filter cannot be called with the arguments that it will get.
        """
        target = Handler(
            handler, on_add=on_add, on_update=on_update, on_delete=on_delete, owner=f"informer {self.name}"
        )
        period = self._options.resync_period if resync_period is None else resync_period
        return self._handlers.add(
            target, name=name, queue_size=queue_size, only=filter, resync_period=period, thread=thread
        )

    async def remove_event_handler(self, registration: HandlerRegistration, *, drain: bool = False) -> None:
        """Stop calling a handler. Idempotent.

        Calls that wait for it are dropped, and the running call is not waited for. With `drain` the waiting calls are
        delivered first, and this returns after the last one.

        Raises:
            RuntimeError: `drain` from inside the handler itself.
        """
        self._own_loop("remove_event_handler")
        await self._handlers.remove(registration, drain=drain)

    def events(
        self,
        *,
        queue_size: int | None = 1024,
        filter: Filter[M] | None = None,  # noqa: A002 - the contract's name
        name: str | None = None,
    ) -> EventStream[M]:
        """Return a stream of the changes: ``async with informer.events() as stream: async for event in stream``.

        Registered on entering, late or not, like a handler, and folded like one above `queue_size`; never with None.
        """
        period = self._options.resync_period
        return self._handlers.stream(
            name or "events", queue_size=queue_size, only=filter, resync_period=period, make=EventStream
        )

    def add_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes, before or after the start; the cached objects are indexed at once, which takes a while.

        Raises:
            ValueError: Another function is known under one of the names; then none is added.
            TypeError: A function cannot be called with an object.
        """
        self._own_loop("add_indexers")
        check_indexers(indexers, f"informer {self.name}")
        self._parts.indexer.add_indexers(indexers)
        self._parts.read_paths()

    async def build_indexers(self, indexers: Indexers[KubeObject[M]]) -> None:
        """Add indexes like `add_indexers`, in slices that leave the loop its turns; the indexes are there on return."""
        self._own_loop("build_indexers")
        check_indexers(indexers, f"informer {self.name}")
        await self._parts.indexer.build_indexers(indexers)
        self._parts.read_paths()

    def health(self) -> InformerHealth:
        """Return the health at this moment, that is, how well the cache follows the server."""
        return combine_health(
            self._parts.health(),
            synced=self.has_synced,
            stopped=self._stopped or self._error is not None or (self._loop is not None and self._loop.is_closed()),
            error=self._error,
            resource_version=self.last_sync_resource_version,
        )

    def statistics(self) -> InformerStatistics:
        """Return counts of everything that was received and told, and of what waits."""
        return self._parts.statistics(self._handlers)

    def __repr__(self) -> str:
        return f"<SharedInformer {self.name}: {len(self._parts.indexer)} objects, {self.health().state}>"
