"""The growth of a watch event's cost with the cache: 1,000, 10,000 and 100,000 pods, in interleaved rounds.

`python -m benchmarks.growth --million` has 1,000 configmaps of 1 KB against a million: by hand, as it takes gigabytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from benchmarks.harness import Alternating, Figure, median, run
from benchmarks.watch import EVENTS, following, lines_of

SIZES = {"pods": (1_000, 10_000, 100_000), "configmaps": (1_000, 1_000_000)}
ROUNDS = 9


async def growth(kind: str, sizes: Sequence[int] = (), rounds: int = ROUNDS) -> list[Figure]:
    sizes = sizes or SIZES[kind]
    count = EVENTS[kind]
    rows = {size: Alternating(lines_of(kind, size)) for size in sizes}
    async with AsyncExitStack() as stack:
        informers = {
            size: await stack.enter_async_context(following(kind, (rounds + 1) * count, objects=size)) for size in sizes
        }
        for _ in range(rounds + 1):
            for size, informer in informers.items():
                await rows[size].round(count, lambda informer=informer: informer.events(count))  # type: ignore[misc]
    figures = [row.figure(f"watch event, {size:,} {kind} cached", "an event") for size, row in rows.items()]
    small = rows[sizes[0]]
    for size in sizes[1:]:
        large = rows[size]
        ratios = [
            (cost / reference) / (base / base_reference)
            for cost, reference, base, base_reference in zip(
                large.costs, large.references, small.costs, small.references, strict=True
            )
        ]
        name = f"G13 watch event, {size:,} {kind} cached over {sizes[0]:,}"
        figures.append(median(name, ratios, "x", limit=1.25, aim=1.1))
    return figures


async def measure() -> list[Figure]:
    return await growth("pods")


async def measure_a_million() -> list[Figure]:
    return await growth("configmaps")


if __name__ == "__main__":
    if "--million" in sys.argv:
        sys.exit(run("growth_million", measure_a_million))
    sys.exit(run("growth", measure))
