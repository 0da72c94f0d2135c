"""The limit that a client puts on its own rate: a token bucket, whose turns are given in order."""

from __future__ import annotations

import asyncio
import math

from kinformer._runtime.clock import SYSTEM
from kinformer.exceptions import ConfigError

__all__ = ["RateLimit"]


class RateLimit:
    """At most `rate` requests a second, and `burst` at once after a pause (client-go, util/flowcontrol/throttle.go).

    Args:
        rate: Requests a second.
        burst: Requests that need not wait after a pause; None: twice the rate, 1 at least.

    Raises:
        ConfigError: A value that cannot work; the text names it.
    """

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int | None = None) -> None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < math.inf:
            raise ConfigError(f"invalid rate={rate!r}: expected requests a second, above 0")
        if burst is not None and (isinstance(burst, bool) or not isinstance(burst, int) or burst < 1):
            raise ConfigError(f"invalid burst={burst!r}: expected a whole number, 1 or more")
        self.rate = rate
        self.burst = max(1, int(2 * rate)) if burst is None else burst
        self._tokens = float(self.burst)  # below 0: as many requests wait
        self._at: float | None = None  # when the tokens were counted

    def __str__(self) -> str:
        return f"rate={self.rate:g}, burst={self.burst}"

    async def wait(self) -> float:
        """Wait for a turn, and return the seconds that it took. A wait that is cancelled gives its turn back."""
        delay = self._take()
        if delay <= 0:
            return 0.0
        try:
            await asyncio.sleep(delay)
        except asyncio.CancelledError:
            self._tokens = min(self._tokens + 1.0, self.burst)
            raise
        return delay

    def _take(self) -> float:
        now = SYSTEM.loop()
        if self._at is not None:
            self._tokens = min(self._tokens + (now - self._at) * self.rate, self.burst)
        self._at = now
        self._tokens -= 1.0
        return -self._tokens / self.rate
