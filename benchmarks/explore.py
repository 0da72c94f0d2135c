"""The exploration: the CPU of a history of a small operator, with a lost answer in it.

The operator is that of tests/explore/programs.py: one replica, two informers, a controller, three steps of people.
"""

from __future__ import annotations

import gc
import sys
import time

from benchmarks.harness import Figure, median, run
from kinformer.testing.explore import World, explore
from tests.explore.programs import careful, declare

SCHEDULES = 100  # of a round
ROUNDS = 5


async def one(world: World) -> None:
    declare(world, careful)


async def measure() -> list[Figure]:
    each: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        explore(schedules=SCHEDULES, seed=1)(one)()
        each.append(SCHEDULES / (time.process_time() - began))
    return [median("histories of a small operator", each, "in a second of one core", limit=50, least=True)]


if __name__ == "__main__":
    sys.exit(run("explore", measure))
