"""The gate: which reconcile of a sharded controller may start here, and how all of them are stopped."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from kinformer._runtime.clock import Clock
from kinformer._runtime.fence import Fence
from kinformer.exceptions import LeadershipLostError
from kinformer.sharding.ledger import ShardLedger
from kinformer.sharding.members import ShardMembers
from kinformer.sharding.slots import SLOTS, slot_of
from kinformer.sharding.source import ShardSource

__all__ = ["Admission", "ShardGate", "ShardLostError", "Verdict"]

T = TypeVar("T")


class ShardLostError(LeadershipLostError):
    """The slot that a reconcile was about is no longer this replica's."""


class Verdict(enum.Enum):
    """What is to happen with a key now."""

    START = "it is ours"
    LATER = (
        "it may be ours, and somebody else may still be busy with it, or what we have seen does not fit together yet"
    )
    FRESH = "it is ours, and so are many that were taken with it: the caches do not hold all of these yet"
    SKIP = "it is somebody else's, or nobody's; should it become ours, we shall hear of it"


class Admission(NamedTuple):
    """A verdict; of a START the slot, and how many seconds the reconcile may take (None: no limit)."""

    verdict: Verdict
    slot: int = -1
    limit: float | None = None


@dataclass(slots=True)
class _Run:
    slot: int
    task: asyncio.Task[Any]
    stopped: bool = False

    def stop(self) -> None:
        """Cancel it, because its slot goes, or has gone, to somebody else."""
        self.stopped = True
        self.task.cancel()


