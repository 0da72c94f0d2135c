"""Retries requests on the server's request and reads after a lost connection, and applies the client's rate limit.

The rules are the same as in client-go (rest/with_retry.go). A request of any method that gets a 429 or 5xx with a
`Retry-After` is retried after that delay, because the server has not started processing it. Without a `Retry-After`, a
failed write may have taken effect, so only a GET is retried.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from kinformer._runtime.backoff import RETRY_AFTER_CAP
from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.fence import check_fences
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.request_context import is_urgent
from kinformer.exceptions import APIError, ConfigError, ConnectError
from kinformer.metrics import Metrics

__all__ = ["RETRIES", "ClientStatistics", "Exchange", "RateLimit", "Sender"]

log = get_logger("kinformer.client")

T = TypeVar("T")

RETRIES = 10
_AFTER_LOSS = 1.0  # seconds before retrying a read after a lost connection (retryAfterResponse)
_LONG_WAIT = 1.0  # seconds of throttling that are logged (rest/request.go, extraLongThrottleLatency)
_WAIT_LOG_PERIOD = 10.0  # seconds between two such log messages
_LOST = "connection_lost"
_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # component-base, restclient/metrics.go


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatistics:
    """The counts of a client so far.

    Attributes:
        requests: Calls of `request` and `text`, however often each was sent.
        retries: Retries by cause: the status, such as `"429"`, or `"connection_lost"`.
        throttled: Requests that waited because of the client's own rate limit.
    """

    requests: int = 0
    retries: Mapping[str, int] = field(default_factory=dict)
    throttled: int = 0


class Exchange:
    """One request with all its attempts.

    Args:
        method: The method in capitals.
        url: The URL for messages, without its query.
        retries: The number of retries.

    Attributes:
        attempts: The number of times that it was sent.
        error: The failure of the last attempt that was retried.
        limit: The limit that it is waiting for, or None.

    Raises:
        ValueError: `retries` is not a whole number, or below 0.
    """

    __slots__ = ("attempts", "error", "limit", "method", "retries", "url")

    def __init__(self, method: str, url: str, retries: int) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ValueError(f"{method} {url}: invalid retries={retries!r}: expected a whole number, 0 or more")
        self.method = method
        self.url = url
        self.retries = 0 if is_urgent() else retries
        self.attempts = 0
        self.error: Exception | None = None
        self.limit: RateLimit | None = None

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[asyncio.Timeout]:
        """Limit the time for all attempts. The ConnectError describes how it was spent."""
        try:
            async with asyncio.timeout(seconds) as limit:
                yield limit
        except TimeoutError:
            raise self.timed_out(seconds) from None

    def timed_out(self, seconds: float) -> ConnectError:
        """Create the error of a request without a response after `seconds`."""
        what = f"{self.method} {self.url}"
        if self.limit is not None:
            return ConnectError(
                f"{what}: not sent within {seconds:g} s: the client's rate limit, {self.limit}, is exhausted"
            )
        before = f"; before: {self.error}" if self.error is not None else ""
        return ConnectError(f"{what}: no response within {seconds:g} s{before}")

    def delay_after(self, error: APIError | ConnectError, deadline: float | None) -> float | None:
        """Return the delay in seconds before a retry, or None for no retry.

        There is no retry if the delay ends after `deadline`, on the loop's clock.
        """
        if self.attempts > self.retries:
            return None
        if isinstance(error, ConnectError):
            delay = _AFTER_LOSS if error.lost and self.method == "GET" else None
        else:
            delay = error.retry_after if error.status == 429 or error.status >= 500 else None
        if delay is None:
            return None
        delay = min(delay, RETRY_AFTER_CAP)
        left = None if deadline is None else deadline - asyncio.get_running_loop().time()
        return None if left is not None and delay >= left else delay


class Sender:
    """Sends the requests of one client with retries and a rate limit, and counts them.

    Args:
        host: Host and port, for a metric label.
        limit: The client's own rate limit, or None.
        metrics: A sink, or None.
        cluster: The name of the cluster in a fleet, for the log.
    """

    def __init__(self, host: str, limit: RateLimit | None, metrics: Metrics | None, cluster: str = "") -> None:
        self._cluster = cluster
        self._host = host
        self._limit = limit
        self._metrics = metrics
        self._requests = 0
        self._retries: Counter[str] = Counter()
        self._throttled = 0  # requests that had to wait for the limit
        self._next_line = 0.0  # the time before which no further wait is logged
        self._told = LogOnce()  # a server that sheds load rejects many requests at once

    def statistics(self) -> ClientStatistics:
        """Return the counts so far."""
        return ClientStatistics(requests=self._requests, retries=dict(self._retries), throttled=self._throttled)

    async def send(self, exchange: Exchange, attempt: Callable[[], Awaitable[T]], deadline: float | None) -> T:
        """Call `attempt`, with retries as the rules allow, and return its result.

        Raises:
            APIError, ConnectError: The error of the last attempt, with a note on the number of attempts.
            Exception: The exception of a lapsed fence, which is checked before each attempt.
        """
        self._requests += 1
        while True:
            check_fences()  # checked again right before the first byte, but a connection is opened before that
            await self.wait_for_turn(exchange)
            exchange.attempts += 1
            try:
                return await attempt()
            except (APIError, ConnectError) as error:
                delay = exchange.delay_after(error, deadline)
                if delay is None:
                    if exchange.attempts > 1:
                        error.add_note(f"sent {exchange.attempts} times")
                    raise
                exchange.error = error
                self._note_retry(exchange, error, delay)
            await asyncio.sleep(delay)

    @contextmanager
    def counted(self, method: str, answered_too: Callable[[int], object]) -> Iterator[Callable[[int], None]]:
        """Measure one attempt, for the sink. The body passes the status to the yielded function, which passes it on.

        The names and labels are those of component-base (metrics/prometheus/restclient).
        """
        code, began = "<error>", SYSTEM.loop()

        def answered(status: int) -> None:
            nonlocal code
            code = str(status)
            answered_too(status)

        try:
            yield answered
        finally:
            if self._metrics is not None:
                seconds, verb = SYSTEM.loop() - began, {"verb": method, "host": self._host}
                counts = {"code": code, "method": method, "host": self._host}
                self._metrics.counter("rest_client_requests_total", "Requests that were sent", counts)(1)
                message = "Seconds to the end of a response, or to the head of a stream"
                self._metrics.histogram("rest_client_request_duration_seconds", message, verb, _BUCKETS)(seconds)

    async def wait_for_turn(self, exchange: Exchange) -> None:
        """Wait for the client's own rate limit, unless the request is urgent."""
        limit = self._limit
        if limit is None or is_urgent():
            return
        exchange.limit = limit
        seconds = await limit.wait()
        exchange.limit = None
        self._throttled += seconds > 0
        if self._metrics is not None:
            labels = {"verb": exchange.method, "host": self._host}
            message = "Seconds that requests wait for the client's rate limit"
            self._metrics.histogram("rest_client_rate_limiter_duration_seconds", message, labels, _BUCKETS)(seconds)
        now = asyncio.get_running_loop().time()
        if seconds > _LONG_WAIT and now >= self._next_line:
            self._next_line = now + _WAIT_LOG_PERIOD
            message = "%s %s waited %.3g s: the client's rate limit is %s"
            about = (exchange.method, exchange.url, seconds, limit)
            log.info(message, *about, reason="throttled", cluster=self._cluster)

    def _note_retry(self, exchange: Exchange, error: APIError | ConnectError, delay: float) -> None:
        cause = str(error.status) if isinstance(error, APIError) else _LOST
        self._retries[cause] += 1
        if self._metrics is not None:
            # client-go uses "<error>" as the code of a request without a response.
            code = cause if isinstance(error, APIError) else "<error>"
            labels = {"code": code, "verb": exchange.method, "host": self._host}
            self._metrics.counter("rest_client_request_retries_total", "Requests that were retried", labels)(1)
        message = "%s %s: %s; retrying in %.3g s (%d of %d)"
        about = (exchange.method, exchange.url, error, delay, exchange.attempts, exchange.retries)
        if exchange.attempts == 1 and self._told.is_news(self._retries.total()):
            log.info(message, *about, reason="request_retried", cluster=self._cluster)
        else:
            log.debug(message, *about, reason="request_retried", cluster=self._cluster)


class RateLimit:
    """Allows `rate` requests a second, and `burst` at once after a pause (client-go, util/flowcontrol/throttle.go).

    Args:
        rate: Requests a second.
        burst: The number of requests that need not wait after a pause. None is twice the rate, at least 1.

    Raises:
        ConfigError: A value is invalid. The message names it.
    """

    __slots__ = ("_at", "_tokens", "burst", "rate")

    def __init__(self, rate: float, burst: int | None = None) -> None:
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 < rate < math.inf:
            raise ConfigError(f"invalid rate={rate!r}: expected requests per second, above 0")
        if burst is not None and (isinstance(burst, bool) or not isinstance(burst, int) or burst < 1):
            raise ConfigError(f"invalid burst={burst!r}: expected a whole number, 1 or more")
        self.rate = rate
        self.burst = max(1, int(2 * rate)) if burst is None else burst
        self._tokens = float(self.burst)  # below 0, the number of waiting requests
        self._at: float | None = None  # the time of the last update of the tokens

    def __str__(self) -> str:
        return f"rate={self.rate:g}, burst={self.burst}"

    async def wait(self) -> float:
        """Wait for a token, and return the seconds waited. A cancelled wait returns its token."""
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
