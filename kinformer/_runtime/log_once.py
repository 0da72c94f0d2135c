"""What has been said already, so that a log says each thing once, and a thousand things of one cause not one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

__all__ = ["LogOnce"]


class LogOnce:
    """Remembers what was said of which thing, within bounds, and how much was said of late.

    Whoever is told no says it at DEBUG, or not at all: an outage that ten thousand objects fail by is ten lines and
    not ten thousand tracebacks, and the figures have the rest.

    Args:
        limit: Things to remember; a thousand of them are some 100 KB. Beyond, all are forgotten, and said again.
        burst: Things that may be said at once.
        every: Seconds after which one more may be.
        clock: In seconds, from any start.
    """

    __slots__ = ("_burst", "_clock", "_every", "_limit", "_room", "_said", "_seen")

    def __init__(
        self, limit: int = 1000, *, burst: int = 10, every: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = limit
        self._burst = burst
        self._every = every
        self._clock = clock
        self._said: dict[Hashable, Hashable] = {}
        self._room = float(burst)
        self._seen = clock()

    def is_news(self, thing: Hashable, what: Hashable = None) -> bool:
        """Whether this is to be said now: it is not what was said of `thing` last, and not too much has been said."""
        if thing in self._said and self._said[thing] == what:
            return False
        now = self._clock()
        self._room = min(float(self._burst), self._room + (now - self._seen) / self._every)
        self._seen = now
        if self._room < 1.0:
            return False
        self._room -= 1.0
        if len(self._said) >= self._limit:
            self._said.clear()
        self._said[thing] = what
        return True

    def forget(self, thing: Hashable) -> None:
        """It is well again: should it fail once more, that is news."""
        self._said.pop(thing, None)
