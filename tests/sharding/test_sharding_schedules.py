"""Never two owners of a key, in thousands of random schedules of one to eight replicas.

Internals: the simulation, since hours of real schedules take hours; slots.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinformer.sharding.slots import slot_of

from kinformer import Request
from kinformer.leaderelection import check_fences
from kinformer.sharding import ShardedController
from kinformer.testing.simulation.processes import Process, Simulation
from tests.sharding.widget_server import WidgetServer, WidgetSource
from tests.support.lease_server import LeaseServer, NetworkClient

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "20"))
FAULTY = 60.0  # seconds of a schedule in which things go wrong
CALM = 80.0  # ... and of calm after them: time for dead Leases to expire, slots to move, and keys to be looked at
NAMES = [f"w{number}" for number in range(8)]


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@dataclass
class Replica:
    process: Process
    client: NetworkClient
    random: Random
    server: WidgetServer
    sources: list[WidgetSource] = field(default_factory=list)
    running: dict[str, int] = field(default_factory=dict)  # key -> slot, of reconciles under way
    acts: int = 0
    leaving: bool = False  # told to leave; that may take until long after it was
    lost: list[tuple[float, str]] = field(default_factory=list)  # what vanished from the cache under a reconcile
    done: dict[str, str] = field(default_factory=dict)  # key -> the resourceVersion that was reconciled last

    def __post_init__(self) -> None:
        self.controller = ShardedController(
            self.reconcile,
            self.client,
            "example.com/v1/widgets",
            namespace="ns",
            identity=self.process.name,
            workers=4,
            shutdown_timeout=3,
            source=self.source,
            clock=self.process.clock,
        )

    def source(self, resource: Any, metadata_only: bool) -> WidgetSource:
        self.sources.append(WidgetSource(self.process, self.server, self.random))
        return self.sources[-1]

    async def reconcile(self, request: Request) -> None:
        key = request.key
        obj = self.controller.informer.lister.get(request.name, namespace=request.namespace)
        assert key not in self.running, f"{self.process.name} reconciles {key} twice at once"
        self.running[key] = slot_of(obj.uid) if obj is not None else -1
        try:
            for _ in range(self.random.choice([1, 1, 2, 5, 12])):
                check_fences()  # as `Client.request` does
                self.acts += 1
                self.check_cache(key, obj)
                await asyncio.sleep(self.random.uniform(0.1, 1.0))
            self.done[key] = obj.resource_version if obj is not None else "gone"
        finally:
            del self.running[key]

    def check_cache(self, key: str, obj: Any) -> None:
        """What a reconcile works on does not vanish from its cache while it is there: it would be taken for deleted."""
        there = self.server.objects.get(key)
        remains = obj is not None and there is not None and there.uid == obj.uid
        if remains and self.controller.informer.indexer.get_by_key(key) is None:
            self.lost.append((self.process.simulation.now, key))

    async def run(self) -> None:
        with suppress(asyncio.CancelledError):
            await self.controller.run()

    def owns(self, key: str) -> bool:
        """It has a reconcile of the key under way, and what that does now it may do."""
        return key in self.running and not self.process.dead and self.controller.membership.holds


@dataclass
class Watcher:
    """Looks after each turn of each process whether anything has two owners."""

    simulation: Simulation
    replicas: list[Replica]

    def look(self) -> None:
        owners: dict[str, str] = {}
        held: list[frozenset[int]] = []
        for replica in self.replicas:
            name, membership = replica.process.name, replica.controller.membership
            if replica.process.dead or not membership.holds:
                continue
            for key in replica.running:
                if key in owners:
                    raise AssertionError(
                        f"at {self.simulation.now:.3f} s {key} has two owners: {owners[key]} and {name}"
                    )
                owners[key] = name
            held.append(membership.slots)
        if sum(map(len, held)) > len(frozenset().union(*held)):
            raise AssertionError(f"at {self.simulation.now:.3f} s a slot has two holders")


Fault = tuple[float, str, int, float]  # when, what, to whom, how long or how much

KINDS = ["stop", "suspend", "kill", "leave", "join", "cut", "server down", "network", "wall"]
FAULTS = st.lists(
    st.tuples(st.floats(0.0, FAULTY), st.sampled_from(KINDS), st.integers(0, 7), st.floats(0.1, 40.0)), max_size=12
)


class Schedule:
    """One simulation with its replicas, its faults and its churn."""

    def __init__(self, number: int, seed: int, faults: list[Fault], *, filters: bool) -> None:
        self.random = Random(seed)
        self.simulation = Simulation()
        self.leases = LeaseServer(self.simulation)
        self.widgets = WidgetServer(self.simulation, filters=filters)
        self.replicas: list[Replica] = []
        self.simulation.after_each_turn = Watcher(self.simulation, self.replicas).look
        for name in NAMES[:6]:
            self.widgets.put(name)
        for _ in range(number):
            self.join()
        for fault in faults:
            self.simulation.later(fault[0], lambda fault=fault: self.inject(*fault[1:]))  # type: ignore[misc]
        self.simulation.later(0.5, self.churn)

    def join(self) -> None:
        random = self.random
        process = self.simulation.process(
            f"r{len(self.replicas)}", rate=random.uniform(0.98, 1.02), wall=random.uniform(-1e6, 1e6)
        )
        client = NetworkClient(process, self.leases, random, lost=0.02, unanswered=0.02, failing=0.02, slow=0.02)
        self.replicas.append(Replica(process, client, random, self.widgets))
        process.start(self.replicas[-1].run())

    def churn(self) -> None:
        name = self.random.choice(NAMES)
        self.random.choice([self.widgets.put, self.widgets.put, self.widgets.remove, self.replace])(name)
        if self.simulation.now < FAULTY + 20:
            self.simulation.later(self.random.uniform(0.05, 4.0), self.churn)

    def replace(self, name: str) -> None:
        """Deleted, and soon made again under its name."""
        self.widgets.remove(name)
        self.simulation.later(self.random.choice([0.0, 0.01, 1.0]), lambda: self.widgets.put(name))

    def inject(self, kind: str, which: int, amount: float) -> None:
        alive = [replica for replica in self.replicas if not replica.process.dead]
        one = alive[which % len(alive)]
        if kind in ("stop", "suspend"):
            one.process.stop(amount, suspend=kind == "suspend")
        elif kind == "kill" and len(alive) > 1:
            one.process.kill()
        elif kind == "leave" and len(alive) > 1:
            one.leaving = True
            one.process.loop.call_soon(one.process.tasks[0].cancel)
        elif kind == "join" and len(alive) < 8:
            self.join()
        elif kind == "cut":
            one.client.cut_until = self.simulation.now + amount
            for source in one.sources:
                source.cut_until = self.simulation.now + amount
        elif kind == "server down":
            self.leases.down_until = self.simulation.now + amount
        elif kind == "network":
            one.client.lost = one.client.unanswered = one.client.failing = one.client.slow = amount / 100
        elif kind == "wall":
            one.process.jump_wall((amount - 20) * 1000)

    def play(self) -> None:
        try:
            self.simulation.run(FAULTY)
            if all(replica.leaving for replica in self.living()):
                self.join()
            self.leases.down_until = 0.0
            for replica in self.replicas:
                client = replica.client
                client.cut_until = client.lost = client.unanswered = client.failing = client.slow = 0.0
                for source in replica.sources:
                    source.cut_until = 0.0
            self.simulation.run(FAULTY + CALM)
            assert not any(replica.lost for replica in self.replicas), [replica.lost for replica in self.replicas]
            self.check_all_is_done()
        finally:
            self.simulation.close()

    def living(self) -> list[Replica]:
        return [r for r in self.replicas if not r.process.dead and not r.process.tasks[0].done()]

    def check_all_is_done(self) -> None:
        living = self.living()
        held = [slot for replica in living for slot in replica.controller.membership.slots]
        assert len(held) == 256, {r.process.name: r.controller.health() for r in living}
        for key, obj in self.widgets.objects.items():
            (owner,) = [r for r in living if r.controller.membership.has(slot_of(obj.uid))]
            cached = owner.controller.informer.indexer.get_by_key(key)
            assert cached is not None, (key, owner.process.name)
            assert cached.resource_version == obj.resource_version, (key, owner.process.name)
            assert owner.done.get(key) == obj.resource_version, (key, owner.process.name, owner.done.get(key))
        for replica in living:
            mine = {obj.key for obj in replica.controller.informer.lister}
            wanted = {o.key for o in self.widgets.objects.values() if replica.controller.membership.has(slot_of(o.uid))}
            assert mine == wanted, replica.process.name


def schedule_of(seed: int) -> Schedule:
    """One that follows from a number."""
    lot = Random(seed)
    faults = [
        (lot.uniform(0, FAULTY), lot.choice(KINDS), lot.randrange(8), lot.uniform(0.1, 40.0))
        for _ in range(lot.randrange(13))
    ]
    return Schedule(1 + seed % 8, seed, faults, filters=bool(seed // 8 % 2))


BUDGET = settings(
    max_examples=SCHEDULES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, database=None
)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("filters", [True, False], ids=["gate on", "gate off"])
def test_no_key_has_ever_two_owners_and_after_the_faults_each_has_one_that_has_looked_at_it(filters: bool) -> None:
    @BUDGET
    @given(st.integers(1, 8), st.integers(0, 2**32), FAULTS)
    def check(number: int, seed: int, faults: list[Fault]) -> None:
        Schedule(number, seed, faults, filters=filters).play()

    check()


# 100626: the only one that is left at the end of the faults has been told to leave, and was stopped before it could.
# 200006: slots are taken while others are given away, and reconciles of these still run.
# 104918: a slot is given away and soon taken again, before the informer has made the list that leaves it out.
@pytest.mark.parametrize("seed", [100626, 200006, 104918])
def test_schedules_that_once_went_wrong(seed: int) -> None:
    before = random.getstate()
    random.seed(seed)  # what is drawn by lot in the package itself
    try:
        schedule_of(seed).play()
    finally:
        random.setstate(before)
