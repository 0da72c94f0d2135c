"""The health of a reflector or an informer: how well a cache follows its server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from kinformer.exceptions import CredentialError, ForbiddenError, NotFoundError, UnauthorizedError

__all__ = ["HealthRecord", "InformerHealth", "State", "combine_health", "nothing_followed"]

State = Literal[
    "starting", "listing", "watching", "polling", "backing_off", "unauthorized", "forbidden", "absent", "stopped"
]


# From best to worst. Several reflectors together have the worst of their states.
_BY_CONCERN: tuple[State, ...] = (
    "watching",
    "polling",
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
    """The health of an informer or a reflector at one moment. It does not change afterwards.

    Attributes:
        state: The current activity, or the last failure. `unauthorized` (401, or a credential that could not be
            renewed), `forbidden` (403) and `absent` (404) stay until a request succeeds or fails differently.
        synced: True if the first full list is in the cache, however old it is.
        live: True if the cache follows the server, that is, it is synced and no request or stream has failed since the
            last success. A stream that was replaced because of silence, or that ended normally, has not failed. It is
            computed at the look: without a sign of life for `idle_timeout` and a minute it is False, because the loop
            or the process was stopped, and did not notice. With `poll`, a list is the sign of life, and `poll` counts
            instead of `idle_timeout`.
        last_event_age: Seconds since the last event or bookmark, or None before the first.
        last_sync_age: Seconds since the last full list, or None before the first.
        last_error: The last failure, or None after the next success.
        consecutive_failures: The number of requests and streams that failed since the last success.
        relists: The number of full lists after the first.
        watches: The number of streams that were opened.
        resource_version: The version that the cache has reached, or "" before the first list.
        staleness: Seconds since the cache was last proved to be current, or None if it never was. See
            `SharedInformer.confirm`. With `poll`, the age of the last list.
        holder: The process id of the holder, if the cache is shared and this process is not alone. It may be this
            process. If the holder gives no sign of life for 3 s, `live` is False.
    """

    state: State
    synced: bool
    live: bool
    last_event_age: float | None = None
    last_sync_age: float | None = None
    last_error: BaseException | None = None
    consecutive_failures: int = 0
    relists: int = 0
    watches: int = 0
    resource_version: str = ""
    staleness: float | None = None
    holder: int | None = None


class HealthRecord:
    """A reflector's mutable record of its health.

    Its fields are plain attributes, because `last_event` is written once per batch. Times are on the loop's clock. The
    reflector and its `Follower` write them, on the event loop. Any thread reads them, through `snapshot`.

    Args:
        poll: Seconds between the lists of a resource that is polled, or None if it is watched.

    Attributes:
        has_followed: True once it has followed the server.
        running: True while the reflector runs.
        patience: Seconds for which it may be live without a sign of life.
        sign: The time of the last sign of life besides events, lists and the open stream.
        relists: The number of full lists after the first, by cause.
        watch_restarts: The number of watches that ended, by cause.
        state, synced, live, last_error, consecutive_failures, watches: See `InformerHealth`.
        last_event: The time of the last event or bookmark, or None before the first.
        last_sync: The time of the last full list, or None before the first.
    """

    def __init__(self, poll: float | None = None) -> None:
        self._poll = poll
        self._asked_at: float | None = None  # the time when the present full list was requested
        self._listed_from: float | None = None  # ... and the last one that is in the store
        self.has_followed = False
        self.running = False
        self.patience = inf
        self.sign = -inf
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the current or the last run
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

    def started(self, loop: asyncio.AbstractEventLoop, patience: float) -> None:
        """Record that the reflector runs on a loop, and may be live for `patience` seconds without a sign of life."""
        self._loop = loop
        self.patience = patience
        self.running = True

    def listing(self) -> None:
        """Record that a full list is requested. A 401, 403 or 404 state stays until a request succeeds."""
        self._asked_at = None if self._loop is None else self._loop.time()
        if self.state in ("starting", "watching", "backing_off"):
            self.state = "listing"

    def listed(self, now: float, cause: str | None) -> None:
        """Record that a full list is in the store. `cause` is None for the first."""
        self.last_sync, self._listed_from = now, self._asked_at
        self.synced = True
        if cause is not None:
            self.relists[cause] += 1
        self._succeeded()

    def following(self) -> None:
        """Record that the store now follows the server, by a watch or the lists that are due."""
        self.state = "watching" if self._poll is None else "polling"
        self.live = self.has_followed = True
        self._succeeded()

    def _succeeded(self) -> None:
        self.last_error = None
        self.consecutive_failures = 0

    def failed(self, error: BaseException) -> None:
        """Record that a request or a stream failed."""
        self.last_error = error
        self.consecutive_failures += 1
        self.live = False
        self.state = _state_after(error)

    def stopped(self, error: BaseException | None) -> None:
        """Record that the reflector has ended, with this error or because it was cancelled."""
        self.running = False
        self.state = "stopped"
        self.live = False
        if error is not None:
            self.last_error = error

    def snapshot(self, resource_version: str, heard: float = -inf) -> InformerHealth:
        """Return the current health.

        Args:
            resource_version: The version that the store has reached.
            heard: The time of the last sign of life of the open stream, or -inf.
        """
        now = 0.0 if self._loop is None else self._loop.time()
        has_ended = self._loop is not None and self._loop.is_closed()
        silence = now - max(heard, self.sign, self.last_event or -inf, self.last_sync or -inf)
        return InformerHealth(
            state="stopped" if has_ended else self.state,
            synced=self.synced,
            live=self.live and not has_ended and silence <= self.patience,
            last_event_age=_age(now, self.last_event),
            last_sync_age=_age(now, self.last_sync),
            last_error=self.last_error,
            consecutive_failures=self.consecutive_failures,
            relists=self.relists.total(),
            watches=self.watches,
            resource_version=resource_version,
            staleness=None if self._poll is None else _age(now, self._listed_from),
        )


def _state_after(error: BaseException) -> State:
    if isinstance(error, UnauthorizedError | CredentialError):
        return "unauthorized"
    if isinstance(error, ForbiddenError):
        return "forbidden"
    return "absent" if isinstance(error, NotFoundError) else "backing_off"


def _age(now: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, now - then)


def nothing_followed(*, running: bool) -> InformerHealth:
    """Return the health of a cache that follows nothing.

    It is complete and live if it runs, and otherwise not started.
    """
    return InformerHealth(state="watching" if running else "starting", synced=running, live=running)


def combine_health(
    parts: Sequence[InformerHealth],
    *,
    synced: bool | None = None,
    stopped: bool = False,
    error: BaseException | None = None,
    resource_version: str | None = None,
    staleness: float | None = None,
) -> InformerHealth:
    """Combine the health of several reflectors that feed one informer, which is the health of the worst one.

    `relists` and `watches` are summed. `last_sync_age` and `staleness` are the largest. `last_event_age` is the
    smallest, because an idle namespace says nothing about another namespace's stream. The keyword arguments override
    the result.
    """
    worst = max(parts, key=lambda part: _BY_CONCERN.index(part.state))
    syncs = [part.last_sync_age for part in parts]
    proofs = [part.staleness for part in parts]
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
        staleness=staleness if None in proofs else max(age for age in proofs if age is not None),
    )
