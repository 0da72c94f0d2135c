"""`kinformer wait` beside `kubectl wait`, on the same objects: the same output, the same status, the same words."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.conformance.kubectl import find_kubectl
from tests.support.cli import CommandLine
from tests.support.kube import pod

pytestmark = [pytest.mark.process, pytest.mark.skipif(find_kubectl() is None, reason="there is no kubectl here")]

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

HOLDS = [
    "condition=Ready",
    "condition=ready=true",
    "jsonpath={.status.phase}=Running",
    "jsonpath={.status.phase}",
    "jsonpath=.status.phase=Running",
    "jsonpath={.spec.containers[0].name}=main",
    "jsonpath={.spec.containers[*].name}=main",
    "create",
]
FAILS = [
    "condition=Ready=false",
    "condition=Other",
    "jsonpath={.status.phase}=Pending",
    "jsonpath={.status.nothing}",
    "jsonpath={.spec.containers}=a",
    "jsonpath={.metadata.labels.*}=a",
    "delete",
    "nothing",
    "jsonpath={.status.phase}=",
]


async def beside(
    server: APIServer, capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str
) -> tuple[tuple[int, str, str], tuple[int, str, str]]:
    """What kubectl says, and what kinformer says."""
    binary = find_kubectl()
    assert binary is not None
    config = str(server.kubeconfig(folder / "kubeconfig"))
    running = await asyncio.create_subprocess_exec(
        *(binary, "wait", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": str(folder), "PATH": os.environ["PATH"], "KUBECONFIG": config},
    )
    out, err = await asyncio.wait_for(running.communicate(), 30)
    assert running.returncode is not None
    ours = await CommandLine(capsys)("wait", *arguments, "--kubeconfig", config)
    return (running.returncode, out.decode(), err.decode()), ours


@pytest.mark.parametrize("condition", HOLDS)
async def test_what_holds_is_said_alike(
    server: APIServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, condition: str
) -> None:
    server.create(pod("web-1", status=READY))
    kubectl, ours = await beside(server, capsys, tmp_path, "pods", "web-1", f"--for={condition}", "--timeout=5s")
    assert kubectl == ours == (0, "pod/web-1 condition met\n", "")


@pytest.mark.parametrize("condition", FAILS)
async def test_what_does_not_hold_fails_alike(
    server: APIServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, condition: str
) -> None:
    server.create(pod("web-1", status=READY, labels={"a": "1", "b": "2"}))
    kubectl, ours = await beside(server, capsys, tmp_path, "pods", "web-1", f"--for={condition}", "--timeout=1s")
    assert (kubectl[0], kubectl[1]) == (1, "")
    assert (ours[0] in (1, 2), ours[1]) == (True, "")
    assert kubectl[2].splitlines()[-1].removeprefix("error: ") in ours[2]  # above it are logs of client-go


async def test_an_object_that_does_not_exist_is_said_alike(
    server: APIServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kubectl, ours = await beside(server, capsys, tmp_path, "pods", "none", "--for=condition=Ready", "--timeout=5s")
    assert (kubectl[0], kubectl[1]) == (ours[0], ours[1]) == (1, "")
    assert 'pods "none" not found' in kubectl[2]
    assert 'pods "none" not found' in ours[2]
    assert await beside(server, capsys, tmp_path, "pods", "none", "--for=delete", "--timeout=5s") == ((0, "", ""),) * 2
