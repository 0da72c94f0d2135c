"""The Lease (coordination.k8s.io/v1): its options, its record, and the time until which it is certainly held.

A renewal gives the right to act for a limited time from its sending. A lapsed right is lost permanently.
"""

from __future__ import annotations

import asyncio
import math
import socket
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self, TypedDict, TypeGuard

import msgspec

from kinformer._runtime.clock import Clock
from kinformer.exceptions import ConfigError
from kinformer.objects.accessors import string_at, table_at
from kinformer.objects.units import micro_time

__all__ = [
    "JITTER",
    "Lease",
    "LeaseDocument",
    "LeaseKeywords",
    "LeaseObservation",
    "LeaseOptions",
    "LeaseValidity",
    "OwnRenewals",
    "default_identity",
    "new_lease",
]

JITTER = 1.2  # the maximum factor for the wait between two attempts, as in client-go

_TICK = 0.5  # seconds. The loop's timers stop while the machine is suspended, so the clock is checked this often
_SHORTEST = 0.001  # seconds. The loop's clock and the boot clock may differ slightly, which must not cause a hot loop
_LARGEST = 2**31 - 1  # the numbers of a Lease have 32 bits. A server refuses larger ones
_OWN_RENEWALS = 16  # renewals whose outcome may be unknown. Each is in transit for one request at most


def default_identity() -> str:
    """Return the host name (in Kubernetes, the pod's name) with a random part, as client-go's components do."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaseKeywords(TypedDict, total=False):
    """The fields of `LeaseOptions`, for constructors that accept them as keyword arguments."""

    lease_duration: float
    renew_deadline: float
    retry_period: float


class LeaseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The durations of a Lease in seconds. `LeaderElector` documents them.

    Raises:
        ConfigError: A duration is not positive, or not `lease_duration > renew_deadline > 1.2 * retry_period`.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigError(f"invalid {name}={value!r}: expected a positive number of seconds")
        if self.lease_duration <= self.renew_deadline:
            raise ConfigError(
                f"lease_duration={self.lease_duration!r} must be above renew_deadline={self.renew_deadline!r}, "
                "because the holder must have stopped before another may start"
            )
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ConfigError(
                f"renew_deadline={self.renew_deadline!r} must be above {JITTER} * retry_period={self.retry_period!r}, "
                "or one failed renewal loses the Lease"
            )

    @property
    def request_timeout(self) -> float:
        """Seconds for one Lease request, so that a request that hangs leaves time for another one."""
        return self.renew_deadline / 2


class LeaseDocument(NamedTuple):
    """A Lease to be written.

    Attributes:
        body: The JSON.
        name: Its `metadata.name`.
        renew_time: Its `spec.renewTime`, by which the writer recognizes it. See `OwnRenewals`.
    """

    body: Mapping[str, object]
    name: str
    renew_time: str


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease on the server, and the documents to change it, which keep all other fields.

    Attributes:
        document: The JSON.
        holder: The identity of the holder, or "".
        duration: Seconds, or None if the holder set none.
    """

    document: Mapping[str, object]
    name: str
    resource_version: str
    holder: str
    duration: float | None
    acquire_time: str
    renew_time: str
    transitions: int

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Self:
        """Parse a Lease's JSON. A field that is missing or has the wrong type counts as not set."""
        metadata, spec = table_at(document, "metadata"), table_at(document, "spec")
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        return cls(
            document=document,
            name=string_at(metadata, "name"),
            resource_version=string_at(metadata, "resourceVersion"),
            holder=string_at(spec, "holderIdentity"),
            duration=float(duration) if _is_number(duration) and duration > 0 else None,
            acquire_time=string_at(spec, "acquireTime"),
            renew_time=string_at(spec, "renewTime"),
            transitions=transitions if _is_number(transitions) else 0,
        )

    @property
    def record(self) -> tuple[object, ...]:
        """The fields that change with every renewal, but not when a label is added."""
        return self.holder, self.duration, self.acquire_time, self.renew_time, self.transitions

    @property
    def was_released(self) -> bool:
        """True if its holder released it. A Lease whose holder was removed by hand looks different."""
        return not self.holder and self.duration == 1 and bool(self.renew_time) and self.renew_time == self.acquire_time

    @property
    def is_unused(self) -> bool:
        """True if it appears to have never had a holder, such as a Lease created in advance."""
        return not (self.holder or self.acquire_time or self.renew_time)

    def taken(self, holder: str, duration: float, wall: float) -> LeaseDocument:
        """Return the document that gives the Lease to a new holder from now on."""
        now = self._next_time(wall)
        transitions = self.transitions + (self.holder != holder or not self.acquire_time)
        if transitions > _LARGEST:
            transitions = 0  # a server would refuse the Lease forever
        return self._with_record(holder, duration, acquire_time=now, renew_time=now, transitions=transitions)

    def renewed(self, holder: str, duration: float, wall: float) -> LeaseDocument:
        """Return the document with which its holder renews it."""
        now = self._next_time(wall)
        return self._with_record(
            holder, duration, acquire_time=self.acquire_time or now, renew_time=now, transitions=self.transitions
        )

    def released(self, wall: float) -> LeaseDocument:
        """Return the document without a holder, so that the next candidate need not wait.

        Its duration is one second, as in client-go, because the server refuses 0.
        """
        now = self._next_time(wall)
        return self._with_record("", 1, acquire_time=now, renew_time=now, transitions=self.transitions)

    def _with_record(
        self, holder: str, duration: float, *, acquire_time: str, renew_time: str, transitions: int
    ) -> LeaseDocument:
        spec = {
            **table_at(self.document, "spec"),
            "holderIdentity": holder,
            "leaseDurationSeconds": whole_seconds(duration),
            "acquireTime": acquire_time,
            "renewTime": renew_time,
            "leaseTransitions": transitions,
        }
        return LeaseDocument({**self.document, "spec": spec}, self.name, renew_time)

    def _next_time(self, wall: float) -> str:
        # Others recognize a renewal by a new renewTime, so it must change even if the wall clock has stopped or was
        # set back.
        now = micro_time(wall)
        return now if now != self.renew_time else micro_time(wall + 1e-6)


