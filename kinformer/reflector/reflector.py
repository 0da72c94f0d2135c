"""The reflector: keeps a store equal to what a server has, by one full list and a watch from there, for ever.

What is to be done about a failure is decided in `recovery.py`; this module does it. The loop is a row of steps, each of
which asks the source for one thing: a full list (as a LIST, or as a stream that goes on as the watch), the tip, or a
watch. Upstream: client-go, tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.cache.indexer import NAMESPACE_INDEX, Indexer, meta_namespace_index_func
from kinformer.exceptions import APIError, ConfigError, ExpiredError, NotFoundError, TooManyRequestsError
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent
from kinformer.objects.meta import meta_namespace_key
from kinformer.reflector.continuity import ClusterLearner, ContinuityCheck, Gap
from kinformer.reflector.errors import (
    RETRIED,
    InitialStreamError,
    ResyncError,
    ShortWatchError,
    StaleListError,
    StoreFailedError,
)
from kinformer.reflector.health import HealthRecord, InformerHealth
from kinformer.reflector.recovery import Phase, Remedy, delay_for, remedy_for
from kinformer.reflector.relist import ListRun, RelistPlan, reaches
from kinformer.reflector.removed_resource import RemovedResourceCheck
from kinformer.reflector.resume import Resume
from kinformer.reflector.resync_timer import ResyncTimer
from kinformer.reflector.store_writer import ReflectorStore, StoreWriter
from kinformer.reflector.timeouts import HEAD_TIMEOUT, IdleTimeout
from kinformer.reflector.watch import EventPump, Stream, watch_stream
from kinformer.reflector.watch_list import INITIAL_SILENCE, InitialEvents, WatchListChoice

__all__ = ["Reflector", "namespace_keyed_indexer_and_reflector"]

log = get_logger("kinformer.reflector")

SHORT_WATCH = 1.0  # seconds; a watch that ends sooner, and empty, has not worked (client-go, VeryShortWatchError)
SHORT_WATCHES = 2  # of them in a row: the version has expired, and this server does not say so


class Reflector:
    """Follows one source and writes what it has into one store, until it is cancelled.

    The first LIST is made at resourceVersion "0" (whatever the server has at hand), a relist at the last one seen, so
    that it does not go back in time, also after a 410; only if that LIST itself is answered 410 or "too large" is it
    made at once with none. With `watch_list` the list comes as a stream instead. While a list comes in, an object that
    the store holds already takes the place of its copy.

    The store is told of events in their order, and of each before the next is waited for; after a failure the watch
    goes on from the last that was written. Cancelling `run` closes what is open and leaves no task behind. A reflector
    belongs to the event loop in which it runs.

    Args:
        lister_watcher: The source. It may also have what `ServerProbe` names; `cluster`, a coroutine function for an
            identity of the cluster (or None), asked once beside the first watch; and `supports_watch_list`: where it
            is False, automatic mode lists, for a source that would not understand an initial stream.
        store: See `ReflectorStore`.
        name: What the log and errors call it; default: the source's `name`, or its class.
        resync_period: Seconds between two calls of `store.resync`; 0, the default, is off: it repairs nothing.
        page_size: Objects in an answer. A number: always; 500, the default, is client-go's. None, which informers
            take: 500 where the version is "0" or unset (a server with a watch cache ignores it there), none at a
            numeric one unless the first list came in pages.
        backoff: How long to wait after failures. A server's Retry-After, up to 60 s, goes before.
        watch_list: None: stream, but list for an hour after a server has refused, has been silent for 30 s, has ended
            the stream or failed three times. True: only stream. False: only list.
        watch_timeout: Seconds; each watch asks for a random time in [x, 2x], so that not all end together. 300 as in
            client-go. A server that goes on for 10 s more is left.
        idle_timeout: Seconds of silence on a stream, bookmarks included, after which it is replaced, which is no
            failure; on a LIST the time without a byte. 120: the API server sends a bookmark a minute where there is
            progress. It limits the time for the head of an answer too, which is 30 s at most.
        on_error: Called as `on_error(reflector, error)` for every error that ends a request or a stream, before it is
            dealt with. May raise: then `run` raises that.
        clock: For tests.
        resume: Asked before the first list for a state to go on from, which is taken for a list.

    Raises:
        ConfigError: An option that cannot work, by name.
    """

    def __init__(
        self,
        lister_watcher: ListerWatcher,
        store: ReflectorStore,
        *,
        name: str | None = None,
        resync_period: float = 0,
        page_size: int | None = 500,
        backoff: Backoff | None = None,
        watch_list: bool | None = None,
        watch_timeout: float = 300,
        idle_timeout: float = 120,
        on_error: Callable[[Any, Exception], Any] | None = None,
        clock: Clock = SYSTEM,
        resume: Resume | None = None,
    ) -> None:
        _check(watch_timeout=watch_timeout, idle_timeout=idle_timeout)
        self.name = name or getattr(lister_watcher, "name", None) or type(lister_watcher).__name__
        self.lister_watcher = lister_watcher
        self.store = store
        self._watch_timeout = watch_timeout
        self._idle_timeout = idle_timeout
        self._head_timeout = min(HEAD_TIMEOUT, idle_timeout)
        self._on_error = on_error
        self._clock = clock
        self._resume = resume

        self._writer = StoreWriter(store)
        self._health = HealthRecord()
        self._pump = EventPump(self._writer, self._health, clock)
        self._backoff = (backoff or Backoff()).start()
        self._short_backoff = (backoff or Backoff()).start()  # of its own, since these are no failures yet
        able = getattr(lister_watcher, "supports_watch_list", True)
        self._choice = WatchListChoice(watch_list if able else bool(watch_list), SYSTEM.loop)
        self._gap = Gap(idle_timeout, clock)
        self._tip = ContinuityCheck(lister_watcher, name=self.name, timeout=self._head_timeout)
        self._learner = ClusterLearner(self._tip, name=self.name, broke=self._interrupt)
        self._absence = RemovedResourceCheck(lister_watcher, timeout=self._head_timeout)
        self._resync = ResyncTimer(resync_period, store.resync, self._resync_failed)

        self._plan = RelistPlan(page_size)
        self._run: ListRun | None = None  # the LIST that is under way, or failed last

        self._phase = Phase.LIST
        self._dog: IdleTimeout | None = None  # of the stream that is open
        self._lasted = 0.0  # seconds that the last stream was open

        self._short = 0  # streams in a row that did not, and ended at once
        self._stream_errors = 0  # ERROR events in a row
        self._resync_error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running = False

    @property
    def last_sync_resource_version(self) -> str:
        """How far the store has been told; "" before the first list."""
        return self._writer.version

    @property
    def cluster(self) -> str | None:
        """Which cluster the source is, or None where that is not known (yet)."""
        return self._tip.cluster

    @property
    def relists(self) -> Mapping[str, int]:
        """Full lists after the first, by cause; a copy.

        The causes: expired, rewind, cluster_replaced, requested, absent, short_watch, decode_error, watch_error, error,
        resync.
        """
        return dict(self._health.relists)

    @property
    def watch_restarts(self) -> Mapping[str, int]:
        """Watches and initial streams that ended, by cause; a copy.

        The causes: ended (by the server, in order), idle, deadline, interrupted (by us, to list), failed.
        """
        return dict(self._health.watch_restarts)

    def health(self) -> InformerHealth:
        """How well the store follows the server, at this moment."""
        return self._health.snapshot(self._loop.time() if self._loop is not None else 0.0, self._writer.version)

    def refresh(self, resource_version: str) -> None:
        """Make a full list that is not older than `resource_version` soon, unless the store gets there before.

        The watch that is open ends for it; the cause is "requested". Several calls make one list. Where the server is
        not that far (the version is wrong, or the server went back) the newest that it has is listed, once.

        Raises:
            ValueError: The version is no number.
        """
        self._plan.want(resource_version)
        if self._phase is Phase.WATCH:
            self._interrupt()

    async def run(self) -> None:
        """Follow the source until cancelled.

        Raises:
            RuntimeError: It is running already.
            Exception: What the store or `on_error` raised, or a bug, of the source too; failures are tried again.
        """
        if self._running:
            raise RuntimeError(f"the reflector {self.name} is running already")
        self._running = True
        self._loop = asyncio.get_running_loop()
        bug: Exception | None = None
        try:
            while True:
                failure = await self._step()
                if failure is not None:
                    await self._recover(failure)
        except StoreFailedError as carrier:
            bug = carrier.cause
        except Exception as error:
            bug = error
            raise
        finally:
            self._running = False
            self._resync.stop()
            self._health.stopped(bug)
            await self._learner.stop()
        assert bug is not None
        raise bug

    # --- steps: each asks the source for one thing ------------------------------------------------------------

    async def _step(self) -> Exception | None:
        self._learner.check()
        try:
            if self._resume is not None:
                await self._go_on(self._resume)
            elif self._plan.is_due(self._writer.version):
                self._health.listing()
                self._resync.stop()
                await (self._stream_all() if self._choice.wanted() else self._list_all())
            elif self._gap.in_doubt() and self._writer.version not in ("", "0"):
                self._phase = Phase.TIP
                await self._tip.verify(self._writer.version)
                self._gap.proved()
            else:
                await self._watch()
        except RETRIED as error:
            return error
        return None

    async def _go_on(self, resume: Resume) -> None:
        self._phase = Phase.SNAPSHOT
        found = await resume()
        self._resume = None
        if found is not None:
            self._tip.cluster = found.cluster
            self._replace(found.objects, found.resource_version)

    async def _list_all(self) -> None:
        self._phase = Phase.LIST
        asked = self._plan.ask(self._writer.version, first="0")
        self._run = ListRun(
            self.lister_watcher,
            known=self._writer.known,
            head_timeout=self._head_timeout,
            idle_timeout=self._idle_timeout,
            clock=self._clock,
        )
        items, version = await self._run.collect(asked, self._plan.limit())
        self._plan.pages(self._run.page)
        self._refuse_older(version)
        self._replace(items, version)

    async def _stream_all(self) -> None:
        self._phase = Phase.INITIAL_OPENING
        options = ListOptions(
            resource_version=self._plan.ask(self._writer.version, first="") or None,
            resource_version_match="NotOlderThan",
            send_initial_events=True,
            allow_watch_bookmarks=True,
        )
        silence = min(INITIAL_SILENCE, self._idle_timeout)
        async with self._opened(options, silence) as (stream, dog):
            self._phase = Phase.INITIAL
            initial = InitialEvents(self._writer.known)
            budget = YieldBudget(clock=self._clock)
            rest = await initial.collect(stream, dog, budget)
            if rest is not None:
                self._refuse_older(initial.resource_version)
                self._choice.worked()
                self._replace(await initial.take(budget), initial.resource_version)
                dog.idle = self._idle_timeout
                self._writer.recorded = self._pump.moved = True
                await self._follow(stream, dog, rest)
        if self._phase is Phase.WATCH:
            await self._ended(dog)
        elif dog.verdict == "idle":
            raise InitialStreamError(f"no initial event for {silence:g} s, and no end bookmark")
        else:
            raise InitialStreamError("the initial stream ended without its end bookmark")

    async def _watch(self) -> None:
        self._phase = Phase.OPENING
        version = self._writer.version
        self._writer.recorded = version not in ("", "0")
        options = ListOptions(resource_version=version or None, allow_watch_bookmarks=True)
        async with self._opened(options, self._idle_timeout) as (stream, dog):
            await self._follow(stream, dog, ())
        await self._ended(dog)

    @asynccontextmanager
    async def _opened(self, options: ListOptions, idle: float) -> AsyncIterator[tuple[Stream, IdleTimeout]]:
        async with watch_stream(
            self.lister_watcher,
            options,
            timeout=self._watch_timeout,
            head_timeout=self._head_timeout,
            idle=idle,
        ) as (stream, dog):
            opened = SYSTEM.loop()
            self._health.watches += 1
            self._pump.moved = False
            self._dog = dog
            try:
                yield stream, dog
            finally:
                self._dog = None
                self._lasted = SYSTEM.loop() - opened
                self._gap.closed(self._health.last_event)

    async def _follow(self, stream: Stream, dog: IdleTimeout, events: Sequence[WatchEvent]) -> None:
        """Write `events`, and then what comes, for as long as it comes."""
        self._phase = Phase.WATCH
        self._health.following()
        self._absence.over()
        self._learner.start()
        self._resync.start()
        if self._resync_error is not None or self._plan.wanted is not None:
            dog.interrupt()  # it came up while no stream was open
        await self._pump.write(events)
        await self._pump.run(stream, dog)

    async def _ended(self, dog: IdleTimeout) -> None:
        """What follows from a stream that ended without a failure."""
        self._health.watch_restarts[dog.verdict or "ended"] += 1
        if self._pump.moved:
            self._stream_errors = 0
        if self._resync_error is not None:
            error, self._resync_error = self._resync_error, None
            raise ResyncError(f"the store's resync failed: {error!r}") from error
        if dog.verdict == "idle":
            self._gap.silent()
        if dog.verdict or self._pump.moved or self._lasted >= SHORT_WATCH:
            self._short = 0
            self._short_backoff.reset()
            return
        self._short += 1
        if self._short >= SHORT_WATCHES:
            self._short = 0
            raise ShortWatchError(f"{SHORT_WATCHES} watches in a row ended at once, without an event")
        self._health.state = "backing_off"
        await asyncio.sleep(self._short_backoff.next())

    def _refuse_older(self, version: str) -> None:
        """A list goes back in time only where the newest that the server has was asked for."""
        if self._plan.asked and not reaches(version, self._writer.version, unknown=True):
            text = f"a list of version {version} came where one not older than {self._plan.asked} was asked for"
            raise StaleListError(text)

    def _replace(self, items: ChunkedList[Any] | list[Any], version: str) -> None:
        before = self._writer.version
        self._writer.replace(items, version)
        self._health.listed(SYSTEM.loop(), self._plan.done(before, version))
        self._gap.proved()
        self._absence.over()

    # --- failures -----------------------------------------------------------------------------------------------

    async def _recover(self, error: Exception) -> None:
        if self._phase is Phase.WATCH and not isinstance(error, (ResyncError, ShortWatchError)):
            self._health.watch_restarts["failed"] += 1
        if self._pump.moved:
            self._stream_errors, self._pump.moved = 0, False
        if self._phase is Phase.WATCH and isinstance(error, APIError):
            self._stream_errors += 1
        remedy = remedy_for(
            error,
            self._phase,
            asked=self._plan.asked,
            page=self._run.page if self._run is not None else 1,
            paged=not self._plan.unpaged,
            stream_errors=self._stream_errors,
        )
        self._tell(error, remedy)
        at_once = self._take(remedy)
        if isinstance(error, NotFoundError) and self._health.synced and self._absence.questionable:
            await self._question_existence()
        if not at_once:
            await asyncio.sleep(delay_for(error, self._backoff, self._health.consecutive_failures))

    def _take(self, remedy: Remedy) -> bool:
        """Note down what the next step is to be; whether it is made without a delay."""
        self._plan.take(remedy)
        if remedy.relist is not None:
            self._stream_errors = 0
        if remedy.attempt:
            return self._choice.failed()
        if remedy.fall_back:
            return self._choice.fall_back()
        return remedy.at_once

    def _tell(self, error: Exception, remedy: Remedy) -> None:
        falls_back = remedy.fall_back and self._choice.mode is None
        news = not self._choice.has_fallen_back if falls_back else type(error) is not type(self._health.last_error)
        # Every server says these now and then, and the next request is the answer to it.
        expected = falls_back or isinstance(error, (ExpiredError, TooManyRequestsError))
        level = logging.DEBUG if not news else logging.INFO if expected else logging.WARNING
        what = "%s: %s failed, so there will be lists instead: %s" if falls_back else "%s: %s failed: %s"
        log.log(level, what, self.name, self._phase.value, error, resource=self.name, reason=error)
        self._health.failed(error)
        if self._on_error is not None:
            self._on_error(self, error)

    async def _question_existence(self) -> None:
        try:
            gone = await self._absence.ask(SYSTEM.loop())
        except RETRIED as error:
            failure = error
        else:
            if gone:
                log.warning("%s is gone: the cache is emptied", self.name, resource=self.name, reason="absent")
                version = self._writer.version
                self._writer.replace(ChunkedList(), "")
                self._writer.version = version  # when the resource is back, nothing older than that is
            return
        if self._on_error is not None:  # it changes nothing: the resource is as absent as before
            self._on_error(self, failure)

    def _resync_failed(self, error: Exception) -> None:
        self._resync_error = error
        self._interrupt()

    def _interrupt(self) -> None:
        if self._dog is not None:
            self._dog.interrupt()


def namespace_keyed_indexer_and_reflector(lister_watcher: ListerWatcher, **options: Any) -> tuple[Indexer, Reflector]:
    """An indexer and a reflector with these options that feeds it (client-go, NewNamespaceKeyedIndexerAndReflector)."""
    indexer = Indexer(meta_namespace_key, {NAMESPACE_INDEX: meta_namespace_index_func})
    return indexer, Reflector(lister_watcher, indexer, **options)


def _check(**seconds: float) -> None:
    for name, value in seconds.items():
        if not value > 0:
            raise ConfigError(f"{name}={value!r}: seconds above 0 are needed")
