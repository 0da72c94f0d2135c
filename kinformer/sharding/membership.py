"""The membership of a replica: its Lease is its heartbeat and shows its slots, and no slot is ever held twice."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.life import Answers
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import KinformerError
from kinformer.leaderelection.lease import JITTER, LeaseOptions, LeaseValidity
from kinformer.leaderelection.lease_client import Requester
from kinformer.sharding.members import ShardMember, ShardMembers
from kinformer.sharding.own_lease import LEASE_CHANGED, OwnLease
from kinformer.sharding.slots import SLOTS, SlotClaims, assigned_slots

__all__ = ["ShardMembership", "ShardMembershipHealth", "ShardWork"]

T = TypeVar("T")
log = get_logger("kinformer.sharding")

_SWEEP_AFTER = 4  # lease durations from the end of a replica's Lease to its deletion
_GRACE = 1.0  # seconds for cancelled work to end when the replica leaves
_SHORTEST_PERIOD = 8  # two heartbeats are at least one eighth of a retry_period apart


class ShardWork(Protocol):
    """The work on a replica's slots. None of these methods raises."""

    def begin_membership(self) -> None:
        """Start anew: the Lease was written without slots, so everything read from now on is newer than that."""

    def take_slots(self, slots: frozenset[int]) -> None:
        """Take over these slots, which this replica holds from now on."""

    async def release_slots(self, slots: frozenset[int]) -> None:
        """Stop all work on these slots, and return when none is running. Until then, this replica holds them."""

    def drop_all_slots(self) -> None:
        """Cancel all work immediately, because the right to all slots has lapsed."""

    async def wait_idle(self) -> None:
        """Wait until no work is running, after `drop_all_slots`."""

    def update_members(self, members: ShardMembers) -> None:
        """Take over the state of the other replicas at `members.asked`."""

    def version_seen(self) -> int | None:
        """Return the resourceVersion that the other replicas read as `ShardMember.seen`."""


@dataclass(frozen=True, slots=True)
class ShardMembershipHealth:
    """The state of a membership at one moment. Experimental, like `ShardedController`.

    Attributes:
        live: True if the replica is a member, and its right to its slots has not lapsed. For a readiness probe.
        state: `"joining"`, `"member"`, `"lost"` or `"stopped"`.
        slots: Slots that it holds.
        pending: Slots that it should hold, but that are still with another replica, or being claimed.
        members: Living replicas, including this one.
        epoch: The number of the membership, which grows with each change of the living replicas.
        balanced: True if all replicas know the same replicas, and every slot is held.
        last_error: The last failure, or None after a success.
    """

    live: bool
    state: str
    slots: int
    pending: int
    members: int
    epoch: int
    balanced: bool
    last_error: BaseException | None


