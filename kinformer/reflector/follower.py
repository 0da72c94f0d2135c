"""Opens watches within a time limit, writes their events to the store in slices, and always closes them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from math import inf
from operator import itemgetter
from typing import NoReturn

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.clock import YIELD_SECONDS, Clock, YieldBudget
from kinformer.exceptions import WatchError
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent, source_of
from kinformer.listwatch.head_limit import answered
from kinformer.objects.accessors import Known, resource_version_of
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.reflector.errors import StoreFailedError
from kinformer.reflector.health import HealthRecord
from kinformer.reflector.options import ReflectorOptions
from kinformer.reflector.store_adapter import EventStore, streaming_store
from kinformer.reflector.timeouts import IdleTimeout, Verdict

__all__ = ["DEADLINE_MARGIN", "SHORT_WATCH", "Follower", "Stream"]

Stream = AsyncIterator[list[WatchEvent]]

DEADLINE_MARGIN = 10.0  # seconds by which a server may exceed timeoutSeconds before the client ends the watch
CLOCK_MARGIN = 1.0  # seconds by which a server's timeoutSeconds may end a watch earlier than by this clock
SHORT_WATCH = 1.0  # seconds. A watch that ends sooner without an event has failed (client-go, VeryShortWatchError)
MAX_BATCHES = 128  # batches that a source may return without waiting before other tasks run

_TYPES = frozenset(("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))
_type_of = itemgetter(0)


class Follower:
    """Opens streams, writes their events to the store, and keeps the version that the store has reached.

    Its state changes in the reflector's task, and in the callbacks of a source that pushes events (`_taking`), between
    two steps of that task. The reflector counts `short_watches`.

    Args:
        source: The source of the streams.
        store: The store to write to.
        health: Records streams and the time of the last event.
        options: The time limits.
        clock: Its `perf` measures the work.

    Attributes:
        version: The resourceVersion of the last write, or "" before the first list.
        recorded: False while events are unordered, as at the start of a watch at "" or "0". Their versions are ignored
            until the first event that is neither an ADDED nor an undecodable object (client-go,
            tools/cache/reflector.go, `propagateRVFromStart`).
        moved: True if events have arrived since it was last set to False, which happens when a stream is opened.
        errors: The number of server errors of watches since the last new version.
        short_watches: The number of consecutive watches that ended within `SHORT_WATCH` seconds without an event.
        store: The store to write to.
        streaming: The store, if it is a `StreamingStore`.
        clock: The clock that measures the work.
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
        self.streaming = streaming_store(store)
        self.clock = clock
        self._source = source_of(source)
        self._health = health
        self._options = options
        self._open: IdleTimeout | None = None
        self._seconds = 0  # timeoutSeconds of the last stream
        self._lasted = 0.0  # seconds for which it was open
        self._failed: Exception | None = None  # raised in a callback, for the task that reads the stream
        self._failed_at = ""  # the version for which errors are counted

    @property
    def known(self) -> Known | None:
        """The store's function that returns the object with a key, if any."""
        return self.store.known

    @property
    def first_version(self) -> str:
        """The version that a first list requests: "0", or "" for the newest if a part of a failed one was passed on."""
        return "" if self.streaming is not None and self.streaming.has_part else "0"

    @asynccontextmanager
    async def open(self, options: ListOptions, idle: float) -> AsyncIterator[tuple[Stream, IdleTimeout]]:
        """Open a watch. The body gets its events and the timeout, and sets the timeout's `heard` at each sign of life.

        If the timeout ends the body, there is no exception. The `verdict` of the timeout is the reason.

        Args:
            options: The options, to which `timeoutSeconds` is added: a random number in [timeout, 2 * timeout], at
                least 1, so that the watches of many clients do not end together (client-go, tools/cache/reflector.go).
            idle: Seconds of silence after which the body is ended.

        Raises:
            TimeoutError: The head of the response did not arrive in time.
            KinformerError, OSError: The source raised it.
        """
        self._seconds = seconds = max(1, round(self._options.watch_timeout * (1.0 + random.random())))
        now = asyncio.get_running_loop().time
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(self._source.watch(options.replace(timeout_seconds=seconds)))
            stream = await answered(opening, self._options.head_timeout, "watch")
            opened = now()
            timeout = IdleTimeout(idle=idle, deadline=opened + seconds + DEADLINE_MARGIN)
            await stack.enter_async_context(timeout)
            self._health.watches += 1
            self._health.sign = opened
            self.moved = False
            self._open = timeout
            try:
                yield stream, timeout
            finally:
                self._open = None
                self._health.sign = now()
                self._lasted = self._health.sign - opened

    @property
    def heard(self) -> float:
        """The time of the last sign of life of the open stream, on the loop's clock, or -inf."""
        return -inf if self._open is None else self._open.heard

    def interrupt(self) -> None:
        """End the open stream soon, if there is one."""
        if self._open is not None:
            self._open.interrupt()

    def was_cut(self, verdict: Verdict) -> bool:
        """Return True if the last stream was ended neither by the client nor at its timeoutSeconds."""
        return not verdict and self._lasted < self._seconds - CLOCK_MARGIN

    def count_error(self) -> None:
        """Count a server error. A bookmark with an already known version does not reset the count."""
        if self._failed_at != self.version:
            self._failed_at, self.errors = self.version, 0
        self.errors += 1

    def ended_at_once(self, verdict: Verdict) -> bool:
        """Return True if the last stream ended by itself, within `SHORT_WATCH` seconds and without an event."""
        return not (verdict or self.moved or self._lasted >= SHORT_WATCH)

    async def follow(self, stream: Stream, timeout: IdleTimeout) -> None:
        """Write events until the stream ends. If cancelled, only whole slices have been written."""
        self._failed = None
        self._source.push(stream, self._taking(timeout))
        batches, busy, perf, now = 0, 0.0, self.clock.perf, asyncio.get_running_loop().time
        async for events in stream:
            if self._failed is not None:  # a part of these events may already be in the store
                raise self._failed
            timeout.heard = moment = now()
            batches += 1
            if events:
                started = perf()
                self._health.last_event = moment
                if len(events) <= self.store.at_once:
                    self.write(events)
                else:
                    await self.write_slices(events)
                busy += perf() - started
                if self.streaming is not None:
                    await self.room(timeout)
            # Only this work is counted, so a stream that waits between batches is never paused.
            if busy >= YIELD_SECONDS or batches >= MAX_BATCHES:
                await asyncio.sleep(0)
                batches, busy = 0, 0.0

    def _taking(self, timeout: IdleTimeout) -> Callable[[list[WatchEvent]], bool]:
        """Return a function that writes the events of a stream in the callback in which they arrive.

        It leaves them to `follow` while the store is full, and if writing fails, so that the task raises the error.
        """
        now, health, streaming, write = asyncio.get_running_loop().time, self._health, self.streaming, self.write

        def take(events: list[WatchEvent]) -> bool:
            if self._failed is not None or (streaming is not None and streaming.is_full()):
                return False
            timeout.heard = moment = now()
            if not events:
                return True
            health.last_event = moment
            try:
                write(events)
            except Exception as error:  # noqa: BLE001 - raised in the task that reads the stream
                self._failed = error
                return False
            return True

        return take

    async def room(self, timeout: IdleTimeout | None = None) -> None:
        """Wait while the store is full. This does not count as silence of the stream for `timeout`."""
        if self.streaming is None or not self.streaming.is_full():
            return
        with timeout.paused() if timeout is not None else nullcontext():
            await self.streaming.room()

    async def write_slices(self, events: Sequence[WatchEvent]) -> None:
        """Write events that arrived together, in slices."""
        if not events:
            return
        self._health.last_event = asyncio.get_running_loop().time()
        budget, size = YieldBudget(clock=self.clock), self.store.at_once
        for start in range(0, len(events), size):
            self.write(events[start : start + size])
            if budget.exhausted():
                await budget.pause()

    def write(self, events: Sequence[WatchEvent]) -> None:
        """Write events, in order, in one step.

        Raises:
            WatchError: An event has an unknown type. The events before it have been written.
            StoreFailedError: The store raised.
        """
        self.moved = True
        # The type of an event that comes alone is looked up, which is faster than `issuperset`.
        if (len(events) > 1 or events[0][0] not in _TYPES) and not _TYPES.issuperset(map(_type_of, events)):
            self._write_known(events)
        version = self.version
        if self.recorded or self._are_ordered(events):
            last = events[-1][1]
            # An object without a version, from a source without versions, does not change it.
            version = (last.resource_version if type(last) is KubeObject else resource_version_of(last)) or version
        try:
            self.store.write(events, version)
        except Exception as error:
            raise StoreFailedError(error) from error
        self.version = version

    def _write_known(self, events: Sequence[WatchEvent]) -> NoReturn:
        number, kind = next((number, event.type) for number, event in enumerate(events) if event.type not in _TYPES)
        if number:
            self.write(events[:number])
        raise WatchError(f"an event has the unknown type {kind!r}; expected {', '.join(sorted(_TYPES))}")

    def replace(self, items: ChunkedList[object], version: str) -> None:
        """Write a full list.

        Raises:
            StoreFailedError: The store raised.
        """
        try:
            self.store.replace(items, version)
        except Exception as error:
            raise StoreFailedError(error) from error
        self.version = version

    def _are_ordered(self, events: Sequence[WatchEvent]) -> bool:
        self.recorded = any(kind != "ADDED" and type(obj) is not UndecodableObject for kind, obj in events)
        return self.recorded