def new_lease(namespace: str, name: str, holder: str, duration: float, wall: float) -> LeaseDocument:
    """Return the document of a new Lease, held from now on."""
    now = micro_time(wall)
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": whole_seconds(duration),
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    metadata = {"namespace": namespace, "name": name}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    return LeaseDocument(body, name, now)


def whole_seconds(duration: float) -> int:
    """Round up to whole seconds for a Lease, so that others wait longer rather than shorter."""
    return math.ceil(duration)


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


class OwnRenewals:
    """Recognizes the Leases that this process has written, or may have written, by their renewTime.

    The identity is not enough, because another process may use the same one.

    Args:
        identity: The holder written by this process.
    """

    __slots__ = ("_identity", "_renew_times")

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._renew_times: deque[str] = deque(maxlen=_OWN_RENEWALS)

    def note(self, document: LeaseDocument) -> None:
        """Remember a document that is about to be sent, because its response may get lost."""
        self._renew_times.append(document.renew_time)

    def wrote(self, lease: Lease) -> bool:
        """Return True if this process wrote the record of `lease`."""
        return lease.holder == self._identity and lease.renew_time in self._renew_times


class LeaseObservation:
    """The last observed record of a Lease, and since when it has not changed, on the local clock.

    Times written by others are never compared with the local clock, because clocks differ. A record that has not
    changed for its duration, on the local clock, has expired. This is safe because the record was observed after it
    was sent, and its sender counts from the sending. A manual edit does not count as the end of a holder either,
    because the holder does not notice it until its next renewal. So if a holder or a record was removed, or a duration
    was reduced, this process waits for its own configured duration.

    Args:
        default: Seconds for a record without a duration, and the minimum for any record that was not released. A Lease
            that appears to have never had a holder is free, unless it was observed with one.

    Attributes:
        lease: The last observed Lease, or None before the first.
        since: The time when its record last changed, on the boot clock.
    """

    __slots__ = ("_default", "_is_free", "_was_used", "lease", "since")

    def __init__(self, default: float) -> None:
        self.lease: Lease | None = None
        self.since = -math.inf
        self._default = default
        self._was_used = False  # True once it was observed with a holder
        self._is_free = True  # True if the last record says that nobody holds it

    def observe(self, lease: Lease, arrived: float) -> None:
        """Record a response with `lease`, which `arrived` at this time on the boot clock."""
        if self.lease is None or lease.record != self.lease.record:
            self.since = arrived
        self._is_free = lease.was_released or (lease.is_unused and not self._was_used)
        self._was_used = self._was_used or not lease.is_unused
        self.lease = lease

    @property
    def expires(self) -> float:
        """The time at which the record expires, on the boot clock. In the past if the Lease was released."""
        if self.lease is None or self._is_free:
            return -math.inf
        # Without a holder, the duration means nothing, and a huge one must not block the Lease for everyone.
        duration = self.lease.duration if self.lease.holder else None
        return self.since + max(duration or 0.0, self._default)


