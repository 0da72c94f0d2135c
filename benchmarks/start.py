"""The cost of starting: `import kinformer`, and the names that a program uses first, over `import aiohttp`.

Each import is made by a fresh interpreter, in turns. Without the interpreter's own start.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.harness import Figure, median, run

ROUNDS = 9
PROGRAM = """
import resource, sys, time
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
{imports}
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((time.process_time() - began) * 1e3, (after - before) / (1024 if sys.platform != "darwin" else 1048576))
"""
WAYS = {
    "aiohttp": "import aiohttp",
    "kinformer": "import kinformer",
    "client and factory": "from kinformer import Client, SharedInformerFactory",
}


def cost_of(imports: str) -> tuple[float, float]:
    """CPU milliseconds and megabytes."""
    command = [sys.executable, "-c", PROGRAM.format(imports=imports)]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=Path(__file__).parent.parent)
    milliseconds, megabytes = done.stdout.split()
    return float(milliseconds), float(megabytes)


async def measure() -> list[Figure]:
    seen: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for number in range(ROUNDS + 1):
        for way, imports in WAYS.items():
            cost = cost_of(imports)
            if number:  # the first writes what is compiled
                seen[way].append(cost)
    figures = []
    for way in ("kinformer", "client and factory"):
        for place, (what, unit) in enumerate((("time", "ms"), ("memory", "MB"))):
            ours = [row[place] for row in seen[way]]
            theirs = [row[place] for row in seen["aiohttp"]]
            text = f"{statistics.median(ours):.1f} {unit}, aiohttp {statistics.median(theirs):.1f} {unit}"
            ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
            # Names are loaded on first use; the cost of those of every program, with aiohttp, is printed too.
            limits = {"limit": 1.3, "aim": 1.1} if way == "kinformer" else {}
            name = f"{'G15 ' if limits else ''}import of {way}, {what}, over aiohttp's"
            figures.append(median(name, ratios, "x", reference=text, **limits))
    return figures


if __name__ == "__main__":
    sys.exit(run("start", measure))
