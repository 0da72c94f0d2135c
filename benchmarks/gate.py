"""The figures that no change may make much worse, for CI: those that are ratios, or are the same on every machine.

    python -m benchmarks --gate        three minutes at most; exit status 1 on a regression
    python -m benchmarks.gate --one G5 the measurement of one, its figure as JSON

Their limits here are wider than those that they must meet (`must`), since machines of CI are small, shared and slow.
A figure beyond them is not noise. A figure beyond its limit is measured once more, and the better one counts. Nothing
here is held against an absolute time but the collector's, whose figure is all but zero or many times its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

SECONDS = 300  # for one measurement, on a machine that is slow
BY_NODE = {"node": "spec.nodeName"}


@dataclass(frozen=True)
class Gate:
    """One figure that is watched.

    Attributes:
        name: Of the figure in the benchmarks.
        what: It is, in words.
        unit: Of the figure.
        must: The limit on a quiet machine, which the benchmark itself checks.
        limit: The most that it may be here.
    """

    name: str
    what: str
    unit: str
    must: float
    limit: float


GATES = (
    Gate("G1", "CPU of a watch event, 8 KB pod", "x orjson.loads", must=1.0, limit=1.5),
    Gate("G5", "memory of a cache of pods", "bytes per byte of JSON", must=0.80, limit=0.85),
    Gate("G7", "gc.collect(), added by 100,000 pods", "ms", must=2.0, limit=4.0),
    Gate("G13", "CPU of a watch event, 100,000 pods cached over 1,000", "x", must=1.25, limit=1.40),
    Gate("G19", "CPU of a watch event, 8 KB pod, indexed by spec.nodeName", "x orjson.loads", must=0.95, limit=1.5),
    Gate("G20", "CPU of a LIST of pods, indexed by spec.nodeName", "x orjson.loads", must=1.2, limit=1.7),
    Gate("G21", "CPU of a LIST of configmaps of 1 KB", "x orjson.loads", must=3.0, limit=4.5),
    Gate("G26", "CPU of a configmap that arrives alone over TLS", "x aiohttp drained", must=1.5, limit=1.8),
    Gate("G28", "CPU of 100,000 adds to 16 handlers", "x direct await", must=3.2, limit=3.6),
    Gate("G29", "CPU of a handler that reads images and a condition", "x orjson.loads", must=1.6, limit=2.0),
)


@dataclass(frozen=True)
class Verdict:
    """The verdict on the measurements of one figure."""

    gate: Gate
    measured: tuple[float, ...]
    trouble: str = ""

    @property
    def passes(self) -> bool:
        """True if the best measurement is within the limit; a failed one passes nothing."""
        return bool(self.measured) and min(self.measured) <= self.gate.limit

    def __str__(self) -> str:
        gate = self.gate
        seen = ", then ".join(f"{value:.3g}" for value in self.measured) or "not measured"
        word = "ok" if self.passes else "REGRESSION" if self.measured else "FAILED"
        trouble = f" ({self.trouble})" if self.trouble else ""
        limits = f"limit {gate.limit:g}, on a quiet machine {gate.must:g}"
        return f"{word}: {gate.name} {gate.what}: {seen} {gate.unit}; {limits}{trouble}"


class MeasurementError(Exception):
    """A measurement that has not come to a figure."""


def judge(gate: Gate, measure: Callable[[Gate], float]) -> Verdict:
    """Measure, and once more if the figure is missing or beyond its limit."""
    verdict = Verdict(gate, ())
    for _ in range(2):
        try:
            verdict = replace(verdict, measured=(*verdict.measured, measure(gate)))
        except MeasurementError as error:
            verdict = replace(verdict, trouble=str(error))
        if verdict.passes:
            break
    return verdict


def judge_all(
    gates: Sequence[Gate], measure: Callable[[Gate], float], say: Callable[[str], None] = print
) -> list[Verdict]:
    """The verdicts, each said as soon as it is there, and all of those that do not pass at the end."""
    verdicts = []
    began = time.perf_counter()
    for gate in gates:
        verdict = judge(gate, measure)
        verdicts.append(verdict)
        say(f"[{time.perf_counter() - began:.0f} s] {verdict}")
    failed = [verdict for verdict in verdicts if not verdict.passes]
    if failed:
        say(f"{len(failed)} of {len(verdicts)} figures have become worse than CI allows:")
        for verdict in failed:
            say(f"  {verdict}")
    else:
        say(f"none of {len(verdicts)} figures has become worse than CI allows")
    return verdicts


def in_a_process(gate: Gate) -> float:
    """The figure, from a process that has done nothing before.

    Raises:
        MeasurementError: It has failed, or taken too long.
    """
    command = [sys.executable, "-m", "benchmarks.gate", "--one", gate.name]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, timeout=SECONDS, cwd=Path(__file__).parent.parent, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementError(f"no figure after {SECONDS} s") from error
    if done.returncode:
        raise MeasurementError(f"the measurement ended with status {done.returncode}; its output is above")
    value: float = json.loads(done.stdout)
    return value


async def figure(name: str) -> float:
    """Measure here and now, with as little as is enough for a median."""
    # Imported here, because the verdict alone needs less.
    from benchmarks import collector, fan_out, growth, list, lone_tls, memory, reads, watch  # noqa: A004 - the module of lists

    if name == "G1":
        return (await watch.ratio(name, "pods", rounds=15)).value
    if name == "G19":
        return (await watch.ratio(name, "pods", rounds=15, indexers=BY_NODE)).value
    if name == "G20":
        return (await list.first_list(name, "pods", 10_000, watch_list=False, rounds=7, indexers=BY_NODE)).value
    if name == "G21":
        return (await list.first_list(name, "configmaps", 30_000, watch_list=False, rounds=9)).value
    if name == "G26":
        return lone_tls.over(lone_tls.measured("configmaps", "asyncio", 12), "aiohttp", name).value
    if name == "G28":
        return (await fan_out.adds(rounds=3)).value
    if name == "G29":
        return reads.in_a_handler().value
    if name == "G5":
        async with memory.synced(40_000) as synced:
            return synced.figure.value
    if name == "G7":
        return (await collector.with_pods(rounds=3)).value
    figures = await growth.growth("pods", sizes=(1_000, 100_000), rounds=7)
    return next(one.value for one in figures if one.name.startswith(name))


def main() -> int:
    """All of them; the exit status."""
    return 0 if all(verdict.passes for verdict in judge_all(GATES, in_a_process)) else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The regression gate.")
    parser.add_argument("--one", choices=[gate.name for gate in GATES], help="measure it here, and print the figure")
    options = parser.parse_args()
    if not options.one:
        sys.exit(main())
    from benchmarks.harness import stay_on_one_core

    stay_on_one_core()
    print(asyncio.run(figure(options.one)))
