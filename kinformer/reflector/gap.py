"""How long nobody has watched: when a server is asked where it stands before a watch is resumed."""

from __future__ import annotations

import asyncio

from kinformer._runtime.clock import SYSTEM, Clock

__all__ = ["AWAY", "Gap"]

# Seconds without a stream, or asleep, that need no question. A server restarts in more; a stream that has ended in
# order is opened again in milliseconds.
AWAY = 2.0


class Gap:
    """What is known of the time since the server stood where it should.

    Args:
        quiet: Seconds without evidence, streams or not, after which there is doubt.
        clock: Its `boot` tells how long the machine slept, which the loop's time does not count.
    """

    def __init__(self, quiet: float, clock: Clock = SYSTEM) -> None:
        self._quiet = quiet
        self._clock = clock
        self._closed_at = 0.0
        self._proved_at = 0.0
        self._slept = 0.0
        self._silent = False

    def closed(self, last_event: float | None) -> None:
        """A stream has ended; `last_event` is the loop's time of what came last, perhaps on an earlier one."""
        self._closed_at = self._now()
        self._proved_at = max(self._proved_at, last_event or 0.0)

    def silent(self) -> None:
        """It was ended because nothing came."""
        self._silent = True

    def proved(self) -> None:
        """The server has just shown where it stands."""
        self._proved_at = self._now()
        self._slept = self._asleep()
        self._silent = False

    def in_doubt(self) -> bool:
        """Whether to ask before the next watch."""
        now = self._now()
        return (
            self._silent
            or now - max(self._closed_at, self._proved_at) > AWAY
            or now - self._proved_at > self._quiet
            or self._asleep() - self._slept > AWAY
        )

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _asleep(self) -> float:
        return self._clock.boot() - self._now()
