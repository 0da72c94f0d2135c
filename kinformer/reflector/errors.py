"""The errors that a reflector raises internally, the types of errors that it retries, and the log of its failures."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import ExpiredError, ForbiddenError, KinformerError, TooManyRequestsError, WatchError
from kinformer.reflector.health import HealthRecord

__all__ = [
    "RETRIED",
    "ClusterReplacedError",
    "FailureLog",
    "InitialStreamError",
    "ResyncError",
    "RewindError",
    "ShortWatchError",
    "StaleListError",
    "StoreFailedError",
    "watch_forbidden",
]

log = get_logger("kinformer.reflector")

# The errors that a server, a network or a source can cause. Any other error is a bug in kinformer, a source or a
# store, which a retry would hide. (TimeoutError is an OSError.)
RETRIED: tuple[type[Exception], ...] = (KinformerError, OSError)

# Every server sends these occasionally, and the next request resolves them.
_EXPECTED = (ExpiredError, TooManyRequestsError)


class RewindError(WatchError):
    """The server has not reached a resourceVersion that it sent before, because it was restored from a backup."""


class ClusterReplacedError(WatchError):
    """Another cluster responds under the same URL."""


class InitialStreamError(WatchError):
    """The initial stream went silent, or ended, before its end bookmark."""


class ShortWatchError(WatchError):
    """Consecutive watches ended immediately without an event. Some servers respond to an expired version this way."""


class StaleListError(WatchError):
    """A list is older than the version that was requested: a replica lags behind, or the server went back in time."""


class ResyncError(KinformerError):
    """The store's resync failed. `__cause__` is the exception that it raised."""


class StoreFailedError(Exception):
    """Wraps an exception of a store, so that it is never retried as a server failure, whatever its type.

    Attributes:
        cause: The exception.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


def watch_forbidden(error: ForbiddenError) -> ForbiddenError:
    """Return the 403 of a watch after a list that was allowed, with what can be done."""
    message = f"{error.message or 'forbidden'}; it can be listed: grant the verb watch, or pass poll=30"
    return ForbiddenError(error.status, error.reason, message, error.retry_after, error.details)


class FailureLog:
    """Records the failures of a reflector, and logs when a kind of failure begins and when the reflector follows again.

    The line about the end comes only after a warning, so that each warning has its end, and routine has no lines.

    Args:
        name: The name of the reflector.
        health: Its health.
        tell: Called with each failure.
    """

    def __init__(self, name: str, health: HealthRecord, tell: Callable[[Exception], object]) -> None:
        self.tell = tell
        self._name = name
        self._health = health
        # What `failed` and `following` remember from one call to the next.
        self._began: float | None = None  # the time of the first failure since it has followed
        self._is_outage = False  # True if a warning was logged since then
        self._has_fallen_back = False  # True for good, so that it is logged once

    def failed(self, error: Exception, doing: str, *, falls_back: bool = False) -> None:
        """Record that a request or a stream has failed. Log it at DEBUG unless its type is new.

        Args:
            error: The failure.
            doing: The request, in words.
            falls_back: True if lists are requested from now on, because the server refuses initial streams. That is
                news once.
        """
        if self._began is None and not falls_back:
            self._began = SYSTEM.loop()
        is_news = not self._has_fallen_back if falls_back else type(error) is not type(self._health.last_error)
        self._has_fallen_back = self._has_fallen_back or falls_back
        is_routine = falls_back or isinstance(error, _EXPECTED)
        level = logging.DEBUG if not is_news else logging.INFO if is_routine else logging.WARNING
        self._is_outage = self._is_outage or level == logging.WARNING
        message = "%s: %s failed, so lists will be used instead: %s" if falls_back else "%s: %s failed: %s"
        if getattr(error, "lost", None) is False and not falls_back:  # a ConnectError without a response
            message = "%s: the server does not answer (%s): %s"
        log.log(level, message, self._name, doing, error, resource=self._name, reason=error)
        self._health.failed(error)
        self.tell(error)

    def following(self) -> None:
        """Record that the reflector follows its source, and log it if there was an outage."""
        if self._is_outage and self._began is not None:
            seconds = SYSTEM.loop() - self._began
            text = "following again" if self._health.has_followed else "following"
            message = "%s: %s after %.0f s" if seconds >= 10 else "%s: %s after %.1f s"
            log.info(message, self._name, text, seconds, resource=self._name, reason="following")
        self._began, self._is_outage = None, False
        self._health.following()
