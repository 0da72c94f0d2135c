"""The gate of a share: it decides which keys may start, while the caches keep their objects.

Internals: the gate, since a controller does not show what it decides.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from kinformer.exceptions import ShardLostError
from kinformer.leaderelection import check_fences
from kinformer.sharding.gate import ShardGate, Verdict
from kinformer.sharding.ledger import ShardLedger
from kinformer.sharding.slots import slot_of
from tests.support.machine_clock import MachineClock

pytestmark = pytest.mark.virtual_time


class Obj(NamedTuple):
    key: str
    uid: str
    resource_version: str = "5"


class Caches:
    """The caches of a share; remembers the slots that they were cut down to."""

    def __init__(self, uids: dict[str, str]) -> None:
        self.uids = uids
        self.settled = True
        self.slots: list[frozenset[int]] = []

    def set_slots(self, slots: frozenset[int]) -> None:
        self.slots.append(slots)

    def cached_uid(self, key: str) -> str | None:
        return self.uids.get(key)


class Follower:
    """Fills a ledger at once, and has it confirm at once."""

    def __init__(self, objects: tuple[Obj, ...]) -> None:
        self._objects = objects
        self._ledger: ShardLedger | None = None

    def follow_into(self, ledger: ShardLedger) -> None:
        self._ledger = ledger
        ledger.replace(self._objects, "10")
        ledger.confirm(None, float("inf"))

    def confirm(self, seen: int | None, asked: float, forget_after: float) -> None:
        assert self._ledger is not None
        self._ledger.confirm(seen, asked, forget_after)


class Scene:
    """A gate, whose slots are held by the clock until a test says otherwise, and a ledger that is complete."""

    def __init__(self, *objects: Obj, grace: float = 5.0) -> None:
        self.held = True
        self.requested = 0
        self.triggered: list[str] = []
        self.cached = {obj.key: obj.uid for obj in objects}
        self.caches = Caches(self.cached)
        self.gate = ShardGate(
            caches=self.caches,  # type: ignore[arg-type]
            follower=Follower(objects),  # type: ignore[arg-type]
            has_slot=lambda slot: self.held,
            request_heartbeat=self._count_request,
            trigger=self.triggered.append,
            grace=grace,
            gone_for=60.0,
            clock=MachineClock().clock,
        )

    def _count_request(self) -> None:
        self.requested += 1

    def begin(self, *slots: int) -> None:
        self.gate.begin_membership()
        self.gate.take_slots(frozenset(slots))

    def start(self, key: str, work: Any) -> asyncio.Task[Any]:
        admission = self.gate.admit(key)
        assert admission.verdict is Verdict.START
        return asyncio.create_task(self.gate.reconcile(key, admission, work))


A, B = Obj("ns/a", "a-uid"), Obj("ns/b", "b-uid")
SLOT_A, SLOT_B = slot_of(A.uid), slot_of(B.uid)
assert SLOT_A != SLOT_B


async def test_what_is_given_away_stays_in_the_caches_until_its_work_has_ended_whatever_is_taken() -> None:
    scene = Scene(A, B)
    scene.begin(SLOT_A)
    done = asyncio.Event()
    task = scene.start("ns/a", done.wait())
    leaving = asyncio.create_task(scene.gate.release_slots(frozenset({SLOT_A})))
    await asyncio.sleep(1)
    scene.gate.take_slots(frozenset({SLOT_B}))
    await asyncio.sleep(1)
    assert scene.gate.open == {SLOT_B}
    assert scene.caches.slots[-1] == {SLOT_A, SLOT_B}
    assert scene.gate.admit("ns/a").verdict is Verdict.SKIP
    done.set()
    await task
    await leaving
    assert scene.caches.slots[-1] == {SLOT_B}


async def test_a_share_that_was_taken_waits_for_the_other_caches_and_what_was_had_before_does_not() -> None:
    scene = Scene(A, B)
    scene.begin(SLOT_A)
    assert scene.gate.admit("ns/a").verdict is Verdict.START
    scene.caches.settled = False
    scene.gate.take_slots(frozenset({SLOT_B}))
    assert scene.gate.admit("ns/a").verdict is Verdict.START
    assert scene.gate.admit("ns/b").verdict is Verdict.FRESH
    scene.caches.settled = True
    assert scene.gate.admit("ns/b").verdict is Verdict.START
    scene.caches.settled = False  # the next list of a cache is no reason to wait again
    assert scene.gate.admit("ns/b").verdict is Verdict.START


async def test_cleaning_up_behind_what_is_gone_waits_for_the_other_caches_too() -> None:
    scene = Scene(A)
    scene.caches.settled = False
    scene.begin(SLOT_A)
    scene.gate.ledger.delete(Obj(A.key, A.uid, "11"))
    del scene.cached[A.key]
    assert scene.gate.admit("ns/a").verdict is Verdict.FRESH
    scene.caches.settled = True
    admission = scene.gate.admit("ns/a")
    assert (admission.verdict, admission.limit) == (Verdict.START, 60.0)


async def test_an_end_of_which_the_ledger_hears_last_is_cleaned_up_behind_once_it_has_heard() -> None:
    scene = Scene(A, B)
    scene.begin(SLOT_A)
    scene.cached.clear()
    assert scene.gate.admit("ns/a").verdict is Verdict.SKIP
    assert scene.gate.admit("ns/b").verdict is Verdict.SKIP
    assert not scene.triggered
    scene.gate.ledger.delete(Obj(A.key, A.uid, "11"))
    scene.gate.ledger.delete(Obj(B.key, B.uid, "12"))
    assert scene.triggered == ["ns/a"]  # the other is not ours
    assert scene.gate.admit("ns/a").verdict is Verdict.START


async def test_an_end_alone_hurries_nobody_but_an_object_made_again_does_and_the_end_of_work_on_an_old_one() -> None:
    scene = Scene(A, B)
    scene.begin(SLOT_A, SLOT_B)
    scene.gate.ledger.delete(Obj(B.key, B.uid, "11"))
    assert scene.requested == 0
    scene.gate.ledger.add(Obj(B.key, "uid-other", "12"))
    assert scene.requested == 1
    done = asyncio.Event()
    task = scene.start("ns/a", done.wait())
    await asyncio.sleep(0)
    scene.gate.ledger.delete(Obj(A.key, A.uid, "13"))
    assert (scene.requested, scene.gate.version_seen()) == (1, 12)
    done.set()
    await task
    assert (scene.requested, scene.gate.version_seen()) == (2, 13)


async def test_an_object_that_came_to_the_cache_after_the_ledger_is_looked_at_once_and_its_end_once() -> None:
    scene = Scene(A)
    scene.begin(SLOT_A)
    scene.cached.clear()
    assert scene.gate.admit("ns/a").verdict is Verdict.SKIP
    scene.cached[A.key] = A.uid
    assert scene.gate.admit("ns/a").verdict is Verdict.START
    scene.gate.ledger.delete(Obj(A.key, A.uid, "11"))
    assert not scene.triggered  # the cache has yet to hear of it, and triggers the key itself


async def test_a_key_that_a_list_in_progress_has_otherwise_is_not_begun() -> None:
    scene = Scene(A, B)
    scene.begin(SLOT_A, SLOT_B)
    steps = scene.gate.ledger.replace_in_steps(
        [Obj(A.key, "uid-other", "12"), *[Obj(f"ns/{n}", "u") for n in range(63)]], "20"
    )
    next(steps)
    assert scene.gate.admit("ns/a").verdict is Verdict.LATER
    assert scene.gate.admit("ns/b").verdict is Verdict.START


async def test_work_that_does_not_end_within_the_grace_is_cancelled_before_the_share_is_given_away() -> None:
    scene = Scene(A, grace=3.0)
    scene.begin(SLOT_A)
    task = scene.start("ns/a", asyncio.Event().wait())
    await asyncio.sleep(0)
    began = asyncio.get_running_loop().time()
    await scene.gate.release_slots(frozenset({SLOT_A}))
    assert asyncio.get_running_loop().time() - began == pytest.approx(3.0)
    with pytest.raises(ShardLostError, match="the key may now be another replica's"):
        await task


async def test_what_a_reconcile_left_behind_may_act_until_its_share_goes_and_not_when_that_is_back() -> None:
    scene = Scene(A)
    scene.begin(SLOT_A)
    before, after = asyncio.Event(), asyncio.Event()
    left: list[asyncio.Task[None]] = []

    async def left_behind(go_on: asyncio.Event) -> None:
        await go_on.wait()
        check_fences()  # as `Client.request` does

    async def reconcile() -> None:
        left.extend(asyncio.create_task(left_behind(go_on)) for go_on in (before, after))

    await scene.start("ns/a", reconcile())
    before.set()
    await left[0]
    await scene.gate.release_slots(frozenset({SLOT_A}))
    scene.gate.take_slots(frozenset({SLOT_A}))
    after.set()
    with pytest.raises(ShardLostError, match="is no longer this replica's"):
        await left[1]


async def test_what_a_reconcile_cancels_itself_is_its_own_failure_and_no_lost_share() -> None:
    scene = Scene(A)
    scene.begin(SLOT_A)

    async def awaits_what_is_cancelled() -> None:
        waiting = asyncio.ensure_future(asyncio.Event().wait())
        waiting.cancel()
        await waiting

    with pytest.raises(asyncio.CancelledError):
        await scene.start("ns/a", awaits_what_is_cancelled())
