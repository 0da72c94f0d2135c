"""Clocks: all that kinformer reads, in one place, so that tests can replace them.

| clock | for | reason |
|---|---|---|
| `loop` | timers, ages, timeouts | the clock of `asyncio.sleep` and `call_at`, which a virtual loop controls |
| `wall` | timestamps that people and servers read | the only one with dates. It may jump, so it measures no durations |
| `boot` | leases, and noticing that the machine slept | runs on while the machine is suspended (CLOCK_BOOTTIME) |
| `perf` | the budget of a slice of work | the finest one |
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["SYSTEM", "Clock", "ClockedLoop", "clock_of_loop"]


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class ClockedLoop:
    """The base class of an event loop with its own clocks, which are used while it runs: the seam for simulations.

    Attributes:
        clock: The clocks.
    """

    clock: Clock


def clock_of_loop() -> Clock | None:
    """Return the clocks of the running event loop if it has its own."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.clock if isinstance(loop, ClockedLoop) else None


def _wall_time() -> float:
    simulated = clock_of_loop()
    return time.time() if simulated is None else simulated.wall()


def _boot_time() -> float:
    simulated = clock_of_loop()
    if simulated is not None:
        return simulated.boot()
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # only on Linux. Elsewhere the monotonic clock is the best.
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of clocks, each a callable that returns seconds. Except for `wall`, only differences are meaningful."""

    loop: Callable[[], float] = _loop_time
    wall: Callable[[], float] = _wall_time
    boot: Callable[[], float] = _boot_time
    perf: Callable[[], float] = time.perf_counter


SYSTEM = Clock()
