"""Watches: opened within a time limit, read in slices that leave the loop its turns, closed in any case."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from kinformer._runtime.clock import SYSTEM, YIELD_SECONDS, Clock
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent
from kinformer.reflector.health import HealthRecord
from kinformer.reflector.store_writer import StoreWriter
from kinformer.reflector.timeouts import IdleTimeout, answered

__all__ = ["DEADLINE_MARGIN", "SLICE", "EventPump", "Stream", "watch_stream"]

Stream = AsyncIterator[list[WatchEvent]]

DEADLINE_MARGIN = 10.0  # seconds by which a server may pass its own timeoutSeconds, before the client ends the watch


@asynccontextmanager
async def watch_stream(
    source: ListerWatcher, options: ListOptions, *, timeout: float, head_timeout: float, idle: float
) -> AsyncIterator[tuple[Stream, IdleTimeout]]:
    """Opens a watch; the body gets its events and the watchdog, and has to set `heard` at each sign of life.

    A body that the watchdog ended is left without an exception; then its `verdict` tells why.

    Args:
        source: Whom to ask.
        options: What for. `timeoutSeconds` is filled in: random in [timeout, 2 * timeout], at least 1, so that the
            watches of many clients do not end together (client-go, tools/cache/reflector.go).
        timeout: See there, in seconds.
        head_timeout: Seconds for the head of the answer.
        idle: Seconds of silence.

    Raises:
        TimeoutError: No head in time.
        KinformerError, OSError: Whatever the source says.
    """
    seconds = max(1, round(timeout * (1.0 + random.random())))
    async with AsyncExitStack() as stack:
        opening = stack.enter_async_context(source.watch(options.replace(timeout_seconds=seconds)))
        stream = await answered(opening, head_timeout, "watch")
        dog = IdleTimeout(idle=idle, deadline=SYSTEM.loop() + seconds + DEADLINE_MARGIN)
        yield stream, await stack.enter_async_context(dog)


SLICE = 512  # events that are written before others have a turn
TURNS = 128  # batches that a source may hand over without ever waiting, before others have a turn


class EventPump:
    """Writes what a stream brings for as long as it brings something.

    Args:
        writer: Where to.
        health: Where the time of the last event is noted.
        clock: Its `perf` measures the work.

    Attributes:
        moved: Something has come since it was last set to False.
    """

    def __init__(self, writer: StoreWriter, health: HealthRecord, clock: Clock) -> None:
        self._writer = writer
        self._health = health
        self._perf = clock.perf
        self.moved = False

    async def run(self, stream: Stream, dog: IdleTimeout) -> None:
        """Until the stream ends. Cancelled between two slices of a batch, it has told the store of whole slices."""
        turns, busy, perf, now = 0, 0.0, self._perf, SYSTEM.loop
        async for events in stream:
            dog.heard = moment = now()
            turns += 1
            if events:
                started = perf()
                self.moved = True
                self._health.last_event = moment
                if len(events) <= SLICE:
                    self._writer.apply(events)
                else:
                    await self.write(events)
                busy += perf() - started
            # Only this work is counted: a stream that waits between its batches never has to pause.
            if busy >= YIELD_SECONDS or turns >= TURNS:
                await asyncio.sleep(0)
                turns, busy = 0, 0.0

    async def write(self, events: Sequence[WatchEvent]) -> None:
        """Write events that have come at once, in slices."""
        if not events:
            return
        self.moved = True
        self._health.last_event = SYSTEM.loop()
        for start in range(0, len(events), SLICE):
            self._writer.apply(events[start : start + SLICE])
            await asyncio.sleep(0)
