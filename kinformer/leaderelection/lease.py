"""The Lease: its record, and until when it is certain to be held (coordination.k8s.io/v1).

A renewal gives a right that is valid for a while, counted from its sending, and lost for good once it has lapsed.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from kinformer._runtime.clock import Clock

__all__ = ["Lease", "LeaseObservation", "LeaseTimes", "LeaseValidity"]

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lease:
    """One Lease, and the documents that follow from it. Documents are fresh, and keep what is not ours.

    `holder` is "" where nobody holds it; `duration` is in seconds, None where the holder said none.
    """

    document: Mapping[str, Any]
    name: str
    resource_version: str
    holder: str
    duration: float | None
    acquire_time: str
    renew_time: str
    transitions: int

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Of a Lease's JSON. What is missing, or is not what it should be, counts as not said."""
        metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            document=document,
            name=_text(metadata.get("name")),
            resource_version=_text(metadata.get("resourceVersion")),
            holder=_text(spec.get("holderIdentity")),
            duration=float(duration) if isinstance(duration, int) and duration > 0 else None,
            acquire_time=_text(spec.get("acquireTime")),
            renew_time=_text(spec.get("renewTime")),
            transitions=transitions if isinstance(transitions, int) else 0,
        )

    @property
    def record(self) -> tuple[object, ...]:
        """What changes with every renewal, and not when somebody adds a label."""
        return self.holder, self.duration, self.acquire_time, self.renew_time, self.transitions

    @property
    def annotations(self) -> Mapping[str, Any]:
        """`metadata.annotations`, perhaps empty."""
        return _mapping(_mapping(self.document.get("metadata")).get("annotations"))

    def taken(self, holder: str, duration: float, wall: float) -> Document:
        """With a new holder, from now on."""
        now = self._after(wall)
        transitions = self.transitions + (self.holder != holder or not self.acquire_time)
        return self._with(holder, duration, acquire_time=now, renew_time=now, transitions=transitions)

    def renewed(self, holder: str, duration: float, wall: float) -> Document:
        """Held on by its holder."""
        now = self._after(wall)
        return self._with(
            holder, duration, acquire_time=self.acquire_time or now, renew_time=now, transitions=self.transitions
        )

    def released(self, wall: float) -> Document:
        """Held by nobody: the next candidate need not wait. One second, as client-go writes it, for 0 is refused."""
        now = self._after(wall)
        return self._with("", 1, acquire_time=now, renew_time=now, transitions=self.transitions)

    def _with(self, holder: str, duration: float, *, acquire_time: str, renew_time: str, transitions: int) -> Document:
        spec = {
            **_mapping(self.document.get("spec")),
            "holderIdentity": holder,
            "leaseDurationSeconds": whole_seconds(duration),
            "acquireTime": acquire_time,
            "renewTime": renew_time,
            "leaseTransitions": transitions,
        }
        return {**self.document, "spec": spec}

    def _after(self, wall: float) -> str:
        # Others see a renewal by its time being another one, also where the clock stands still or was set back.
        now = micro_time(wall)
        return now if now != self.renew_time else micro_time(wall + 1e-6)


