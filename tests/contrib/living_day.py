"""A day of a cluster that is well, in simulated time: no problem is false, and planted breakages become one in time.

    python -m tests.contrib.living_day               # 24 hours of 500 pods with 20 changes a second: an hour
    python -m tests.contrib.living_day --hours 0.5 --pods 50 --rate 2

The cluster is that of `kinformer serve --living --objects pods=500 --churn 20`: people scale and roll out Deployments,
Jobs end, and some fail, nodes drop out, pods restart and are replaced. Twelve things are broken, one
after another. A failed Job is a true problem.

Internals: the cluster of `kinformer serve`, whose clock is the loop's.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

from kinformer import SharedInformerFactory
from kinformer._runtime.clock import Clock, ClockedLoop
from kinformer.cli.commands.serving import population
from kinformer.cli.commands.serving.population import Population
from kinformer.cli.living import cluster, contents
from kinformer.cli.living.cluster import LivingCluster
from kinformer.client import discover
from kinformer.contrib.problems import RULES, Problem, Problems
from kinformer.testing import APIServer
from tests.contrib.broken_things import BREAKAGES, DEFINITION, PLACE, Breakage, workloads
from tests.support import virtual_time
from tests.support.virtual_time import VirtualTimeLoop

EPOCH = 1_800_000_000.0  # 2027-01-15
SLACK = 15.0  # seconds after a grace time, for the looks at informers and the delays of the controllers
_GRACES = {rule.name: rule.grace for rule in RULES}


class DayLoop(VirtualTimeLoop, ClockedLoop):
    """A loop whose wall clock moves with its virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock(loop=self.time, wall=self.wall, boot=self.time, perf=time.perf_counter)

    def wall(self) -> float:
        return EPOCH + self.time()


class Wrong(NamedTuple):
    """A problem that is not there, or one that is not said."""

    at: float
    text: str


class Day:
    """A server whose cluster lives, and what is said about it.

    Args:
        server: The server.
        problems: What is said.
        hours: The length of the day.
    """

    def __init__(self, server: APIServer, problems: Problems, hours: float) -> None:
        self._server = server
        self._problems = problems
        self._seconds = hours * 3600
        self._planted: dict[str, str] = {}  # the names of the owners of planted breakages, with their rules
        self.wrong: list[Wrong] = []
        self.said: Counter[str] = Counter()
        self.delays: dict[str, float] = {}

    async def live(self) -> None:
        """Break one thing after another, and look at each problem."""
        loop = asyncio.get_running_loop()
        begun, real = loop.time(), time.perf_counter()
        handler = self._problems.add_event_handler(on_add=self._judge, name="day")
        pause = self._seconds / (len(BREAKAGES) + 1)
        for number, breakage in enumerate(BREAKAGES, 1):
            await asyncio.sleep(begun + number * pause - loop.time())
            await self._break(breakage)
            spent = time.perf_counter() - real
            print(f"  {number * pause / 3600:5.1f} h, {spent:,.0f} s: {breakage.name}", file=sys.stderr, flush=True)
        await asyncio.sleep(begun + self._seconds - loop.time())
        await self._problems.remove_event_handler(handler)

    def _judge(self, problem: Problem) -> None:
        self.said[problem.rule] += 1
        if self._planted.get(problem.owner.name) == problem.rule or self._is_failed_job(problem):
            return
        self._note(f"false: {problem.rule} of {problem.owner}: {problem.message}")

    def _is_failed_job(self, problem: Problem) -> bool:
        job = self._server.get("batch/v1/jobs", problem.owner.namespace, problem.owner.name)
        conditions = ((job or {}).get("status") or {}).get("conditions") or ()
        failed = any(entry["type"] == "Failed" and entry["status"] == "True" for entry in conditions)
        return problem.rule == "failed-job" and problem.owner.kind == "Job" and failed

    async def _break(self, breakage: Breakage) -> None:
        """Break a thing, wait until it is said, mend it, and wait until it is no longer said."""
        loop = asyncio.get_running_loop()
        self._planted[breakage.owner] = breakage.rule
        begun = loop.time()
        mend = breakage.plant(self._server)
        grace = _GRACES[breakage.rule] if breakage.grace is None else breakage.grace
        if await self._comes(lambda: self._shown(breakage), grace + SLACK):
            self.delays[breakage.name] = loop.time() - begun
            if loop.time() - begun < grace - 2:
                self._note(f"{breakage.name}: said {grace - loop.time() + begun:.0f} s too early")
        else:
            self._note(f"{breakage.name}: not said within {grace + SLACK:g} s")
        mend()
        if not await self._comes(lambda: not self._shown(breakage), SLACK):
            self._note(f"{breakage.name}: still said {SLACK:g} s after it was mended")
        del self._planted[breakage.owner]

    def _shown(self, breakage: Breakage) -> bool:
        shown = self._problems.lister.list()
        return any((problem.rule, problem.owner.name) == (breakage.rule, breakage.owner) for problem in shown)

    async def _comes(self, is_so: Callable[[], bool], seconds: float) -> bool:
        for _ in range(int(seconds)):
            if is_so():
                return True
            await asyncio.sleep(1)
        return is_so()

    def _note(self, text: str) -> None:
        loop = asyncio.get_running_loop()
        self.wrong.append(Wrong(loop.time(), text))
        print(f"  WRONG at {loop.time():,.0f} s: {text}", file=sys.stderr, flush=True)


