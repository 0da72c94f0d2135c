"""Takeovers of a shared cache in explored orders of events: kills, pauses and cuts at any moment.

When changes end, all caches and handlers equal the server, and what a handler was told, one informer could have told.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.testing.explore import ClusterState, CutWatch, LateEvents, Pause, Restart, Slow, Stop, World, explore
from kinformer.watchcache import Share
from tests.support.kube import config_map
from tests.watchcache.share.simulated_machine import SimulatedMachine
from tests.watchcache.share.workers import MAPS, History

pytestmark = pytest.mark.slow

SCHEDULES = int(os.environ.get("KINFORMER_SCHEDULES", "20"))  # 300 for a proof
FAULTS = [Restart, Pause, CutWatch, LateEvents, Slow, Stop]


class Told(History):
    """What the handler of one process was told."""

    def __init__(self, loop: object) -> None:
        super().__init__()
        self.loop = loop
        self.cached: dict[str, str] = {}
        self.role = ""
        self.is_over = False

    def contradictions(self) -> list[str]:
        """Return what no single informer would have told: contradictions, and objects that went back."""
        wrong = list(self.wrong)
        newest: dict[str, int] = {}
        for _, name, version in self.calls:
            if isinstance(version, str):
                if int(version) <= newest.get(name, 0):
                    wrong.append(f"{name} went back from {newest[name]} to {version}")
                newest[name] = int(version)
        return wrong


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimulatedMachine:
    return SimulatedMachine(monkeypatch)


@explore(schedules=SCHEDULES, faults=FAULTS, seed=SCHEDULES)
async def test_takeovers_at_any_moment(world: World, machine: SimulatedMachine) -> None:
    machine.forget()
    processes: list[Told] = []

    async def main(client: Client) -> None:
        told = Told(asyncio.get_running_loop())
        processes.append(told)
        try:
            share = Share(Path("/run/cache.sock"))
            async with SharedInformerFactory(client, share=share) as factory:
                maps = factory.for_resource(MAPS, namespace="default")
                maps.add_event_handler(told)
                while True:
                    await asyncio.sleep(1)
                    told.role = share.role
                    told.cached = {obj.name: obj.resource_version for obj in maps.lister.list()}
        finally:
            told.is_over = True

    def living() -> list[Told]:
        return [one for one in processes if not one.is_over and one.loop not in machine.dead]

    def no_handler_is_told_a_contradiction(_: ClusterState) -> None:
        for one in processes:
            assert not one.contradictions()

    def all_equal_the_server(state: ClusterState) -> None:
        true = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in state.list(MAPS, "default")}
        assert sorted(one.role for one in living()) == ["follower", "follower", "holder"]
        for one in living():
            assert one.cached == true
            assert {key.rpartition("/")[2]: version for key, (_, version) in one.known.items()} == true
        no_handler_is_told_a_contradiction(state)

    world.run(main, replicas=3)
    world.script(*steps(world))
    world.always(no_handler_is_told_a_contradiction)
    world.eventually(all_equal_the_server, within=120)


def steps(world: World) -> list[Any]:
    changes = [world.patch(MAPS, "default/a", {"data": {"n": str(number)}}) for number in range(3)]
    return [
        world.create(config_map("a")),
        world.create(config_map("b")),
        *changes,
        world.delete(MAPS, "default/b"),
        world.create(config_map("c")),
        world.create(config_map("b")),
    ]
