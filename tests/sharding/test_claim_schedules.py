"""Never two owners of a uid, and soon one again: crashes, lost nodes, spares and changes of the count.

KINFORMER_SCHEDULES says how many random schedules there are: some dozens by default, thousands for a night.

Internals: the simulation, since hours of real schedules take hours.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer.exceptions import LeadershipLostError
from kinformer.leaderelection import check_fences
from kinformer.sharding import Shard
from kinformer.testing.simulation.processes import Process, Simulation
from tests.support.kube import entry
from tests.support.lease_server import LeaseServer, NetworkClient

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "60"))
LEASE, PERIOD = 15.0, 2.0  # lease_duration and retry_period by default
ONE_TRY = 1.2 * PERIOD + 0.5  # seconds: the longest pause between two lists, and the requests
FAULTY = 120.0  # seconds of a schedule in which things go wrong
CALM = 90.0  # ... and of calm after them: six leases, for each part to be taken
UIDS = [f"0a1b2c3d-{number * 2654435761 % 2**32:08x}" for number in range(48)]


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@cache
def uids_of(shard: Shard) -> frozenset[str]:
    return frozenset(uid for uid in UIDS if shard.has(entry(uid=uid)))


@dataclass(eq=False)
class Replica:
    """A process that holds a part whenever it can, and acts for its uids."""

    process: Process
    client: NetworkClient
    count: int
    shard: Shard | None = None
    context: Context | None = None
    acts: int = 0

    async def run(self) -> None:
        while True:
            with suppress(LeadershipLostError):
                async with Shard.claim(
                    self.client,
                    name="work",
                    count=self.count,
                    namespace="ns",
                    identity=self.process.name,
                    clock=self.process.clock,
                ) as self.shard:
                    self.context = copy_context()
                    try:
                        await self.work()
                    finally:
                        self.shard = None
            await asyncio.sleep(0.5)

    async def work(self) -> None:
        while True:
            check_fences()  # as `Client.request` does
            self.acts += 1
            await asyncio.sleep(0.9)

    @property
    def owned(self) -> frozenset[str]:
        """The uids for which it may act now."""
        if self.process.dead or self.shard is None or self.context is None:
            return frozenset()
        try:
            self.context.run(check_fences)
        except LeadershipLostError:
            return frozenset()
        return uids_of(self.shard)

    @property
    def lives(self) -> bool:
        return not self.process.dead and not self.process.tasks[-1].done()

    def leave(self) -> None:
        """End in order, as at a SIGTERM."""
        self.process.loop.call_soon(self.process.tasks[-1].cancel)


class Site:
    """One simulation: Leases, replicas, and who owned what for how long."""

    def __init__(self, seed: int, **network: float) -> None:
        self.random = Random(seed)
        self.simulation = Simulation()
        self.server = LeaseServer(self.simulation)
        self.replicas: list[Replica] = []
        self.network = network
        self.orphaned_at = dict.fromkeys(UIDS, 0.0)  # of uids without an owner
        self.pauses: list[tuple[float, float]] = []  # from when to when a uid had no owner
        self.simulation.after_each_turn = self.look

    def start(self, *counts: int) -> list[Replica]:
        started = []
        for count in counts:
            process = self.simulation.process(
                f"r{len(self.replicas)}", rate=self.random.uniform(0.98, 1.02), wall=self.random.uniform(-1e6, 1e6)
            )
            replica = Replica(process, NetworkClient(process, self.server, self.random, **self.network), count)
            self.replicas.append(replica)
            started.append(replica)
            process.start(replica.run())
        return started

    def look(self) -> None:
        """Look for uids with two owners. Between two turns a uid can only lose an owner, so no moment is missed."""
        now, owned = self.simulation.now, [replica.owned for replica in self.replicas]
        all_owned = frozenset().union(*owned)
        if sum(map(len, owned)) > len(all_owned):
            holders = [(r.process.name, r.shard) for r, uids in zip(self.replicas, owned, strict=True) if uids]
            raise AssertionError(f"at {now:.3f} s a uid has two owners: {holders}")
        for uid in UIDS:
            if uid not in all_owned:
                self.orphaned_at.setdefault(uid, now)
            elif uid in self.orphaned_at:
                self.pauses.append((self.orphaned_at.pop(uid), now))

    def run(self, seconds: float) -> None:
        self.simulation.run(self.simulation.now + seconds)

    def longest_pause(self, since: float) -> float:
        """Return the longest time without an owner, of pauses that began at this time or later, and of those now."""
        open_pauses = [(began, self.simulation.now) for began in self.orphaned_at.values()]
        return max((end - began for began, end in self.pauses + open_pauses if began >= since), default=0.0)

    def holders(self) -> dict[Shard, Replica]:
        return {replica.shard: replica for replica in self.replicas if replica.owned and replica.shard is not None}


@contextmanager
def site(seed: int, **network: float) -> Iterator[Site]:
    before = random.getstate()
    random.seed(seed)  # what is drawn by lot in the package itself
    made = Site(seed, **network)
    try:
        yield made
    finally:
        made.simulation.close()
        random.setstate(before)


SEEDS = range(8)


def shared(made: Site, *counts: int) -> float:
    """Start replicas until all is owned. Returns the time."""
    made.start(*counts)
    made.run(20)
    assert not made.orphaned_at
    assert len(made.holders()) == counts[0]
    return made.simulation.now


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("killed", [1, 3])
def test_a_killed_holder_has_a_successor_as_soon_as_its_lease_has_ended(seed: int, killed: int) -> None:
    with site(seed) as made:
        began = shared(made, 3, 3, 3, 3, 3, 3)
        victims = made.random.sample(list(made.holders().values()), killed)
        for victim in victims:
            made.run(made.random.uniform(0, 3))
            victim.process.kill()
        made.run(40)
        assert len(made.holders()) == 3
        # The Lease counts from the last list that showed a renewal.
        assert 10 < made.longest_pause(began) <= LEASE + ONE_TRY


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", ["cut", "stop", "suspend"])
def test_the_part_of_a_lost_node_is_taken_and_the_node_that_comes_back_waits(seed: int, how: str) -> None:
    with site(seed) as made:
        began = shared(made, 2, 2, 2)
        shard, lost = made.random.choice(list(made.holders().items()))
        if how == "cut":
            lost.client.cut_until = made.simulation.now + 60
        else:
            lost.process.stop(60, suspend=how == "suspend")
        made.run(30)
        assert made.holders()[shard] is not lost
        acts = lost.acts
        made.run(60)
        assert lost.lives
        assert lost.acts == acts
        assert lost not in made.holders().values()
        # It stops relying on its Lease 10 s after its last renewal, and others take it from 15 s on.
        assert made.longest_pause(began) <= LEASE - 10 + PERIOD + ONE_TRY


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_is_away_for_less_than_its_right_keeps_its_part(seed: int) -> None:
    with site(seed) as made:
        began = shared(made, 2, 2, 2)
        before = made.holders()
        for replica in before.values():
            replica.process.stop(7)
        made.run(60)
        assert made.holders() == before
        assert made.longest_pause(began) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_spares_take_the_parts_of_replicas_that_end_one_after_the_other(seed: int) -> None:
    with site(seed) as made:
        began = shared(made, 3, 3, 3)
        for _ in range(6):  # a rolling update: a replica more, then one of the old ones less
            made.start(3)
            made.run(ONE_TRY)
            made.random.choice(list(made.holders().values())).leave()
            made.run(5)
            assert len(made.holders()) == 3
        assert made.longest_pause(began) <= ONE_TRY


@pytest.mark.parametrize("seed", SEEDS)
def test_without_a_spare_one_part_has_no_owner_and_the_others_do_not_notice(seed: int) -> None:
    with site(seed) as made:
        began = shared(made, 3, 3, 3)
        shard, victim = made.random.choice(list(made.holders().items()))
        victim.process.kill()
        made.run(60)
        assert set(made.orphaned_at) == uids_of(shard)
        assert len(made.holders()) == 2
        assert not [pause for pause in made.pauses if pause[0] >= began]
        made.start(3)
        made.run(LEASE + ONE_TRY)
        assert not made.orphaned_at


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("old", "new"), [(3, 2), (2, 3), (1, 5), (4, 4)])
@pytest.mark.parametrize("how", ["in order", "killed"])
def test_a_change_of_the_count_leaves_nothing_without_an_owner_for_longer_than_a_lease(
    seed: int, old: int, new: int, how: str
) -> None:
    with site(seed) as made:
        shared(made, *[old] * old)
        leaving = list(made.replicas)
        made.start(*[new] * new)
        made.run(30)
        if old != new:
            assert {shard.count for shard in made.holders()} == {old}
        began = made.simulation.now
        for replica in leaving:
            if how == "killed":
                replica.process.kill()
            else:
                replica.leave()
        made.run(60)
        assert not made.orphaned_at
        assert {shard.count for shard in made.holders()} == {new}
        assert made.longest_pause(began) <= ONE_TRY + (LEASE if how == "killed" else 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_slow_change_of_the_count_only_the_parts_of_ended_replicas_wait_for_the_last_one(seed: int) -> None:
    with site(seed) as made:
        shared(made, 3, 3, 3)
        old = list(made.replicas)
        made.start(2, 2)
        for replica in old:
            made.run(20)
            before = made.holders()
            assert all(shard.count == 3 for shard in before)
            assert set(before.values()) == set(old[old.index(replica) :])
            replica.leave()
        last = made.simulation.now
        made.run(30)
        assert not made.orphaned_at
        assert {shard.count for shard in made.holders()} == {2}
        assert max(end for _, end in made.pauses) <= last + ONE_TRY


# --- random schedules -------------------------------------------------------------------------------------------------

Fault = tuple[float, str, int, float]  # when, what, to whom, how long or how much

KINDS = ["stop", "suspend", "kill", "leave", "join", "cut", "server down", "network", "wall", "label"]
FAULTS = st.lists(
    st.tuples(st.floats(0.0, FAULTY), st.sampled_from(KINDS), st.integers(0, 7), st.floats(0.1, 40.0)), max_size=14
)


def inject(made: Site, kind: str, which: int, amount: float) -> None:
    alive = [replica for replica in made.replicas if replica.lives]
    if kind == "join":
        if len(alive) < 8:
            made.start(2 + which % 3)
        return
    if kind == "server down":
        made.server.down_until = made.simulation.now + amount
        return
    if not alive:
        return
    replica = alive[which % len(alive)]
    if kind in ("stop", "suspend"):
        replica.process.stop(amount, suspend=kind == "suspend")
    elif kind == "kill":
        replica.process.kill()
    elif kind == "leave":
        replica.leave()
    elif kind == "cut":
        replica.client.cut_until = made.simulation.now + amount
    elif kind == "network":
        client = replica.client
        client.lost = client.unanswered = client.failing = client.slow = amount / 100
    elif kind == "wall":
        replica.process.jump_wall((amount - 20) * 1000)
    elif kind == "label" and made.server.leases:
        name = made.random.choice(sorted(made.server.leases))
        made.server.write("kubectl", name, made.server.leases[name])


def calm_down(made: Site, count: int) -> None:
    """End what goes wrong, and the replicas of other counts, and have a replica for each part of this count."""
    made.server.down_until = 0.0
    for replica in made.replicas:
        client = replica.client
        client.cut_until = client.lost = client.unanswered = client.failing = client.slow = 0.0
        if replica.lives and replica.count != count:
            replica.leave()
    made.start(*[count] * count)


def play(seed: int, counts: list[int], faults: list[Fault]) -> None:
    with site(seed, lost=0.02, unanswered=0.02, failing=0.02, slow=0.02) as made:
        made.start(*counts)
        for at, *what in faults:
            made.simulation.later(at, lambda what=what: inject(made, *what))  # type: ignore[misc]
        made.run(FAULTY)
        made.network = {}
        calm_down(made, counts[0])
        made.run(CALM)
        assert not made.orphaned_at, {r.process.name: r.shard for r in made.replicas if r.lives}
        assert len(made.holders()) == counts[0]


BUDGET = settings(
    max_examples=SCHEDULES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)


@pytest.mark.search
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mixed", [False, True], ids=["one count", "several counts"])
def test_no_uid_has_ever_two_owners_and_after_the_faults_each_has_one(mixed: bool) -> None:
    counts = st.lists(st.integers(1, 4), min_size=1, max_size=8)

    @BUDGET
    @given(st.integers(0, 2**32), counts, FAULTS)
    def check(seed: int, counts: list[int], faults: list[Fault]) -> None:
        play(seed, counts if mixed else [counts[0]] * (counts[0] + len(counts) // 2), faults)

    check()


# --- Leases that are edited by hand -----------------------------------------------------------------------------------

EDITS: dict[str, Callable[[dict[str, Any]], object]] = {
    "the holder is emptied": lambda spec: spec.update(holderIdentity=""),
    "the holder is a number": lambda spec: spec.update(holderIdentity=5),
    "the holder is another program": lambda spec: spec.update(holderIdentity="another"),
    "everything is taken out": lambda spec: spec.clear(),
    "renewTime is in the far future": lambda spec: spec.update(renewTime="2999-01-01T00:00:00.000000Z"),
    "the duration is one second": lambda spec: spec.update(leaseDurationSeconds=1),
    "the duration has 400 digits": lambda spec: spec.update(leaseDurationSeconds=10**400),
}


@pytest.mark.search
@pytest.mark.parametrize("edit", [*EDITS, "the Lease is deleted"])
def test_an_edited_lease_costs_its_part_for_two_leases_at_most_and_never_has_a_uid_two_owners(edit: str) -> None:
    for seed in range(6):
        with site(seed) as made:
            began = shared(made, 3, 3, 3, 3, 3)
            made.start(2, 2)
            for _ in range(5):
                made.run(made.random.uniform(40, 50))
                name = made.random.choice(sorted(f"work-{shard.index}-of-3" for shard in made.holders()))
                lease = copy.deepcopy(made.server.leases[name])
                if edit in EDITS:
                    EDITS[edit](lease["spec"])
                    made.server.write("kubectl", name, lease)
                else:
                    del made.server.leases[name]
            made.run(40)
            assert len(made.holders()) == 3
            assert made.longest_pause(began) <= 2 * LEASE + ONE_TRY
