"""A bound on staleness under explored delays: a controller does not act on what was gone for longer than that."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kinformer import Client, Controller, Request, Result, SharedInformerFactory
from kinformer.testing.explore import ClusterState, LateEvents, Stale, World, explore

MAPS, PODS = "v1/configmaps", "v1/pods"
TIMES = 60
PERIOD = 2.0  # seconds between two actions of the controller
BOUND = 10.0
SLACK = 4.0  # an action that began within the bound, and the granularity of the observation
RULES = {"leftovers", "rest"}


def pod(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "web:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def routes(max_staleness: float | None) -> Any:
    async def main(client: Client) -> None:
        """Route to each pod in the cache, again every two seconds, until it has done that often enough."""
        routed: Counter[str] = Counter()

        async def reconcile(request: Request) -> Result | None:
            found = pods.by_key.get(request.key)
            routed[request.key] += 1
            if found is None or routed[request.key] > TIMES:
                return None
            body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"uid": found.uid}}
            body["metadata"] = {"generateName": f"{found.name}-", "namespace": "default"}
            await client.request("POST", "/api/v1/namespaces/default/configmaps", body=body)
            return Result(requeue_after=PERIOD)

        async with SharedInformerFactory(client) as factory:
            pods = factory.for_resource(PODS)
            await Controller(reconcile, max_staleness=max_staleness).for_(pods).run()

    return main


def declare(world: World, max_staleness: float | None) -> None:
    gone: dict[str, float] = {}
    alive: set[str] = set()
    acted: set[str] = set()

    def no_route_to_what_was_gone_for_long(state: ClusterState) -> None:
        now = asyncio.get_running_loop().time()
        there = {one["metadata"]["uid"] for one in state.list(PODS)}
        gone.update(dict.fromkeys(alive - there - gone.keys(), now))
        alive.update(there)
        for one in state.list(MAPS, "default"):
            uid = one.get("data", {}).get("uid")
            if uid is not None and one["metadata"]["uid"] not in acted:
                acted.add(one["metadata"]["uid"])
                assert now - gone.get(uid, now) <= BOUND + SLACK, f"{now - gone[uid]:.0f} s"

    world.run(routes(max_staleness))
    world.script(world.create(pod("a")), world.create(pod("b")), world.delete(PODS, "default/a"))
    world.always(no_route_to_what_was_gone_for_long)


@pytest.mark.search
def test_with_a_bound_no_schedule_makes_it_act_on_what_was_gone_for_longer() -> None:
    async def bounded(world: World) -> None:
        declare(world, BOUND)

    explore(schedules=100, seed=1, faults={LateEvents, Stale}, ignore=RULES)(bounded)()


@pytest.mark.slow
def test_without_a_bound_a_schedule_is_found_that_does() -> None:
    async def unbounded(world: World) -> None:
        declare(world, None)

    with pytest.raises(AssertionError, match="no_route_to_what_was_gone_for_long"):
        explore(schedules=100, seed=1, faults={LateEvents, Stale}, ignore=RULES)(unbounded)()
