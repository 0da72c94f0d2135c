"""After any history, the problems are those that a program would find that has just begun."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from kinformer import SharedInformer, SharedInformerFactory
from kinformer.contrib.problems import Problem, Problems
from kinformer.testing import APIServer
from tests.contrib.problem_scenes import (
    CRON,
    DEFINITION,
    LATER,
    Object,
    condition,
    deployment,
    ended,
    event,
    job,
    make,
    node,
    pod,
    resource,
    unschedulable,
    waiting,
)
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.search

WIDGETS = "example.com/v1/widgets"
PLACES = {
    "Deployment": "apps/v1/deployments",
    "ReplicaSet": "apps/v1/replicasets",
    "Pod": "v1/pods",
    "Node": "v1/nodes",
    "Job": "batch/v1/jobs",
    "CronJob": "batch/v1/cronjobs",
    "Widget": WIDGETS,
}

# An object, its state, the age of the state in seconds, and its owner.
OBJECTS = ("Deployment", "ReplicaSet", "Pod", "Pod", "Node", "Job", "CronJob", "Widget")
STATES = ("well", "ill", "worse")
AGES = (0, 50, 400, 3000)
WRITES = st.tuples(
    st.sampled_from(OBJECTS), st.integers(0, 1), st.sampled_from(STATES), st.sampled_from(AGES), st.integers(0, 3)
)
DELETES = st.tuples(st.just("delete"), st.sampled_from(OBJECTS), st.integers(0, 1))
OTHERS = st.tuples(st.sampled_from(["follow", "release", "warn", "wait", "wait long"]))
HISTORIES = st.lists(WRITES | WRITES | WRITES | DELETES | OTHERS, min_size=3, max_size=25)

PHASES = [phase for phase in Phase if phase is not Phase.shrink]


class Story:
    """A server with objects that change, and a program that looks at them all the while."""

    def __init__(self, server: APIServer, factory: SharedInformerFactory, now: Callable[[], float]) -> None:
        self._server = server
        self._factory = factory
        self._now = now
        self._made: dict[tuple[str, str], Object] = {}
        self._number = 0
        self.widgets: SharedInformer | None = None

    async def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("delete", kind, number):
                self._delete(kind, f"{kind.lower()}-{number}")
            case ("follow",):
                self.widgets = self.widgets or self._factory.for_resource(WIDGETS)
            case ("release",) if self.widgets is not None:
                await self._factory.release(self.widgets)
                self.widgets = None
            case ("warn",):
                self._warn()
            case ("wait",):
                await asyncio.sleep(7)
            case ("wait long",):
                await asyncio.sleep(400)
            case (kind, number, state, age, owner):
                self._write(kind, f"{kind.lower()}-{number}", state, LATER - self._now() + age, owner)

    def _write(self, kind: str, name: str, state: str, age: float, owner: int) -> None:
        obj = self._object(kind, name, state, age, owner)
        before = self._made.get((kind, name))
        if before is not None:
            obj["metadata"]["uid"] = before["metadata"]["uid"]
            self._made[kind, name] = self._server.update(obj)
        else:
            self._number += 1
            obj["metadata"]["uid"] = f"uid-{self._number}"
            self._made[kind, name] = self._server.create(obj)

    def _owner(self, number: int, *kinds: str) -> Object | None:
        owners = [obj for (kind, _), obj in sorted(self._made.items()) if kind in kinds]
        return owners[number % len(owners)] if owners and number else None

    def _object(self, kind: str, name: str, state: str, age: float, owner: int) -> Object:
        level = STATES.index(state)
        match kind:
            case "Deployment":
                available = condition("Available", "True" if not level else "False", age)
                return deployment(name, wanted=2, ready=2 - level, conditions=[available])
            case "ReplicaSet":
                above = self._owner(owner, "Deployment", "Widget")
                return make("ReplicaSet", name, api="apps/v1", owner=above, spec=deployment(name)["spec"])
            case "Node":
                return node(name, condition("Ready", ("True", "Unknown", "False")[level], age))
            case "CronJob":
                return make("CronJob", name, api="batch/v1", spec=CRON["spec"])
            case "Job":
                ends = [condition(("Complete", "Failed", "Failed")[level], "True", age)]
                return job(name, *ends, owner=self._owner(owner, "CronJob", "Widget"), created=age)
            case "Widget":
                return resource(name, condition("Ready", ("True", "False", "Unknown")[level], age))
        above = self._owner(owner, "ReplicaSet", "Job", "Widget")
        where = f"node-{owner % 2}"
        if state == "worse":
            crashing = waiting("CrashLoopBackOff")
            return pod(name, state=crashing, last=ended(1), restarts=5, age=age, owner=above, node=where)
        if owner == 3 and level:
            return {**unschedulable(name, age), "metadata": pod(name, owner=above)["metadata"]}
        return pod(name, ready=not level, age=age, owner=above, node=where)

    def _delete(self, kind: str, name: str) -> None:
        obj = self._made.pop((kind, name), None)
        if obj is not None:
            self._server.delete(PLACES[kind], obj["metadata"].get("namespace"), name)

    def _warn(self) -> None:
        pods = [obj for (kind, _), obj in sorted(self._made.items()) if kind == "Pod"]
        if pods:
            self._number += 1
            self._server.create(event(pods[-1], f"Reason{self._number}", f"warning {self._number}"))


async def found_anew(server: APIServer, now: Callable[[], float], resources: list[str]) -> dict[str, Problem]:
    async with (
        server.client() as client,
        SharedInformerFactory(client) as factory,
        Problems(factory, resources=resources, clock=now) as problems,
    ):
        await problems.wait_synced(60)
        return dict(problems.by_key)


async def play(history: list[tuple[Any, ...]]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()

    def now() -> float:
        return LATER + loop.time() - begun

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(APIServer())
        server.create(DEFINITION)
        client = await stack.enter_async_context(server.client())
        factory = await stack.enter_async_context(SharedInformerFactory(client))
        problems = await stack.enter_async_context(Problems(factory, clock=now))
        await problems.wait_synced(60)
        story = Story(server, factory, now)
        for step in history:
            await story.do(step)
        await asyncio.sleep(20)
        stopped = now()
        anew = await found_anew(server, lambda: stopped, [WIDGETS] if story.widgets is not None else [])
        assert dict(problems.by_key) == anew


@pytest.mark.timeout(300)  # 60 histories, beside other work
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], phases=PHASES)
@given(history=HISTORIES)
@example(history=[("Widget", 0, "well", 0, 0), ("Pod", 0, "worse", 400, 1), ("wait",), ("follow",)])
@example(history=[("Pod", 0, "ill", 3000, 0), ("wait",), ("Node", 0, "ill", 50, 0), ("wait",)])
@example(history=[("Widget", 0, "ill", 400, 0), ("follow",), ("wait",), ("release",)])
def test_the_problems_are_those_of_a_program_that_has_just_begun(history: list[tuple[Any, ...]]) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(play(history))
