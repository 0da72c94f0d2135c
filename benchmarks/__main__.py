"""All benchmarks, each in a process of its own, with a line of progress; or the regression gate.

python -m benchmarks [NAME ...]              those, or all of them; below ten minutes on a quiet machine
python -m benchmarks --write [SECTION ...]   sections of docs/results.md, or all: what they need, an hour in all
python -m benchmarks --gate                  what CI holds a change against (`benchmarks.gate`)
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import gate, results
from benchmarks.result_sections import SECTIONS, chosen

NAMES = (
    "start",
    "watch",
    "lone",
    "followers",
    "list",
    "memory",
    "stream",
    "collector",
    "stall",
    "latency",
    "growth",
    "fan_out",
    "derived",
    "reads",
    "many",
    "peers",
    "work_queue",
    "controller",
    "compact",
    "snapshot",
    "managed_fields",
    "explore",
)
RESULTS = Path(__file__).parent / "results"


def summary(names: list[str], since: float) -> list[str]:
    """A line for each figure that has a limit, of the results that are newer than that."""
    lines = []
    for name in names:
        path = RESULTS / f"{name}.json"
        if not path.exists() or path.stat().st_mtime < since:
            lines.append(f"{'NO FIGURES':<10} {name}")
            continue
        lines += [_line(figure) for figure in json.loads(path.read_text())["figures"] if figure["limit"] is not None]
    return lines


def _line(figure: dict[str, Any]) -> str:
    aim, least = figure["aim"], figure["least"]
    reached = aim is not None and (figure["value"] >= aim if least else figure["value"] <= aim)
    word = "FAILS" if not figure["meets"] else "aim" if reached else "ok"
    sign = ">=" if least else "<" if figure["below"] else "<="
    value = f"{figure['value']:.3g}"
    return f"{word:<10} {value:>8}  {sign:>2} {figure['limit']:<6g} {figure['unit']:<22} {figure['name']}"


def run_all(names: list[str]) -> int:
    """Run them one after the other; the exit status."""
    failed = []
    since, began = time.time(), time.perf_counter()
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}, {time.perf_counter() - began:.0f} s] {name} ...", file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    print("\n" + "\n".join(summary(names, since)))
    verdict = f"FAILED: {', '.join(failed)}" if failed else "every limit is met"
    print(f"{verdict} ({time.perf_counter() - began:.0f} s; figures in benchmarks/results/)")
    return 1 if failed else 0


def write(sections: Sequence[results.Section]) -> int:
    """Measure what sections of the page of results need, each benchmark once, and write them; the exit status.

    A benchmark that cannot run here (no Go, no root) leaves its section as it is, and so does one that fails.
    """
    since, began = time.time(), time.perf_counter()
    commands = list(dict.fromkeys(tuple(command) for section in sections for command in section.commands))
    for number, (name, *arguments) in enumerate(commands, 1):
        text = f"[{number}/{len(commands)}, {time.perf_counter() - began:.0f} s] {name} ..."
        print(text, file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], check=False)
    left = results.write(sections, since)
    print(f"\n{len(sections) - len(left)} of {len(sections)} sections of {results.PAGE.name} were written")
    for reason in left:
        print(f"left as it was: {reason}")
    return 1 if left else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="What kinformer costs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--gate", action="store_true", help="only what CI holds a change against")
    sections = ", ".join(section.name for section in SECTIONS)
    parser.add_argument("--write", action="store_true", help=f"NAMEs are sections of docs/results.md: {sections}")
    options = parser.parse_args()
    if options.write:
        try:
            return write(chosen(options.names))
        except ValueError as error:
            parser.error(str(error))
    if unknown := set(options.names) - set(NAMES):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}")
    return gate.main() if options.gate else run_all(options.names or list(NAMES))


if __name__ == "__main__":
    sys.exit(main())
