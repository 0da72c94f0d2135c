"""The clocks of a machine, whose suspends and wall clock a test decides on. Else they follow the loop.

Internals: the type of clocks, which public classes take.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from kinformer._runtime.clock import SYSTEM, Clock

NOON = 1_700_000_000.0  # 2023-11-14T22:13:20Z


class MachineClock:
    """`clock=MachineClock().clock`, for what takes one.

    Args:
        wall: The time of the wall clock, which stands still. None: that of the system, which goes on.

    Attributes:
        slept: Seconds of suspend so far.
        clock: The clocks.
    """

    def __init__(self, wall: float | None = None) -> None:
        self.slept = 0.0
        self.wall = wall
        self.clock: Clock = replace(SYSTEM, boot=self._boot, wall=self._wall)

    def _boot(self) -> float:
        return asyncio.get_running_loop().time() + self.slept

    def _wall(self) -> float:
        return SYSTEM.wall() if self.wall is None else self.wall
