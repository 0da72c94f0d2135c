"""How well a cache follows its server: what a reflector records, and what people are shown of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kinformer.exceptions import ForbiddenError, NotFoundError, UnauthorizedError

__all__ = ["HealthRecord", "InformerHealth", "State", "combine_health"]

State = Literal["starting", "listing", "watching", "backing_off", "unauthorized", "forbidden", "absent", "stopped"]

# From best to worst: of several reflectors the worst speaks for all.
_BY_CONCERN: tuple[State, ...] = (
    "watching",
    "listing",
    "starting",
    "backing_off",
    "absent",
    "unauthorized",
    "forbidden",
    "stopped",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerHealth:
    """A snapshot; it does not change.

    Attributes:
        state: What the informer is doing. `unauthorized` (401), `forbidden` (403) and `absent` (404) stay until an
            answer is better.
        synced: The first full list is in the cache, however old.
        live: The cache follows the server: it is synced, and no request or stream has failed since the last one that
            worked. A stream that is replaced because it was silent or has ended in order does not count as failed.
        last_event_age: Seconds since the last event or bookmark; None before the first.
        last_sync_age: Seconds since the last full list; None before the first.
        last_error: What failed last; None once it works again.
        consecutive_failures: Requests and streams that failed since the last that worked.
        relists: Full lists after the first.
        watches: Streams that were opened.
        resource_version: How far the cache follows; "" before the first list.
    """

    state: State
    synced: bool
    live: bool
    last_event_age: float | None
    last_sync_age: float | None
    last_error: BaseException | None
    consecutive_failures: int
    relists: int
    watches: int
    resource_version: str


class HealthRecord:
    """What a reflector records as it goes. Plain attributes: `last_event` is written once a batch.

    Attributes:
        running: The reflector runs.
    """

    __slots__ = (
        "_now",
        "consecutive_failures",
        "last_error",
        "last_event",
        "last_sync",
        "live",
        "relists",
        "running",
        "state",
        "synced",
        "watch_restarts",
        "watches",
    )

    def __init__(self) -> None:
        self.running = False
        self._now: Callable[[], float] | None = None  # of the loop in which it runs, or ran last
        self.state: State = "starting"
        self.synced = False
        self.live = False
        self.last_event: float | None = None
        self.last_sync: float | None = None
        self.last_error: BaseException | None = None
        self.consecutive_failures = 0
        self.relists: Counter[str] = Counter()
        self.watches = 0
        self.watch_restarts: Counter[str] = Counter()

    def started(self, now: Callable[[], float]) -> None:
        """The reflector runs, on a loop with this clock."""
        self._now = now
        self.running = True

    def listing(self) -> None:
        """A full list is being asked for; after a denial the state says so until there is a better answer."""
        if self.state in ("starting", "watching", "backing_off"):
            self.state = "listing"

    def listed(self, now: float, cause: str | None) -> None:
        """A full list is in the store; `cause` is None for the first."""
        self.last_sync = now
        self.synced = True
        if cause is not None:
            self.relists[cause] += 1
        self._works()

    def following(self) -> None:
        """The store follows the server from here on."""
        self.state = "watching"
        self.live = True
        self._works()

    def _works(self) -> None:
        self.last_error = None
        self.consecutive_failures = 0

    def failed(self, error: BaseException) -> None:
        """A request or a stream failed."""
        self.last_error = error
        self.consecutive_failures += 1
        self.live = False
        self.state = _state_after(error)

    def stopped(self, error: BaseException | None) -> None:
        """The reflector has ended, by this error or because it was cancelled."""
        self.running = False
        self.state = "stopped"
        self.live = False
        if error is not None:
            self.last_error = error

    def snapshot(self, resource_version: str) -> InformerHealth:
        """The health at this moment, for people."""
        now = self._now() if self._now is not None else 0.0
        return InformerHealth(
            state=self.state,
            synced=self.synced,
            live=self.live,
            last_event_age=_age(now, self.last_event),
            last_sync_age=_age(now, self.last_sync),
            last_error=self.last_error,
            consecutive_failures=self.consecutive_failures,
            relists=self.relists.total(),
            watches=self.watches,
            resource_version=resource_version,
        )


def _state_after(error: BaseException) -> State:
    if isinstance(error, UnauthorizedError):
        return "unauthorized"
    if isinstance(error, ForbiddenError):
        return "forbidden"
    return "absent" if isinstance(error, NotFoundError) else "backing_off"


def _age(now: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, now - then)


def combine_health(
    parts: Sequence[InformerHealth],
    *,
    synced: bool | None = None,
    stopped: bool = False,
    error: BaseException | None = None,
    resource_version: str | None = None,
) -> InformerHealth:
    """The health of an informer that several reflectors feed: as good as the worst of them.

    `relists` and `watches` are added up. `last_sync_age` is the oldest one, `last_event_age` the youngest: a namespace
    in which nothing happens says nothing about the stream of another. What is passed by name overrides the parts.
    """
    worst = max(parts, key=lambda part: _BY_CONCERN.index(part.state))
    syncs = [part.last_sync_age for part in parts]
    return replace(
        worst,
        state="stopped" if stopped else worst.state,
        synced=all(part.synced for part in parts) if synced is None else synced,
        live=not stopped and all(part.live for part in parts),
        last_event_age=min((part.last_event_age for part in parts if part.last_event_age is not None), default=None),
        last_sync_age=None if None in syncs else max(age for age in syncs if age is not None),
        last_error=error or worst.last_error or next((part.last_error for part in parts if part.last_error), None),
        consecutive_failures=max(part.consecutive_failures for part in parts),
        relists=sum(part.relists for part in parts),
        watches=sum(part.watches for part in parts),
        resource_version=worst.resource_version if resource_version is None else resource_version,
    )
