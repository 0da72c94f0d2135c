"""The size of what pip downloads, and the CPU time of installing it, for kinformer alone and with each extra.

    python -m benchmarks.studies.install > table.md      # needs a package index; docs/results.md has the table

Each is resolved by itself, as in an empty environment, by the Python that runs this. Downloads are those of `pip
download`: wheels as they are on the index, without pip's cache. Installing is from these files, into a new environment
that has pip and nothing else, so that the network is not in the time. It is CPU time, which is what a quiet machine
takes: pip does one thing after another.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = 3
_QUIET = ("--quiet", "--disable-pip-version-check")


def extras() -> list[str]:
    """The extras of pyproject.toml, after "" for none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return ["", *project["optional-dependencies"]]


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", *arguments], check=True, stdout=sys.stderr)


def cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def install_seconds(requirement: str, files: Path, folder: Path) -> float:
    """Install from downloaded files into a new environment, including the compilation to bytecode."""
    venv.create(folder, with_pip=True, clear=True)
    before = cpu_seconds_of_children()
    pip(folder / "bin" / "python", "install", *_QUIET, "--no-index", "--find-links", str(files), requirement)
    return cpu_seconds_of_children() - before


def installed_bytes(folder: Path, without: int) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) - without


def rows(rounds: int) -> Iterator[str]:
    """The rows of the table: extra, packages, bytes downloaded, bytes on disk, seconds."""
    with tempfile.TemporaryDirectory(prefix="kinformer-install-") as name:
        work = Path(name)
        pip(Path(sys.executable), "wheel", *_QUIET, "--no-deps", "--wheel-dir", str(work / "wheel"), str(ROOT))
        (wheel,) = (work / "wheel").glob("*.whl")
        venv.create(work / "empty", with_pip=True)
        empty = installed_bytes(work / "empty", 0)
        for extra in extras():
            files, environment = work / f"files-{extra}", work / "environment"
            requirement = f"{wheel}[{extra}]" if extra else str(wheel)
            pip(Path(sys.executable), "download", *_QUIET, "--no-cache-dir", "--dest", str(files), requirement)
            seconds = [install_seconds(requirement, files, environment) for _ in range(rounds)]
            downloads = [file.stat().st_size for file in files.iterdir()]
            size, disk = sum(downloads) / 1e6, installed_bytes(environment, empty) / 1e6
            label = f"`kinformer[{extra}]`" if extra else "`kinformer`"
            yield f"| {label} | {len(downloads)} | {size:.1f} MB | {disk:.0f} MB | {statistics.median(seconds):.0f} s |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="installations of each")
    arguments = parser.parse_args()
    print("| | packages | `pip download` | on disk | CPU to install |\n|---|---|---|---|---|")
    for row in rows(arguments.rounds):
        print(row, flush=True)
    print(f"\nMeasured {date.today()}, Python {platform.python_version()}, {platform.system()} {platform.machine()}")


if __name__ == "__main__":
    main()