class ShardMembership:
    """The membership of one replica in the group that shares a resource.

    Every replica has a Lease, which it renews every `retry_period`, and which shows in an annotation the slots that it
    holds. After each renewal, it lists the Leases of the group. Slots are assigned to living replicas by rendezvous
    hashing, so all replicas compute the same assignment. Three rules ensure that no slot is held twice:

    1. A slot is claimed only when no other living Lease shows it. The claim is written into the replica's own Lease
       first, and is valid only if a list requested after that write shows the slot nowhere else. If two replicas claim
       it at the same time, at least one sees the other, and the one that the slot is not assigned to withdraws.
    2. A slot is given away by stopping the work on it, and only then writing a Lease without it.
    3. The right to all slots ends `renew_deadline` after the last renewal was sent, and others take them
       `lease_duration` after they saw it, each by its own boot clock. A lapsed right is not renewed: work stops, and
       the replica joins again, without slots.

    Args:
        client: Makes the requests.
        namespace: The namespace of the Leases.
        group: The label of the Leases, and the prefix of their names.
        identity: The name of this replica, unique among the living ones.
        work: Does the work on the slots.
        options: The durations of the Leases.
        clock: Its `boot` is used for durations, and its `wall` is written into the Lease.
    """

    def __init__(
        self,
        client: Requester,
        *,
        namespace: str,
        group: str,
        identity: str,
        work: ShardWork,
        options: LeaseOptions,
        clock: Clock = SYSTEM,
    ) -> None:
        self.identity = identity
        self.group = group
        self._work = work
        self._options = options
        self._clock = clock
        self._lease = OwnLease(client, namespace, group, identity, options, clock)
        self._members = ShardMembers(self._lease.name, options.lease_duration)
        self._validity: LeaseValidity | None = None
        self._claims = SlotClaims()
        self._releasing: dict[frozenset[int], asyncio.Task[None]] = {}
        self._epoch = 0
        self._known: frozenset[str] = frozenset()
        self._state = "stopped"
        self._error: BaseException | None = None
        self._heartbeat_requested = asyncio.Event()

    # --- state --------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> frozenset[int]:
        """The slots that this replica holds now, by the clock."""
        return self._claims.held if self.holds else frozenset()

    @property
    def holds(self) -> bool:
        """True if the right to this replica's slots has not lapsed, by the clock."""
        return self._validity is not None and self._validity.holds

    def has(self, slot: int) -> bool:
        """Return True if this replica holds a slot now, by the clock."""
        return slot in self._claims.held and self.holds

    @property
    def members(self) -> tuple[ShardMember, ...]:
        """The other living replicas, according to the last list."""
        return self._members.living

    def health(self) -> ShardMembershipHealth:
        """Return the state of the membership at this moment."""
        wanted = self._wanted_slots()
        epochs = {member.epoch for member in self._members.living} | {self._epoch}
        slots = self.slots
        return ShardMembershipHealth(
            live=self._state == "member" and self.holds,
            state=self._state if self._state != "member" or self.holds else "lost",
            slots=len(slots),
            pending=len(wanted - slots),
            members=len(self._members.living) + 1,
            epoch=self._epoch,
            balanced=len(epochs) == 1 and slots == wanted and len(slots | self._members.held) == SLOTS,
            last_error=self._error,
        )

    def request_heartbeat(self) -> None:
        """Request the next heartbeat soon, because this replica has news for the others or needs theirs."""
        self._heartbeat_requested.set()

    # --- running --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part until cancelled. Then stop the work, give the slots back and leave, within `renew_deadline`."""
        try:
            while True:
                self._state = "joining"
                await self._join()
                self._state = "member"
                await self._send_heartbeats()
                self._state = "lost"
                await self._drop_all_slots()
        finally:
            try:
                await self._leave()
            finally:
                self._state = "stopped"

    async def _join(self) -> None:
        """Write the Lease without slots, which begins a new right."""
        self._lease.forget()
        answers = Answers()
        while True:
            written = await self._attempt(self._write_first_lease)
            answers.note(self._error)
            if answers.is_lasting and self._error is not None:
                raise self._error
            if written is not None and self._clock.boot() - written < self._options.renew_deadline:
                break
            await asyncio.sleep(self._options.retry_period * random.uniform(0.5, JITTER))
        self._validity = LeaseValidity(self._clock, self._options, written, self._lapsed)
        self._validity.watch()
        self._work.begin_membership()

    async def _write_first_lease(self) -> float | None:
        """Take over the Lease. Return the time of sending, or None if a namesake may still rely on it."""
        timeout = self._options.request_timeout
        return await self._write_lease(timeout) if await self._lease.take_over(timeout) else None

    def _lapsed(self, reason: str) -> None:
        message = "%s has lost its slots of %s: %s"
        log.error(message, self.identity, self.group, reason, key=self.group, reason="slots_lost")
        self._work.drop_all_slots()
        self.request_heartbeat()

    async def _send_heartbeats(self) -> None:
        """Renew, list and decide until the right has lapsed."""
        validity = self._validity
        assert validity is not None
        pause = self._options.retry_period / _SHORTEST_PERIOD
        while validity.check():
            left = await self._heartbeat(validity) - pause
            await asyncio.sleep(pause)
            if left > 0 and validity.check():
                # Wait for the rest of the period, unless a heartbeat is requested.
                waiting = asyncio.ensure_future(self._heartbeat_requested.wait())
                try:
                    await asyncio.wait({waiting}, timeout=left)
                finally:
                    waiting.cancel()
            self._heartbeat_requested.clear()

    async def _heartbeat(self, validity: LeaseValidity) -> float:
        """Renew the Lease, list the others, and decide. Return the seconds until the next heartbeat."""
        period = self._options.retry_period
        written = await self._attempt(lambda: self._renew(validity))
        if written is None and isinstance(self._error, LEASE_CHANGED):
            # Possibly changed by a write of ours whose response was lost. Read it immediately, because after the wait
            # for that response, the next heartbeat may come too late.
            written = await self._attempt(lambda: self._renew(validity))
        if written is None:
            return period / 2
        validity.extend(written)
        asked = self._clock.boot()
        leases = await self._attempt(lambda: self._lease.list_group(validity.request_timeout))
        if leases is None or not validity.check():
            return period
        self._members.update(leases, asked, self._clock.boot())
        self._work.update_members(self._members)
        self._count_epoch()
        changed = self._decide(asked)
        await self._delete_a_dead_lease(asked)
        return 0.0 if changed else period

    # --- slots ----------------------------------------------------------------------------------------------------

    def _wanted_slots(self) -> frozenset[int]:
        return assigned_slots(self.identity, (member.identity for member in self._members.living))

    def _decide(self, asked: float) -> bool:
        """Take, claim and release slots by the list requested at `asked`. Return True if the Lease must change."""
        wanted, claims = self._wanted_slots(), self._claims
        taken = claims.decide(wanted, self._members.held, asked)
        if taken:
            message = "%s took %d slots of %s, and now has %d"
            log.info(
                message, self.identity, len(taken), self.group, len(claims.held), key=self.group, reason="slots_taken"
            )
            self._work.take_slots(taken)
        going = claims.held - wanted - frozenset().union(*self._releasing)
        if going:
            self._start_releasing(going)
        return claims.shown != claims.written

    def _start_releasing(self, slots: frozenset[int]) -> None:
        async def release() -> None:
            await self._work.release_slots(slots)
            self._claims.held -= slots
            self.request_heartbeat()

        def ended(task: asyncio.Task[None]) -> None:
            self._releasing.pop(slots, None)
            if not task.cancelled() and (error := task.exception()) is not None:
                message = "%s could not release slots of %s"
                log.error(message, self.identity, self.group, exc_info=error, key=self.group, reason=error)

        task = asyncio.create_task(release(), name=f"kinformer sharding {self.group}: releasing {len(slots)} slots")
        self._releasing[slots] = task
        task.add_done_callback(ended)

    def _count_epoch(self) -> None:
        """Update the epoch: it grows with each change of the living replicas, and becomes the same in all of them."""
        known = frozenset(member.identity for member in self._members.living)
        highest = max((member.epoch for member in self._members.living), default=0)
        self._epoch = max(self._epoch, highest) + (known != self._known)
        self._known = known

    async def _drop_all_slots(self) -> None:
        """Give up all slots after the right has lapsed, and wait until no work is running."""
        for task in list(self._releasing.values()):
            task.cancel()
        if self._releasing:
            await asyncio.wait(set(self._releasing.values()))
        await self._work.wait_idle()
        self._claims = SlotClaims()

    async def _leave(self) -> None:
        """Leave for good: stop the work, then give the slots back if this replica still holds them.

        Work that continues although it was cancelled is awaited only while the right lasts. After that, it cannot send
        anything, and others take the slots when the Lease has expired. A second cancellation skips the waiting, and
        then the slots are not given back.
        """
        validity = self._validity
        if validity is None:
            return
        stopped = False
        try:
            if validity.check():
                left = validity.until - self._clock.boot()
                stopped = await _ends_within(left, self._work.release_slots(self._claims.held))
        finally:
            ours = stopped and validity.check()
            validity.close()
            self._validity = None
            self._work.drop_all_slots()
        if not await _ends_within(_GRACE, self._drop_all_slots()):
            message = "%s is leaving %s, but some cancelled work is still running"
            log.error(message, self.identity, self.group, key=self.group, reason="abandoned")
        if ours:
            await self._attempt(lambda: self._lease.give_back(self._epoch, self._options.request_timeout))

    # --- the Lease ------------------------------------------------------------------------------------------------

    async def _renew(self, validity: LeaseValidity) -> float | None:
        """Write the Lease with the current slots. Return the time of sending, or None if the Lease is lost."""
        if (holder := await self._lease.read_if_unknown(validity.request_timeout)) is not None:
            validity.lapse(f"{holder or 'another client'} wrote its Lease")
            return None
        return await self._write_lease(validity.request_timeout)

    async def _write_lease(self, timeout: float) -> float:
        """Create or update the Lease, and return the time of sending."""
        shown = self._claims.shown
        sent = await self._lease.write(shown, self._epoch, self._work.version_seen(), timeout)
        self._claims.note_written(shown, self._clock.boot())
        return sent

    async def _delete_a_dead_lease(self, asked: float) -> None:
        for lease in self._members.dead(asked, _SWEEP_AFTER * self._options.lease_duration)[:1]:
            await self._attempt(partial(self._lease.delete_dead, lease, self._options.request_timeout))

    async def _attempt(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Await a call, and return its result, or log an error of the server or the network and return None."""
        try:
            result = await call()
        except KinformerError as error:
            level = logging.DEBUG if type(error) is type(self._error) else logging.WARNING
            log.log(level, "%s, a replica of %s: %s", self.identity, self.group, error, key=self.group, reason=error)
            self._error = error
            return None
        self._error = None
        return result


async def _ends_within(seconds: float, awaitable: Awaitable[None]) -> bool:
    """Await this for at most so many seconds, and then cancel it. Return True if it ended by itself."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await awaitable
    except TimeoutError:
        return False
    return True