class ShardGate:
    """What one replica does with its slots; a `ShardWork`.

    Slots are opened when they are ours and the ledger is complete, and closed before they are given away. A key is
    admitted if the ledger, and the cache that the reconcile will read, agree on its uid, its slot is open, and nobody
    else can be busy with it. A key whose object has gone belongs to whoever had its slot, for `gone_for` seconds: that
    is how long a reconcile may clean up behind it.

    Args:
        sources: Are resharded with the slots.
        settled: Whether the caches that reconciles read hold what is in the slots that the sources have by now, and no
            list of other slots is still on its way into them.
        has: Whether a slot is ours by the clock.
        cached_uid: The uid that the cache has under a key, or None.
        hurry: There is something to tell the others.
        trigger: Has a key looked at again.
        restart: Have a new ledger filled, by a list that is asked for from now on.
        confirm: Have the ledger told what the others have seen, when they were asked, and after how many seconds it is
            to forget a tombstone; see `ShardLedger.confirming`.
        grace: Seconds that reconciles have to end before they are cancelled.
        gone_for: Seconds.
        clock: Whose `boot` is read.
    """

    def __init__(
        self,
        *,
        sources: Sequence[ShardSource],
        settled: Callable[[], bool],
        has: Callable[[int], bool],
        cached_uid: Callable[[str], str | None],
        hurry: Callable[[], None],
        trigger: Callable[[str], None],
        restart: Callable[[ShardLedger], None],
        confirm: Callable[[int | None, float, float], None],
        grace: float,
        gone_for: float,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._settled = settled
        self._has = has
        self._cached_uid = cached_uid
        self._hurry = hurry
        self._trigger = trigger
        self._restart = restart
        self._confirm = confirm
        self._grace = grace
        self._gone_for = gone_for
        self._boot = clock.boot
        self._taken: frozenset[int] = frozenset()
        self._open: frozenset[int] = frozenset()
        self._fresh: frozenset[int] = frozenset()  # of these: what the caches may not have to the full yet
        self._leaving: frozenset[int] = frozenset()  # not open any more; what runs still reads the caches
        self._active: dict[str, _Run] = {}
        self._times_gone = [0] * SLOTS  # of each slot
        self._skipped: set[str] = set()  # keys in the cache that were not ours when they were looked at
        self._missing: set[str] = set()  # keys of ours in the ledger that were not in the cache when looked at: gone?
        self._unsettled: dict[str, int] = {}  # keys under way that have changed hands, and at which version
        self.ledger = ShardLedger(self._boot, self._changed)
        self._is_member = False

    @property
    def open(self) -> frozenset[int]:
        """The slots that are worked on."""
        return self._open

    # --- reconciles -------------------------------------------------------------------------------------------

    def admit(self, key: str) -> Admission:
        """What is to happen with a key now."""
        ledger = self.ledger
        self._missing.discard(key)
        if ledger.changing(key):
            return Admission(Verdict.LATER)
        uid, cached = ledger.uid(key), self._cached_uid(key)
        if cached is not None and cached != uid:
            return Admission(Verdict.LATER)  # one of the two has not heard everything
        if uid is None:
            return self._admit_gone(key)
        slot = slot_of(uid)
        if cached is None:
            # Of a change the cache will tell; of an end it may have told already, ahead of the ledger.
            if slot in self._open:
                self._missing.add(key)
            return Admission(Verdict.SKIP)
        if slot not in self._open or not self._has(slot):
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
        if left <= 0 or slot not in self._open or not self._has(slot):
            return Admission(Verdict.SKIP)
        return Admission(Verdict.FRESH if self._is_fresh(slot) else Verdict.START, slot, left)

    def _is_fresh(self, slot: int) -> bool:
        # What reads an owned resource too early finds nothing of what there is, and makes it a second time. And where a
        # slot was away for a moment, the list of that moment takes its objects out once more, before the next one.
        if self._fresh and self._settled():
            self._fresh = frozenset()
        return slot in self._fresh

    async def work(self, key: str, admission: Admission, call: Coroutine[Any, Any, T]) -> T:
        """Runs a reconcile that was admitted just before, without an `await` in between.

        Raises:
            ShardLostError: It was stopped because its slot was not, or was not to be, ours any longer.
        """
        slot = admission.slot
        times_gone = self._times_gone[slot]

        def check() -> None:
            # Having it again is no right for what an earlier reconcile has left behind.
            if self._times_gone[slot] != times_gone or not self._has(slot):
                raise ShardLostError(f"slot {slot}, of {key}, is not this replica's any more")

        with Fence(check):
            task = asyncio.create_task(call, name=f"kinformer sharded reconcile {key}")
            run = self._active[key] = _Run(slot, task)
            task.add_done_callback(lambda _: self._ended(key, run))
            try:
                async with asyncio.timeout(admission.limit):
                    return await task
            except asyncio.CancelledError:
                current = asyncio.current_task()
                if run.stopped and (current is None or not current.cancelling()):
                    raise ShardLostError(f"slot {slot}, of {key}, goes to another replica") from None
                raise

    def _ended(self, key: str, run: _Run) -> None:
        if self._active.get(key) is run:
            del self._active[key]
        if self._unsettled.pop(key, None) is not None:
            self._hurry()

    def _changed(self, key: str, version: int, *, gone: bool) -> None:
        """The ledger hears that a key has another uid, or none."""
        run = self._active.get(key)
        if run is not None:
            # Until it has ended, nobody may rely on our having seen this version.
            self._unsettled[key] = min(version, self._unsettled.get(key, version))
            if not gone:
                asyncio.get_running_loop().call_later(self._grace, self._cancel, key, run)
        if gone and key in self._missing:
            self._missing.remove(key)
            self._trigger(key)
        if not gone:  # others may wait for us to have seen the new one; what has gone nobody waits for
            self._hurry()

    def _cancel(self, key: str, run: _Run) -> None:
        if self._active.get(key) is run:
            run.stop()

    # --- what a membership calls ------------------------------------------------------------------------------

    def joined(self) -> None:
        """Fill a new ledger: the old one may have missed what others did while we were not a member."""
        self._is_member = True
        self._missing.clear()
        self.ledger = ShardLedger(self._boot, self._changed)
        self._restart(self.ledger)

    def taken(self, slots: frozenset[int]) -> None:
        """These slots are ours; they are opened as soon as the ledger is complete."""
        self._taken |= slots
        self._open_taken()

    def heard(self, members: ShardMembers) -> None:
        """The others have told what they have seen."""
        self.ledger.begin_confirmed(members.seen, members.asked)
        self._confirm(members.seen, members.asked, self._gone_for * 1.25)  # theirs may run slower than our clock
        self._open_taken()

    def _open_taken(self) -> None:
        if self.ledger.applied and self.ledger.begin is None and self._taken - self._open:
            self._set_open(self._taken)
            # A slot that is back before the cache was cut down brings no events with it.
            skipped, self._skipped = self._skipped, set()
            for key in skipped:
                self._trigger(key)

    def _set_open(self, slots: frozenset[int]) -> None:
        self._fresh = (self._fresh | slots - self._open) & slots
        self._open = slots
        for source in self._sources:
            source.reshard(slots | self._leaving)

    def seen(self) -> int | None:
        """Up to where we have heard everything, and have nothing older under way."""
        applied = self.ledger.applied
        if not applied or not self._is_member:
            return None
        return min([applied, *(version - 1 for version in self._unsettled.values())])

    async def leave(self, slots: frozenset[int]) -> None:
        """Admit nothing new, let what runs end within the grace, cancel the rest; return when nothing runs."""
        self._taken -= slots
        self._open -= slots
        # The sources keep the objects until the work that reads them has ended, or it would take them for deleted.
        self._leaving |= slots
        try:
            await self._stop(slots, self._grace)
        finally:
            self._leaving -= slots
        self._count_gone(slots)
        self._set_open(self._open)

    def lapsed(self) -> None:
        """Cancel everything, at once."""
        self._taken = self._leaving = frozenset()
        self._count_gone(range(SLOTS))
        self._set_open(frozenset())
        self._is_member = False
        for run in self._active.values():
            run.stop()

    def _count_gone(self, slots: Iterable[int]) -> None:
        for slot in slots:
            self._times_gone[slot] += 1

    async def idle(self) -> None:
        """Until nothing runs."""
        while self._active:
            await asyncio.wait({run.task for run in self._active.values()})

    async def _stop(self, slots: frozenset[int], grace: float) -> None:
        def running() -> list[_Run]:
            return [run for run in self._active.values() if run.slot in slots]

        if runs := running():
            await asyncio.wait({run.task for run in runs}, timeout=grace)
        for run in running():
            run.stop()
        while runs := running():
            await asyncio.wait({run.task for run in runs})
