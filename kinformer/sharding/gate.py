"""The gate: decides which reconciles of a sharded controller may start in this replica, and stops them in time."""

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

_CLOCK_TOLERANCE = 1.25  # tombstones are kept longer by this factor, because other replicas' clocks may run slower


class Verdict(enum.Enum):
    """The gate's answer for a key."""

    START = "it is this replica's"
    LATER = "it may be this replica's, but another one may still be working on it, or cache and ledger do not agree yet"
    FRESH = "it is this replica's, but the caches do not yet hold all objects that were taken with it"
    SKIP = "it is another replica's, or deleted; if it becomes this replica's, an event or the ledger triggers it"


class Admission(NamedTuple):
    """A verdict. START includes the slot, and the seconds that the reconcile may take, or None for no limit."""

    verdict: Verdict
    slot: int = -1
    limit: float | None = None


@dataclass(slots=True)
class _ActiveReconcile:
    slot: int
    task: asyncio.Task[object]
    stopped: bool = False

    def stop(self) -> None:
        """Cancel the reconcile, because its key is, or may soon be, another replica's."""
        self.stopped = True
        self.task.cancel()


class _Slots:
    """The slots of one replica, by state.

    Attributes:
        taken: The slots that this replica holds.
        open: The taken slots whose keys are reconciled.
        fresh: The open slots whose objects the caches may not hold completely yet.
        releasing: Closed slots whose running reconciles still read the caches.
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
        # The caches keep the objects until the reconciles that read them have ended. They would look deleted otherwise.
        self.releasing |= slots

    def release(self, slots: frozenset[int]) -> None:
        self.releasing -= slots
        for slot in slots:
            self.releases[slot] += 1


class ShardGate:
    """The work of one replica on its slots, as a `ShardWork`.

    Slots are opened once they are taken and the ledger is complete and confirmed, and closed before they are given
    away. A key is admitted if the ledger and the cache that the reconcile will read agree on its uid, its slot is open,
    and no other replica can be working on it. After its object was deleted, a key belongs to the holder of its slot for
    `gone_for` seconds, so that a reconcile can clean up.

    Args:
        caches: The caches that reconciles read, which the gate limits to the slots.
        follower: Fills the ledger, and passes confirmations to it.
        has_slot: Returns True if this replica holds a slot, by the clock.
        request_heartbeat: Called when the other replicas should soon get this replica's state.
        trigger: Reconciles a key again.
        grace: Seconds that reconciles have to end before they are cancelled.
        gone_for: Seconds for which a reconcile may clean up after a deleted object.
        clock: Its `boot` is used.
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
        self._skipped: set[str] = set()  # cached keys whose slots were not ours at `admit`
        self._missing: set[str] = set()  # our keys in the ledger that were not cached at `admit`, maybe deleted
        self._changed_under_way: dict[str, int] = {}  # keys changed or deleted during their reconcile: version
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
            return Admission(Verdict.LATER)  # the cache or the ledger has not seen everything
        if uid is None:
            return self._admit_gone(key)
        slot = slot_of(uid)
        if cached is None:
            # The cache triggers the key when the object arrives. A deletion may have reached it before the ledger.
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
        # A reconcile that reads an owned resource too early misses existing objects, and creates them again. If a slot
        # was away for a moment, the list from that moment removes its objects once more before the next list.
        if self._slots.fresh and self._caches.settled:
            self._slots.fresh = frozenset()
        return slot in self._slots.fresh

    async def reconcile(self, key: str, admission: Admission, call: Coroutine[object, object, T]) -> T:
        """Run a reconcile that was just admitted, without an `await` in between.

        Raises:
            ShardLostError: It was stopped, because its key is, or may soon be, another replica's.
        """
        slot = admission.slot
        releases = self._slots.releases[slot]

        def check() -> None:
            # Taking the slot again gives no right to tasks that an earlier reconcile left behind.
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
                    why = f"the reconcile of key {key} (slot {slot}) was stopped: the key may now be another replica's"
                    raise ShardLostError(why) from None
                raise

    def _reconcile_ended(self, key: str, active: _ActiveReconcile) -> None:
        if self._active.get(key) is active:
            del self._active[key]
        if self._changed_under_way.pop(key, None) is not None:
            self._request_heartbeat()

    def _key_changed(self, key: str, version: int, *, gone: bool) -> None:
        """Handle a key whose uid changes in the ledger, or is removed from it."""
        active = self._active.get(key)
        if active is not None:
            # Until the reconcile has ended, this version must not be reported as seen.
            self._changed_under_way[key] = min(version, self._changed_under_way.get(key, version))
            if not gone:
                asyncio.get_running_loop().call_later(self._grace, self._stop_if_active, key, active)
        if gone and key in self._missing:
            self._missing.remove(key)
            self._trigger(key)
        if not gone:  # other replicas may wait until we have seen a new object, but not a deletion
            self._request_heartbeat()

    def _stop_if_active(self, key: str, active: _ActiveReconcile) -> None:
        if self._active.get(key) is active:
            active.stop()

    # --- the methods of a ShardWork -----------------------------------------------------------------------------

    def begin_membership(self) -> None:
        """Fill a new ledger, because the old one may have missed events between two memberships."""
        self._is_member = True
        self._missing.clear()
        self.ledger = ShardLedger(self._boot, self._key_changed)
        self._follower.follow_into(self.ledger)

    def take_slots(self, slots: frozenset[int]) -> None:
        """Take over these slots. They are opened as soon as the ledger is complete and confirmed."""
        self._slots.taken |= slots
        self._open_taken_slots()

    def update_members(self, members: ShardMembers) -> None:
        """Take over the versions that the other replicas have seen."""
        self.ledger.confirm_initial(members.seen, members.asked)
        self._follower.confirm(members.seen, members.asked, self._gone_for * _CLOCK_TOLERANCE)
        self._open_taken_slots()

    def _open_taken_slots(self) -> None:
        if self.ledger.applied and self.ledger.initial_doubt is None and self._slots.taken - self.open:
            self._slots.open_taken()
            self._caches.set_slots(self._slots.cached)
            # A slot that is back before the cache has dropped it causes no events.
            skipped, self._skipped = self._skipped, set()
            for key in skipped:
                self._trigger(key)

    def version_seen(self) -> int | None:
        """Return the version up to which everything was seen and no older work is running, or None if unknown."""
        applied = self.ledger.applied
        if not applied or not self._is_member:
            return None
        return min([applied, *(version - 1 for version in self._changed_under_way.values())])

    async def release_slots(self, slots: frozenset[int]) -> None:
        """Close the slots, let reconciles end within the grace, cancel the rest, and return when none is running."""
        self._slots.close(slots)
        try:
            await self._stop_reconciles(slots, self._grace)
        finally:
            self._slots.release(slots)
        self._caches.set_slots(self._slots.cached)

    def drop_all_slots(self) -> None:
        """Cancel all reconciles immediately."""
        self._slots.close(ALL_SLOTS)
        self._slots.release(ALL_SLOTS)
        self._caches.set_slots(frozenset())
        self._is_member = False
        for active in self._active.values():
            active.stop()

    async def wait_idle(self) -> None:
        """Wait until no reconcile is running."""
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
