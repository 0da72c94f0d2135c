"""The resync timer of a reflector, which replays the store periodically alongside the watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer.exceptions import ConfigError
from kinformer.reflector.errors import ResyncError

__all__ = ["ResyncTimer"]


class ResyncTimer:
    """Calls `resync` every `period` seconds of loop time while started (client-go, tools/cache/reflector.go).

    A resync makes no request. It replays the objects in the store. It is called between steps of other tasks, so never
    in the middle of a batch of events.

    Args:
        period: Seconds, or 0 to turn it off.
        resync: The resync of the store.
        failed: Called after `resync` has raised. The timer has then stopped.

    Attributes:
        error: The last exception of `resync`, until `raise_error` takes it.

    Raises:
        ConfigError: `period` is negative.
    """

    def __init__(self, period: float, resync: Callable[[], object], failed: Callable[[], None]) -> None:
        if not period >= 0:
            raise ConfigError(f"resync_period={period!r}: pass a number of seconds, or 0 for never")
        self._period = period
        self._resync = resync
        self._failed = failed
        self.error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start a period, unless one is running."""
        if self._period > 0 and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._period, self._fire)

    def stop(self) -> None:
        """Cancel the current period."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def raise_error(self) -> None:
        """Raise ResyncError if `resync` has failed since the last call."""
        error, self.error = self.error, None
        if error is not None:
            raise ResyncError(f"the store's resync failed: {error!r}") from error

    def _fire(self) -> None:
        self._timer = None
        try:
            self._resync()
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the reflector decides
            self.error = error
            self._failed()
        else:
            self.start()
