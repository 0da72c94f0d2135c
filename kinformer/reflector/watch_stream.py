"""One watch: opened within a time limit, watched over while it is open, closed in any case."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from kinformer._runtime.clock import SYSTEM
from kinformer.list_watcher import ListerWatcher, ListOptions, WatchEvent
from kinformer.reflector.timeouts import Watchdog, answered

__all__ = ["DEADLINE_MARGIN", "Stream", "watch_stream"]

Stream = AsyncIterator[list[WatchEvent]]

DEADLINE_MARGIN = 10.0  # seconds by which a server may pass its own timeoutSeconds, before the client ends the watch


@asynccontextmanager
async def watch_stream(
    source: ListerWatcher, options: ListOptions, *, timeout: float, head_timeout: float, idle: float
) -> AsyncIterator[tuple[Stream, Watchdog]]:
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
        dog = Watchdog(idle=idle, deadline=SYSTEM.loop() + seconds + DEADLINE_MARGIN)
        yield stream, await stack.enter_async_context(dog)
