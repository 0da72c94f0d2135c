"""Watches: opened within a time limit, written to the store in slices, closed in any case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YIELD_SECONDS, Clock
from kinformer.exceptions import WatchError
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent
from kinformer.objects.accessors import Known, resource_version_of
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.reflector.errors import StoreFailedError
from kinformer.reflector.health import HealthRecord
from kinformer.reflector.options import ReflectorOptions
from kinformer.reflector.store_adapter import EventStore
from kinformer.reflector.timeouts import IdleTimeout, Verdict, answered

__all__ = ["DEADLINE_MARGIN", "SHORT_WATCH", "Follower", "Stream"]

Stream = AsyncIterator[list[WatchEvent]]

DEADLINE_MARGIN = 10.0  # seconds by which a server may pass its own timeoutSeconds, before the client ends the watch
SHORT_WATCH = 1.0  # seconds; a watch that ends sooner, and empty, has not worked (client-go, VeryShortWatchError)
SLICE = 512  # events that are written before other tasks have a turn
TURNS = 128  # batches that a source may hand over without ever waiting, before other tasks have a turn

_TYPES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))


class Follower:
    """Opens streams and writes what they bring to the store; knows how far the source was followed.

    Args:
        source: The source of the streams.
        store: Where to.
        health: Where streams and the time of the last event are recorded.
        options: The time limits.
        clock: Its `perf` measures the work.

    Attributes:
        version: The resourceVersion of what was written last; "" before the first list.
        recorded: False while events come in no order, as at the start of a watch at "" or "0": their versions are not
            kept until the first event that is no ADDED, nor an object that could not be decoded (client-go,
            tools/cache/reflector.go, `propagateRVFromStart`).
        moved: Something has come since this was last set to False, as it is when a stream is opened.
        errors: ERROR events in a row, without progress.
        short_watches: Consecutive watches that ended within `SHORT_WATCH` seconds without an event.
    """

    def __init__(
        self, source: ListerWatcher, store: EventStore, health: HealthRecord, options: ReflectorOptions, clock: Clock
    ) -> None:
        self.version = ""
        self.recorded = True
        self.moved = False
        self.errors = 0
        self.short_watches = 0
        self.store = store
        self.clock = clock
        self._source = source
        self._health = health
        self._options = options
        self._open: IdleTimeout | None = None
        self._lasted = 0.0  # seconds that the last stream was open

    @property
    def known(self) -> Known | None:
        """What the store answers with for a key, if it can."""
        return self.store.known

    @asynccontextmanager
    async def open(self, options: ListOptions, idle: float) -> AsyncIterator[tuple[Stream, IdleTimeout]]:
        """Open a watch; the body gets its events and the timeout, whose `heard` it sets at each sign of life.

        A body that the timeout ended is left without an exception; then its `verdict` tells why.

        Args:
            options: `timeoutSeconds` is filled in: random in [timeout, 2 * timeout], at least 1, so that the watches of
                many clients do not end together (client-go, tools/cache/reflector.go).
            idle: Seconds of silence.

        Raises:
            TimeoutError: No head in time.
            KinformerError, OSError: What the source raises.
        """
        seconds = max(1, round(self._options.watch_timeout * (1.0 + random.random())))
        now = asyncio.get_running_loop().time
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self._source.watch(options.replace(timeout_seconds=seconds)))
            stream = await answered(opening, self._options.head_timeout, "watch")
            opened = now()
            timeout = IdleTimeout(idle=idle, deadline=opened + seconds + DEADLINE_MARGIN)
            await stack.enter_async_context(timeout)
            self._health.watches += 1
            self.moved = False
            self._open = timeout
            try:
                yield stream, timeout
            finally:
                self._open = None
                self._lasted = now() - opened

    def interrupt(self) -> None:
        """End the stream that is open, because there is something better to do."""
        if self._open is not None:
            self._open.interrupt()

    def ended_at_once(self, verdict: Verdict) -> bool:
        """True if the last stream ended by itself, before `SHORT_WATCH` seconds and without an event."""
        return not (verdict or self.moved or self._lasted >= SHORT_WATCH)

    async def follow(self, stream: Stream, timeout: IdleTimeout) -> None:
        """Write what comes until the stream ends. Cancelled between two slices, whole slices are written."""
        turns, busy, perf, now = 0, 0.0, self.clock.perf, asyncio.get_running_loop().time
        async for events in stream:
            timeout.heard = moment = now()
            turns += 1
            if events:
                started = perf()
                self._health.last_event = moment
                if len(events) <= SLICE:
                    self.write(events)
                else:
                    await self.write_slices(events)
                busy += perf() - started
            # Only this work is counted: a stream that waits between its batches never has to pause.
            if busy >= YIELD_SECONDS or turns >= TURNS:
                await asyncio.sleep(0)
                turns, busy = 0, 0.0

    async def write_slices(self, events: Sequence[WatchEvent]) -> None:
        """Write events that have come at once, in slices."""
        if not events:
            return
        self._health.last_event = asyncio.get_running_loop().time()
        for start in range(0, len(events), SLICE):
            self.write(events[start : start + SLICE])
            await asyncio.sleep(0)

    def write(self, events: Sequence[WatchEvent]) -> None:
        """Write events, in order, in one step.

        Raises:
            WatchError: An event of an unknown type. What came before it is written.
            StoreFailedError: The store raised.
        """
        self.moved = True
        for number, (kind, _) in enumerate(events):
            if kind not in _TYPES:
                if number:
                    self.write(events[:number])
                raise WatchError(f"an event of the unknown type {kind!r}")
        version = self.version
        if self.recorded or self._ordered_by_now(events):
            last = events[-1][1]
            # An object without a version, of a source that has none, leaves it where it is.
            version = (last.resource_version if type(last) is KubeObject else resource_version_of(last)) or version
        try:
            self.store.write(events, version)
        except Exception as error:
            raise StoreFailedError(error) from error
        self.version = version

    def replace(self, items: ChunkedList[object], version: str) -> None:
        """Write a full list."""
        try:
            self.store.replace(items, version)
        except Exception as error:
            raise StoreFailedError(error) from error
        self.version = version

    def _ordered_by_now(self, events: Sequence[WatchEvent]) -> bool:
        self.recorded = any(kind != "ADDED" and type(obj) is not UndecodableObject for kind, obj in events)
        return self.recorded
