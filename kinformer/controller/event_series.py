"""Which Kubernetes Events are worth telling the server: repeats become a series, and nobody may flood it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

__all__ = ["EventSeries", "Occurrences", "TokenBuckets"]

# client-go, tools/events/event_broadcaster.go
FINISH_AFTER = 360.0  # seconds without a repeat, after which a series is over
HEARTBEAT = 1800.0  # seconds between two messages about a series that goes on

# client-go, tools/record/events_cache.go: the spam filter
_KEYS = 4096
_BURST = 25
_REFILL = 300.0  # seconds for one more


@dataclass(slots=True)
class Occurrences:
    """One kind of event about one object: how often, when last, and what the server was told of it."""

    count: int
    last: float
    told: int  # the count that the server knows
    told_at: float
    place: tuple[str, str] | None = None  # namespace and name of the Event, once it exists

    @property
    def untold(self) -> bool:
        """The server knows of it, but not of its last count."""
        return self.count > self.told > 0


class EventSeries:
    """Decides of each occurrence whether the server hears of it at once, or later with others. Times in seconds."""

    def __init__(self) -> None:
        self._series: dict[Hashable, Occurrences] = {}

    def __len__(self) -> int:
        return len(self._series)

    def __contains__(self, key: object) -> bool:
        return key in self._series

    def ended(self, key: Hashable, now: float) -> Occurrences | None:
        """The series of this key, if it is over and the server is still to hear so: for `occurred` begins another."""
        known = self._series.get(key)
        return known if known is not None and known.untold and now - known.last > FINISH_AFTER else None

    def occurred(self, key: Hashable, now: float) -> tuple[Occurrences, bool]:
        """One more; and whether the server is to be told: of the first, and of the second, which makes it a series."""
        known = self._series.get(key)
        if known is None or now - known.last > FINISH_AFTER:
            known = self._series[key] = Occurrences(1, now, 0, now)
            return known, True
        known.count += 1
        known.last = now
        return known, known.count == 2

    def due(self, now: float) -> Iterator[tuple[Hashable, Occurrences]]:
        """Series that the server is to hear of again: for a heartbeat, or because they are over (and forgotten)."""
        for key, known in list(self._series.items()):
            over = now - known.last > FINISH_AFTER
            if over:
                del self._series[key]
            if known.untold and (over or now - known.told_at >= HEARTBEAT):
                yield key, known

    def unfinished(self) -> Iterator[tuple[Hashable, Occurrences]]:
        """All of which the server does not know the last count; for the end."""
        for key, known in self._series.items():
            if known.untold:
                yield key, known

    def forget(self, key: Hashable, known: Occurrences) -> None:
        """The server was not told of it after all: the next is a first one again."""
        if self._series.get(key) is known:
            del self._series[key]


class TokenBuckets:
    """A token bucket for each key: 25 at once, then one in 300 s; the least used of more than 4096 are forgotten."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, now: float) -> bool:
        """Whether there was a token."""
        tokens, counted = self._buckets.pop(key, (float(_BURST), now))
        tokens = min(float(_BURST), tokens + max(0.0, now - counted) / _REFILL)
        taken = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if taken else tokens, now)
        if len(self._buckets) > _KEYS:
            self._buckets.popitem(last=False)
        return taken
