"""Figures of informers over time: `health()`, `statistics()` and rates."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from kinformer import KubeObject, SharedInformer
from kinformer.cli.output.errors import error_text

__all__ = ["Gauge", "InformerFigures"]

_WINDOW = 5.0  # seconds over which a rate is measured
_REMEMBERED = 60.0  # seconds for which a creation counts in the lag
_CREATIONS = 1000  # maximum number of creations that count
_TYPES = ("ADDED", "UPDATED", "DELETED")


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerFigures:
    """An informer at one moment. Times are seconds, sizes bytes.

    Attributes:
        memory: The memory of the objects, estimated from a sample of them.
        rates: Events per second, by type, over the last seconds. 0 until the first list is in the cache.
        queued: Received keys that are not in the cache yet.
        lag: The time from the creation of an object (server's clock) to the call of a handler (local clock), as the
            median of the last minute. Servers give whole seconds. None if no object was created.
        errors: Objects that were skipped because they could not be decoded.
    """

    resource: str
    state: str
    synced: bool
    live: bool
    objects: int
    memory: int
    received: int
    events: Mapping[str, int]
    rates: Mapping[str, float]
    last_event_age: float | None
    last_sync_age: float | None
    watches: int
    relists: Mapping[str, int]
    watch_restarts: Mapping[str, int]
    queued: int
    pending: int
    coalesced: int
    lag: float | None
    errors: int
    last_error: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON."""
        return asdict(self)


class Gauge:
    """Measures one informer. Call `look` regularly, because rates are differences between two calls.

    Args:
        informer: The informer, to which a handler is added.
        clock: Returns seconds.
        now: Returns the time of day.

    `look` and the handler record what rates and lags are measured from, and `look` drops what is older.
    """

    def __init__(
        self,
        informer: SharedInformer,
        *,
        clock: Callable[[], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._informer = informer
        self._clock = clock
        self._now = now
        self._looks: deque[tuple[float, Mapping[str, int]]] = deque()
        self._lags: deque[tuple[float, float]] = deque(maxlen=_CREATIONS)
        informer.add_event_handler(on_add=self._added, name="kinformer stats")

    def _added(self, obj: KubeObject, *, is_in_initial_list: bool) -> None:
        created = None if is_in_initial_list else obj.creation_timestamp
        if created is not None:
            self._lags.append((self._clock(), max(0.0, (self._now() - created).total_seconds())))

    def look(self) -> InformerFigures:
        """Return the current figures."""
        at, health, figures = self._clock(), self._informer.health(), self._informer.statistics()
        if health.synced:
            self._looks.append((at, figures.events))
        while len(self._looks) > 2 and at - self._looks[1][0] >= _WINDOW:
            self._looks.popleft()
        while self._lags and at - self._lags[0][0] > _REMEMBERED:
            self._lags.popleft()
        return InformerFigures(
            resource=self._informer.name,
            state=health.state,
            synced=health.synced,
            live=health.live,
            objects=figures.objects,
            memory=figures.memory,
            received=figures.bytes,
            events={kind: figures.events.get(kind, 0) for kind in _TYPES},
            rates=self._rates(),
            last_event_age=health.last_event_age,
            last_sync_age=health.last_sync_age,
            watches=health.watches,
            relists=figures.relists,
            watch_restarts=figures.watch_restarts,
            queued=figures.queued,
            pending=sum(figures.pending.values()),
            coalesced=figures.coalesced,
            lag=statistics.median(lag for _, lag in self._lags) if self._lags else None,
            errors=figures.decode_errors + figures.transform_errors,
            last_error=error_text(health.last_error),
        )

    def _rates(self) -> dict[str, float]:
        if len(self._looks) < 2 or self._looks[-1][0] <= self._looks[0][0]:
            return dict.fromkeys(_TYPES, 0.0)
        (since, before), (until, after) = self._looks[0], self._looks[-1]
        return {kind: (after.get(kind, 0) - before.get(kind, 0)) / (until - since) for kind in _TYPES}
