"""The options of a controller: each with its meaning, unit and default, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from kinformer.exceptions import ConfigError
from kinformer.metrics import Metrics
from kinformer.workqueue.rate_limiters import RateLimiter

__all__ = ["ControllerKeywords", "ControllerOptions"]


class ControllerKeywords(TypedDict, total=False):
    """The fields of `ControllerOptions`, for constructors that also take them one by one."""

    workers: int
    rate_limiter: RateLimiter[str] | None
    timeout: float | None
    shutdown_timeout: float
    name: str | None
    metrics: Metrics | None
    debounce: float


@dataclass(frozen=True, kw_only=True)
class ControllerOptions:
    """The options of a `Controller`. `Controller(reconcile, workers=4)` takes the same ones by keyword.

    Args:
        workers: Reconciles that may run at once, for different keys; 1, because that is right for a program that was
            not written with more in mind.
        rate_limiter: Chooses how long a key that failed waits; None: 5 ms, doubling to 1000 s, each key by itself.
        timeout: Seconds for one reconcile, which is then cancelled and counts as failed; None: no limit.
        shutdown_timeout: Seconds that reconciles under way have to end when `run` is cancelled; then they are
            cancelled; 5.
        name: For the log and the metrics; None: the name of the reconcile function. Two controllers need two names.
        metrics: A sink; None: nothing is exported.
        debounce: Seconds for which a trigger waits for more triggers of the same key, counted from the first one, so
            that a key that changes all the time is not put off forever; 0: triggers do not wait.

    Raises:
        ConfigError: A value that cannot work; the text names the option.
    """

    workers: int = 1
    rate_limiter: RateLimiter[str] | None = None
    timeout: float | None = None
    shutdown_timeout: float = 5
    name: str | None = None
    metrics: Metrics | None = None
    debounce: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise ConfigError(f"invalid workers={self.workers!r}: expected a whole number, 1 or more")
        for option, value in (
            ("timeout", self.timeout),
            ("shutdown_timeout", self.shutdown_timeout),
            ("debounce", self.debounce),
        ):
            if value is not None and not value >= 0:
                raise ConfigError(f"invalid {option}={value!r}: expected a number of seconds, 0 or more")
