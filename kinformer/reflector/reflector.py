"""The reflector: keeps a store equal to what a server has, by one full list and a watch from there, for ever.

It is a state machine. Each state asks the source for one thing, and ends in the next state; which one follows a failure
is decided in `recovery.py`. (Upstream: client-go, tools/cache/reflector.go. The watcher of kube-rs,
kube-runtime/src/watcher.rs, has similar states.)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Unpack

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.cache.indexer import NAMESPACE_INDEX, Indexer, meta_namespace_index_func
from kinformer.exceptions import APIError, ExpiredError, NotFoundError, TooManyRequestsError
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent, capabilities_of
from kinformer.objects.meta import meta_namespace_key
from kinformer.reflector.continuity import Continuity
from kinformer.reflector.errors import (
    RETRIED,
    InitialStreamError,
    ResyncError,
    ShortWatchError,
    StaleListError,
    StoreFailedError,
)
from kinformer.reflector.health import HealthRecord, InformerHealth
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.reflector.recovery import Delays, Facts, Transition, full_list, next_state
from kinformer.reflector.relist import FIRST, ListRun, RelistPlan, reaches
from kinformer.reflector.removed_resource import RemovedResourceCheck
from kinformer.reflector.resume import Resume as ResumeFunction
from kinformer.reflector.resync_timer import ResyncTimer
from kinformer.reflector.states import InitialStream, List, Resume, State, Verify, Watch
from kinformer.reflector.store_adapter import EventStore, ReflectorStore, event_store
from kinformer.reflector.timeouts import IdleTimeout
from kinformer.reflector.watch import Follower, Stream
from kinformer.reflector.watch_list import INITIAL_SILENCE, InitialEvents

__all__ = ["Reflector", "namespace_keyed_indexer_and_reflector"]

log = get_logger("kinformer.reflector")

SHORT_WATCHES = 2  # short watches in a row after which the version has expired, and this server does not say so


class Reflector:
    """Follows one source and writes what it has into one store, until it is cancelled.

    The first LIST is made at resourceVersion "0" (any version that the server has at hand), a relist at the last one
    seen, so that it does not go back in time, also after a 410; only if that LIST itself is answered 410 or "too large"
    is it made at once without a version. With `watch_list` the list comes as a stream instead. While a list comes in,
    an object that the store holds already takes the place of its copy.

    The store is told of events in their order, and of each before the next is waited for; after a failure the watch
    is resumed from the last that was written. Cancelling `run` closes what is open and leaves no task behind. A
    reflector belongs to the event loop in which it runs.

    Args:
        lister_watcher: The source. It may have more than `list` and `watch`: see `Capabilities`. Asked are `tip`,
            `presence`, and `cluster` once beside the first watch; if `supports_watch_list` is False, automatic mode
            lists.
        store: See `ReflectorStore`.
        name: For the log and errors; default: the source's `name`, or its class.
        resync_period: Seconds between two calls of `store.resync`; 0, the default, is off: it repairs nothing.
        on_error: Called as `on_error(reflector, error)` for every error that ends a request or a stream, before it is
            dealt with. May raise: then `run` raises that.
        clock: For tests.
        resume: Asked before the first list for a state to resume from, which takes the place of a list.
        options: How the source is followed; the keywords below override it.
        page_size, watch_list, watch_timeout, idle_timeout, backoff: See `ReflectorOptions`.

    Raises:
        ConfigError: An option that cannot work, by name.
    """

    def __init__(
        self,
        lister_watcher: ListerWatcher,
        store: ReflectorStore | EventStore,
        *,
        name: str | None = None,
        resync_period: float = 0,
        on_error: Callable[[Reflector, Exception], object] | None = None,
        clock: Clock = SYSTEM,
        resume: ResumeFunction | None = None,
        options: ReflectorOptions | None = None,
        **keywords: Unpack[ReflectorKeywords],
    ) -> None:
        capabilities = capabilities_of(lister_watcher)
        self.name = name or capabilities.name
        self.lister_watcher = lister_watcher
        self._on_error = on_error
        self._options = replace(options or ReflectorOptions(), **keywords)
        head_timeout = self._options.head_timeout
        self._health = HealthRecord()
        self._follower = Follower(lister_watcher, event_store(store), self._health, self._options, clock)
        self._resync = ResyncTimer(resync_period, store.resync, self._follower.interrupt)
        self._continuity = Continuity(
            lister_watcher,
            name=self.name,
            timeout=head_timeout,
            quiet=self._options.idle_timeout,
            clock=clock,
            on_bug=self._follower.interrupt,
        )
        self._removed = RemovedResourceCheck(lister_watcher, timeout=head_timeout)
        self._plan = RelistPlan(self._options, watch_list=capabilities.watch_list, now=SYSTEM.loop)
        self._delays = Delays(self._options.backoff or Backoff())
        self._state: State = full_list(FIRST, self._facts) if resume is None else Resume(resume)

    @property
    def last_sync_resource_version(self) -> str:
        """How far the store has been told; "" before the first list."""
        return self._follower.version

    @property
    def cluster(self) -> str | None:
        """Which cluster the source is, or None while that is not known."""
        return self._continuity.check.cluster

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
        return self._health.snapshot(self._follower.version)

    def refresh(self, resource_version: str) -> None:
        """Make a full list that is not older than `resource_version` soon, unless the store gets there before.

        The watch that is open ends for it; the cause is "requested". Several calls make one list. If the server is not
        that far (the version is wrong, or the server went back) the newest that it has is listed, once.

        Raises:
            ValueError: The version is no number.
        """
        self._plan.want(resource_version)
        if isinstance(self._state, Watch):
            self._follower.interrupt()

    async def run(self) -> None:
        """Follow the source until cancelled.

        Raises:
            RuntimeError: It is running already.
            Exception: What the store or `on_error` raised, or a bug, of the source too; failures are tried again.
        """
        if self._health.running:
            raise RuntimeError(f"the reflector {self.name} is running already")
        self._health.started(asyncio.get_running_loop().time)
        bug: Exception | None = None
        try:
            while True:
                self._continuity.raise_bug()
                try:
                    self._state = await self._step(self._state)
                except RETRIED as error:
                    await self._recover(error)
        except StoreFailedError as carrier:
            bug = carrier.cause
        except Exception as error:
            bug = error
            raise
        finally:
            self._resync.stop()
            self._health.stopped(bug)
            await self._continuity.stop()
        assert bug is not None
        raise bug

    # --- the states -------------------------------------------------------------------------------------------

    async def _step(self, state: State) -> State:
        """Do what a state asks for; the next state."""
        match state:
            case Resume():
                return await self._resume(state)
            case List():
                return await self._list(state)
            case InitialStream():
                return await self._initial_stream(state)
            case Verify():
                await self._continuity.verify(self._follower.version)
                return Watch()
            case Watch():
                if self._plan.is_wanted(self._follower.version):
                    return full_list("requested", self._facts)
                if self._continuity.in_doubt() and self._follower.version not in ("", "0"):
                    return Verify()
                return await self._watch()

    async def _resume(self, state: Resume) -> State:
        found = await state.load()
        first = full_list(FIRST, self._facts)
        if found is None:
            return first
        self._continuity.check.cluster = found.cluster
        self._replace(first, found.objects, found.resource_version)
        return Watch()

    async def _list(self, state: List) -> State:
        self._health.listing()
        self._resync.stop()
        asked = self._plan.ask(state, self._follower.version, first="0")
        run = ListRun(
            self.lister_watcher,
            known=self._follower.known,
            head_timeout=self._options.head_timeout,
            idle_timeout=self._options.idle_timeout,
            clock=self._follower.clock,
        )
        try:
            items, version = await run.collect(asked, self._plan.limit(state))
        finally:
            state.page = run.page
        self._plan.pages(state)
        self._refuse_older(state, version)
        self._replace(state, items, version)
        return Watch()

    async def _initial_stream(self, state: InitialStream) -> State:
        self._health.listing()
        self._resync.stop()
        state.opened = False
        options = ListOptions(
            resource_version=self._plan.ask(state, self._follower.version, first="") or None,
            resource_version_match="NotOlderThan",
            send_initial_events=True,
            allow_watch_bookmarks=True,
        )
        silence = min(INITIAL_SILENCE, self._options.idle_timeout)
        async with self._open(options, silence) as (stream, timeout):
            state.opened = True
            initial = InitialEvents(self._follower.known)
            budget = YieldBudget(clock=self._follower.clock)
            rest = await initial.collect(stream, timeout, budget)
            if rest is not None:
                self._refuse_older(state, initial.resource_version)
                self._plan.choice.worked()
                self._replace(state, await initial.take(budget), initial.resource_version)
                timeout.idle = self._options.idle_timeout
                self._follower.recorded = self._follower.moved = True
                await self._follow(stream, timeout, rest)
        if isinstance(self._state, Watch):
            return await self._after_stream(timeout)
        if timeout.verdict == "idle":
            raise InitialStreamError(f"no initial event for {silence:g} s, and no end bookmark")
        raise InitialStreamError("the initial stream ended without its end bookmark")

    async def _watch(self) -> State:
        self._state = Watch()
        version = self._follower.version
        self._follower.recorded = version not in ("", "0")
        options = ListOptions(resource_version=version or None, allow_watch_bookmarks=True)
        async with self._open(options, self._options.idle_timeout) as (stream, timeout):
            await self._follow(stream, timeout, ())
        return await self._after_stream(timeout)

    @asynccontextmanager
    async def _open(self, options: ListOptions, idle: float) -> AsyncIterator[tuple[Stream, IdleTimeout]]:
        async with self._follower.open(options, idle) as opened:
            try:
                yield opened
            finally:
                self._continuity.closed(self._health.last_event)

    async def _follow(self, stream: Stream, timeout: IdleTimeout, events: Sequence[WatchEvent]) -> None:
        """Write `events`, and then what comes, for as long as it comes."""
        self._state = Watch(opened=True)
        self._health.following()
        self._removed.over()
        self._continuity.learn_cluster()
        self._resync.start()
        if self._resync.error is not None or self._plan.wanted is not None:
            timeout.interrupt()  # it came up while no stream was open
        await self._follower.write_slices(events)
        await self._follower.follow(stream, timeout)

    async def _after_stream(self, timeout: IdleTimeout) -> State:
        """The next state after a stream that ended without a failure."""
        follower, verdict = self._follower, timeout.verdict
        self._health.watch_restarts[verdict or "ended"] += 1
        if follower.moved:
            follower.errors = 0
        self._resync.raise_error()
        if verdict == "idle":
            self._continuity.silent()
        if not follower.ended_at_once(verdict):
            follower.short_watches = 0
            self._delays.watch_lasted()
            return Watch()
        follower.short_watches += 1
        if follower.short_watches >= SHORT_WATCHES:
            follower.short_watches = 0
            raise ShortWatchError(f"{SHORT_WATCHES} watches in a row ended at once, without an event")
        self._health.state = "backing_off"
        await asyncio.sleep(self._delays.after_short_watch())
        return Watch()

    def _refuse_older(self, state: List | InitialStream, version: str) -> None:
        """A list goes back in time only if the newest that the server has was asked for."""
        if state.asked and not reaches(version, self._follower.version, unknown=True):
            text = f"a list of version {version} came where one not older than {state.asked} was asked for"
            raise StaleListError(text)

    def _replace(self, state: List | InitialStream, items: ChunkedList[Any], version: str) -> None:
        before = self._follower.version
        self._follower.replace(items, version)
        self._health.listed(SYSTEM.loop(), self._plan.done(state, before, version))
        self._continuity.proved()
        self._removed.over()

    # --- failures -----------------------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        choice = self._plan.choice
        return Facts(
            streaming=choice.wanted,
            may_list=choice.may_list,
            failed_streams=choice.failures,
            stream_errors=self._follower.errors,
            stood_still=self._plan.stood_still,
        )

    async def _recover(self, error: Exception) -> None:
        follower, state = self._follower, self._state
        watching = isinstance(state, Watch) and state.opened
        if watching and not isinstance(error, (ResyncError, ShortWatchError)):
            self._health.watch_restarts["failed"] += 1
        if follower.moved:
            follower.errors, follower.moved = 0, False
        if watching and isinstance(error, APIError):
            follower.errors += 1
        transition = next_state(error, state, self._facts)
        self._report(error, state, transition)
        self._enter(transition)
        if isinstance(error, NotFoundError) and self._health.synced and self._removed.questionable:
            await self._question_existence()
        if not transition.at_once:
            await asyncio.sleep(self._delays.after(error, self._health.consecutive_failures))

    def _enter(self, transition: Transition) -> None:
        before, self._state = self._state, transition.state
        if isinstance(before, InitialStream) and isinstance(self._state, List):
            self._plan.choice.fall_back()
        elif transition.counts:
            self._plan.choice.failures += 1
        if isinstance(before, Watch) and not isinstance(self._state, Watch):
            self._follower.errors = 0

    def _report(self, error: Exception, state: State, transition: Transition) -> None:
        falls_back = transition.falls_back
        news = not self._plan.choice.has_fallen_back if falls_back else type(error) is not type(self._health.last_error)
        # Every server says these now and then, and the next request is the answer to it.
        expected = falls_back or isinstance(error, (ExpiredError, TooManyRequestsError))
        level = logging.DEBUG if not news else logging.INFO if expected else logging.WARNING
        what = "%s: %s failed, so there will be lists instead: %s" if falls_back else "%s: %s failed: %s"
        log.log(level, what, self.name, state.doing, error, resource=self.name, reason=error)
        self._health.failed(error)
        if self._on_error is not None:
            self._on_error(self, error)

    async def _question_existence(self) -> None:
        try:
            gone = await self._removed.ask(SYSTEM.loop())
        except RETRIED as error:
            failure = error
        else:
            if gone:
                log.warning("%s is gone: the cache is emptied", self.name, resource=self.name, reason="absent")
                version = self._follower.version
                self._follower.replace(ChunkedList(), "")
                self._follower.version = version  # when the resource is back, nothing older than that is
            return
        if self._on_error is not None:  # it changes nothing: the resource is as absent as before
            self._on_error(self, failure)


def namespace_keyed_indexer_and_reflector(lister_watcher: ListerWatcher, **options: Any) -> tuple[Indexer, Reflector]:
    """An indexer and a reflector with these options that feeds it (client-go, NewNamespaceKeyedIndexerAndReflector)."""
    indexer = Indexer(meta_namespace_key, {NAMESPACE_INDEX: meta_namespace_index_func})
    return indexer, Reflector(lister_watcher, indexer, **options)
