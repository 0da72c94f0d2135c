"""The replay of a store, at a fixed period beside a watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer.exceptions import ConfigError
from kinformer.reflector.errors import ResyncError

__all__ = ["ResyncTimer"]


class ResyncTimer:
    """Calls `resync` every `period` seconds of the loop while it is started (client-go, tools/cache/reflector.go).

    It asks nobody anything: a resync replays what the store holds. The calls come between two steps of other tasks,
    so never in the middle of a batch of events.

    Args:
        period: Seconds; 0 is off.
        resync: What is called.
        failed: Called when `resync` has raised; the timer has stopped then.

    Attributes:
        error: What `resync` raised last, until it is taken.

    Raises:
        ConfigError: `period` is below 0.
    """

    def __init__(self, period: float, resync: Callable[[], object], failed: Callable[[], None]) -> None:
        if not period >= 0:
            raise ConfigError(f"resync_period={period!r}: seconds are needed, or 0 for never")
        self._period = period
        self._resync = resync
        self._failed = failed
        self.error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Count a period from now, unless it is being counted."""
        if self._period > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._fire)

    def stop(self) -> None:
        """Forget the period that is being counted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def raise_error(self) -> None:
        """Raise ResyncError if `resync` has failed since this was last asked."""
        error, self.error = self.error, None
        if error is not None:
            raise ResyncError(f"the store's resync failed: {error!r}") from error

    def _fire(self) -> None:
        self._timer = None
        try:
            self._resync()
        except Exception as error:  # noqa: BLE001 - a store may raise anything; the reflector decides
            self.error = error
            self._failed()
        else:
            self.start()
