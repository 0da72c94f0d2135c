"""Leader election: only one of several processes acts, and it stops before another one may start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Self, TypeVar, Unpack

from kinformer._runtime.cancellation import BodyCancellation, shielded_from_scopes
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.fence import Fence
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback, options_of, shows_options
from kinformer.connection.refusals import Answers
from kinformer.exceptions import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    KinformerError,
    LeadershipLostError,
    NotFoundError,
    describe,
)
from kinformer.leaderelection.claim import Claim, Written
from kinformer.leaderelection.lease import (
    JITTER,
    Lease,
    LeaseDocument,
    LeaseKeywords,
    LeaseObservation,
    LeaseOptions,
    LeaseValidity,
    OwnRenewals,
    default_identity,
    new_lease,
)
from kinformer.leaderelection.lease_client import LeaseClient, Requester
from kinformer.leaderelection.metrics import LeaderElectionMetrics
from kinformer.metrics import Metrics

__all__ = ["LeaderElectionHealth", "LeaderElector"]

T = TypeVar("T")
log = get_logger("kinformer.leader_election", resource="coordination.k8s.io/v1/leases")


@dataclass(frozen=True, slots=True)
class LeaderElectionHealth:
    """The state of an election at one moment.

    Attributes:
        live: For a readiness probe. False if due reads or writes of the Lease have failed for
            `lease_duration`, or if the lead is lost and its body has not ended.
        state: `"idle"`, `"waiting"`, `"leading"` or `"lost"` (the body has not ended yet).
        holder: The identity that held the Lease when it was last read, or "".
        last_contact_age: Seconds since the server's last response, or None before the first.
        last_renewal_age: Seconds since the last successful renewal was sent, or None while not leading.
        last_error: The last failure, or None after a success.
    """

    live: bool
    state: str
    holder: str
    last_contact_age: float | None
    last_renewal_age: float | None
    last_error: BaseException | None


class LeaderElector:
    """Leads while it holds a Lease, and always knows whether it does (client-go, tools/leaderelection).

    ::

        elector = LeaderElector(client, namespace="prod", name="my-operator", identity=pod_name)
        async with elector.leading():
            await controller.run()

    The guarantee: before another candidate for the same Lease may lead, the body of this one has been cancelled and
    `is_leader` is False. This holds whatever the machines' clocks say, whatever hangs, and even if this process was
    stopped, its machine suspended or its loop blocked. The right to lead lasts for a limited time from the *sending*
    of the last successful renewal, on the boot clock, which continues during suspend. After it has lapsed,
    `Client.request` raises LeadershipLostError in the body and in the tasks that it started, and sends nothing. In
    tasks that outlive the body, this is permanent. docs/leader-election.md lists the limits of the guarantee (such as
    a write that has already left the process), and remedies.

    There are some differences from client-go. A Lease with this identity that this object did not write belongs to
    another process, so two processes with the same identity never both lead. Each request has its own timeout,
    `renew_deadline / 2`. A deleted Lease still counts as held until it would have expired. By default, the Lease is
    released on exit.

    Args:
        client: The client, which the caller enters and closes.
        namespace, name: Those of the Lease, which is created if missing. Nothing else should write or delete it.
        identity: The holder in the Lease. By default, the host name and a random part.
        release_on_exit: Release the Lease when the body has ended, so that the next leader need not wait.
        metrics: Receives `leader_election_master_status` (1 while it leads), `leader_election_slowpath_total`, lost
            leads, and the time of renewals, with the label `name`: `"namespace/name"`.
        clock: Its `boot` measures the right to lead, and its `wall` is written into the Lease.
        lease_duration: Seconds that others wait after the last renewal that they saw. 15 by default. A Lease has whole
            seconds, so a fraction is rounded up.
        renew_deadline: Seconds for which the holder relies on its last renewal, from the time it was sent. 10 by
            default. The time between this and `lease_duration` is for `finally` blocks, requests in transit, and
            clocks that run at different speeds.
        retry_period: Seconds between two renewals and, multiplied by up to 1.2, between two attempts of waiting
            candidates. 2 by default. The defaults are the same as in client-go
            (tools/leaderelection/leaderelection.go). With them, two lost renewals do no harm, and the API server gets
            a request from each process every 2 s.

    Raises:
        ConfigError: The durations are inconsistent, or a name is empty. The message names the option.
    """

    @shows_options(LeaseOptions)
    def __init__(
        self,
        client: Requester,
        *,
        namespace: str,
        name: str,
        identity: str | None = None,
        release_on_exit: bool = True,
        metrics: Metrics | None = None,
        clock: Clock = SYSTEM,
        **durations: Unpack[LeaseKeywords],
    ) -> None:
        self.identity = default_identity() if identity is None else identity
        for option, value in (("namespace", namespace), ("name", name), ("identity", self.identity)):
            if not value:
                raise ConfigError(f"LeaderElector: invalid {option}={value!r}: expected a non-empty string")
        self._options = options_of(LeaseOptions, "LeaderElector", durations)
        self.name = f"{namespace}/{name}"
        self._namespace, self._lease_name = namespace, name
        self._leases = LeaseClient(client, namespace)
        self._leases.path(name)  # refuses a name that would become another path
        self._release_on_exit = release_on_exit
        self._metrics = LeaderElectionMetrics(metrics, self.name, lambda: self.is_leader)
        self._clock = clock
        self._observation = LeaseObservation(self._options.lease_duration)
        self._own_renewals = OwnRenewals(self.identity)
        self._term: _Term | None = None  # while it leads. `leading` sets it, with `_state`
        self._state = "idle"
        self._last_contact = -math.inf
        self._error: BaseException | None = None
        self._logged_holder = ""

    def __repr__(self) -> str:
        return f"<LeaderElector {self.identity} for {self.name}: {self._state}>"

    @property
    def is_leader(self) -> bool:
        """True if this process is currently the leader.

        The clock is read at each access, so it is correct after any pause.
        """
        return self._term is not None and self._term.validity.holds

    @property
    def holder(self) -> str:
        """The identity that held the Lease when it was last read, or "" if there was none or it is unknown."""
        return self._observation.lease.holder if self._observation.lease else ""

    def health(self) -> LeaderElectionHealth:
        """Return the current state of the election."""
        now = self._clock.boot()
        contact = now - self._last_contact if math.isfinite(self._last_contact) else None
        validity = self._term.validity if self._term else None
        state = "lost" if validity is not None and not validity.holds else self._state
        late = contact is None or contact > self._options.lease_duration
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
        """Wait for the lead while another process leads or the server is away, then lead during the body.

        Losing the lead cancels the body once, as asyncio cancels a task. After the body has ended, through that
        cancellation or by itself, LeadershipLostError is raised. Any other exception of the body is raised unchanged.
        On exit, the Lease is released within `renew_deadline` seconds, unless it is lost. The same holds if the wait is
        cancelled after the Lease was written, even if its response has not arrived. It can be entered once at a time,
        any number of times in succession.

        Raises:
            APIError: 401, 403 or 404 were the only answers for 15 s, at least 4 of them: a right or the namespace is
                missing.
            LeadershipLostError: The lead was lost before the body had ended.
            RuntimeError: It is already leading or waiting for the lead.
        """
        if self._state != "idle":
            raise RuntimeError(f"{self!r}: leading() is already entered; exit it first")
        self._state = "waiting"
        self._metrics.candidacy_began()
        try:
            sent, lease = await self._acquire()
            self._state = "leading"
            term = self._term = _Term(self._clock, self._options, sent, lease)
            term.start_renewing(self._keep_renewing(term), f"kinformer renewal of {self.name}")
            log.info(
                "%s leads %s", self.identity, self.name, key=self.name, reason="leading", cluster=self._leases.cluster
            )
            try:
                with Fence(lambda: self._check_lead(term), self.name):
                    yield self
            except BaseException as error:
                await self._leave(term, error)
                raise
            await self._leave(term, None)
        finally:
            self._state = "idle"
            self._term = None
            self._metrics.candidacy_ended()

    async def run(self, on_started_leading: Callable[[], Awaitable[T]]) -> T:
        """Call a coroutine function within `leading()`, and return its result.

        Raises:
            LeadershipLostError: The lead was lost. The coroutine has been cancelled and has ended.
        """
        check_callback(on_started_leading, "on_started_leading", "", f"LeaderElector {self.name}")
        async with self.leading():
            return await on_started_leading()

    def _check_lead(self, term: _Term) -> None:
        # Only the lead of this term counts. Leading again gives no rights to tasks left over from an earlier body.
        if self._term is not term or not term.validity.holds:
            raise LeadershipLostError(f"{self.identity} no longer leads {self.name}")

    @shielded_from_scopes
    async def _leave(self, term: _Term, error: BaseException | None) -> None:
        """End a term whose body has ended with `error`. Raises LeadershipLostError if the loss of the lead ended it."""
        term.validity.check()
        lost, cause = term.validity.lost, term.validity.cause
        self._term = None  # from here on, this process does not lead. Only then may another one start
        if lost is not None:
            self._metrics.count_loss(1)
        try:
            cancelled_by_us = await term.body.leave(error)
        finally:
            await term.stop_renewing()
            if lost is None and self._release_on_exit:
                await self._release_lease(term.lease, self._clock.boot() + self._options.renew_deadline)
        if lost is not None and (error is None or cancelled_by_us):
            why = f"{lost} ({describe(cause)})" if cause is not None else lost
            raise LeadershipLostError(f"{self.identity} no longer leads {self.name}: {why}") from None

    # --- the Lease ----------------------------------------------------------------------------------------------

    async def _acquire(self) -> Written:
        claim = Claim()
        try:
            return await self._compete(claim)
        except (Exception, asyncio.CancelledError):
            await self._withdraw(claim)
            raise

    async def _compete(self, claim: Claim) -> Written:
        answers = Answers()
        while True:
            taken, failure = None, None
            asked = self._clock.boot()
            try:
                taken = await self._try_acquire(claim, asked)
            except (ConflictError, AlreadyExistsError):
                pass  # another candidate was faster, as the server decided
            except KinformerError as error:
                self._note_failure(error, "acquire")
                failure = error
            answers.note(failure)
            if failure is not None and answers.is_lasting:
                raise failure
            if taken is not None and self._clock.boot() - taken[0] < self._options.renew_deadline:
                return taken
            pause = self._options.retry_period * random.uniform(1.0, JITTER)
            if (expires := self._observation.expires) > asked:
                pause = min(pause, max(0.0, expires - self._clock.boot()) + pause / 100)
            await asyncio.sleep(pause)

    async def _try_acquire(self, claim: Claim, asked: float) -> Written | None:
        lease = await self._leases.get(self._lease_name, self._options.request_timeout)
        self._note_contact()
        if lease is not None:
            self._observe(lease)
        return await self._take(lease, asked, claim)

    async def _take(self, lease: Lease | None, asked: float, claim: Claim) -> Written | None:
        """Take the Lease, which was asked for at a time on the boot clock. Return None if another may hold it."""
        # A deleted Lease does not prove that its holder has ended, so wait as if it still existed.
        if asked < self._observation.expires and not (lease is not None and self._own_renewals.wrote(lease)):
            return None
        writing = self._write(lease, self._next_document(lease, take=True), self._options.request_timeout)
        return await claim.write(writing, f"kinformer acquisition of {self.name}")

    @shielded_from_scopes
    async def _withdraw(self, claim: Claim) -> None:
        """Release the Lease if a write of this candidate has taken it, or may have. Nobody would renew it."""
        until = self._clock.boot() + self._options.renew_deadline
        lease = await claim.close(self._options.request_timeout if self._release_on_exit else 0.0)
        if claim.is_open and self._release_on_exit:
            await self._release_lease(lease, until)

    def _next_document(self, lease: Lease | None, *, take: bool) -> LeaseDocument:
        """Return the document that takes or keeps the Lease, or a new one if there is no Lease."""
        duration, wall = self._options.lease_duration, self._clock.wall()
        if lease is None:
            return new_lease(self._namespace, self._lease_name, self.identity, duration, wall)
        return (lease.taken if take else lease.renewed)(self.identity, duration, wall)

    async def _write(self, before: Lease | None, document: LeaseDocument, timeout: float) -> Written:
        """Create or update the Lease. Returns when the request was sent, on the boot clock, and the current Lease."""
        self._own_renewals.note(document)
        sent = self._clock.boot()
        lease = await (self._leases.create if before is None else self._leases.update)(document, timeout)
        self._note_contact()
        self._observe(lease)
        self._metrics.observe_renewal(self._clock.boot() - sent)
        return sent, lease

    async def _keep_renewing(self, term: _Term) -> None:
        """Renew the Lease until the lead is lost or the body has ended."""
        validity = term.validity
        base: Lease | None = term.lease
        while validity.check():
            await asyncio.sleep(self._options.retry_period)
            while validity.check():
                try:
                    base = await self._renew(term, base)
                    break
                except (ConflictError, NotFoundError, AlreadyExistsError) as error:
                    self._note_failure(error, "renew")
                    if base is None:  # even the Lease that was just read had changed
                        await asyncio.sleep(self._options.retry_period / 4)
                    base = None
                except KinformerError as error:
                    self._note_failure(error, "renew")
                    validity.cause = error
                    await asyncio.sleep(self._options.retry_period / 2)

    async def _renew(self, term: _Term, base: Lease | None) -> Lease | None:
        """Renew the Lease once, based on `base` (None reads it first). Returns None if it is lost."""
        validity = term.validity
        if base is None:
            base = await self._leases.get(self._lease_name, validity.request_timeout)
            self._note_contact()
            if base is not None:
                self._observe(base)
            if reason := self._reason_lost(base):
                validity.lapse(reason)
                return None
        if base is None:
            message = "the Lease %s was deleted while %s led; creating it again"
            log.warning(
                message, self.name, self.identity, key=self.name, reason="lease_deleted", cluster=self._leases.cluster
            )
        sent, lease = await self._write(base, self._next_document(base, take=False), validity.request_timeout)
        validity.extend(sent)
        term.lease = lease
        return lease

    def _reason_lost(self, lease: Lease | None) -> str:
        """Return why a leader that has found its Lease in this state has lost the lead, or "" if it has not."""
        if lease is None or not lease.holder or self._own_renewals.wrote(lease):
            return ""
        return f"{lease.holder} holds the Lease"

    async def _release_lease(self, lease: Lease | None, until: float) -> None:
        """Release the Lease, within a time on the boot clock. None if it must be read first.

        A failure is logged and not raised, because others then wait until the Lease expires.
        """

        def timeout() -> float:
            return min(self._options.request_timeout, until - self._clock.boot())

        try:
            for _ in range(2):
                lease = lease or await self._leases.get(self._lease_name, timeout())
                if lease is None or not self._own_renewals.wrote(lease):
                    return
                with contextlib.suppress(ConflictError):
                    await self._leases.update(lease.released(self._clock.wall()), timeout())
                    about, cluster = (self.identity, self.name), self._leases.cluster
                    log.info("%s released %s", *about, key=self.name, reason="released", cluster=cluster)
                    return
                # Changed by a renewal that was cancelled before its response, or by others, who set a label.
                lease = None
        except KinformerError as error:
            message, cluster = "%s could not release %s; others wait until it expires: %s", self._leases.cluster
            log.warning(message, self.identity, self.name, error, key=self.name, reason=error, cluster=cluster)

    # --- state ----------------------------------------------------------------------------------------------------

    def _note_contact(self) -> None:
        self._last_contact = self._clock.boot()
        self._error = None

    def _observe(self, lease: Lease) -> None:
        self._observation.observe(lease, self._clock.boot())
        if lease.holder and lease.holder != self._logged_holder:
            self._logged_holder = lease.holder
            about, cluster = (self.name, lease.holder), self._leases.cluster
            log.info("%s is led by %s", *about, key=self.name, reason="new_leader", cluster=cluster)

    def _note_failure(self, error: KinformerError, verb: str) -> None:
        # A warning when a kind of failure begins, so that an outage logs one line. health() has the rest.
        level = logging.DEBUG if type(error) is type(self._error) else logging.WARNING
        self._error = error
        message, cluster = "%s could not %s %s: %s", self._leases.cluster
        about = (self.identity, verb, self.name, error)
        log.log(level, message, *about, key=self.name, reason=error, cluster=cluster)
        self._metrics.count_failure(1)


class _Term:
    """One period of leading: the validity of the Lease, the body, and the renewal task."""

    __slots__ = ("_renewing", "body", "lease", "validity")

    def __init__(self, clock: Clock, options: LeaseOptions, sent: float, lease: Lease) -> None:
        self.lease = lease  # the Lease as this process has last written it
        self.body = BodyCancellation()
        self.validity = LeaseValidity(clock, options, sent, lambda reason: self.body.cancel())
        self._renewing: asyncio.Task[None] | None = None

    def start_renewing(self, renewing: Coroutine[object, object, None], name: str) -> None:
        self._renewing = asyncio.create_task(renewing, name=name)
        self._renewing.add_done_callback(self._renewing_ended)
        self.validity.watch()

    def _renewing_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with %s", task.get_name(), type(error).__name__, exc_info=error, reason=error)
            self.validity.lapse(f"its renewal ended with {type(error).__name__}: {error}", error)

    async def stop_renewing(self) -> None:
        self.validity.close()
        if self._renewing is not None and not self._renewing.done():
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
