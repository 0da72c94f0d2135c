"""From a stream into a store, batch by batch, without holding up the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kinformer._runtime.clock import SYSTEM, YIELD_SECONDS, Clock
from kinformer.list_watcher import WatchEvent
from kinformer.reflector.health import HealthRecord
from kinformer.reflector.store_writer import StoreWriter
from kinformer.reflector.timeouts import Watchdog
from kinformer.reflector.watch_stream import Stream

__all__ = ["SLICE", "EventPump"]

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

    async def run(self, stream: Stream, dog: Watchdog) -> None:
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
