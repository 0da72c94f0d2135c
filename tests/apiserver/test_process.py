"""The embedded server, filled by the thousand, and under kubectl."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from kinformer.testing import APIServer
from tests.support.apiserver_http import ask

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
