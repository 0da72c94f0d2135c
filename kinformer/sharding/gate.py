"""The gate: decides which reconciles of a sharded controller may start here, and stops them all when it has to."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from kinformer._runtime.clock import Clock
from kinformer._runtime.fence import Fence
from kinformer.exceptions import ShardLostError
from kinformer.sharding.caches import ShardCaches
from kinformer.sharding.feed import LedgerFollower
from kinformer.sharding.ledger import ShardLedger
from kinformer.sharding.members import ShardMembers
from kinformer.sharding.slots import ALL_SLOTS, SLOTS, slot_of

__all__ = ["Admission", "ShardGate", "Verdict"]

T = TypeVar("T")

_CLOCK_TOLERANCE = 1.25  # tombstones are kept this much longer, because the others' clocks may run slower than ours


class Verdict(enum.Enum):
    """The answer of the gate for a key."""

    START = "it is ours"
    LATER = "it may be ours, but another replica may still work on it, or cache and ledger do not agree yet"
    FRESH = "it is ours, but the caches do not yet hold all objects that were taken with it"
    SKIP = "it is another replica's, or gone; should it become ours, an event or the ledger triggers it"


class Admission(NamedTuple):
    """A verdict; for START with the slot, and the seconds that the reconcile may take (None: no limit)."""

    verdict: Verdict
    slot: int = -1
    limit: float | None = None


@dataclass(slots=True)
class _ActiveReconcile:
    slot: int
    task: asyncio.Task[object]
    stopped: bool = False

    def stop(self) -> None:
        """Cancel it, because its slot goes, or has gone, to another replica."""
        self.stopped = True
        self.task.cancel()


class _Slots:
    """The slots of one replica, by what its reconciles may do with them.

    Attributes:
        taken: The slots that are ours.
        open: Of these, the slots whose keys are reconciled.
        fresh: Of these, the slots whose objects the caches may not have completely yet.
        releasing: Closed slots whose reconciles under way still read the caches.
        releases: The number of releases of each slot.
    """

    def __init__(self) -> None:
        self.taken: frozenset[int] = frozenset()
        self.open: frozenset[int] = frozenset()
        self.fresh: frozenset[int] = frozenset()
        self.releasing: frozenset[int] = frozenset()
        self.releases = [0] * SLOTS

    @property
    def cached(self) -> frozenset[int]:
        """The slots whose objects the caches hold."""
        return self.open | self.releasing

    def open_taken(self) -> None:
        self.fresh |= self.taken - self.open
        self.open = self.taken

    def close(self, slots: frozenset[int]) -> None:
        self.taken -= slots
        self.open -= slots
        self.fresh -= slots
        # The sources keep the objects until the reconciles that read them have ended: they would look deleted.
        self.releasing |= slots

    def release(self, slots: frozenset[int]) -> None:
        self.releasing -= slots
        for slot in slots:
            self.releases[slot] += 1


class ShardGate:
    """The work of one replica on its slots; a `ShardWork`.

    Slots are opened when they are ours and the ledger is complete, and closed before they are given away. A key is
    admitted if the ledger and the cache that the reconcile will read agree on its uid, its slot is open, and no other
    replica can be working on it. A key whose object is gone belongs for `gone_for` seconds to the replica that had its
    slot: for so long a reconcile may clean up.

    Args:
        caches: Those that reconciles read; they are cut down to the slots.
        follower: Fills the ledger, and passes confirmations on to it.
        has_slot: Returns True if a slot is ours by the clock.
        request_heartbeat: Called when there is something to tell the others soon.
        trigger: Has a key reconciled again.
        grace: Seconds that reconciles have to end before they are cancelled.
        gone_for: Seconds.
        clock: Its `boot` counts.
    """

    def __init__(
        self,
        *,
        caches: ShardCaches,
        follower: LedgerFollower,
        has_slot: Callable[[int], bool],
        request_heartbeat: Callable[[], None],
        trigger: Callable[[str], None],
        grace: float,
        gone_for: float,
        clock: Clock,
    ) -> None:
        self._caches = caches
        self._follower = follower
        self._has_slot = has_slot
        self._request_heartbeat = request_heartbeat
        self._trigger = trigger
        self._grace = grace
        self._gone_for = gone_for
        self._boot = clock.boot
        self._slots = _Slots()
        self._active: dict[str, _ActiveReconcile] = {}
        self._skipped: set[str] = set()  # keys in the cache that were not ours when they were admitted
        self._missing: set[str] = set()  # keys of ours in the ledger that were not in the cache then; maybe deleted
        self._changed_under_way: dict[str, int] = {}  # keys with another uid, or none, since their reconcile: version
        self.ledger = ShardLedger(self._boot, self._key_changed)
        self._is_member = False

    @property
    def open(self) -> frozenset[int]:
        """The slots whose keys are reconciled."""
        return self._slots.open

    # --- reconciles -------------------------------------------------------------------------------------------

    def admit(self, key: str) -> Admission:
        """Decide whether a key may be reconciled now."""
        ledger = self.ledger
        self._missing.discard(key)
        if ledger.is_changing(key):
            return Admission(Verdict.LATER)
        uid, cached = ledger.uid(key), self._caches.cached_uid(key)
        if cached is not None and cached != uid:
            return Admission(Verdict.LATER)  # cache or ledger has not seen everything
        if uid is None:
            return self._admit_gone(key)
        slot = slot_of(uid)
        if cached is None:
            # If the object comes, the cache triggers it; its end may have reached the cache before the ledger.
            if slot in self.open:
                self._missing.add(key)
            return Admission(Verdict.SKIP)
        if slot not in self.open or not self._has_slot(slot):
            self._skipped.add(key)
            return Admission(Verdict.SKIP)
        if key in ledger.doubts:
            return Admission(Verdict.LATER)
        return Admission(Verdict.FRESH if self._is_fresh(slot) else Verdict.START, slot)

    def _admit_gone(self, key: str) -> Admission:
        stone = self.ledger.tombstones.get(key)
        if stone is None or not stone.uid:
            return Admission(Verdict.SKIP)
        if key in self.ledger.doubts:
            return Admission(Verdict.LATER)
        slot, left = slot_of(stone.uid), stone.since + self._gone_for - self._boot()
        if left <= 0 or slot not in self.open or not self._has_slot(slot):
            return Admission(Verdict.SKIP)
        return Admission(Verdict.FRESH if self._is_fresh(slot) else Verdict.START, slot, left)

    def _is_fresh(self, slot: int) -> bool:
        # A reconcile that reads an owned resource too early does not find what exists, and creates it again. And if a
        # slot was away for a moment, the list of that moment removes its objects once more before the next list.
        if self._slots.fresh and self._caches.settled:
            self._slots.fresh = frozenset()
        return slot in self._slots.fresh

    async def reconcile(self, key: str, admission: Admission, call: Coroutine[object, object, T]) -> T:
        """Run a reconcile that was admitted just before, without an `await` in between.

        Raises:
            ShardLostError: It was stopped because its slot was, or was about to be, another replica's.
        """
        slot = admission.slot
        releases = self._slots.releases[slot]

        def check() -> None:
            # Having the slot again gives no right to tasks that an earlier reconcile left behind.
            if self._slots.releases[slot] != releases or not self._has_slot(slot):
                raise ShardLostError(f"slot {slot} of key {key} is no longer this replica's")

        with Fence(check):
            task = asyncio.create_task(call, name=f"kinformer sharded reconcile {key}")
            active = self._active[key] = _ActiveReconcile(slot, task)
            task.add_done_callback(lambda _: self._reconcile_ended(key, active))
            try:
                async with asyncio.timeout(admission.limit):
                    return await task
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if active.stopped and (current is None or not current.cancelling()):
                    raise ShardLostError(f"slot {slot} of key {key} goes to another replica") from None
                raise

    def _reconcile_ended(self, key: str, active: _ActiveReconcile) -> None:
        if self._active.get(key) is active:
            del self._active[key]
        if self._changed_under_way.pop(key, None) is not None:
            self._request_heartbeat()

    def _key_changed(self, key: str, version: int, *, gone: bool) -> None:
        """React to a key that has another uid in the ledger, or none."""
        active = self._active.get(key)
        if active is not None:
            # Until its reconcile has ended, the others must not rely on our having seen this version.
            self._changed_under_way[key] = min(version, self._changed_under_way.get(key, version))
            if not gone:
                asyncio.get_running_loop().call_later(self._grace, self._stop_if_active, key, active)
        if gone and key in self._missing:
            self._missing.remove(key)
            self._trigger(key)
        if not gone:  # others may wait for us to have seen the new object; none waits for an end
            self._request_heartbeat()

    def _stop_if_active(self, key: str, active: _ActiveReconcile) -> None:
        if self._active.get(key) is active:
            active.stop()

    # --- the methods of a ShardWork -----------------------------------------------------------------------------

    def begin_membership(self) -> None:
        """Fill a new ledger: the old one may have missed events while we were not a member."""
        self._is_member = True
        self._missing.clear()
        self.ledger = ShardLedger(self._boot, self._key_changed)
        self._follower.follow_into(self.ledger)

    def take_slots(self, slots: frozenset[int]) -> None:
        """Take over these slots; they are opened as soon as the ledger is complete."""
        self._slots.taken |= slots
        self._open_taken_slots()

    def update_members(self, members: ShardMembers) -> None:
        """Take over the versions that the others have seen."""
        self.ledger.confirm_initial(members.seen, members.asked)
        self._follower.confirm(members.seen, members.asked, self._gone_for * _CLOCK_TOLERANCE)
        self._open_taken_slots()

    def _open_taken_slots(self) -> None:
        if self.ledger.applied and self.ledger.initial_doubt is None and self._slots.taken - self.open:
            self._slots.open_taken()
            self._caches.set_slots(self._slots.cached)
            # A slot that is back before the cache was cut down causes no events.
            skipped, self._skipped = self._skipped, set()
            for key in skipped:
                self._trigger(key)

    def version_seen(self) -> int | None:
        """Return the version up to which we have seen everything, and have nothing older under way."""
        applied = self.ledger.applied
        if not applied or not self._is_member:
            return None
        return min([applied, *(version - 1 for version in self._changed_under_way.values())])

    async def release_slots(self, slots: frozenset[int]) -> None:
        """Admit nothing new, let reconciles end within the grace, cancel the rest; return when none runs."""
        self._slots.close(slots)
        try:
            await self._stop_reconciles(slots, self._grace)
        finally:
            self._slots.release(slots)
        self._caches.set_slots(self._slots.cached)

    def drop_all_slots(self) -> None:
        """Cancel all reconciles at once."""
        self._slots.close(ALL_SLOTS)
        self._slots.release(ALL_SLOTS)
        self._caches.set_slots(frozenset())
        self._is_member = False
        for active in self._active.values():
            active.stop()

    async def wait_idle(self) -> None:
        """Wait until no reconcile runs."""
        while self._active:
            await asyncio.wait({active.task for active in self._active.values()})

    async def _stop_reconciles(self, slots: frozenset[int], grace: float) -> None:
        def running() -> list[_ActiveReconcile]:
            return [active for active in self._active.values() if active.slot in slots]

        if left := running():
            await asyncio.wait({active.task for active in left}, timeout=grace)
        for active in running():
            active.stop()
        while left := running():
            await asyncio.wait({active.task for active in left})
