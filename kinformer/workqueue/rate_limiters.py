"""How long a key that failed waits: the limiters of rate limiting queues (client-go, default_rate_limiters.go)."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

from kinformer.exceptions import ConfigError

__all__ = [
    "BucketRateLimiter",
    "ExponentialFailureRateLimiter",
    "FastSlowRateLimiter",
    "MaxOfRateLimiter",
    "RateLimiter",
    "default_rate_limiter",
]

# Seconds after which a key that nobody forgot, and that has not failed again, is forgotten; or twice the longest delay,
# where that is more. Without it a program that never calls `forget` keeps every key that ever failed.
_FORGOTTEN_AFTER = 3600.0


class RateLimiter(Protocol):
    """What a `RateLimitingQueue` asks of a limiter, for programs that bring their own."""

    def when(self, key: Any) -> float:
        """Seconds that `key` has to wait; each call is one more failure (or request) of the key."""
        ...

    def forget(self, key: Any) -> None:
        """Count from 0 for this key: it has succeeded, or nobody is interested in it any more."""
        ...

    def num_requeues(self, key: Any) -> int:
        """How often `key` has failed since it was last forgotten."""
        ...


def _now() -> float:
    # The clock that loops use, also where no loop runs.
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()


class _Failures:
    """Failures per key; a key that has been quiet for long is forgotten by itself."""

    def __init__(self, quiet: float, now: Callable[[], float]) -> None:
        self._quiet = quiet
        self._now = now
        self._counts: OrderedDict[Hashable, tuple[int, float]] = OrderedDict()  # the longest unused first

    def add(self, key: Hashable) -> int:
        """Count one more; how many there were before."""
        now = self._now()
        for _ in range(2):  # one more than can be added: the past is cleared faster than it grows
            oldest = next(iter(self._counts), None)
            if oldest is None or now - self._counts[oldest][1] <= self._quiet:
                break
            del self._counts[oldest]
        count = self.of(key)
        self._counts[key] = (count + 1, now)
        self._counts.move_to_end(key)
        return count

    def of(self, key: Hashable) -> int:
        count, last = self._counts.get(key, (0, 0.0))
        return count if self._now() - last <= self._quiet else 0

    def forget(self, key: Hashable) -> None:
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)


class ExponentialFailureRateLimiter:
    """``base * 2**n`` seconds after the n-th failure of a key, counted from 0, and never more than `maximum`.

    The failures of each key are counted by themselves, until `forget`; a key that nobody forgets is forgotten when it
    has not failed for an hour, or for twice `maximum`, whichever is more.

    Args:
        base: Seconds after the first failure. 5 ms, as controllers have it in client-go: a conflict is over by then.
        maximum: Seconds. 1000, as there.
        now: The clock that quiet is measured with; the running loop's.

    Raises:
        ConfigError: A value that cannot work.
    """

    def __init__(self, base: float = 0.005, maximum: float = 1000.0, *, now: Callable[[], float] = _now) -> None:
        _positive(self, base=base)
        if not base <= maximum < math.inf:
            raise ConfigError(f"ExponentialFailureRateLimiter(maximum={maximum!r}): finite, and base={base!r} at least")
        self._base = base
        self._maximum = maximum
        # Past this many doublings it is the maximum; without a bound 2**n ends in an overflow after a thousand.
        self._doublings = math.ceil(math.log2(maximum / base))
        self._failures = _Failures(max(_FORGOTTEN_AFTER, 2 * maximum), now)

    def when(self, key: Any) -> float:
        """Seconds to wait; counts one failure."""
        count = self._failures.add(key)
        return min(self._maximum, self._base * 2.0 ** min(count, self._doublings))

    def forget(self, key: Any) -> None:
        """Count from 0."""
        self._failures.forget(key)

    def num_requeues(self, key: Any) -> int:
        """Failures so far."""
        return self._failures.of(key)


class FastSlowRateLimiter:
    """`fast` seconds for the first `max_fast` failures of a key, `slow` seconds from then on.

    Raises:
        ConfigError: A value that cannot work.
    """

    def __init__(self, fast: float, slow: float, max_fast: int, *, now: Callable[[], float] = _now) -> None:
        _positive(self, fast=fast, slow=slow)
        if max_fast < 0:
            raise ConfigError(f"FastSlowRateLimiter(max_fast={max_fast!r}): 0 at least")
        self._fast = fast
        self._slow = slow
        self._max_fast = max_fast
        self._failures = _Failures(max(_FORGOTTEN_AFTER, 2 * fast, 2 * slow), now)

    def when(self, key: Any) -> float:
        """Seconds to wait; counts one failure."""
        return self._fast if self._failures.add(key) < self._max_fast else self._slow

    def forget(self, key: Any) -> None:
        """Count from 0."""
        self._failures.forget(key)

    def num_requeues(self, key: Any) -> int:
        """Failures so far."""
        return self._failures.of(key)


class BucketRateLimiter:
    """All keys together at `rate` a second, with bursts of `burst`: a token bucket (golang.org/x/time/rate).

    Each `when` takes a token, or reserves the next one that will be there. It counts no failures.

    Args:
        rate: Tokens a second.
        burst: Tokens that can be there at most.
        now: The clock; the running loop's.

    Raises:
        ConfigError: A value that cannot work.
    """

    def __init__(self, rate: float, burst: int, *, now: Callable[[], float] = _now) -> None:
        _positive(self, rate=rate, burst=burst)
        self._rate = rate
        self._burst = burst
        self._now = now
        self._tokens = float(burst)
        self._counted: float | None = None

    def when(self, key: Any) -> float:
        """Seconds until the token that this call has reserved."""
        now = self._now()
        if self._counted is not None:
            self._tokens = min(float(self._burst), self._tokens + max(0.0, now - self._counted) * self._rate)
        self._counted = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def forget(self, key: Any) -> None:
        """Does nothing: tokens belong to nobody."""

    def num_requeues(self, key: Any) -> int:
        """0: it counts none."""
        return 0


class MaxOfRateLimiter:
    """The longest delay of several limiters; each of them counts every failure."""

    def __init__(self, *limiters: RateLimiter) -> None:
        if not limiters:
            raise ConfigError("MaxOfRateLimiter(): it needs a limiter at least")
        self._limiters = limiters

    def when(self, key: Any) -> float:
        """The longest of all delays."""
        return max([limiter.when(key) for limiter in self._limiters])

    def forget(self, key: Any) -> None:
        """Forget it in all."""
        for limiter in self._limiters:
            limiter.forget(key)

    def num_requeues(self, key: Any) -> int:
        """The highest count of all."""
        return max(limiter.num_requeues(key) for limiter in self._limiters)


def default_rate_limiter() -> RateLimiter:
    """What client-go gives controllers: 5 ms doubling to 1000 s for each key, 10 a second in all with bursts of 100."""
    return MaxOfRateLimiter(ExponentialFailureRateLimiter(0.005, 1000.0), BucketRateLimiter(10.0, 100))


def _positive(limiter: object, **values: float) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ConfigError(f"{type(limiter).__name__}({name}={value!r}): a finite number above 0 is needed")
