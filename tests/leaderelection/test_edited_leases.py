"""Leases that are edited by hand while candidates compete: never two leaders, and soon one again.

Internals: the simulation, since hours of real schedules take hours.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from kinformer import LeaderElector
from kinformer.testing.simulation.processes import Simulation
from tests.leaderelection.test_leader_election_schedules import Candidate, Intervals, check_acts
from tests.support.lease_server import LeaseServer, NetworkClient

Spec = dict[str, Any]

EDITS: dict[str, Callable[[Spec], object]] = {
    "the holder is emptied": lambda spec: spec.update(holderIdentity=""),
    "the holder is taken out": lambda spec: spec.pop("holderIdentity", None),
    "the holder is a number": lambda spec: spec.update(holderIdentity=5),
    "the holder is another program": lambda spec: spec.update(holderIdentity="another"),
    "the holder is the other candidate": lambda spec: spec.update(holderIdentity="c1"),
    "everything is taken out": lambda spec: spec.clear(),
    "renewTime is in the far future": lambda spec: spec.update(renewTime="2999-01-01T00:00:00.000000Z"),
    "renewTime is in the far past": lambda spec: spec.update(renewTime="1999-01-01T00:00:00.000000Z"),
    "renewTime is a number": lambda spec: spec.update(renewTime=17),
    "the duration is one second": lambda spec: spec.update(leaseDurationSeconds=1),
    "the duration is zero": lambda spec: spec.update(leaseDurationSeconds=0),
    "the duration is negative": lambda spec: spec.update(leaseDurationSeconds=-5),
    "the duration is taken out": lambda spec: spec.pop("leaseDurationSeconds", None),
    "the duration is a text": lambda spec: spec.update(leaseDurationSeconds="15"),
    "the duration is true": lambda spec: spec.update(leaseDurationSeconds=True),
    "the duration has 400 digits": lambda spec: spec.update(leaseDurationSeconds=10**400),
    "the transitions have 400 digits": lambda spec: spec.update(leaseTransitions=10**400),
    "the transitions are a text": lambda spec: spec.update(leaseTransitions="many"),
}


def play(seed: int, edit: Callable[[Spec], object]) -> Intervals:
    """Three candidates for 200 s, with an edit at four moments of the first 100."""
    lot, before = Random(seed), random.getstate()
    random.seed(seed)
    simulation = Simulation()
    server = LeaseServer(simulation)
    candidates = []
    for name in ("c0", "c1", "c2"):
        process = simulation.process(name, rate=lot.uniform(0.98, 1.02), wall=lot.uniform(-1e6, 1e6))
        client = NetworkClient(process, server, lot)
        elector = LeaderElector(client, namespace="ns", name="lock", identity=name, clock=process.clock)
        candidates.append(Candidate(process, client, elector))
        process.start(candidates[-1].campaign())
    intervals = Intervals(simulation, candidates)
    simulation.after_each_turn = intervals.look

    def happens() -> None:
        lease = copy.deepcopy(server.leases["lock"])
        edit(lease["spec"])
        server.write("kubectl", "lock", lease)

    for _ in range(4):
        simulation.later(lot.uniform(5, 100), happens)
    try:
        simulation.run(200)
        intervals.finish()
    finally:
        simulation.close()
        random.setstate(before)
    return intervals


@pytest.mark.parametrize("what", EDITS)
def test_there_are_never_two_leaders_and_a_leader_is_found_within_two_leases(what: str) -> None:
    for seed in range(6):
        intervals = play(seed, EDITS[what])
        check_acts(intervals)
        spans = sorted((start, end) for _, start, end in intervals.done)
        pauses = [start - end for (_, end), (start, _) in pairwise(spans)]
        assert spans[-1][1] == 200
        assert max(pauses, default=0) < 35


@pytest.mark.parametrize("transitions", [2**31 - 1, 2**31, -1])
def test_the_transitions_stay_within_what_a_server_takes(transitions: int) -> None:
    def edit(spec: Spec) -> None:
        spec.update(leaseTransitions=transitions, holderIdentity="another")

    lot, simulation = Random(1), Simulation()
    server = LeaseServer(simulation)
    process = simulation.process("c0")
    elector = LeaderElector(
        NetworkClient(process, server, lot), namespace="ns", name="lock", identity="c0", clock=process.clock
    )
    spec: Spec = {"leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    edit(spec)
    server.write("kubectl", "lock", {"metadata": {"name": "lock"}, "spec": spec})
    process.start(Candidate(process, NetworkClient(process, server, lot), elector).campaign())
    try:
        simulation.run(30)
        assert elector.is_leader
        assert 0 <= server.leases["lock"]["spec"]["leaseTransitions"] < 2**31
    finally:
        simulation.close()


def test_a_lease_that_was_made_ahead_of_its_use_is_taken_at_once() -> None:
    simulation = Simulation()
    server = LeaseServer(simulation)
    process = simulation.process("c0")
    client = NetworkClient(process, server, Random(1))
    elector = LeaderElector(client, namespace="ns", name="lock", identity="c0", clock=process.clock)
    server.write("kubectl", "lock", {"metadata": {"name": "lock"}, "spec": {}})
    process.start(Candidate(process, client, elector).campaign())
    try:
        simulation.run(1)
        assert elector.is_leader
    finally:
        simulation.close()
