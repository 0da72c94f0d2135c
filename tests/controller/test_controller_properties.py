"""Whatever happens to the objects, the stream and the reconciles: in the end every key has seen the truth."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kinformer import Backoff, Controller, Request, Result, SharedInformer, TerminalError
from kinformer.workqueue import ExponentialFailureRateLimiter
from tests.support.lagging_source import LaggingSource
from tests.support.memory_source import MemorySource
from tests.support.virtual_time import VirtualTimeLoop

pytestmark = pytest.mark.slow

NAMES = "abc"
STEPS = st.one_of(
    st.tuples(st.sampled_from(["set", "delete", "recreate", "trigger"]), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["cut", "expire", "hold", "release", "restart"]), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.01, 0.5, 3.0])),
)
OUTCOMES = st.sampled_from(["done", "done", "fail", "slow", "again", "terminal", "hang"])


class Children(MemorySource):
    """A source of a custom resource whose plural cannot be guessed from its kind."""

    name = "example.com/v1/children"
    type = MappingProxyType({"apiVersion": "example.com/v1", "kind": "Child"})


class Operator:
    """A controller that makes one child for each object, and notes what it sees."""

    def __init__(self, outcomes: list[str], workers: int, lag: float) -> None:
        self.objects, self.children = MemorySource(), Children()
        self.objects_source, self.children_source = LaggingSource(self.objects), LaggingSource(self.children, lag=lag)
        options: Any = {"backoff": Backoff(initial=0.01, maximum=0.1)}
        self.informer = SharedInformer(self.objects_source, **options)
        self.owned = SharedInformer(self.children_source, **options)
        self.outcomes = iter(outcomes)
        self.running: Counter[str] = Counter()
        self.seen: dict[str, str | None] = {}  # by key, the version that the last successful run saw at its end
        self.made_twice: list[str] = []
        self.controller = (
            Controller(
                self.reconcile,
                workers=workers,
                name="test",
                timeout=5,
                rate_limiter=ExponentialFailureRateLimiter(0.01, 1),
                shutdown_timeout=1,
            )
            .for_(self.informer)
            .watches(self.owned, lambda child: [child.key.removesuffix("-child")])
        )
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = asyncio.ensure_future(self.controller.run())

    async def stop(self) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.wait({self.task})
        assert self.task.cancelled(), self.task.exception()
        assert not +self.running, "a reconcile outlived its controller"

    async def reconcile(self, request: Request) -> Result | None:
        self.running[request.key] += 1
        assert self.running[request.key] == 1, "two reconciles of one key"
        try:
            return await self._reconcile(request)
        finally:
            self.running[request.key] -= 1

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self.informer.lister.get(request.name, namespace=request.namespace)
        if obj is not None and self.owned.lister.get(f"{request.name}-child", namespace="default") is None:
            if f"{request.key}-child" in self.children.objects:
                self.made_twice.append(request.key)
            request.wrote(self.children.set(f"{request.name}-child"))
        outcome = next(self.outcomes, "done")
        if outcome == "fail":
            raise OSError("again")
        if outcome == "terminal" and obj is not None:
            self.seen[request.key] = obj.resource_version  # it has looked; nothing but a change brings it back
            raise TerminalError("no")
        if outcome == "slow":
            await asyncio.sleep(0.1)
        if outcome == "hang":
            await asyncio.Event().wait()
        self.seen[request.key] = None if obj is None else obj.resource_version
        return Result(requeue_after=0.2) if outcome == "again" else None


async def live_through(steps: list[tuple[str, Any]], outcomes: list[str], workers: int, lag: float) -> None:
    operator = Operator(outcomes, workers, lag)
    source = operator.objects
    restarted = False
    async with operator.informer, operator.owned:
        operator.start()
        for step, argument in steps:
            if step == "set":
                source.set(argument)
            elif step == "recreate":
                source.set(argument, uid=f"uid-new-{source.version}")
            elif step == "delete" and f"default/{argument}" in source.objects:
                source.delete(argument)
            elif step == "trigger" and operator.controller.synced:
                operator.controller.trigger(f"default/{argument}")
            elif step in ("cut", "expire"):
                for server in (operator.objects, operator.children):
                    getattr(server, step)()
            elif step == "hold":
                operator.children_source.gate.clear()
            elif step == "release":
                operator.children_source.gate.set()
            elif step == "restart":
                restarted = True
                await operator.stop()
                operator.start()
            elif step == "wait":
                await asyncio.sleep(argument)
        operator.children_source.gate.set()
        await asyncio.sleep(60)
        for key, obj in source.objects.items():
            assert operator.seen.get(key) == obj.resource_version, f"{key}: the last state was not seen"
            assert f"{key}-child" in operator.children.objects
        for key, version in operator.seen.items():
            assert version is None or key in source.objects, f"{key}: its end was not seen"
        figures = operator.controller.statistics()
        assert figures.queue is not None
        assert (figures.queue.depth, figures.queue.processing, figures.queue.delayed) == (0, 0, 0)
        if not restarted and figures.own_write_timeouts == 0:
            assert operator.made_twice == [], "an old cache was taken for the truth"
        await operator.stop()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, max_size=25), st.lists(OUTCOMES, max_size=25), st.integers(1, 3), st.sampled_from([0, 1.0]))
def test_every_key_ends_with_a_run_that_saw_its_last_state(
    steps: list[tuple[str, Any]], outcomes: list[str], workers: int, lag: float
) -> None:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(live_through(steps, outcomes, workers, lag))


def test_the_children_are_found_by_the_name_of_their_resource() -> None:
    """The guard above has something to guard: the writes are those of an informer of the controller."""

    async def scene() -> None:
        operator = Operator([], 1, 0)
        operator.objects.set("a")
        async with operator.informer, operator.owned:
            await operator.informer.wait_synced()
            await operator.owned.wait_synced()
            operator.children_source.gate.clear()
            operator.start()
            await asyncio.sleep(1)
            operator.controller.trigger("default/a")
            await asyncio.sleep(1)
            assert operator.controller.statistics().own_write_waits == 1
            operator.children_source.gate.set()
            await operator.stop()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scene())
