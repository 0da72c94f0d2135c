"""The pytest plugin on a real control plane."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from tests.support.plugin_run import AUTO, PluginRun

pytest_plugins = ["pytester"]

SHARED = """
import pytest
from kinformer import KubeObject
from kinformer.testing import ControlPlane

MADE = []

async def namespaces(client):
    return {item["metadata"]["name"] for item in (await client.request("GET", "/api/v1/namespaces"))["items"]}

@pytest.mark.parametrize("number", [1, 2])
async def test_each_begins_with_nothing(kube_apiserver, kube_client, kube_namespace, make_pod, make_object, number):
    assert isinstance(kube_apiserver, ControlPlane)
    assert not set(MADE) & await namespaces(kube_client)
    assert (await kube_client.request("GET", "/api/v1/pods"))["items"] == []
    assert (await kube_client.request("GET", "/api/v1/nodes"))["items"] == []
    await make_pod("web", node="n1", phase="Running")
    held = {"name": "held", "finalizers": ["example.com/hold"]}
    await make_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    await make_object(api_version="v1", kind="Node", name="n1")
    MADE.append(kube_namespace)

async def test_it_stops_the_server(kube_apiserver, kube_namespace):
    await kube_apiserver.stop_api_server(kill=True)
    await kube_apiserver.stop_etcd(kill=True)

async def test_which_runs_again_for_the_next(kube_client):
    assert (await kube_client.request("GET", "/api/v1/nodes"))["items"] == []

async def test_that_fails():
    raise ZeroDivisionError

async def test_that_fails_on_the_server(kube_apiserver):
    print("files in", kube_apiserver.folder)
    raise ZeroDivisionError
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, assets: Path) -> PluginRun:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    return PluginRun(pytester, monkeypatch)


def test_tests_that_share_a_control_plane_do_not_meet_and_a_failure_shows_its_logs(run: PluginRun) -> None:
    result = run(*AUTO, "--kube-apiserver=control-plane", test_shared=SHARED)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*logs of the control plane*", "*kube-apiserver.log:", "*passed*"])
    assert result.stdout.str().count("logs of the control plane") == 1
    folder = next(line.split()[-1] for line in result.outlines if line.startswith("files in"))
    assert (Path(folder) / "kube-apiserver.log").exists()
    assert processes_with(folder) == []
    shutil.rmtree(folder)


def processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue  # it ended while we looked
            if text in command:
                found.append(command)
    return found


async def test_the_operator_of_the_documentation_passes_on_a_control_plane_in_parallel(run: PluginRun) -> None:
    options = ("--kube-apiserver=control-plane", "-p", "xdist", "-n", "2")
    result = await asyncio.to_thread(run.example_of_the_documentation, *options)
    result.assert_outcomes(passed=8, skipped=5)
