"""Membership: a replica's Lease is its heartbeat and says which slots it holds; no slot is ever held twice."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import AlreadyExistsError, ConfigError, ConflictError, KinformerError, NotFoundError
from kinformer.leaderelection.lease import JITTER, Lease, LeaseObservation, LeaseTimes, LeaseValidity, new_lease
from kinformer.leaderelection.lease_client import LeaseClient, Requester
from kinformer.sharding.members import GROUP, ShardMember, ShardMembers, annotations_of, with_annotations
from kinformer.sharding.slots import assigned_slots

__all__ = ["ShardMembership", "ShardMembershipHealth", "ShardWork"]

T = TypeVar("T")
log = get_logger("kinformer.sharding")

_SWEEP_AFTER = 4  # leases: so long after its end a dead replica's Lease is deleted
_OWN_WRITES = 16  # renewals of ours whose outcome may be unknown; each lives for one call at most
_GRACE = 1.0  # seconds for what is cancelled at the end
_HURRY = 8  # the part of a retry_period that two heartbeats are apart at least
_CHANGED = (ConflictError, AlreadyExistsError, NotFoundError)  # a Lease is not as we knew it


class ShardWork(Protocol):
    """What is done with the slots. None of this raises."""

    def joined(self) -> None:
        """The Lease stands, without slots: what is read from now on is newer than our membership."""

    def taken(self, slots: frozenset[int]) -> None:
        """These slots are ours now."""

    async def leave(self, slots: frozenset[int]) -> None:
        """Stop all work on these slots; return when nothing of it runs any more. They are ours until then."""

    def lapsed(self) -> None:
        """The right to all slots has lapsed: cancel all work, at once."""

    async def idle(self) -> None:
        """Return when nothing runs any more, after `lapsed`."""

    def heard(self, members: ShardMembers) -> None:
        """What the others say, as of `members.asked`."""

    def seen(self) -> int | None:
        """The resourceVersion to tell the others; see `ShardMember.seen`."""


@dataclass(frozen=True, slots=True)
class ShardMembershipHealth:
    """How a membership stands: `state` is joining, member, lost or stopped; `live` is what a readiness probe asks for.

    `slots` are held, `pending` wanted but still with somebody else, or being claimed; `members` are the replicas that
    live, this one included; `balanced` says that all of them know of the same replicas, and that every slot is held.
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
    """One replica among those that share a resource.

    Every replica has a Lease, which it renews every `retry_period`, and which says in an annotation what slots it
    holds; after each renewal it lists the Leases of the group. Slots go to living replicas by rendezvous hashing, so
    all come to the same answer. The three rules by which no slot is held twice:

    1. A slot is claimed only when no other living Lease shows it. The claim is written into one's own Lease first,
       and is good only if a list that was asked for after that write shows the slot nowhere else. Of two that claim
       at the same time at least one sees the other, and who is not meant to have the slot withdraws.
    2. A slot is given away by stopping the work on it, and only then writing a Lease without it.
    3. The right to all slots ends `renew_deadline` after the sending of the last renewal, and others take them
       `lease_duration` after they saw it, each by its own boot clock. A right that lapsed is not renewed: work stops,
       and the replica joins anew, with no slots.

    Args:
        client: What makes the requests.
        namespace: Of the Leases.
        group: What the replicas share; the label of the Leases, and the beginning of their names.
        identity: Of this replica; no two living ones may have the same.
        work: What to do with the slots.
        times: Of the Leases.
        clock: Whose `boot` and `wall` are read.
    """

    def __init__(
        self,
        client: Requester,
        *,
        namespace: str,
        group: str,
        identity: str,
        work: ShardWork,
        times: LeaseTimes,
        clock: Clock = SYSTEM,
    ) -> None:
        if problem := times.problem():
            raise ConfigError(f"ShardMembership({problem})")
        self.identity = identity
        self.group = group
        self._namespace = namespace
        self._lease_name = f"{group}-{blake2b(identity.encode(), digest_size=5).hexdigest()}"
        self._leases = LeaseClient(client, namespace)
        self._work = work
        self._times = times
        self._clock = clock
        self._members = ShardMembers(self._lease_name, times.lease_duration)
        self._validity: LeaseValidity | None = None
        self._lease: Lease | None = None  # as we wrote it last; None: to be read first
        self._held: frozenset[int] = frozenset()
        self._claimed: frozenset[int] = frozenset()  # in our Lease since `_claimed_at`, and not yet good
        self._written: frozenset[int] = frozenset()  # what our Lease shows
        self._claimed_at = 0.0
        self._leaving: dict[frozenset[int], asyncio.Task[None]] = {}
        self._epoch = 0
        self._known: frozenset[str] = frozenset()
        self._state = "stopped"
        self._error: BaseException | None = None
        self._hurried = asyncio.Event()
        self._own: deque[str] = deque(maxlen=_OWN_WRITES)  # the renewTimes that we wrote, or may have written
        self._former = LeaseObservation(times.lease_duration)

    # --- what is known ------------------------------------------------------------------------------------------

    @property
    def slots(self) -> frozenset[int]:
        """The slots that are ours now, by the clock."""
        return self._held if self.holds else frozenset()

    @property
    def holds(self) -> bool:
        """Whether our right to the slots that we hold has not lapsed; read from the clock."""
        return self._validity is not None and self._validity.holds

    def has(self, slot: int) -> bool:
        """Whether a slot is ours now, by the clock."""
        return slot in self._held and self.holds

    @property
    def members(self) -> tuple[ShardMember, ...]:
        """The others that live, as of the last list."""
        return self._members.living

    def health(self) -> ShardMembershipHealth:
        """How it stands at this moment."""
        wanted = self._wanted()
        epochs = {member.epoch for member in self._members.living} | {self._epoch}
        slots = self.slots
        return ShardMembershipHealth(
            live=self._state == "member" and self.holds,
            state=self._state if self._state != "member" or self.holds else "lost",
            slots=len(slots),
            pending=len(wanted - slots),
            members=len(self._members.living) + 1,
            epoch=self._epoch,
            balanced=len(epochs) == 1 and slots == wanted and len(slots | self._members.held) == 256,
            last_error=self._error,
        )

    def hurry(self) -> None:
        """Have the next heartbeat soon: there is something to tell, or to ask."""
        self._hurried.set()

    # --- life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Takes part until cancelled; then stops the work, gives the slots back and leaves, within `renew_deadline`."""
        try:
            while True:
                self._state = "joining"
                await self._join()
                self._state = "member"
                await self._take_part()
                self._state = "lost"
                await self._drop_all()
        finally:
            try:
                await self._part()
            finally:
                self._state = "stopped"

    async def _join(self) -> None:
        """Write a Lease without slots, and begin a new right with it."""
        self._lease = None
        while True:
            written = await self._try(self._begin)
            if written is not None and self._clock.boot() - written < self._times.renew_deadline:
                break
            await asyncio.sleep(self._times.retry_period * random.uniform(0.5, JITTER))
        self._validity = LeaseValidity(self._clock, self._times, written, self._lapsed)
        self._validity.watch()
        self._work.joined()

    async def _begin(self) -> float | None:
        """Take our Lease over; when that was sent, or None where another of our name may still live by it."""
        limit, asked = self._times.call_limit, self._clock.boot()
        lease = await self._leases.get(self._lease_name, limit)
        if lease is not None and not self._is_own(lease):
            self._former.saw(lease, self._clock.boot())
            if asked < self._former.expires:
                return None
        self._lease = lease
        return await self._write(limit)

    def _is_own(self, lease: Lease) -> bool:
        return lease.holder == self.identity and lease.renew_time in self._own

    def _lapsed(self, reason: str) -> None:
        log.error(
            "%s has lost its slots of %s: %s", self.identity, self.group, reason, key=self.group, reason="slots_lost"
        )
        self._work.lapsed()
        self._hurried.set()

    async def _take_part(self) -> None:
        """Heartbeats, until the right has lapsed."""
        validity = self._validity
        assert validity is not None
        pause = self._times.retry_period / _HURRY
        while validity.check():
            left = await self._turn(validity) - pause
            await asyncio.sleep(pause)
            if left > 0 and validity.check():
                # The time that passes is an ordinary heartbeat's; being hurried makes it shorter.
                waiting = asyncio.ensure_future(self._hurried.wait())
                try:
                    await asyncio.wait({waiting}, timeout=left)
                finally:
                    waiting.cancel()
            self._hurried.clear()

    async def _turn(self, validity: LeaseValidity) -> float:
        """Renew, list, decide; in how many seconds the next turn should come."""
        period = self._times.retry_period
        written = await self._try(lambda: self._renew(validity))
        if written is None and isinstance(self._error, _CHANGED):
            # Perhaps by a write of ours whose answer was lost. It is read at once: after a wait for that answer the
            # next turn may be too late.
            written = await self._try(lambda: self._renew(validity))
        if written is None:
            return period / 2
        validity.renewed(written)
        asked = self._clock.boot()
        leases = await self._try(lambda: self._leases.list(f"{GROUP}={self.group}", validity.limit))
        if leases is None or not validity.check():
            return period
        self._members.listed(leases, asked, self._clock.boot())
        self._work.heard(self._members)
        self._count_epoch()
        changed = self._decide(asked)
        await self._sweep(asked)
        return 0.0 if changed else period

    # --- slots ----------------------------------------------------------------------------------------------------

    def _wanted(self) -> frozenset[int]:
        return assigned_slots(self.identity, (member.identity for member in self._members.living))

    def _decide(self, asked: float) -> bool:
        """Who gets what, by the list that was asked for then; whether there is something new to write."""
        wanted, elsewhere = self._wanted(), self._members.held
        good = frozenset[int]()
        if asked > self._claimed_at:
            good = (self._claimed & self._written & wanted) - elsewhere
        claims = wanted - self._held - elsewhere
        if good:
            self._held |= good
            text = "%s took %d slots of %s, and has %d"
            log.info(text, self.identity, len(good), self.group, len(self._held), key=self.group, reason="slots_taken")
            self._work.taken(good)
        # What was claimed and is seen elsewhere too stays claimed only by the one that is meant to have it.
        kept = self._claimed & self._written & wanted & elsewhere
        self._claimed = (claims | kept) - self._held
        going = self._held - wanted - frozenset().union(*self._leaving)
        if going:
            self._start_leaving(going)
        return (self._held | self._claimed) != self._written

    def _start_leaving(self, slots: frozenset[int]) -> None:
        async def leave() -> None:
            await self._work.leave(slots)
            self._held -= slots
            self.hurry()

        def ended(task: asyncio.Task[None]) -> None:
            self._leaving.pop(slots, None)
            if not task.cancelled() and (error := task.exception()) is not None:
                text = "%s could not leave slots of %s"
                log.error(text, self.identity, self.group, exc_info=error, key=self.group, reason=error)

        task = asyncio.create_task(leave(), name=f"kinformer sharding {self.group}: leaving {len(slots)} slots")
        self._leaving[slots] = task
        task.add_done_callback(ended)

    def _count_epoch(self) -> None:
        """The number of this membership: it grows with each change of who lives, and all come to the same one."""
        known = frozenset(member.identity for member in self._members.living)
        highest = max((member.epoch for member in self._members.living), default=0)
        self._epoch = max(self._epoch, highest) + (known != self._known)
        self._known = known

    async def _drop_all(self) -> None:
        """The right has lapsed: nothing is ours, and nothing of it may go on."""
        for task in list(self._leaving.values()):
            task.cancel()
        if self._leaving:
            await asyncio.wait(set(self._leaving.values()))
        await self._work.idle()
        self._held = self._claimed = self._written = frozenset()

    async def _part(self) -> None:
        """Leave for good: stop the work, then give everything back, if it is still ours to give.

        Work that goes on although it was cancelled is not waited for any longer than our right lasts: it can send
        nothing after that, and others take the slots when our Lease has expired. Cancelled meanwhile: nothing is.
        """
        validity = self._validity
        if validity is None:
            return
        stopped = False
        try:
            if validity.check():
                stopped = await _within(validity.until - self._clock.boot(), self._work.leave(self._held))
        finally:
            ours = stopped and validity.check()
            validity.close()
            self._validity = None
            self._work.lapsed()
        if not await _within(_GRACE, self._drop_all()):
            text = "%s leaves %s while work on it goes on that was cancelled"
            log.error(text, self.identity, self.group, key=self.group, reason="abandoned")
        if ours and self._lease is not None:
            released = self._lease.released(self._clock.wall())
            document = with_annotations(released, {}, annotations_of((), self._epoch, None))
            await self._try(lambda: self._leases.update(document, self._times.call_limit))

    # --- the Lease ------------------------------------------------------------------------------------------------

    async def _renew(self, validity: LeaseValidity) -> float | None:
        """Write our Lease as things stand; when that was sent."""
        if self._lease is None:  # changed by somebody, or swept away, or a write of ours whose answer was lost
            lease = await self._leases.get(self._lease_name, validity.limit)
            if lease is not None and not self._is_own(lease):
                validity.lapse(f"{lease.holder or 'somebody'} wrote its Lease")
                return None
            self._lease = lease
        return await self._write(validity.limit)

    async def _write(self, limit: float) -> float:
        shown = self._held | self._claimed
        labels, annotations = {GROUP: self.group}, annotations_of(shown, self._epoch, self._work.seen())
        duration, wall = self._times.lease_duration, self._clock.wall()
        if self._lease is None:
            document, call = (
                new_lease(self._namespace, self._lease_name, self.identity, duration, wall),
                self._leases.create,
            )
        else:
            document, call = self._lease.renewed(self.identity, duration, wall), self._leases.update
        self._own.append(document["spec"]["renewTime"])
        sent = self._clock.boot()
        try:
            self._lease = await call(with_annotations(document, labels, annotations), limit)
        except _CHANGED:
            self._lease = None
            raise
        if shown - self._written:
            self._claimed_at = self._clock.boot()
        self._written = shown
        return sent

    async def _sweep(self, asked: float) -> None:
        for lease in self._members.dead(asked, _SWEEP_AFTER * self._times.lease_duration)[:1]:
            await self._try(lambda lease=lease: self._leases.delete(lease, self._times.call_limit))  # type: ignore[misc]

    async def _try(self, call: Callable[[], Any]) -> Any:
        try:
            result = await call()
        except KinformerError as error:
            level = logging.DEBUG if type(error) is type(self._error) else logging.WARNING
            text = "%s, a replica of %s: %s"
            log.log(level, text, self.identity, self.group, error, key=self.group, reason=error)
            self._error = error
            return None
        self._error = None
        return result


async def _within(seconds: float, awaitable: Awaitable[None]) -> bool:
    """Await it for so long at most; whether it has ended by itself."""
    try:
        async with asyncio.timeout(max(0.0, seconds)):
            await awaitable
    except TimeoutError:
        return False
    return True
