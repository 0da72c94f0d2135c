"""Filters for Kubernetes Events: repeats become a series, and floods are limited."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

__all__ = ["EventSeries", "Occurrences", "TokenBuckets"]

# client-go, tools/events/event_broadcaster.go
FINISH_AFTER = 360.0  # seconds without a repeat, after which a series has ended
HEARTBEAT = 1800.0  # seconds between two updates of an ongoing series

# client-go, tools/record/events_cache.go: the spam filter
_KEYS = 4096
_BURST = 25
_REFILL = 300.0  # seconds for one more token


@dataclass(slots=True)
class Occurrences:
    """The occurrences of one event about one object.

    Attributes:
        count: Occurrences so far.
        last: The time of the last occurrence.
        sent_count: The count last sent to the server, or 0.
        sent_at: The time at which it was sent.
        place: The namespace and name of the Event, or None before it exists.
    """

    count: int
    last: float
    sent_count: int
    sent_at: float
    place: tuple[str, str] | None = None

    @property
    def outdated(self) -> bool:
        """True if the server has the event, but with an older count."""
        return self.count > self.sent_count > 0


class EventSeries:
    """Decides whether to send an occurrence at once, or later together with others. Times are in seconds."""

    def __init__(self) -> None:
        self._series: dict[Hashable, Occurrences] = {}

    def __len__(self) -> int:
        return len(self._series)

    def __contains__(self, key: object) -> bool:
        return key in self._series

    def ended(self, key: Hashable, now: float) -> Occurrences | None:
        """Return the series of a key if it has ended and its last count is unsent. `occurred` then begins another."""
        series = self._series.get(key)
        return series if series is not None and series.outdated and now - series.last > FINISH_AFTER else None

    def occurred(self, key: Hashable, now: float) -> tuple[Occurrences, bool]:
        """Count an occurrence, and return its series and True if it should be sent now.

        The first occurrence is sent, and the second one, which makes it a series.
        """
        series = self._series.get(key)
        if series is None or now - series.last > FINISH_AFTER:
            series = self._series[key] = Occurrences(1, now, 0, now)
            return series, True
        series.count += 1
        series.last = now
        return series, series.count == 2

    def due(self, now: float) -> Iterator[tuple[Hashable, Occurrences]]:
        """Yield the series to send again, because a heartbeat is due or they have ended. Ended series are forgotten."""
        for key, series in list(self._series.items()):
            over = now - series.last > FINISH_AFTER
            if over:
                del self._series[key]
            if series.outdated and (over or now - series.sent_at >= HEARTBEAT):
                yield key, series

    def unfinished(self) -> Iterator[tuple[Hashable, Occurrences]]:
        """Yield the series whose last count is unsent, for the end of the recorder."""
        for key, series in self._series.items():
            if series.outdated:
                yield key, series

    def forget(self, key: Hashable, known: Occurrences) -> None:
        """Forget a series that was not sent, so that its next occurrence counts as the first."""
        if self._series.get(key) is known:
            del self._series[key]


class TokenBuckets:
    """Token buckets for the 4096 most recently used keys: each has 25 tokens, and gets another every 300 s."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Take a token if there is one, and return True if so."""
        tokens, counted = self._buckets.pop(key, (float(_BURST), now))
        tokens = min(float(_BURST), tokens + max(0.0, now - counted) / _REFILL)
        taken = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if taken else tokens, now)
        if len(self._buckets) > _KEYS:
            self._buckets.popitem(last=False)
        return taken
