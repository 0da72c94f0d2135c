"""The right that the renewal of a lease gives: for a while, from its sending, and once lapsed for good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer._runtime.clock import Clock
from kinformer.leaderelection.lease import LeaseTimes

__all__ = ["LeaseValidity"]

_TICK = 0.5  # seconds: the timers of a loop stand still while the machine is suspended, so the clock is looked at
_SHORTEST = 0.001  # seconds: the two clocks need not agree to the last digit, and that must not make a hot loop


class LeaseValidity:
    """Whether a lease that we hold may still be relied on.

    It holds until `renew_deadline` seconds after the sending of the last renewal that succeeded, on the boot clock:
    the server got that renewal later, others saw it later still, and wait `lease_duration`. A renewal whose answer
    comes after the right has lapsed does not bring it back, for others may have acted in between.

    Args:
        clock: Whose `boot` counts.
        times: Of the lease.
        sent: When the first renewal was sent.
        on_lapse: Called once, when the right lapses by time or by `lapse`, with the reason.
    """

    __slots__ = ("_boot", "_handle", "_on_lapse", "_times", "cause", "lost", "sent", "until")

    def __init__(self, clock: Clock, times: LeaseTimes, sent: float, on_lapse: Callable[[str], None]) -> None:
        self._boot = clock.boot
        self._times = times
        self._on_lapse: Callable[[str], None] | None = on_lapse
        self._handle: asyncio.TimerHandle | None = None
        self.sent = sent
        self.until = sent + times.renew_deadline
        self.lost: str | None = None
        self.cause: BaseException | None = None

    @property
    def holds(self) -> bool:
        """Read from the clock, at each access."""
        return self.lost is None and self._boot() < self.until

    @property
    def limit(self) -> float:
        """Seconds that the next request may take."""
        return min(self._times.call_limit, self.until - self._boot())

    def renewed(self, sent: float) -> None:
        """A renewal that was sent then has succeeded."""
        if self.check():
            self.sent = sent
            self.until = sent + self._times.renew_deadline
            self.cause = None

    def check(self) -> bool:
        """Whether it holds; if it has lapsed by time, that is final from here on."""
        if self.lost is None and self._boot() >= self.until:
            self.lapse(f"no renewal within {self._times.renew_deadline:g} s")
        return self.lost is None

    def lapse(self, reason: str, cause: BaseException | None = None) -> None:
        """It is over."""
        if self.lost is not None:
            return
        self.lost = reason
        self.cause = cause or self.cause
        on_lapse = self._on_lapse
        self.close()
        if on_lapse is not None:
            on_lapse(reason)

    def watch(self) -> None:
        """Have `on_lapse` called when the time comes, until `close`."""
        if self.check():
            pause = min(max(self.until - self._boot(), _SHORTEST), _TICK)
            self._handle = asyncio.get_running_loop().call_later(pause, self.watch)

    def close(self) -> None:
        """No more timers, and no more calls."""
        self._on_lapse = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