async def live(hours: float, pods: int, rate: float, pause: float, seed: int) -> Day:
    """Let a cluster live, and return what was said about it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, DayLoop)
    chance = random.Random(seed)
    async with APIServer() as server, server.client() as client:
        server.create(DEFINITION)
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLACE}})
        for obj in workloads():
            server.create(obj)
        living = LivingCluster(server, chance, pause=(pause / 2, pause * 2))
        await living.start()
        people = Population(server, chance, has_controllers=True)
        resource = (await discover(client)).find("v1/pods")
        async for _ in people.add({resource: pods}):
            pass
        life = [asyncio.create_task(living.run()), asyncio.create_task(people.churn(rate))]
        try:
            async with SharedInformerFactory(client) as factory:
                factory.for_resource("example.com/v1/widgets", keep_managed_fields=True)
                async with Problems(factory, clock=loop.wall) as problems:
                    await problems.wait_synced(60)
                    day = Day(server, problems, hours)
                    await day.live()
                    return day
        finally:
            for task in life:
                task.cancel()
            await asyncio.wait(life)


def generated_times(loop: DayLoop) -> Iterator[Any]:
    """Yield what has the generated objects' times, the rounds of changes and the waits follow the loop."""

    def now(ago: float = 0.0) -> str:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(loop.wall() - ago))

    yield patch.object(population, "timestamp", now)
    yield patch.object(contents, "timestamp", now)
    yield patch.object(population, "_TICK", 1.0)  # of 20 changes
    yield patch.object(cluster, "_UNTIL_OUTAGE", (600.0, 1200.0))
    yield patch.object(virtual_time, "GRACE", 0.0005)


def run(hours: float, pods: int, rate: float, pause: float, seed: int) -> Day:
    """Let a cluster live in simulated time."""
    loops: list[DayLoop] = []

    def make() -> DayLoop:
        loops.append(DayLoop())
        return loops[-1]

    with asyncio.Runner(loop_factory=make) as runner, ExitStack() as stack:
        runner.get_loop()
        for each in generated_times(loops[0]):
            stack.enter_context(each)
        return runner.run(live(hours, pods, rate, pause, seed))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24.0, help="default: %(default)s")
    parser.add_argument("--pods", type=int, default=500, help="default: %(default)s")
    parser.add_argument("--rate", type=float, default=20.0, help="changes per second, default: %(default)s")
    parser.add_argument(
        "--pause", type=float, default=60.0, help="seconds between two changes by people, default: about %(default)s"
    )
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    chosen = parser.parse_args()
    day = run(chosen.hours, chosen.pods, chosen.rate, chosen.pause, chosen.seed)
    for name, delay in day.delays.items():
        print(f"{name}: said after {delay:.0f} s")
    print(f"problems by rule: {dict(day.said)}")
    print(f"wrong: {len(day.wrong)}")
    return 1 if day.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
