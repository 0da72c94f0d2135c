"""kinformer's candidates and client-go's compete for one Lease of a real server."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.build_assets import HERE
from tests.conformance.conftest import StartControlPlane
from tests.support.candidates import BLOCK, Candidate, check_never_both
from tests.support.waiting import until

MODULE = HERE / "kube-apiserver"


@pytest.fixture(scope="session")
def client_go_candidate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of a hundred lines on client-go, of the version that the server has."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not on the PATH")
    binary = tmp_path_factory.mktemp("go") / "candidate"
    environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
    command = [go, "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", str(binary), "./candidate"]
    subprocess.run(command, cwd=MODULE, env=environ, check=True)
    return binary


@pytest.mark.timeout(600)  # the first build of client-go takes its time
async def test_candidates_of_client_go_and_of_kinformer_never_lead_at_once(
    client_go_candidate: Path, start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    control_plane = await start_control_plane()
    kubeconfig = str(control_plane.kubeconfig(tmp_path / "kubeconfig"))
    module = [sys.executable, "-m", "tests.support.candidates", kubeconfig, "lock"]
    candidates: list[Candidate] = []

    async def started(name: str, *command: str | Path) -> Candidate:
        candidates.append(await Candidate.start(name, *map(str, command)))
        return candidates[-1]

    try:
        ours = await started("kinformer", *module, "kinformer")
        await until(lambda: len(ours.acts) > 2, 30, what="kinformer leads")
        theirs = await started("client-go", client_go_candidate, kubeconfig, "lock", "client-go")
        await until(lambda: theirs.count("ready") == 1, 30, what="client-go waits")
        ours.stop()
        await until(lambda: len(theirs.acts) > 10, 30, what="client-go leads after the stopped one's lease")
        deadline = asyncio.get_running_loop().time() + BLOCK - 2
        await until(lambda: asyncio.get_running_loop().time() > deadline, 30, what="two leases have passed")
        ours.go_on()
        await ours.says("lost")
        await theirs.says("act", 10)
        before = len(ours.acts)
        theirs.process.kill()
        await until(lambda: len(ours.acts) > before + 10, 30, what="kinformer leads after the killed one's lease")
        again = await started("client-go again", client_go_candidate, kubeconfig, "lock", "client-go again")
        await until(lambda: again.count("ready") == 1, 30, what="client-go waits again")
        ours.process.kill()
        await until(lambda: len(again.acts) > 10, 30, what="client-go leads again")
        check_never_both(ours, theirs, again)
    finally:
        for candidate in candidates:
            await candidate.end()
