"""The log lines about the failures of a reflector, and about the end of an outage."""

from __future__ import annotations

import logging

from kinformer._runtime.clock import SYSTEM
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import ExpiredError, TooManyRequestsError

__all__ = ["FailureLog"]

log = get_logger("kinformer.reflector")

# Every server sends these occasionally, and the next request resolves them.
_EXPECTED = (ExpiredError, TooManyRequestsError)


class FailureLog:
    """Logs a kind of failure when it begins, and one line when the reflector follows its source again.

    That line comes only after a warning, so that each warning has its end, and routine has no lines.

    Args:
        name: The name of the reflector.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._began: float | None = None
        self._is_outage = False
        self._has_followed = False

    def failed(self, error: Exception, doing: str, *, is_news: bool) -> None:
        """Log that a request or a stream has failed, at DEBUG unless it is news.

        Args:
            error: The failure.
            doing: The request, in words.
            is_news: True if this kind of failure is new.
        """
        if self._began is None:
            self._began = SYSTEM.loop()
        level = logging.DEBUG if not is_news else logging.INFO if isinstance(error, _EXPECTED) else logging.WARNING
        self._is_outage = self._is_outage or level == logging.WARNING
        log.log(level, "%s: %s failed: %s", self._name, doing, error, resource=self._name, reason=error)

    def falls_back(self, error: Exception, doing: str, *, is_news: bool) -> None:
        """Log that lists are requested from now on, because the server refuses initial streams."""
        level = logging.INFO if is_news else logging.DEBUG
        message = "%s: %s failed, so lists will be used instead: %s"
        log.log(level, message, self._name, doing, error, resource=self._name, reason=error)

    def following(self) -> None:
        """Log that the reflector follows its source, if there was an outage."""
        if self._is_outage and self._began is not None:
            seconds = SYSTEM.loop() - self._began
            text = "following again" if self._has_followed else "following"
            message = "%s: %s after %.0f s" if seconds >= 10 else "%s: %s after %.1f s"
            log.info(message, self._name, text, seconds, resource=self._name, reason="following")
        self._began, self._is_outage, self._has_followed = None, False, True
