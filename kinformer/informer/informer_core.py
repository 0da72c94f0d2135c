"""The core of an informer: its tasks from start to end, and its reports to other parts of kinformer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import Coro
from kinformer.cache.index import check_indexers
from kinformer.cache.indexer import Indexers
from kinformer.connection.refusals import Refusals
from kinformer.exceptions import APIError, ForbiddenError, StoppedError, WatchError, describe
from kinformer.informer.collection import core_of
from kinformer.informer.core import CollectionCore
from kinformer.informer.freshness.freshness import Freshness
from kinformer.informer.metrics import InformerMetrics, InformerStatistics
from kinformer.informer.namespaces import ChosenNamespaces, NamespaceFollower, sources_of
from kinformer.informer.options import InformerOptions
from kinformer.informer.wiring import Wiring
from kinformer.list_watcher import ListerWatcher
from kinformer.metrics import Metrics
from kinformer.objects.object import KubeObject
from kinformer.queue.atomic_delta_fifo import Entry, EventBatch
from kinformer.reflector.health import InformerHealth, combine_health
from kinformer.reflector.reflector import Reflector

__all__ = ["InformerCore"]

log = get_logger("kinformer.informer")

_STATE_LOOK = 0.05
_CHECK_AFTER = 1.0  # seconds after which namespaces are checked, so that a program which lists once does not pay for it


class InformerCore(CollectionCore):
    """The parts of one informer while they run.

    Args:
        list_watch: The source, a mapping from namespace to source, or the chosen namespaces.
        name: The name in the log and errors, or None for the source's name.
        indexers: The indexes besides the one by namespace, which always exists.
        options: The informer's options.

    Attributes:
        source: The source, or one of several.
        options: See above.
        parts: The parts from the sources to the cache.
        face: The informer that programs see.
        freshness: When the cache was last proved to be current.
        ended: A future, done once the informer has stopped, with its error if it crashed.
    """

    def __init__(
        self,
        list_watch: ListerWatcher | Mapping[str, ListerWatcher] | ChosenNamespaces,
        name: str | None,
        indexers: Indexers,
        options: InformerOptions,
    ) -> None:
        sources, self.source = sources_of(list_watch)
        name = name or self.source.name
        self.options = options
        self.parts = Wiring(sources, name, options, indexers=indexers, on_error=self._request_failed)
        self._metrics = InformerMetrics(name, options.metrics, self.health, self.statistics)
        super().__init__(
            "informer",
            name,
            publisher=self.parts.processor,
            schedule=self.parts.schedule,
            metrics=self._metrics,
            log=log,
            limiter=lambda: self.source.handler_limiter,
            shutdown_timeout=options.shutdown_timeout,
        )
        self.face: Any = None
        self.ended: asyncio.Future[None] | None = None
        self._refusals = Refusals(name, optional=options.optional)
        self._namespaces = NamespaceFollower(
            name,
            self.parts.chosen,
            self.parts.queue,
            join=lambda namespace: self._run_reflector(self.parts.join(namespace)),
            leave=self._leave,
            tasks=self.tasks,
        )
        self.freshness = Freshness(
            name, lambda: self.parts.proofs, self.namespaces_proved, self.tasks, self.publisher.synced.wait
        )
        # Set on entering. A namespace that joins adds a task to the first.
        self._feeding: list[asyncio.Task[None]] = []
        self._processing: asyncio.Task[None] | None = None

    # --- the loop -----------------------------------------------------------------------------------

    async def _process(self) -> None:
        """Move changes from the queue to the cache and the handlers, until the queue is closed and empty.

        A batch that arrives while this waits is applied without it: see `AtomicDeltaFIFO.direct`.
        """
        parts = self.parts
        apply = self._measured_apply()
        while (entries := await parts.queue.take()) is not None:
            await apply(entries)  # cache first, then mailboxes, then tasks that wait for a version
            if parts.snapshots is not None:
                await parts.snapshots.cut_if_wanted()

    def _measured_apply(self) -> Callable[[Iterable[Entry]], Coro[None]]:
        """Return the function that applies entries. It, and the one for small batches, measure if a sink wants that."""
        processor, observe, perf = self.parts.processor, self._metrics.processing(), SYSTEM.perf
        if observe is None:
            return processor.apply

        async def apply(entries: Iterable[Entry]) -> None:
            began = perf()
            await processor.apply(entries)
            observe(perf() - began)

        def apply_now(changes: EventBatch) -> EventBatch | None:
            began = perf()
            left = processor.apply_now(changes)
            observe(perf() - began)
            return left

        self.parts.queue.direct = apply_now
        return apply

    # --- life ---------------------------------------------------------------------------------------

    def _start(self) -> None:
        reflectors = self.parts.reflectors  # without those of chosen namespaces, which the follower runs
        self._namespaces.start()  # raises if their collection has ended, before there is a task to end
        self.ended = asyncio.get_running_loop().create_future()
        self._metrics.start()
        self.freshness.start()
        self._processing = self.tasks.start(self._process(), f"kinformer processor of {self.name}", vital=True)
        for reflector in reflectors:
            self._run_reflector(reflector)
        self._feeding.append(self.tasks.start(self.parts.schedule.run(), f"kinformer resync of {self.name}"))
        if self.parts.snapshots is not None:
            self._feeding.append(self.tasks.start(self.parts.snapshots.run(), f"kinformer snapshot of {self.name}"))
        if self.parts.has_namespaces:
            self._feeding.append(self.tasks.start(self._check_namespaces(), f"kinformer namespaces of {self.name}"))
        self.handlers.start()

    async def _check_namespaces(self) -> None:
        with suppress(StoppedError):
            await self.publisher.synced.wait()
            await asyncio.sleep(_CHECK_AFTER)
            await self.parts.check_namespaces()

    def _run_reflector(self, reflector: Reflector) -> asyncio.Task[None]:
        with unfenced():  # it may be started in a leader's body, and outlive it
            task = self.tasks.start_guest(reflector.run(), f"kinformer reflector of {reflector.name}")
        self._feeding = [*(feeding for feeding in self._feeding if not feeding.done()), task]
        return task

    async def _finish(self, deadline: float) -> None:
        """End the producers, then the queue, then the handlers."""
        self._namespaces.stop()
        try:
            await self.tasks.cancel(self._feeding)
            self.parts.queue.close()
            if self._processing is not None:
                await self.tasks.finish([self._processing], deadline)
            saving = self._save_last()
            await self.handlers.finish(deadline)
            await self.tasks.finish(saving, deadline)
        finally:
            self._give_up(StoppedError(f"informer {self.name} was exited"))
            await self.tasks.cancel()
            self._metrics.close()
            if self.ended is not None and not self.ended.done():
                self.ended.set_result(None)

    def _save_last(self) -> list[asyncio.Task[None]]:
        """Start to write the last snapshot, unless received changes have not been applied."""
        snapshots, is_whole = self.parts.snapshots, self._processing is not None and self._processing.done()
        if snapshots is None or self.life.error is not None or not is_whole:
            return []
        return [self.tasks.start(snapshots.save_last(), f"kinformer last snapshot of {self.name}")]

    def _give_up(self, error: BaseException) -> None:
        """End every wait on this informer with an error."""
        self.parts.processor.fail(self.life.error or error)
        self.freshness.fail(self.life.error or error)
        self._refusals.clear()
        self.handlers.end_streams(self.life.error)

    def crashed(self, task: str, error: BaseException) -> None:
        """Stop with the error of a task."""
        if self.life.error is not None:
            return
        log.error("%s ended with %s", task, describe(error), exc_info=error, resource=self.name, reason=error)
        self.life.error = error
        self.tasks.drop(self._feeding)
        self.parts.queue.close()
        self._give_up(error)
        if self.ended is not None and not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # retrieved here, because exiting raises it too

    def _request_failed(self, reflector: Reflector, error: Exception) -> None:
        """Record an error that ended a request or a stream of a reflector."""
        is_absent = self.options.optional and isinstance(error, APIError) and error.status == 404
        if is_absent or (self.parts.chosen is not None and isinstance(error, ForbiddenError)):
            self.parts.complete_without(reflector)
            self._refusals.forget(reflector)
        else:
            self._refusals.note(reflector, error)
        self._metrics.failed(error)
        if self.options.on_error is not None:
            self.options.on_error(self.face, error)

    def _leave(self, namespace: str) -> None:
        self._refusals.forget(self.parts.leave(namespace))

    # --- state --------------------------------------------------------------------------------------

    def unlisted_reason(self) -> str:
        """Return why the first list is not in the cache, or "" if it is."""
        if not self.life.has_begun:
            return "it has not been entered; use `async with` on it, or on its factory"
        return self.parts.unlisted_reason()

    def unsynced_errors(self) -> Mapping[str, BaseException | None]:
        """Return the last error of its requests."""
        return {self.name: self.health().last_error}

    def refusals(self, strict: bool) -> list[Refusals]:
        """Return the refusals of its requests, and of the informer of its namespaces."""
        namespaces = None if self.parts.chosen is None else core_of(self.parts.chosen.collection)
        return [self._refusals, *(() if namespaces is None else namespaces.sync.refusals(strict))]

    def health(self) -> InformerHealth:
        """Return how well the cache follows the server."""
        combined = combine_health(
            self.parts.health(),
            synced=self.publisher.synced.is_open,
            stopped=self.life.has_ended,
            error=self.life.error,
            resource_version=self.parts.processor.applied.lowest(),
            staleness=self.freshness.staleness,
        )
        shared = self.source.shared()
        if shared is None:
            return combined
        live, holder = shared
        return replace(combined, live=combined.live and live, holder=holder)

    def statistics(self) -> InformerStatistics:
        """Return counts of received, delivered and waiting changes."""
        return self.parts.statistics(self.handlers)

    @property
    def resync_period(self) -> float:
        """Seconds between resyncs of handlers and streams that set no period, or 0 for no resyncs."""
        return self.options.resync_period

    @property
    def sink(self) -> Metrics | None:
        """The metrics sink of the informer."""
        return self.options.metrics

    def roots(self, member: str = "") -> list[Any]:
        """Return this core, because its objects come from no other informer."""
        return [self]

    async def state_of(self, namespace: str | None, within: float) -> tuple[list[KubeObject], str] | None:
        """Return all whole objects of a namespace and their version, once all received changes are applied.

        None if they are not applied within so many seconds. Objects that a transform has changed are not whole.
        """
        if self.options.transform is not None:
            return None
        applied = self.parts.processor.applied
        with suppress(TimeoutError, StoppedError, WatchError):
            async with asyncio.timeout(within or None):
                while not self.life.has_ended:
                    state = self.parts.state_of(namespace)
                    if state is not None or not within:
                        return state
                    # The version may be that of the last received change only in the step after it was applied.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_STATE_LOOK):
                            await applied.moved(None if None in applied.current else namespace)
        return None

    # --- freshness ----------------------------------------------------------------------------------

    @property
    def is_absent(self) -> bool:
        """True if the resource is optional and absent, and its cache is empty, so that it cannot be stale."""
        return self.options.optional and not len(self.parts.indexer) and self.health().state == "absent"

    async def namespaces_proved(self) -> None:
        """Return once the namespaces that are chosen on the server at the call are followed."""
        chooser = None if self.parts.chosen is None else core_of(self.parts.chosen.collection)
        if chooser is not None:
            await chooser.prove()
            while not self._namespaces.is_current:  # noqa: ASYNC110 - it is true within a few turns, without an event
                await asyncio.sleep(_STATE_LOOK)

    def require_followed(self, namespace: str | None) -> None:
        """Raise ValueError if a namespace is not followed."""
        followed = self.parts.namespaces
        if namespace and followed is not None and namespace not in followed:
            names = ", ".join(followed) or "none"
            raise ValueError(f"namespace={namespace!r}: informer {self.name} follows the namespaces {names}")

    async def reached(self, version: str, namespace: str | None) -> None:
        """Wait until the cache has reached a version. A cache that is polled is listed for it."""
        self.life.require_running("wait_for_resource_version")
        await self.parts.reached(version, namespace)

    async def prove(self) -> None:
        """Return once the cache is at least as new as the server was at the call."""
        await self.publisher.synced.wait()
        await self.freshness.prove()

    # --- indexes ------------------------------------------------------------------------------------

    def add_indexers(self, indexers: Indexers) -> None:
        """Add indexes at once. See `SharedInformer.add_indexers`."""
        self.life.require_loop("add_indexers")
        check_indexers(indexers, f"informer {self.name}")
        self.parts.indexer.add_indexers(indexers)
        self.parts.read_paths()

    async def build_indexers(self, indexers: Indexers) -> None:
        """Add indexes in slices. See `SharedInformer.build_indexers`."""
        self.life.require_loop("build_indexers")
        check_indexers(indexers, f"informer {self.name}")
        await self.parts.indexer.build_indexers(indexers)
        self.parts.read_paths()
