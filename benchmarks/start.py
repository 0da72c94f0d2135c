"""The cost of starting: imports over those of aiohttp, and a first list of 100 pods over the least that reads it.

The least is aiohttp, which asks for the list, and msgspec, which decodes it to dicts. Each program is run by a fresh
interpreter, in turns, with bytecode that the first round has written. Without the interpreter's own start.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Figure, median, run, serving, stay_on_one_core

ROUNDS = 9
OBJECTS = 100
PROGRAM = """
import resource, sys, time
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{program}
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((time.process_time() - began) * 1e3, (after - before) / (1024 if sys.platform != "darwin" else 1048576))
"""
IMPORTS = {
    "aiohttp": "import aiohttp",
    "kinformer": "import kinformer",
    "client and factory": "from kinformer import Client, SharedInformerFactory",
}
FIRST_LIST = {
    "aiohttp and msgspec": """
import asyncio, aiohttp, msgspec
async def main():
    async with aiohttp.ClientSession() as session, session.get("{url}/api/v1/pods") as response:
        assert len(msgspec.json.decode(await response.read())["items"]) == {objects}
asyncio.run(main())
""",
    "kinformer": """
import asyncio
from kinformer import Client, SharedInformerFactory
async def main():
    async with Client.from_url("{url}") as client, SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/pods")
        await informer.wait_synced()
        assert len(informer.lister) == {objects}
asyncio.run(main())
""",
}


def cost_of(program: str, bytecode: str) -> tuple[float, float]:
    """CPU milliseconds and megabytes."""
    command = [sys.executable, "-c", PROGRAM.format(program=program)]
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    root = Path(__file__).parent.parent
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=root, env=environment)
    milliseconds, megabytes = done.stdout.split()
    return float(milliseconds), float(megabytes)


async def costs_of(programs: dict[str, str]) -> dict[str, list[tuple[float, float]]]:
    """The costs of each program, in rounds."""
    seen: dict[str, list[tuple[float, float]]] = {way: [] for way in programs}
    with tempfile.TemporaryDirectory() as bytecode:
        for number in range(ROUNDS + 1):
            for way, program in programs.items():
                cost = await asyncio.to_thread(cost_of, program, bytecode)
                if number:  # the first writes the bytecode
                    seen[way].append(cost)
    return seen


async def measure() -> list[Figure]:
    stay_on_one_core()
    seen = await costs_of(IMPORTS)
    figures = []
    for way in ("kinformer", "client and factory"):
        for place, (what, unit) in enumerate((("time", "ms"), ("memory", "MB"))):
            # Names are loaded on first use; the cost of those of every program, with aiohttp, is printed too.
            limits = {"limit": 1.3, "aim": 1.1} if way == "kinformer" else {}
            name = f"{'G15 ' if limits else ''}import of {way}, {what}, over aiohttp's"
            figures.append(_over(name, seen, way, "aiohttp", place, unit, **limits))
    async with serving("pods", OBJECTS) as url:
        lists = await costs_of({way: text.format(url=url, objects=OBJECTS) for way, text in FIRST_LIST.items()})
    figures.append(
        _over("a program's first list of 100 pods", lists, "kinformer", "aiohttp and msgspec", 0, "ms", aim=1.5)
    )
    return figures


def _over(
    name: str,
    seen: dict[str, list[tuple[float, float]]],
    way: str,
    other: str,
    place: int,
    unit: str,
    **limits: float,
) -> Figure:
    ours, theirs = ([row[place] for row in seen[each]] for each in (way, other))
    text = f"{statistics.median(ours):.1f} {unit}, {other} {statistics.median(theirs):.1f} {unit}"
    return median(name, [mine / other for mine, other in zip(ours, theirs, strict=True)], "x", reference=text, **limits)


if __name__ == "__main__":
    sys.exit(run("start", measure))
