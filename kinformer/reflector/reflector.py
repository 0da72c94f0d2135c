"""The reflector: keeps a store equal to a resource on the server, with a full list and a watch from that version.

It is a state machine. Each state makes one request to the source, and returns the next state. `recovery.py` decides
which state follows a failure. (Upstream: client-go, tools/cache/reflector.go. kube-rs's watcher has similar states.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

from kinformer._runtime.backoff import Backoff
from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import SYSTEM, Clock, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback, options_of, shows_options
from kinformer._runtime.tasks import one_a_turn
from kinformer.exceptions import APIError, ForbiddenError, NotWatchableError
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent, source_of
from kinformer.reflector.continuity import Continuity
from kinformer.reflector.errors import (
    RETRIED,
    FailureLog,
    InitialStreamError,
    ResyncError,
    ShortWatchError,
    StoreFailedError,
    watch_forbidden,
)
from kinformer.reflector.follower import Follower, Stream
from kinformer.reflector.health import HealthRecord, InformerHealth
from kinformer.reflector.initial_stream import INITIAL_SILENCE, InitialEvents, initial_events
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.reflector.options import Resume as ResumeFunction
from kinformer.reflector.recovery import Delays, Facts, Transition, full_list, is_refusal, next_state
from kinformer.reflector.relist import FIRST, ListRun, RelistPlan, refuse_older
from kinformer.reflector.removed_resource import RemovedResourceCheck
from kinformer.reflector.states import InitialStream, List, Poll, Resume, State, Verify, Watch
from kinformer.reflector.store_adapter import EventStore, ReflectorStore, event_store
from kinformer.reflector.timeouts import IdleTimeout
from kinformer.reflector.timers import PollTimer, ResyncTimer

__all__ = ["Reflector"]

log = get_logger("kinformer.reflector")

SHORT_WATCHES = 2  # consecutive short watches after which the version is assumed to have expired without a 410


class Reflector:
    """Follows one source and writes its objects to one store, until it is cancelled.

    The first LIST is made at resourceVersion "0" (any version that the server has cached). A relist is made at the
    last version seen, even after a 410, so that it does not go back in time. Only if the response to that LIST is a
    410 or "too large" is it immediately repeated without a version. With `watch_list`, the list is streamed instead.
    During a list, each item that is already in the store is replaced with the stored object.

    Events are written to the store in order, and each is written before the next is read. After a failure the watch is
    resumed from the last event that was written. Cancelling `run` closes the open request and leaves no task behind. A
    reflector belongs to the event loop in which it runs.

    Args:
        lister_watcher: The source. It may have more methods than `list` and `watch`. See `Capabilities`. The reflector
            uses `tip`, `presence`, and `cluster` (once, alongside the first watch). If `supports_watch_list` is False,
            automatic mode lists.
        store: See `ReflectorStore`.
        name: The name for the log and errors. By default, the source's `name` or its class.
        resync_period: Seconds between two calls of `store.resync`, which repairs nothing. 0, the default, makes none.
        on_error: Called as `on_error(reflector, error)` for every error that ends a request or a stream, before the
            reflector recovers. If it raises, `run` raises that exception.
        clock: For tests.
        resume: Called before the first list. It may return a state to resume from, which replaces the list.
        page_size: The maximum number of objects in a response. A number is always sent. None, the default, sends 500
            if the version is "0" or unset (a server with a watch cache ignores it at "0"). At a numeric version it
            sends no limit unless the first list was paged, as client-go does.
        watch_list: None streams the list, but falls back to lists for an hour after a server has refused the stream,
            sent nothing for 30 s, ended the stream early, or failed three times. True only streams, and False only
            lists.
        watch_timeout: Seconds. Each watch requests a random time in [x, 2x], so that not all end together. 300 by
            default, as in client-go. A watch that exceeds its time by 10 s is ended by the client.
        idle_timeout: Seconds of silence on a stream (without even a bookmark) after which it is replaced, which is not
            a failure. For a LIST, the time without a byte. 120 by default, because the API server sends a bookmark
            every minute while there is progress. It also limits the time for the head of a response, which is at most
            30 s, for a LIST 65 s after one was late.
        backoff: The delays after failures. A server's Retry-After, up to 60 s, takes precedence.
        poll: Seconds between two lists, a tenth more or less, for a resource that cannot be watched. None, the default,
            watches. Each list has the newest state, and objects without a version are compared by their JSON.

    Raises:
        ConfigError: An option is invalid. The message names it.
    """

    @shows_options(ReflectorOptions)
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
        **options: Unpack[ReflectorKeywords],
    ) -> None:
        source = source_of(lister_watcher)
        self.name = name or source.name
        self.lister_watcher = lister_watcher
        if on_error is not None:
            check_callback(on_error, "on_error", "reflector, error", f"reflector {self.name}", plain=True)
        self._options = options_of(ReflectorOptions, "Reflector", options)
        head_timeout = self._options.head_timeout
        self._health = HealthRecord(self._options.poll)
        tell = (lambda error: None) if on_error is None else partial(on_error, self)
        self._failures = FailureLog(self.name, self._health, tell)
        self._follower = Follower(source, event_store(store), self._health, self._options, clock)
        self._resync = ResyncTimer(resync_period, store.resync, self._follower.interrupt)
        self._continuity = Continuity(
            source,
            name=self.name,
            timeout=head_timeout,
            quiet=self._options.idle_timeout,
            clock=clock,
            on_bug=self._follower.interrupt,
        )
        self._removed = RemovedResourceCheck(
            source, self.name, self._follower, cluster=lambda: self.cluster, timeout=head_timeout
        )
        self._plan = RelistPlan(self._options, watch_list=source.supports_watch_list, now=SYSTEM.loop)
        self._delays = Delays(self._options.backoff or Backoff())
        self._state: State = full_list(FIRST, self._facts) if resume is None else Resume(resume)
        self._collecting: ListRun | InitialEvents | None = None  # the full list. Only `run` changes these two

    @property
    def last_sync_resource_version(self) -> str:
        """The version that the store has reached, or "" before the first list."""
        return self._follower.version

    @property
    def cluster(self) -> str | None:
        """The identity of the source's cluster, or None while it is unknown.

        :meta private:
        """
        return self._continuity.check.cluster

    @property
    def has_followed(self) -> bool:
        """True once it has followed the source, by a watch or by regular lists.

        :meta private:
        """
        return self._health.has_followed

    @property
    def polling(self) -> PollTimer:
        """The times of its lists, if the resource is polled.

        :meta private:
        """
        return self._plan.polling

    @property
    def relists(self) -> Mapping[str, int]:
        """The number of full lists after the first, by cause. A copy.

        By expired, rewind, cluster_replaced, requested, absent, short_watch, decode_error, watch_error, error, resync
        and poll.
        """
        return dict(self._health.relists)

    @property
    def watch_restarts(self) -> Mapping[str, int]:
        """The number of watches and initial streams that ended, by cause. A copy.

        The causes are ended (in order, by the server), idle, deadline, interrupted (by the reflector) and failed.
        """
        return dict(self._health.watch_restarts)

    @property
    def progress(self) -> str:
        """A description of the full list in progress, or "no response yet" if there is none.

        :meta private:
        """
        return self._collecting.progress if self._collecting is not None else "no response yet"

    def health(self) -> InformerHealth:
        """Return the current health, that is, how well the store follows the server."""
        return self._health.snapshot(self._follower.version, self._follower.heard)

    def refresh(self, resource_version: str) -> None:
        """Request a full list that is not older than `resource_version`, unless the store reaches it before.

        The list is made soon, and ends the open watch. Its cause is "requested". Several calls make one list. If the
        server has not reached that version (it is wrong, or the server went back), the newest version is listed, once.

        Raises:
            ValueError: The version is not a number.
        """
        self._plan.want(resource_version)
        self._plan.polling.hurry()
        if isinstance(self._state, Watch):
            self._follower.interrupt()

    def doubt(self) -> None:
        """Verify the server, because another request found it changed. Ends the open watch."""
        self._continuity.doubt()
        self._follower.interrupt()

    async def run(self) -> None:
        """Follow the source until cancelled.

        Raises:
            RuntimeError: It is already running.
            Exception: An exception of the store or `on_error`, or a bug, including in the source. Server failures are
                not raised but retried.
        """
        if self._health.running:
            raise RuntimeError(f"reflector {self.name} is already running; create another one")
        self._health.started(asyncio.get_running_loop(), self._options.patience)
        bug: Exception | None = None
        try:
            while True:
                self._continuity.raise_bug()
                failure: Exception | None = None
                try:
                    self._state = await self._step(self._state)
                except RETRIED as error:
                    failure = error
                if failure is not None:  # outside `except`, or errors of `on_error` would be chained to it
                    await self._recover(failure)
        except StoreFailedError as carrier:
            bug = carrier.cause
        except Exception as error:
            bug = error
            raise
        finally:
            self._resync.stop()
            self._health.stopped(bug)
            self._plan.polling.stop(self.name)
            await self._continuity.stop()
        assert bug is not None
        raise bug

    def list_run(self) -> ListRun:
        """Return a full list that has not begun.

        :meta private:
        """
        return ListRun(
            self.lister_watcher,
            self._options,
            known=self._follower.known,
            head_limit=self._continuity.check.head_limit,
            on_late=self._late,
            clock=self._follower.clock,
            streaming=self._follower.streaming,
        )

    # --- the states -------------------------------------------------------------------------------------------

    async def _step(self, state: State) -> State:
        """Execute a state, and return the next one."""
        self._collecting = None
        await self._follower.room()
        if not isinstance(state, Watch):  # a watch follows one of the others, or comes at a time of its own
            await one_a_turn()
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
            case Poll():
                self._resync.start()
                await self._plan.polling.due()
                self._resync.raise_error()
                return List("poll", unset=True)
            case Watch():
                if self._plan.is_wanted(self._follower.version):
                    return full_list("requested", self._facts)
                if self._continuity.in_doubt() and self._follower.version not in ("", "0"):
                    return Verify()
                return await self._watch()

    async def _resume(self, state: Resume) -> State:
        resumed = await state.load()
        first = full_list(FIRST, self._facts)
        if resumed is None:
            return first
        self._continuity.check.cluster = resumed.cluster
        self._replace(first, resumed.objects, resumed.resource_version)
        return Watch()

    async def _list(self, state: List) -> State:
        self._plan.polling.begin()
        self._health.listing()
        self._resync.stop()
        asked = self._plan.ask(state, self._follower.version, first=self._follower.first_version)
        self._collecting = run = self.list_run()
        try:
            items, version = await run.collect(asked, self._plan.limit(state))
        finally:
            state.page = run.page
        self._plan.pages(state)
        refuse_older(state, version, self._follower.version)
        self._replace(state, items, version)
        if not self._plan.polling.is_on:
            return Watch()
        self._failures.following()
        self._plan.polling.end()
        return Poll()

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
            self._collecting = initial = initial_events(self._follower)
            budget = YieldBudget(clock=self._follower.clock)
            rest = await initial.collect(stream, timeout, budget)
            if rest is not None:
                refuse_older(state, initial.resource_version, self._follower.version)
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
        """Write `events`, and then the events of the stream until it ends."""
        self._state = Watch(opened=True)
        self._failures.following()
        self._removed.over()
        self._continuity.learn_cluster()
        self._resync.start()
        if self._resync.error is not None or self._plan.wanted is not None:
            timeout.interrupt()  # a list was requested while no stream was open
        await self._follower.room(timeout)
        await self._follower.write_slices(events)
        await self._follower.follow(stream, timeout)

    async def _after_stream(self, timeout: IdleTimeout) -> State:
        """Return the state that follows a stream that ended without a failure."""
        follower, verdict = self._follower, timeout.verdict
        self._health.watch_restarts[verdict or "ended"] += 1
        self._resync.raise_error()
        if verdict in ("idle", "deadline") or follower.was_cut(verdict):
            self._continuity.doubt()
        if not follower.ended_at_once(verdict):
            follower.short_watches = 0
            self._delays.watch_lasted()
            return Watch()
        follower.short_watches += 1
        if follower.short_watches >= SHORT_WATCHES:
            follower.short_watches = 0
            raise ShortWatchError(f"{SHORT_WATCHES} consecutive watches ended at once without an event")
        self._health.state = "backing_off"
        await asyncio.sleep(self._delays.after_short_watch())
        return Watch()

    def _replace(self, state: List | InitialStream, items: ChunkedList[Any], version: str) -> None:
        before, self._collecting = self._follower.version, None
        self._follower.replace(items, version)
        self._health.listed(SYSTEM.loop(), self._plan.done(state, before, version))
        self._continuity.proved()
        self._removed.over()

    # --- failures -----------------------------------------------------------------------------------------------

    @property
    def _facts(self) -> Facts:
        return self._plan.facts(self._follower.errors)

    async def _recover(self, error: Exception) -> None:
        follower, state = self._follower, self._state
        watching = isinstance(state, Watch) and state.opened
        if isinstance(error, ForbiddenError) and isinstance(state, Watch) and not self._health.has_followed:
            error = watch_forbidden(error)
        if watching and not isinstance(error, (ResyncError, ShortWatchError)):
            self._health.watch_restarts["failed"] += 1
        answered = isinstance(error, NotWatchableError) or (isinstance(error, APIError) and error.status < 500)
        if isinstance(state, Watch) and (watching or not answered):
            self._continuity.doubt()
        if isinstance(error, APIError) and (watching or (isinstance(state, Watch) and is_refusal(error))):
            follower.count_error()
        transition = next_state(error, state, self._facts)
        self._failures.failed(error, state.doing, falls_back=transition.falls_back)
        if not transition.at_once:
            self._plan.polling.end(error)
        self._enter(transition)
        if self._health.synced and (unproved := await self._removed.after(error, self._state)) is not None:
            self._failures.tell(unproved)
        if not transition.at_once:
            await asyncio.sleep(self._removed.delay_after(error, self._delay_after(error)))

    def _delay_after(self, error: Exception) -> float:
        return self._delays.after(error, self._health.consecutive_failures, synced=self._health.synced)

    def _late(self, error: TimeoutError) -> float:
        """Report a list whose head is late, and return the delay before it is requested again."""
        self._failures.failed(error, self._state.doing)
        return self._delay_after(error)

    def _enter(self, transition: Transition) -> None:
        before, self._state = self._state, transition.state
        if isinstance(before, InitialStream) and isinstance(self._state, List):
            self._plan.choice.fall_back()
        elif transition.counts:
            self._plan.choice.failures += 1
        if isinstance(before, Watch) and not isinstance(self._state, Watch):
            self._follower.errors = 0
