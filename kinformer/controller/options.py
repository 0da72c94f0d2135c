"""The options of a controller: their types, defaults and validation."""

from __future__ import annotations

from typing import TypedDict

import msgspec

from kinformer.exceptions import ConfigError
from kinformer.informer.freshness.freshness import check_max_staleness
from kinformer.metrics import Metrics
from kinformer.workqueue.rate_limiters import RateLimiter

__all__ = ["ControllerKeywords", "ControllerOptions"]


class ControllerKeywords(TypedDict, total=False):
    """The fields of `ControllerOptions`, for constructors that take them as keyword arguments."""

    workers: int
    rate_limiter: RateLimiter[str] | None
    timeout: float | None
    shutdown_timeout: float
    name: str | None
    metrics: Metrics | None
    debounce: float
    max_staleness: float | None


class ControllerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `Controller`, which documents them.

    Raises:
        ConfigError: A value is invalid. The message names the option.
    """

    workers: int = 1
    rate_limiter: RateLimiter[str] | None = None
    timeout: float | None = None
    shutdown_timeout: float = 5
    name: str | None = None
    metrics: Metrics | None = None
    debounce: float = 0.0
    max_staleness: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise ConfigError(f"invalid workers={self.workers!r}: expected a whole number, 1 or more")
        for option in ("timeout", "shutdown_timeout", "debounce"):
            value = getattr(self, option)
            if value is not None and not value >= 0:
                raise ConfigError(f"invalid {option}={value!r}: expected a number of seconds, 0 or more")
        check_max_staleness(self.max_staleness)