class LeaseValidity:
    """Determines whether the Lease held by this process may still be relied on.

    It is valid until `renew_deadline` seconds after the last successful renewal was sent, on the boot clock. The
    server received that renewal later, others saw it later still, and then wait `lease_duration`. A renewal whose
    response arrives after the validity has lapsed does not restore it, because others may have acted in between.

    Args:
        clock: Its `boot` is used.
        options: The durations of the Lease.
        sent: The time when the first renewal was sent.
        on_lapse: Called once with the reason, when the validity lapses by time or by `lapse`.

    Attributes:
        lost: The reason why it lapsed, or None while it holds.
        cause: The error that led to this, if any.
    """

    __slots__ = ("_boot", "_handle", "_on_lapse", "_options", "cause", "lost", "sent", "until")

    def __init__(self, clock: Clock, options: LeaseOptions, sent: float, on_lapse: Callable[[str], None]) -> None:
        self._boot = clock.boot
        self._options = options
        self._on_lapse: Callable[[str], None] | None = on_lapse
        self._handle: asyncio.TimerHandle | None = None
        self.sent = sent
        self.until = sent + options.renew_deadline
        self.lost: str | None = None
        self.cause: BaseException | None = None

    @property
    def holds(self) -> bool:
        """True if the Lease may currently be relied on. The clock is read at each access."""
        return self.lost is None and self._boot() < self.until

    @property
    def request_timeout(self) -> float:
        """Seconds that the next request may take."""
        return min(self._options.request_timeout, self.until - self._boot())

    def extend(self, sent: float) -> None:
        """Extend the validity by a successful renewal that was sent at `sent`. Does nothing once it has lapsed."""
        if self.check():
            self.sent = sent
            self.until = sent + self._options.renew_deadline
            self.cause = None

    def check(self) -> bool:
        """Return True if it holds. If it has lapsed by time, this becomes permanent."""
        if self.lost is None and self._boot() >= self.until:
            self.lapse(f"no renewal within {self._options.renew_deadline:g} s")
        return self.lost is None

    def lapse(self, reason: str, cause: BaseException | None = None) -> None:
        """End the validity permanently."""
        if self.lost is not None:
            return
        self.lost = reason
        self.cause = cause or self.cause
        on_lapse = self._on_lapse
        self.close()
        if on_lapse is not None:
            on_lapse(reason)

    def watch(self) -> None:
        """Call `on_lapse` when the validity lapses, until `close`."""
        if self.check():
            pause = min(max(self.until - self._boot(), _SHORTEST), _TICK)
            self._handle = asyncio.get_running_loop().call_later(pause, self.watch)

    def close(self) -> None:
        """Stop the timer, so that `on_lapse` is no longer called."""
        self._on_lapse = None
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
