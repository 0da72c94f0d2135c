"""Leader election: one of several processes acts, and it stops before another may start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import socket
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kinformer._runtime.cancellation import BodyCancellation, shielded_from_scopes
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.fence import Fence
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    KinformerError,
    LeadershipLostError,
    NotFoundError,
)
from kinformer.leaderelection.lease import JITTER, Lease, LeaseObservation, LeaseTimes, LeaseValidity, new_lease
from kinformer.leaderelection.lease_client import LeaseClient, Requester
from kinformer.leaderelection.metrics import LeaderElectionMetrics
from kinformer.metrics import Metrics

__all__ = ["LeaderElectionHealth", "LeaderElector", "default_identity"]

T = TypeVar("T")
log = get_logger("kinformer.leader_election", resource="coordination.k8s.io/v1/leases")

_OWN_WRITES = 16  # renewals of ours whose outcome may be unknown; each lives for one call at most


@dataclass(frozen=True, slots=True)
class LeaderElectionHealth:
    """How an election stands, at one moment.

    `live` is what a readiness probe asks for: False where the Lease could not be read or written for `lease_duration`
    while it should have been, and where the lead is lost and its body has not ended. `state` is idle, waiting, leading
    or lost (the body has not ended yet). `holder` is the identity last seen, "" for nobody. Ages are in seconds.
    """

    live: bool
    state: str
    holder: str
    last_contact_age: float | None
    last_renewal_age: float | None
    last_error: BaseException | None


def default_identity() -> str:
    """The host's name (in Kubernetes: the pod's) and a random part, as client-go's components make it."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class LeaderElector:
    """Leads while it holds a Lease, and knows at each moment whether it does (client-go, tools/leaderelection).

    ::

        elector = LeaderElector(client, namespace="prod", name="my-operator", identity=pod_name)
        async with elector.leading():
            await controller.run()

    What is promised: before another candidate of the same Lease may lead, this one's body has been cancelled and
    `is_leader` is False, whatever the clocks of the machines say, whatever hangs, and also if this process was stopped,
    its machine suspended or its loop blocked meanwhile. The right counts from the *sending* of the last renewal that
    succeeded, on the boot clock, which goes on in suspend. After it `Client.request` raises LeadershipLostError in the
    body and in the tasks that it started, without sending anything; in those that outlive the body for good. What
    cannot be promised (a write that has left already) and what helps there stands in docs/leader-election.md.

    Unlike client-go: a Lease with our own identity that this object did not write is another's, so two processes
    with one name do not both lead; each request has its own limit, `renew_deadline / 2`; a Lease that somebody
    deleted still counts as held until it would have expired; the Lease is given back on leaving by default.

    Args:
        client: Entered by the caller, and not closed here.
        namespace, name: Of the Lease, which is made if it is missing. Nobody else should write or delete it.
        identity: What the Lease says of the holder; default: host name and a random part.
        lease_duration: 15 seconds that others wait after the last renewal they saw. A Lease takes whole seconds,
            so others wait for the next whole one.
        renew_deadline: 10 seconds after the last renewal, without another, the lead is lost.
        retry_period: 2 seconds between renewals, and (times up to 1.2) between the looks of those who wait.
            The defaults are client-go's: two lost renewals do no harm, and the API server hears little of it.
        release_on_exit: Give the Lease back when the body has ended, so that the next need not wait.
        metrics: Gets `leader_election_master_status` (1 while it leads), `leader_election_slowpath_total`, leads lost,
            and the time of renewals, by `name`: `"namespace/name"`.
        clock: Whose `boot` the right is measured with, and whose `wall` is written.

    Raises:
        ConfigError: Durations that cannot work together, or an empty name, by name.
    """

    def __init__(
        self,
        client: Requester,
        *,
        namespace: str,
        name: str,
        identity: str | None = None,
        lease_duration: float = 15,
        renew_deadline: float = 10,
        retry_period: float = 2,
        release_on_exit: bool = True,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self.identity = default_identity() if identity is None else identity
        for option, value in (("namespace", namespace), ("name", name), ("identity", self.identity)):
            if not value:
                raise ConfigError(f"LeaderElector({option}={value!r}): it must not be empty")
        self._times = LeaseTimes(lease_duration, renew_deadline, retry_period)
        if problem := self._times.problem():
            raise ConfigError(f"LeaderElector({problem})")
        self.name = f"{namespace}/{name}"
        self._namespace, self._lease_name = namespace, name
        self._leases = LeaseClient(client, namespace)
        self._release_on_exit = release_on_exit
        self._metrics = LeaderElectionMetrics(metrics, self.name, lambda: self.is_leader)
        self._clock = clock
        self._seen = LeaseObservation(lease_duration)
        self._own: deque[str] = deque(maxlen=_OWN_WRITES)  # the renewTimes that we wrote, or may have written
        self._term: _Term | None = None
        self._state = "idle"
        self._contact = -math.inf
        self._error: BaseException | None = None
        self._told = ""

    def __repr__(self) -> str:
        return f"<LeaderElector {self.identity} for {self.name}: {self._state}>"

    @property
    def is_leader(self) -> bool:
        """Whether this one leads, now: read from the clock at each access, so it is right after any pause."""
        return self._term is not None and self._term.validity.holds

    @property
    def holder(self) -> str:
        """Who held the Lease when it was last seen; "" for nobody, or not known."""
        return self._seen.lease.holder if self._seen.lease else ""

    def health(self) -> LeaderElectionHealth:
        """How the election stands at this moment."""
        now = self._clock.boot()
        contact = now - self._contact if math.isfinite(self._contact) else None
        validity = self._term.validity if self._term else None
        state = "lost" if validity is not None and not validity.holds else self._state
        late = contact is None or contact > self._times.lease_duration
        return LeaderElectionHealth(
            live=state == "idle" or (state != "lost" and not late),
            state=state,
            holder=self.holder,
            last_contact_age=contact,
            last_renewal_age=now - validity.sent if validity else None,
            last_error=self._error,
        )

    # --- leading ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[Self]:
        """Waits for the lead, for as long as it takes; the body leads.

        When the lead is lost the body is cancelled, once, as asyncio does it, and when it has ended, by that
        cancellation or by itself, LeadershipLostError comes out; another exception of the body is raised as it is.
        On leaving, the Lease is given back, within `renew_deadline` seconds, unless it is lost.
        One at a time; any number one after the other.

        Raises:
            LeadershipLostError: The lead was lost before the body had ended.
            RuntimeError: It leads, or waits for the lead, already.
        """
        if self._state != "idle":
            raise RuntimeError(f"{self!r}: leading() is entered once at a time")
        self._state = "waiting"
        self._metrics.begin()
        try:
            sent, lease = await self._acquire()
            self._state = "leading"
            term = self._term = _Term(self._clock, self._times, sent, lease)
            term.start(self._renew_on(term), f"kinformer renewal of {self.name}")
            log.info("%s leads %s", self.identity, self.name, key=self.name, reason="leading")
            try:
                with Fence(lambda: self._check(term)):
                    yield self
            except BaseException as error:
                await self._leave(term, error)
                raise
            await self._leave(term, None)
        finally:
            self._state = "idle"
            self._term = None
            self._metrics.end()

    async def run(self, on_started_leading: Callable[[], Awaitable[T]]) -> T:
        """`async with leading()` around a coroutine function; its result, when it returns.

        Raises:
            LeadershipLostError: The lead was lost; the coroutine has been cancelled and has ended.
        """
        async with self.leading():
            return await on_started_leading()

    def _check(self, term: _Term) -> None:
        # Of this term: leading again is no right for what an earlier body has left behind.
        if self._term is not term or not term.validity.holds:
            raise LeadershipLostError(f"{self.identity} no longer leads {self.name}")

    @shielded_from_scopes
    async def _leave(self, term: _Term, error: BaseException | None) -> None:
        """The body has been left by `error`. Raises LeadershipLostError where that is what ended it."""
        term.validity.check()
        lost, cause = term.validity.lost, term.validity.cause
        self._term = None  # from here on nobody leads; only then may another be let in
        if lost is not None:
            self._metrics.lost()
        try:
            cancelled_by_us = await term.body.leave(error)
        finally:
            await term.stop()
            if lost is None and self._release_on_exit:
                await self._release(term.lease)
        if lost is not None and (error is None or cancelled_by_us):
            raise LeadershipLostError(f"{self.identity} no longer leads {self.name}: {lost}") from cause

    # --- the Lease ----------------------------------------------------------------------------------------------

    async def _acquire(self) -> tuple[float, Lease]:
        while True:
            try:
                taken = await self._try_acquire()
            except (ConflictError, AlreadyExistsError):
                taken = None  # somebody else was faster: that is how it is decided
            except KinformerError as error:
                self._failed(error, "acquire")
                taken = None
            if taken is not None and self._clock.boot() - taken[0] < self._times.renew_deadline:
                return taken
            pause = self._times.retry_period * random.uniform(1.0, JITTER)
            remaining = self._seen.expires - self._clock.boot()
            await asyncio.sleep(min(pause, remaining + pause / 100) if remaining > 0 else pause)

    async def _try_acquire(self) -> tuple[float, Lease] | None:
        times, asked = self._times, self._clock.boot()
        lease = await self._leases.get(self._lease_name, times.call_limit)
        self._reached()
        if lease is not None:
            self._saw(lease)
        # A Lease that has gone is no proof that its holder has; whoever saw him waits, as if it were still there.
        if asked < self._seen.expires and not (lease is not None and self._is_own(lease)):
            return None
        if lease is None:
            return await self._write(None, new_lease, self._namespace, self._lease_name)
        return await self._write(lease, lease.taken)

    async def _write(
        self, before: Lease | None, make: Callable[..., dict[str, Any]], *names: str, limit: float | None = None
    ) -> tuple[float, Lease]:
        """Create or update, as ours; when it was sent, on the boot clock, and what then stands on the server."""
        document = make(*names, self.identity, self._times.lease_duration, self._clock.wall())
        self._own.append(document["spec"]["renewTime"])
        sent = self._clock.boot()
        call = self._leases.create if before is None else self._leases.update
        lease = await call(document, self._times.call_limit if limit is None else limit)
        self._reached()
        self._saw(lease)
        self._metrics.renewed(self._clock.boot() - sent)
        return sent, lease

    def _is_own(self, lease: Lease) -> bool:
        """Written by this object, and not only by somebody of the same name."""
        return lease.holder == self.identity and lease.renew_time in self._own

    async def _renew_on(self, term: _Term) -> None:
        """Renews until the lead is lost, or the body has been left."""
        validity = term.validity
        base: Lease | None = term.lease
        while validity.check():
            await asyncio.sleep(self._times.retry_period)
            while validity.check():
                try:
                    base = await self._renew(term, base)
                    break
                except (ConflictError, NotFoundError, AlreadyExistsError) as error:
                    self._failed(error, "renew")
                    if base is None:  # even what we had just read was no longer so
                        await asyncio.sleep(self._times.retry_period / 4)
                    base = None
                except KinformerError as error:
                    self._failed(error, "renew")
                    validity.cause = error
                    await asyncio.sleep(self._times.retry_period / 2)

    async def _renew(self, term: _Term, base: Lease | None) -> Lease | None:
        validity = term.validity
        if base is None:
            base = await self._leases.get(self._lease_name, validity.limit)
            self._reached()
            if base is not None:
                self._saw(base)
                if base.holder and not self._is_own(base):
                    validity.lapse(f"{base.holder} holds the Lease")
                    return None
        if base is None:
            text = "the Lease %s was deleted while %s led; it is made again"
            log.warning(text, self.name, self.identity, key=self.name, reason="lease_deleted")
            sent, lease = await self._write(None, new_lease, self._namespace, self._lease_name, limit=validity.limit)
        else:
            sent, lease = await self._write(base, base.renewed, limit=validity.limit)
        validity.renewed(sent)
        term.lease = lease
        return lease

    async def _release(self, lease: Lease | None) -> None:
        """Without it others wait until the Lease expires, so a failure is told and is no error."""
        until = self._clock.boot() + self._times.renew_deadline

        def limit() -> float:
            return min(self._times.call_limit, until - self._clock.boot())

        try:
            for _ in range(2):
                if lease is None or not self._is_own(lease):
                    return
                with contextlib.suppress(ConflictError):
                    await self._leases.update(lease.released(self._clock.wall()), limit())
                    log.info("%s gave %s back", self.identity, self.name, key=self.name, reason="released")
                    return
                # A renewal whose answer we did not wait for, or somebody's label.
                lease = await self._leases.get(self._lease_name, limit())
        except KinformerError as error:
            text = "%s could not give %s back; others wait until it expires: %s"
            log.warning(text, self.identity, self.name, error, key=self.name, reason=error)

    # --- what is known --------------------------------------------------------------------------------------------

    def _reached(self) -> None:
        self._contact = self._clock.boot()
        self._error = None

    def _saw(self, lease: Lease) -> None:
        self._seen.saw(lease, self._clock.boot())
        if lease.holder and lease.holder != self._told:
            self._told = lease.holder
            log.info("%s is led by %s", self.name, lease.holder, key=self.name, reason="new_leader")

    def _failed(self, error: KinformerError, what: str) -> None:
        # Once aloud for each kind of failure in a row: an outage makes one line, and health() has the rest.
        level = logging.DEBUG if type(error) is type(self._error) else logging.WARNING
        self._error = error
        text = "%s could not %s %s: %s"
        log.log(level, text, self.identity, what, self.name, error, key=self.name, reason=error)
        self._metrics.failed()


class _Term:
    """One time of leading: the right, the body, and the task that renews."""

    __slots__ = ("_renewing", "body", "lease", "validity")

    def __init__(self, clock: Clock, times: LeaseTimes, sent: float, lease: Lease) -> None:
        self.lease = lease  # as we wrote it last
        self.body = BodyCancellation()
        self.validity = LeaseValidity(clock, times, sent, lambda reason: self.body.cancel())
        self._renewing: asyncio.Task[None] | None = None

    def start(self, renewing: Coroutine[Any, Any, None], name: str) -> None:
        self._renewing = asyncio.create_task(renewing, name=name)
        self._renewing.add_done_callback(self._ended)
        self.validity.watch()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended by %s", task.get_name(), type(error).__name__, exc_info=error, reason=error)
            self.validity.lapse(f"its renewal ended by {type(error).__name__}: {error}", error)

    async def stop(self) -> None:
        self.validity.close()
        if self._renewing is not None and not self._renewing.done():
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
