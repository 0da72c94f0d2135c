"""The common parts of all benchmarks: the server process, a reference, a verdict, a file with the figures.

The machine is noisy: the same work takes 20-40 % more or less from one second to the next. So everything is a ratio
of CPU times, the reference is measured before and after each piece of work, the pieces are short and many, and what
counts is the median of their ratios.
"""

from __future__ import annotations

import asyncio
import datetime
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

RESULTS = Path(__file__).parent / "results"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


@dataclass(frozen=True)
class Figure:
    """One figure: the median of its rounds, their spread, and the limit, if it has one.

    `reference` says what it was held against, in words and with its figure; `aim` is what it should become.
    """

    name: str
    value: float
    unit: str
    rounds: list[float]
    limit: float | None = None
    below: bool = False  # the limit itself is too much already
    least: bool = False  # the limit is the least that it may be, not the most
    aim: float | None = None
    reference: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def meets(self) -> bool:
        """Within its limit, or without one."""
        return self.limit is None or self._within(self.limit)

    def _within(self, limit: float) -> bool:
        if self.least:
            return self.value >= limit
        return self.value < limit if self.below else self.value <= limit

    def __str__(self) -> str:
        spread = f" ({min(self.rounds):.3g} to {max(self.rounds):.3g})" if len(self.rounds) > 1 else ""
        verdict = ""
        if self.limit is not None:
            sign = ">=" if self.least else "<" if self.below else "<="
            verdict = f"  {'ok' if self.meets else 'FAILS'}, limit {sign} {self.limit:g}"
        if self.aim is not None:
            verdict += f", aim {self.aim:g}{' reached' if self._within(self.aim) else ''}"
        reference = f"\n      {self.reference}" if self.reference else ""
        return f"  {self.name}: {self.value:.3g} {self.unit}{spread}{verdict}{reference}"


def median(name: str, rounds: Sequence[float], unit: str, **options: Any) -> Figure:
    """The figure of several rounds."""
    return Figure(name, statistics.median(rounds), unit, [round(one, 4) for one in rounds], **options)


def over(name: str, costs: Sequence[float], references: Sequence[float], what: str, **options: Any) -> Figure:
    """The figure of rounds that each cost so many microseconds, over `orjson.loads` of the same bytes."""
    ratios = [cost / reference for cost, reference in zip(costs, references, strict=True)]
    cost, reference = statistics.median(costs), statistics.median(references)
    text = f"{what} {cost:.1f} us of CPU (at best {min(costs):.1f}), orjson.loads of it {reference:.1f} us"
    details = {"cost_us": list(costs), "orjson_us": list(references), "at_best": min(costs) / min(references)}
    return median(name, ratios, "x orjson.loads", reference=text, details=details, **options)


class Alternating:
    """Rounds of work between two measurements of the reference: `orjson.loads` of the same bytes.

    Args:
        lines: The JSON that the reference decodes.
        warm: Rounds that do not count.
    """

    def __init__(self, lines: Sequence[bytes], *, warm: int = 1) -> None:
        self.costs: list[float] = []
        self.references: list[float] = []
        self._lines = lines
        self._warm = warm

    async def round(self, count: int, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Await `work()`, which handles `count` objects."""
        before = loads_us(self._lines)
        began = time.process_time()
        await work()
        cost = (time.process_time() - began) / count * 1e6
        after = loads_us(self._lines)
        if self._warm:
            self._warm -= 1
            return
        self.costs.append(cost)
        self.references.append((before + after) / 2)

    def figure(self, name: str, what: str, **options: Any) -> Figure:
        """The figure of all rounds."""
        return over(name, self.costs, self.references, what, **options)


@asynccontextmanager
async def serving(kind: str, objects: int, events: int = 1, *options: str) -> AsyncIterator[str]:
    """A server process with so many objects and events; its URL."""
    command = [sys.executable, "-m", "benchmarks.server", "--kind", kind, *options]
    command += ["--objects", str(objects), "--events", str(events)]
    if len(CORES) > 1:
        command += ["--core", str(CORES[-1])]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, cwd=RESULTS.parent.parent)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode().strip()
        if not line:
            raise RuntimeError("the benchmark's server did not start; its output is above")
        yield line
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def loads_us(lines: Sequence[bytes]) -> float:
    """The reference: CPU microseconds that `orjson.loads` takes for one of `lines`, on average."""
    loads = orjson.loads
    began = time.process_time()
    for line in lines:
        loads(line)
    return (time.process_time() - began) / len(lines) * 1e6


async def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Look every 10 ms."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


def resident() -> int:
    """Bytes of this process in memory, after what is free has been given back to the system."""
    gc.collect()
    if sys.platform == "linux":
        import ctypes

        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
        if trim is not None:
            trim(0)
    import psutil

    return int(psutil.Process().memory_info().rss)


class Others:
    """The load of others: the share of all CPU time that neither this process nor its children had."""

    def __init__(self) -> None:
        self._began = self._times()

    def share(self) -> float:
        """Since the beginning; between 0 and 1."""
        busy, whole = (now - before for now, before in zip(self._times(), self._began, strict=True))
        return max(0.0, busy / whole)

    def _times(self) -> tuple[float, float]:
        import psutil

        of_all = psutil.cpu_times()
        here = psutil.Process()
        own = [process.cpu_times() for process in (here, *here.children(recursive=True))]
        spent = sum(one.user + one.system + one.children_user + one.children_system for one in own)
        idle = of_all.idle + getattr(of_all, "iowait", 0.0)
        # Linux counts what guests have had under `user` too.
        whole = sum(of_all) - getattr(of_all, "guest", 0.0) - getattr(of_all, "guest_nice", 0.0)
        return whole - idle - spent, whole


def forget_peak() -> None:
    """Start the peak of memory anew (Linux)."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")


def peak() -> int:
    """The most bytes of memory since `forget_peak` (if that exists, else since the start)."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def stay_on_one_core() -> None:
    """Leave the last core to the server."""
    if len(CORES) > 1:
        os.sched_setaffinity(0, CORES[:-1])


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What an `asyncio.Runner` makes its loop with: `asyncio` or `uvloop`."""
    if name == "asyncio":
        return None
    import uvloop

    return uvloop.new_event_loop


def machine() -> str:
    """The processor of this machine, in words."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().splitlines()
        model = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), model)
    return f"{os.cpu_count()} cores of {model}"


def record(name: str, figures: Sequence[Figure], seconds: float, others: float | None = None) -> None:
    """Print figures, and write `results/<name>.json`, from which `benchmarks.results` makes the page of the docs.

    Args:
        name: The name of the file.
        figures: To record.
        seconds: How long it took.
        others: The share of the CPU that other processes had meanwhile.
    """
    print(f"{name} ({seconds:.0f} s, Python {platform.python_version()})")
    for figure in figures:
        print(figure)
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": machine(),
        "others": None if others is None else round(others, 3),
        "seconds": round(seconds, 1),
        "figures": [{**asdict(figure), "meets": figure.meets} for figure in figures],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=2) + "\n")


def run(
    name: str,
    measure: Callable[[], Coroutine[Any, Any, list[Figure]]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Measure and `record`; the exit status: 0 if every limit is met."""
    stay_on_one_core()
    began, others = time.perf_counter(), Others()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        figures = runner.run(measure())
    record(name, figures, time.perf_counter() - began, others.share())
    return 0 if all(figure.meets for figure in figures) else 1