def new_lease(namespace: str, name: str, holder: str, duration: float, wall: float) -> Document:
    """A Lease that does not exist yet, held from now on."""
    now = micro_time(wall)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": whole_seconds(duration),
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def micro_time(wall: float) -> str:
    """A MicroTime, as apimachinery writes it (pkg/apis/meta/v1/micro_time.go)."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(wall * 1e6))
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole_seconds(duration: float) -> int:
    """A Lease knows whole seconds; rounded up, so that others wait rather too long."""
    return math.ceil(duration)


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """The three durations of a lease, in seconds; client-go's defaults (tools/leaderelection/leaderelection.go).

    Args:
        lease_duration: How long others wait after the last renewal that they saw.
        renew_deadline: How long the holder relies on its last renewal, counted from its sending. What lies between
            the two is for `finally` blocks, requests on their way, and clocks that do not run at the same speed.
        retry_period: Between two renewals, and between two looks of those who wait.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def problem(self) -> str | None:
        """Why these cannot work, or None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
                return f"{name}={value!r}: a positive number of seconds is needed"
        if self.lease_duration <= self.renew_deadline:
            return (
                f"lease_duration={self.lease_duration!r} must be above renew_deadline={self.renew_deadline!r}: "
                "the holder must have stopped before another may start"
            )
        if self.renew_deadline <= JITTER * self.retry_period:
            return (
                f"renew_deadline={self.renew_deadline!r} must be above {JITTER} * retry_period={self.retry_period!r}: "
                "else one failed renewal loses the lease"
            )
        return None

    @property
    def call_limit(self) -> float:
        """Seconds that one request may take: one that hangs leaves time for another."""
        return self.renew_deadline / 2


JITTER = 1.2  # the most that waiting for a turn is stretched by, as in client-go


class LeaseObservation:
    """What others' renewals look like from here: the record, and since when it has stood so on our own clock.

    Times written by others are never compared with our clock: clocks differ. A record that has not changed for its
    duration, by our clock, has expired. That is safe because we saw it after it was sent, and its sender counts from
    the sending.

    Args:
        default: Seconds for a record that names no duration.
    """

    __slots__ = ("_default", "lease", "since")

    def __init__(self, default: float) -> None:
        self.lease: Lease | None = None
        self.since = -math.inf
        self._default = default

    def saw(self, lease: Lease, arrived: float) -> None:
        """An answer showed `lease`; it `arrived` then, on the boot clock."""
        if self.lease is None or lease.record != self.lease.record:
            self.since = arrived
        self.lease = lease

    @property
    def expires(self) -> float:
        """When the record will have expired, on the boot clock; in the past where nobody holds it."""
        if self.lease is None or not self.lease.holder:
            return -math.inf
        return self.since + (self.lease.duration or self._default)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_TICK = 0.5  # seconds: the timers of a loop stand still while the machine is suspended, so the clock is looked at
_SHORTEST = 0.001  # seconds: the two clocks need not agree to the last digit, and that must not make a hot loop


class LeaseValidity:
    """Whether a lease that we hold may still be relied on.

    It holds until `renew_deadline` seconds after the sending of the last renewal that succeeded, on the boot clock:
    the server got that renewal later, others saw it later still, and wait `lease_duration`. A renewal whose answer
    comes after the right has lapsed does not bring it back, for others may have acted in between.

    Args:
        clock: Whose `boot` counts.
        times: Of the lease.
        sent: When the first renewal was sent.
        on_lapse: Called once, when the right lapses by time or by `lapse`, with the reason.
    """

    __slots__ = ("_boot", "_handle", "_on_lapse", "_times", "cause", "lost", "sent", "until")

    def __init__(self, clock: Clock, times: LeaseTimes, sent: float, on_lapse: Callable[[str], None]) -> None:
        self._boot = clock.boot
        self._times = times
        self._on_lapse: Callable[[str], None] | None = on_lapse
        self._handle: asyncio.TimerHandle | None = None
        self.sent = sent
        self.until = sent + times.renew_deadline
        self.lost: str | None = None
        self.cause: BaseException | None = None

    @property
    def holds(self) -> bool:
        """Read from the clock, at each access."""
        return self.lost is None and self._boot() < self.until

    @property
    def limit(self) -> float:
        """Seconds that the next request may take."""
        return min(self._times.call_limit, self.until - self._boot())

    def renewed(self, sent: float) -> None:
        """A renewal that was sent then has succeeded."""
        if self.check():
            self.sent = sent
            self.until = sent + self._times.renew_deadline
            self.cause = None

    def check(self) -> bool:
        """Whether it holds; if it has lapsed by time, that is final from here on."""
        if self.lost is None and self._boot() >= self.until:
            self.lapse(f"no renewal within {self._times.renew_deadline:g} s")
        return self.lost is None

    def lapse(self, reason: str, cause: BaseException | None = None) -> None:
        """It is over."""
        if self.lost is not None:
            return
        self.lost = reason
        self.cause = cause or self.cause
        on_lapse = self._on_lapse
        self.close()
        if on_lapse is not None:
            on_lapse(reason)

    def watch(self) -> None:
        """Have `on_lapse` called when the time comes, until `close`."""
        if self.check():
            pause = min(max(self.until - self._boot(), _SHORTEST), _TICK)
            self._handle = asyncio.get_running_loop().call_later(pause, self.watch)

    def close(self) -> None:
        """No more timers, and no more calls."""
        self._on_lapse = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
