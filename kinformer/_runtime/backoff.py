"""Exponential backoff with jitter: the seconds to wait before the next attempt."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from kinformer._runtime.clock import SYSTEM
from kinformer.exceptions import ConfigError

__all__ = ["RETRY_AFTER_CAP", "Backoff", "BackoffState"]

RETRY_AFTER_CAP = 60.0  # seconds. A server that requests more is misconfigured or compromised.


_LOWEST = {"initial": 0.0, "factor": 1.0, "maximum": 0.0, "jitter": 0.0, "reset_after": 0.0, "silent_maximum": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Exponential backoff with jitter. The defaults are from client-go's reflector (tools/cache/reflector.go).

    Args:
        initial: Seconds of the first delay, before jitter. 0.8 retries a restarting server soon, but not at once.
        factor: The factor by which each further delay grows.
        maximum: Seconds of the longest delay, before jitter. 30 means at most a minute with jitter, after an outage.
        jitter: A delay `d` is uniform in `[d, d * (1 + jitter))`, so that many clients do not return at once.
        reset_after: Seconds without a use, from the end of the last delay, after which the next delay is `initial`.
        silent_maximum: Seconds of the longest delay, before jitter, while the server does not answer at all (connection
            refused, reset or timed out). 3 finds a restarted server within 6 s, and an attempt costs it nothing while
            it is down. `maximum` applies too.

    Raises:
        ConfigError: A value is out of range. The message names it.
    """

    initial: float = 0.8
    factor: float = 2.0
    maximum: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0
    silent_maximum: float = 3.0

    def __post_init__(self) -> None:
        for name, lowest in _LOWEST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ConfigError(f"Backoff({name}={value!r}): must be a finite number")
            if value < lowest:
                raise ConfigError(f"Backoff({name}={value!r}): must be at least {lowest:g}")
        if self.initial <= 0:
            raise ConfigError(f"Backoff(initial={self.initial!r}): must be above 0, or a failure becomes a hot loop")
        if self.maximum < self.initial:
            raise ConfigError(f"Backoff(maximum={self.maximum!r}): must be at least initial={self.initial!r}")

    def start(
        self, *, now: Callable[[], float] = SYSTEM.loop, uniform: Callable[[], float] = random.random
    ) -> BackoffState:
        """Start a sequence of delays.

        Args:
            now: The clock that measures `reset_after`. Default: the running event loop's clock.
            uniform: Returns a number in [0, 1) for the jitter.
        """
        return BackoffState(self, now, uniform)


class BackoffState:
    """A sequence of delays, created by `Backoff.start`.

    It remembers its last *use*. client-go at HEAD remembers the last *reset* (`wait.Backoff.DelayWithReset`), and so
    falls back to the first delay every 2 minutes in the middle of an outage.
    """

    __slots__ = ("_config", "_delay", "_now", "_quiet_from", "_uniform")

    def __init__(self, config: Backoff, now: Callable[[], float], uniform: Callable[[], float]) -> None:
        self._config = config
        self._now = now
        self._uniform = uniform
        self._delay = config.initial
        self._quiet_from: float | None = None

    def next(self, *, silent: bool = False) -> float:
        """Return the seconds to wait now. Each call is one use. `silent` is True if the server did not answer."""
        config, now = self._config, self._now()
        if self._quiet_from is not None and now - self._quiet_from >= config.reset_after:
            self._delay = config.initial
        delay = (min(self._delay, config.silent_maximum) if silent else self._delay) * (
            1.0 + config.jitter * self._uniform()
        )
        # The delay itself does not count towards reset_after. Otherwise a delay above reset_after would always reset.
        self._quiet_from = now + delay
        self._delay = min(self._delay * config.factor, config.maximum)
        return delay

    def reset(self) -> None:
        """Start at `initial` again."""
        self._delay = self._config.initial
        self._quiet_from = None
