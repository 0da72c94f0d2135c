"""The embedded server from the shell, filled by the thousand, and under kubectl.

Internals: the functions of `python -m kinformer.testing`, since a process takes a second.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from kinformer.testing.__main__ import churn, main
from tests.support.apiserver_http import ask, watch

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH")


@pytest.mark.slow
async def test_generated_pods_are_real_pods_of_their_size_with_unique_names_and_uids(server: APIServer) -> None:
    steps = list(server.generate("v1/pods", 2500))
    assert steps[-1] == 2500
    pods = server.list("v1/pods")
    assert len({pod["metadata"]["uid"] for pod in pods}) == len({pod["metadata"]["name"] for pod in pods}) == 2500
    sizes = [len(json.dumps(pod)) for pod in pods]
    assert 7000 < sum(sizes) / len(sizes) < 11000
    assert {entry["manager"] for entry in pods[0]["metadata"]["managedFields"]} == {
        "kube-controller-manager",
        "kubelet",
    }
    one = pods[17]
    path = f"/api/v1/namespaces/{one['metadata']['namespace']}/pods/{one['metadata']['name']}"
    assert (await ask(server.url, "GET", path)).json == one
    node = one["spec"]["nodeName"]
    selected = await ask(server.url, "GET", f"/api/v1/pods?fieldSelector=spec.nodeName%3D{node}")
    assert {item["spec"]["nodeName"] for item in selected.json["items"]} == {node}
    assert server.get("v1/namespaces", None, one["metadata"]["namespace"]) is not None
    with pytest.raises(ValueError, match="pods or configmaps"):
        list(server.generate("v1/secrets", 1))


async def test_a_watch_from_before_the_generated_objects_is_too_old(server: APIServer) -> None:
    before = server.resource_version
    list(server.generate("v1/configmaps", 10))
    reply = await ask(server.url, "GET", f"/api/v1/configmaps?watch=1&resourceVersion={before}")
    assert reply.lines[0]["object"]["code"] == 410


@pytest.mark.virtual_time
async def test_churn_changes_objects_at_the_rate_that_was_asked_for() -> None:
    async with APIServer() as server:
        list(server.generate("v1/configmaps", 50))
        path = f"/api/v1/configmaps?watch=1&resourceVersion={server.resource_version}&timeoutSeconds=10"
        stream = await watch(server.url, path)
        task = asyncio.create_task(churn(server, "v1/configmaps", 20))
        events = (await stream.rest()).lines
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await stream.close()
    assert {event["type"] for event in events} == {"MODIFIED"}
    assert 190 <= len(events) <= 201


@pytest.mark.process
async def test_the_command_prints_its_url_serves_and_ends_cleanly_at_ctrl_c() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "kinformer.testing", "--port", "0"),
        *("--objects", "pods=100", "--objects", "configmaps=10", "--churn", "50"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url = (await process.stdout.readline()).decode().strip()
    listed = (await ask(url, "GET", "/api/v1/pods")).json
    assert len(listed["items"]) == 100
    stream = await watch(url, f"/api/v1/pods?watch=1&resourceVersion={listed['metadata']['resourceVersion']}")
    assert (await stream.event())[0] == "MODIFIED"
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 10) == 0
    errors = (await process.stderr.read()).decode()
    await stream.close()
    assert "pods: 100 in" in errors
    assert "Traceback" not in errors
    assert "Warning" not in errors


async def test_the_command_says_in_one_line_what_it_cannot_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--objects", "cows=1"])
    assert "invalid 'cows=1': expected pods=N or configmaps=N" in capsys.readouterr().err
    async with APIServer() as server:
        port = server.url.rpartition(":")[2]
        assert await asyncio.to_thread(main, ["--port", port]) == 1
    error = capsys.readouterr().err
    assert "address already in use" in error
    assert len(error.splitlines()) == 1


@pytest.mark.process
@needs_kubectl
async def test_kubectl_gets_applies_labels_and_deletes(server: APIServer, tmp_path: Path) -> None:
    config = server.kubeconfig(tmp_path / "config")
    assert config.stat().st_mode & 0o077 == 0

    async def kubectl(*arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("kubectl", "--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"), *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return output.decode()

    manifest = tmp_path / "map.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n")
    server.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "nginx:1"}]},
            "status": {"phase": "Running"},
        }
    )
    lines = (await kubectl("get", "po")).splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["web", "0/1", "Running", "0"]
    assert await kubectl("apply", "-f", str(manifest)) == "configmap/a created\n"
    assert await kubectl("apply", "--server-side", "-f", str(manifest)) == "configmap/a serverside-applied\n"
    assert await kubectl("label", "cm", "a", "x=y") == "configmap/a labeled\n"
    assert server.list("v1/configmaps")[0]["metadata"]["labels"] == {"x": "y"}
    deleted = await kubectl("delete", "cm", "a")  # newer ones say from where
    assert deleted in ('configmap "a" deleted\n', 'configmap "a" deleted from default namespace\n')
    assert "deployments.apps" in await kubectl("api-resources", "-o", "name")
