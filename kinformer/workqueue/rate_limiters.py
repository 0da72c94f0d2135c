"""Rate limiters: choose how long a failed key waits before its retry (client-go, default_rate_limiters.go)."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, Protocol

from kinformer.exceptions import ConfigError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True, default=Hashable)
else:
    from typing import TypeVar

    K_contra = TypeVar("K_contra", contravariant=True)

__all__ = [
    "BucketRateLimiter",
    "ExponentialFailureRateLimiter",
    "FastSlowRateLimiter",
    "MaxOfRateLimiter",
    "RateLimiter",
    "default_rate_limiter",
]

# Seconds without a failure after which a key is forgotten, unless twice the longest delay is more. Without this, a
# program that never calls `forget` would keep every key that ever failed.
_FORGOTTEN_AFTER = 3600.0


class RateLimiter(Protocol[K_contra]):
    """The methods that a `RateLimitingQueue` calls. Implement them for a custom limiter."""

    def when(self, key: K_contra) -> float:
        """Return the seconds that `key` has to wait. Each call counts one more failure (or request) of the key."""
        ...

    def forget(self, key: K_contra) -> None:
        """Reset the count of a key that has succeeded or is no longer of interest."""
        ...

    def num_requeues(self, key: K_contra) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        ...


def _now() -> float:
    # The clock of event loops, even if none is running.
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


class _FailureCounts:
    """Failures by key. A key without a failure for `quiet` seconds is forgotten automatically."""

    def __init__(self, quiet: float, now: Callable[[], float]) -> None:
        self._quiet = quiet
        self._now = now
        self._counts: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()  # least recently used first

    def count_failure(self, key: Hashable) -> int:
        """Count one more failure of `key`, and return the number before it."""
        now = self._now()
        for _ in range(2):  # more than this call can add, so that old keys are removed faster than new ones are added
            oldest = next(iter(self._counts), None)
            if oldest is None or now - self._counts[oldest][1] <= self._quiet:
                break
            del self._counts[oldest]
        count = self.failures_of(key)
        self._counts[key] = (count + 1, now)
        self._counts.move_to_end(key)
        return count

    def failures_of(self, key: Hashable) -> int:
        count, last = self._counts.get(key, (0, 0.0))
        return count if self._now() - last <= self._quiet else 0

    def forget(self, key: Hashable) -> None:
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)


class _FailureCountingLimiter:
    """The common methods of limiters that count failures for each key."""

    def __init__(self, longest_delay: float, now: Callable[[], float]) -> None:
        self._failures = _FailureCounts(max(_FORGOTTEN_AFTER, 2 * longest_delay), now)

    def forget(self, key: Hashable) -> None:
        """Reset the failures of `key` to 0."""
        self._failures.forget(key)

    def num_requeues(self, key: Hashable) -> int:
        """Return how often `key` has failed since it was last forgotten."""
        return self._failures.failures_of(key)


class ExponentialFailureRateLimiter(_FailureCountingLimiter):
    """Waits ``base * 2**n`` seconds after the n-th failure of a key, counted from 0, up to `maximum`.

    The failures of each key are counted separately, until `forget`. A key is also forgotten when it has not failed for
    an hour, or for twice `maximum` if that is more.

    Args:
        base: Seconds after the first failure. 5 ms by default, as for client-go's controllers, because a conflict is
            over by then.
        maximum: Seconds. 1000 by default, as in client-go.
        now: The clock that measures the time without a failure. By default, the running loop's clock.

    Raises:
        ConfigError: `base` is not positive, or `maximum` is infinite or below `base`.
    """

    def __init__(self, base: float = 0.005, maximum: float = 1000.0, *, now: Callable[[], float] = _now) -> None:
        _check_positive(self, base=base)
        if not base <= maximum < math.inf:
            raise ConfigError(
                f"ExponentialFailureRateLimiter: invalid maximum={maximum!r}: "
                f"expected a finite number of seconds, at least base={base!r}"
            )
        super().__init__(maximum, now)
        self._base = base
        self._maximum = maximum
        # From this many doublings on, the delay is `maximum`. Without a bound, 2**n overflows after a thousand
        # failures.
        self._doublings = math.ceil(math.log2(maximum / base))

    def when(self, key: Hashable) -> float:
        """Count one failure of `key`, and return the seconds to wait."""
        count = self._failures.count_failure(key)
        return min(self._maximum, self._base * 2.0 ** min(count, self._doublings))


class FastSlowRateLimiter(_FailureCountingLimiter):
    """Waits `fast` seconds for the first `max_fast` failures of a key, and `slow` seconds from then on.

    Raises:
        ConfigError: `fast` or `slow` is not positive, or `max_fast` is negative.
    """

    def __init__(self, fast: float, slow: float, max_fast: int, *, now: Callable[[], float] = _now) -> None:
        _check_positive(self, fast=fast, slow=slow)
        if max_fast < 0:
            raise ConfigError(f"FastSlowRateLimiter: invalid max_fast={max_fast!r}: expected 0 or more")
        super().__init__(max(fast, slow), now)
        self._fast = fast
        self._slow = slow
        self._max_fast = max_fast

    def when(self, key: Hashable) -> float:
        """Count one failure of `key`, and return the seconds to wait."""
        return self._fast if self._failures.count_failure(key) < self._max_fast else self._slow


class BucketRateLimiter:
    """Limits all keys together to `rate` a second, with bursts of `burst`: a token bucket (golang.org/x/time/rate).

    Each `when` takes a token, or reserves the next free one. Failures are not counted.

    Args:
        rate: Tokens a second.
        burst: The maximum number of tokens in the bucket.
        now: The clock. By default, the running loop's.

    Raises:
        ConfigError: `rate` or `burst` is not positive.
    """

    def __init__(self, rate: float, burst: int, *, now: Callable[[], float] = _now) -> None:
        _check_positive(self, rate=rate, burst=burst)
        self._rate = rate
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._counted: float | None = None  # the time up to which tokens were added. `when` changes both

    def when(self, key: Hashable) -> float:
        """Take or reserve a token, and return the seconds until it is available."""
        now = self._now()
        if self._counted is not None:
            self._tokens = min(float(self._burst), self._tokens + max(0.0, now - self._counted) * self._rate)
        self._counted = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: Hashable) -> None:
        """Do nothing, because tokens do not belong to a key."""

    def num_requeues(self, key: Hashable) -> int:
        """Return 0, because failures are not counted."""
        return 0


class MaxOfRateLimiter(Generic[K_contra]):
    """Uses the longest delay of several limiters, each of which counts every failure.

    Raises:
        ConfigError: No limiter was given.
    """

    def __init__(self, *limiters: RateLimiter[K_contra]) -> None:
        if not limiters:
            raise ConfigError("MaxOfRateLimiter(): expected one limiter or more")
        self._limiters = limiters

    def when(self, key: K_contra) -> float:
        """Return the longest of all delays."""
        return max([limiter.when(key) for limiter in self._limiters])

    def forget(self, key: K_contra) -> None:
        """Reset the failures of `key` in all limiters."""
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: K_contra) -> int:
        """Return the highest count of all limiters."""
        return max(limiter.num_requeues(key) for limiter in self._limiters)


def default_rate_limiter() -> RateLimiter:
    """Return client-go's limiter for controllers.

    It waits 5 ms, doubling to 1000 s, for each key, and allows 10 retries a second in total, with bursts of 100.
    """
    return MaxOfRateLimiter(ExponentialFailureRateLimiter(0.005, 1000.0), BucketRateLimiter(10.0, 100))


def _check_positive(limiter: object, **values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ConfigError(f"{type(limiter).__name__}: invalid {name}={value!r}: expected a finite number above 0")
