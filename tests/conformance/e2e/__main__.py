"""Runs the suite: `python -m tests.conformance.e2e`, or `nox -s e2e`.

Each server gets a cluster of its own, one after the other; the result is the tests that fail on only one. Logs and
reports stay in a folder. A run takes a quarter of an hour on two cores; none takes longer than its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.build_assets import (
    ASSETS_VARIABLE,
    BuildError,
    assets_folder,
    build_missing,
    e2e_programs,
    programs,
)
from tests.conformance.e2e.cluster import EMBEDDED, REAL, running_cluster
from tests.conformance.e2e.focus import FOCUS, SKIP
from tests.conformance.e2e.report import Report, difference, read_report

LIMIT = 2400.0  # seconds for the tests of one server
MARGIN = 120.0  # ... and beyond it, until the program is killed
PROGRESS_ON_TERMINAL = 1.0  # seconds between two updates of the progress line ...
PROGRESS_IN_LOG = 60.0  # ... and if a line cannot be overwritten
_PLANNED = re.compile(r"Will run (\d+) of \d+ specs")
_DONE = re.compile(r"^•", re.MULTILINE)
_FAILED = re.compile(r"^• \[FAILED\]", re.MULTILINE)


async def run_suite(server: str, binaries: Path, folder: Path, focus: str, limit: float) -> Report:
    """Run the tests on a server, and return what came of them.

    Raises:
        FileNotFoundError: There is no report: the program was killed, or could not begin.
    """
    report = folder / "report.xml"
    log = folder / "e2e.log"
    async with running_cluster(server, binaries, folder) as kubeconfig:
        argv = _arguments(binaries, kubeconfig, report, focus, limit)
        with log.open("wb") as output:
            # kubectl keeps nothing: what it knows of a server may be from before the definition that a test is about.
            environ = {**os.environ, "KUBECACHEDIR": os.devnull}
            process = await asyncio.create_subprocess_exec(*argv, stdout=output, stderr=output, cwd=folder, env=environ)
        try:
            await _wait_with_progress(process, server, log, limit + MARGIN)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    return read_report(report, server)


def _arguments(binaries: Path, kubeconfig: Path, report: Path, focus: str, limit: float) -> list[str]:
    return [
        str(binaries / "e2e.test"),
        f"--kubeconfig={kubeconfig}",
        f"--kubectl-path={binaries / 'kubectl'}",
        "--provider=skeleton",
        "--num-nodes=3",
        "--allowed-not-ready-nodes=-1",
        "--disable-log-dump",
        "--node-schedulable-timeout=20s",
        "--system-pods-startup-timeout=20s",
        f"--ginkgo.focus={focus}",
        f"--ginkgo.skip={SKIP}",
        f"--ginkgo.junit-report={report}",
        f"--ginkgo.timeout={limit:.0f}s",
        "--ginkgo.seed=1",
        "--ginkgo.no-color",
        "--ginkgo.v",
        "--ginkgo.poll-progress-after=600s",
    ]


async def _wait_with_progress(process: asyncio.subprocess.Process, server: str, log: Path, limit: float) -> None:
    overwrite = sys.stderr.isatty()
    interval = PROGRESS_ON_TERMINAL if overwrite else PROGRESS_IN_LOG
    start = time.monotonic()
    ended = asyncio.create_task(process.wait())
    while not ended.done() and time.monotonic() - start < limit:
        await asyncio.wait([ended], timeout=interval)
        text = await asyncio.to_thread(log.read_text, encoding="utf-8", errors="replace")
        planned = _PLANNED.search(text)
        line = f"{server}: {len(_DONE.findall(text))} of {planned[1] if planned else '?'} tests"
        line += f", {len(_FAILED.findall(text))} failed, {time.monotonic() - start:.0f} s"
        sys.stderr.write(f"\r\033[K{line}" if overwrite else f"{line}\n")
        sys.stderr.flush()
    if overwrite:
        sys.stderr.write("\n")
    ended.cancel()


def new_folder(parent: Path, server: str) -> Path:
    """Make a folder for one run, which has no data of an earlier one."""
    return Path(tempfile.mkdtemp(prefix=f"{server}-{time.strftime('%H%M%S')}-", dir=parent))


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; the status is 1 if something failed on the embedded server alone."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.e2e", description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=[EMBEDDED, REAL, "both"], default="both")
    parser.add_argument("--focus", default=FOCUS, help="a regular expression for the names of tests")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS", help="for the tests of one server")
    parser.add_argument("--folder", type=Path, help="where logs and reports go; default: a temporary one")
    given = parser.parse_args(argv)
    # Always the cache: a folder that KUBEBUILDER_ASSETS names is its owner's to fill.
    binaries = assets_folder({name: value for name, value in os.environ.items() if name != ASSETS_VARIABLE})
    try:
        build_missing(binaries, [*programs(), *e2e_programs()])
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    folder = (given.folder or Path(tempfile.mkdtemp(prefix="kinformer-e2e-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"logs and reports are in {folder}", flush=True)
    reports = {}
    for server in [EMBEDDED, REAL] if given.server == "both" else [given.server]:
        reports[server] = asyncio.run(run_suite(server, binaries, new_folder(folder, server), given.focus, given.limit))
        print(*reports[server].lines(), sep="\n", flush=True)
    if len(reports) == 1:
        return int(any(report.failed for report in reports.values()))
    ours, real = reports[EMBEDDED], reports[REAL]
    print(*difference(ours, real), sep="\n")
    return int(bool(ours.failed.keys() - real.failed.keys()))


if __name__ == "__main__":
    raise SystemExit(main())
