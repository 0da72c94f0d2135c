"""The events of a watch over HTTP, which its reader waits for, or which are pushed as they arrive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable

import msgspec

from kinformer._runtime.clock import SYSTEM
from kinformer.connection.body import QUICK, SMALL, Body
from kinformer.list_watcher import Events
from kinformer.wire.fast_path import FastPath
from kinformer.wire.lines import LineFramer

__all__ = ["Arrivals", "HTTPEvents", "IngestStats"]


class IngestStats(msgspec.Struct):
    """Counts of a source: `bytes` of bodies, and objects skipped because they could not be decoded."""

    bytes: int = 0
    decode_errors: int = 0


class Arrivals:
    """The data of a watch as it arrives, for events that need none of the rules for chunks, errors and odd lines.

    At live rates nearly every event comes alone, as one line in one chunk, or in up to three that a server writes one
    after the other. Waking the task that reads costs more than decoding it.
    """

    __slots__ = ("_body", "_fast", "_framer", "_stats")

    def __init__(self, body: Body, framer: LineFramer, fast: FastPath, stats: IngestStats) -> None:
        self._body = body
        self._framer = framer
        self._fast = fast
        self._stats = stats

    def push_to(self, take: Callable[[Events], bool]) -> bool:
        """Offer each event that arrives alone to `take`, and no event for a part of one. Return False if impossible.

        Data that is large or arrives in quick succession is left to the reader, which handles it in fewer and fairer
        steps, and so is an event that is not taken, or that only `EntryDecoder.event` can decode.
        """
        framer, line, stats, perf, last = self._framer, self._fast.line, self._stats, SYSTEM.perf, 0.0

        def take_data(data: bytes) -> bool:
            nonlocal last
            pending, size = framer.pending, len(data)
            try:
                # Not since the last one arrived, but since it was handled: a function of the program may have been
                # slow in between, and one callback of the transport may bring many events.
                if pending + size > SMALL or (perf() - last < QUICK and not pending):
                    return False
                text = framer.last(data)
                if text is None:  # a part of a line
                    if b"\n" in data or not take([]):
                        return False
                    framer.feed(data)
                else:
                    event = line(text)
                    if event is None or not take([event]):
                        return False
                    if pending:
                        framer.taken()
                stats.bytes += size
                return True
            finally:
                last = perf()

        return self._body.push_to(take_data)


class HTTPEvents:
    """The stream of a watch: lists of events, one for each chunk that the reader waited for."""

    def __init__(self, events: AsyncGenerator[Events, None], arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self._events = events

    def __aiter__(self) -> AsyncIterator[Events]:
        return self._events

    async def __anext__(self) -> Events:
        return await anext(self._events)
