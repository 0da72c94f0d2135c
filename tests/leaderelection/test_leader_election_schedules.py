"""Never two leaders, in any random schedule; see kinformer/testing/simulation for what one may hold.

KINFORMER_SCHEDULES says how many: some hundreds by default, thousands for a night.

Internals: the simulation, since hours of real schedules take hours.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import LeaderElector
from kinformer.exceptions import LeadershipLostError
from kinformer.leaderelection import check_fences
from kinformer.testing.simulation.processes import Process, Simulation
from tests.support.lease_server import LeaseServer, NetworkClient

pytestmark = pytest.mark.search

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "200"))
FAULTY = 120.0  # seconds of a schedule in which things go wrong
CALM = 60.0  # ... and of calm after them: four leases, for a leader to be found


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Candidate:
    process: Process
    client: NetworkClient
    elector: LeaderElector
    acts: list[float] = field(default_factory=list)
    terms: int = 0

    async def campaign(self) -> None:
        """Leads whenever it can; a body ends by itself now and then."""
        while True:
            with suppress(LeadershipLostError):
                async with self.elector.leading():
                    self.terms += 1
                    await self.lead()
            await asyncio.sleep(0.5)

    def restart(self) -> None:
        """The program cancels its campaign, and when that has ended begins another."""
        if not self.process.dead and self.process.tasks:
            task = self.process.tasks.pop()
            task.add_done_callback(lambda _: self.process.start(self.campaign()))
            self.process.loop.call_soon(task.cancel)

    async def lead(self) -> None:
        for _ in range(60):
            check_fences()  # as `Client.request` does
            self.acts.append(self.process.simulation.now)
            await asyncio.sleep(0.9)


@dataclass
class Intervals:
    """Who led from when to when, as `is_leader` said."""

    simulation: Simulation
    candidates: list[Candidate]
    done: list[tuple[str, float, float]] = field(default_factory=list)
    open: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        # Between two turns nobody can become a leader, only cease to be one; so looking after each one misses nothing.
        now = self.simulation.now
        for candidate in self.candidates:
            name = candidate.process.name
            leads = not candidate.process.dead and candidate.elector.is_leader
            if leads:
                self.open.setdefault(name, now)
            elif name in self.open:
                self.done.append((name, self.open.pop(name), now))
        if len(self.open) > 1:
            raise AssertionError(f"at {now:.3f} s {sorted(self.open)} lead: {self.open}")

    def finish(self) -> None:
        for name, start in self.open.items():
            self.done.append((name, start, self.simulation.now))
        self.open.clear()


Fault = tuple[float, str, int, float]  # when, what, to whom, how long or how much

FAULTS = st.lists(
    st.tuples(
        st.floats(0.0, FAULTY),
        st.sampled_from(["stop", "suspend", "kill", "cut", "server down", "wall", "network", "cancel", "label"]),
        st.integers(0, 4),
        st.floats(0.1, 45.0),
    ),
    max_size=14,
)


def inject(
    simulation: Simulation, server: LeaseServer, candidates: list[Candidate], fault: tuple[float, str, int, float]
) -> None:
    at, kind, which, amount = fault
    one = candidates[which % len(candidates)]

    def happens() -> None:
        if kind in ("stop", "suspend"):
            one.process.stop(amount, suspend=kind == "suspend")
        elif kind == "kill":
            if sum(not c.process.dead for c in candidates) > 1:
                one.process.kill()
        elif kind == "cut":
            one.client.cut_until = simulation.now + amount
        elif kind == "server down":
            server.down_until = simulation.now + amount
        elif kind == "wall":
            one.process.jump_wall((amount - 22) * 1000)
        elif kind == "network":
            one.client.lost = one.client.unanswered = one.client.failing = one.client.slow = amount / 100
        elif kind == "cancel":
            one.restart()
        elif kind == "label" and server.leases:
            lease = next(iter(server.leases.values()))
            server.write("kubectl", lease["metadata"]["name"], lease)

    simulation.later(at, happens)


def calm_down(server: LeaseServer, candidates: list[Candidate]) -> None:
    server.down_until = 0.0
    for candidate in candidates:
        client = candidate.client
        client.cut_until = client.lost = client.unanswered = client.failing = client.slow = 0.0


def play(number: int, seed: int, faults: list[Fault], *, same_name: bool = False) -> Intervals:
    """One schedule: the intervals in which somebody led."""
    lot = Random(seed)
    simulation = Simulation()
    server = LeaseServer(simulation)
    candidates = []
    for index in range(number):
        process = simulation.process(f"c{index}", rate=lot.uniform(0.98, 1.02), wall=lot.uniform(-1e6, 1e6))
        client = NetworkClient(process, server, lot, lost=0.02, unanswered=0.02, failing=0.02, slow=0.02)
        identity = "the same" if same_name else process.name
        elector = LeaderElector(client, namespace="ns", name="lock", identity=identity, clock=process.clock)
        candidates.append(Candidate(process, client, elector))
        process.start(candidates[-1].campaign())
    intervals = Intervals(simulation, candidates)
    simulation.after_each_turn = intervals.look
    for fault in faults:
        inject(simulation, server, candidates, fault)
    try:
        simulation.run(FAULTY)
        calm_down(server, candidates)
        simulation.run(FAULTY + CALM)
        intervals.finish()
        alive = [candidate for candidate in candidates if not candidate.process.dead]
        recent = [end for _, _, end in intervals.done if end > FAULTY]
        assert recent, f"nobody led within {CALM} s of calm; alive: {[c.process.name for c in alive]}"
        check_acts(intervals)
    finally:
        simulation.close()
    return intervals


def check_acts(intervals: Intervals) -> None:
    """What a body did behind its fence, it did while it led, and nobody else."""
    for candidate in intervals.candidates:
        mine = [(start, end) for name, start, end in intervals.done if name == candidate.process.name]
        for act in candidate.acts:
            assert any(start <= act <= end for start, end in mine), (candidate.process.name, act, mine)
    spans = sorted((start, end, name) for name, start, end in intervals.done)
    for (_, end, one), (start, _, other) in pairwise(spans):
        assert end <= start, f"{one} led until {end}, {other} from {start}"


BUDGET = settings(
    max_examples=SCHEDULES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [2, 5])
def test_there_are_never_two_leaders_at_once_and_after_the_faults_there_is_one(number: int) -> None:
    @BUDGET
    @given(st.integers(0, 2**32), FAULTS)
    def check(seed: int, faults: list[Fault]) -> None:
        play(number, seed, faults)

    check()


@pytest.mark.timeout(600)
def test_candidates_of_one_name_do_not_both_lead() -> None:
    @settings(BUDGET, max_examples=max(1, SCHEDULES // 5))
    @given(st.integers(0, 2**32), FAULTS)
    def check(seed: int, faults: list[Fault]) -> None:
        play(3, seed, faults, same_name=True)

    check()


def time_without_a_leader(seed: int) -> float:
    """Return the seconds between the last renewal of a leader that is killed and the first act of the next one."""
    lot, before = Random(seed), random.getstate()
    random.seed(seed)  # what is drawn by lot in the package itself
    simulation = Simulation()
    server = LeaseServer(simulation)
    candidates = []
    for name in ("a", "b"):
        process = simulation.process(name)
        client = NetworkClient(process, server, lot)
        elector = LeaderElector(client, namespace="ns", name="lock", identity=name, clock=process.clock)
        candidates.append(Candidate(process, client, elector))
        process.start(candidates[-1].campaign())
    try:
        simulation.run(20 + lot.uniform(0, 5))
        first, second = sorted(candidates, key=lambda candidate: not candidate.elector.is_leader)
        first.process.kill()
        simulation.run(60)
        return second.acts[0] - max(at for at, caller, _ in server.writes if caller == first.process.name)
    finally:
        simulation.close()
        random.setstate(before)


# 19, 124: the second candidate asked for the Lease before it expired, and was answered after.
@pytest.mark.parametrize("seed", [*range(5), 19, 124])
def test_a_killed_leader_is_replaced_within_a_lease_and_the_pause_of_a_candidate(seed: int) -> None:
    assert time_without_a_leader(seed) <= 15 + 2.4 + 0.3
