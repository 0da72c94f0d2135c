"""All benchmarks, each in a process of its own, with a line of progress."""

from __future__ import annotations

import subprocess
import sys
import time

NAMES = (
    "start",
    "watch",
    "list",
    "memory",
    "collector",
    "stall",
    "latency",
    "growth",
    "fan_out",
    "reads",
    "many",
    "peers",
    "work_queue",
    "compact",
    "snapshot",
)


def main() -> int:
    failed = []
    began = time.perf_counter()
    for number, name in enumerate(NAMES, 1):
        print(f"[{number}/{len(NAMES)}, {time.perf_counter() - began:.0f} s] {name} ...", file=sys.stderr, flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    verdict = f"FAILED: {', '.join(failed)}" if failed else "every limit is met"
    print(f"{verdict} ({time.perf_counter() - began:.0f} s; figures in benchmarks/results/)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
