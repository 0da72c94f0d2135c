"""The doubles of controllers beside a real kube-controller-manager: a Deployment goes through the same states.

Internals: the doubles of scheduler and kubelet alone, and the ledger, which misses no state of an object.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer.conditions import is_deployment_rolled_out
from kinformer.testing import APIServer
from kinformer.testing.controllers.manager import Controllers
from tests.support.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow]

DEPLOYMENTS = "apps/v1/deployments"
_TIMES: dict[str, Any] = {"startup": 0.4, "runtime": 1.0, "shutdown": 0.4, "outcome": None, "seed": 0}
_VARIABLE = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation")


@asynccontextmanager
async def real(server: APIServer, folder: Path, assets: Path) -> AsyncIterator[None]:
    """Run a kube-controller-manager on the server, with doubles of scheduler and kubelet."""
    config = str(server.kubeconfig(folder / "kubeconfig"))
    flags = [f"--{name}={config}" for name in ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")]
    names = "deployment,replicaset,endpoint,endpointslice,garbagecollector"
    process = await asyncio.create_subprocess_exec(
        *(str(assets / "kube-controller-manager"), *flags, f"--controllers={names}"),
        *("--leader-elect=false", "--secure-port=0"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    parts = ("scheduler", "kubelet")
    try:
        async with Controllers(server._writer, server._deleter, **_TIMES, parts=parts):
            yield
    finally:
        process.terminate()
        await process.wait()


def deployment(image: str, replicas: int) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "m", "image": image}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": spec,
    }


SERVICE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}


async def life(server: APIServer) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """Roll a Deployment out twice and scale it. Return the states of its status, and what there is in the end."""
    states: list[tuple[Any, ...]] = []

    def note(resource: Any, old: Any, new: Any) -> None:
        if resource.kind != "Deployment" or new is None or not new.get("status"):
            return
        status, annotations = new["status"], new["metadata"].get("annotations") or {}
        reasons = {one["type"]: one["reason"] for one in status.get("conditions") or ()}
        observed = status.get("observedGeneration", 0)
        state = (annotations.get("deployment.kubernetes.io/revision"), observed, *sorted(reasons.items()))
        if not states or states[-1] != state:
            states.append(state)

    async def rolled_out() -> None:
        await until(lambda: is_deployment_rolled_out(server.get(DEPLOYMENTS, "default", "web")), seconds=60)
        await asyncio.sleep(1.5)  # the last pods end

    server._ledger.on_change.append(note)
    server.create(SERVICE)
    for image, replicas in (("i:1", 3), ("i:2", 3), ("i:2", 5)):
        wanted = deployment(image, replicas)
        known = server.get(DEPLOYMENTS, "default", "web")
        server.create(wanted) if known is None else server.update(
            {**known, "spec": {**known["spec"], **wanted["spec"]}}
        )
        await rolled_out()
    kinds = ("apps/v1/replicasets", "v1/pods", "discovery.k8s.io/v1/endpointslices", "v1/endpoints", DEPLOYMENTS)
    objects = {
        kind: [one for one in server.list(kind, "default") if one["metadata"]["name"] != "kubernetes"] for kind in kinds
    }
    return states, {kind: sorted(map(comparable, some)) for kind, some in objects.items()}


def comparable(obj: dict[str, Any]) -> str:
    """Return an object without what differs from run to run: names, times, addresses."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _VARIABLE}
    if obj["kind"] in ("EndpointSlice", "Endpoints"):
        metadata.pop("annotations", None)  # the time of the change that caused the last write
    status = {key: value for key, value in obj.get("status", {}).items() if key != "observedGeneration"}
    status["conditions"] = sorted(status.get("conditions") or (), key=lambda one: str(one["type"]))
    text = json.dumps({**obj, "metadata": metadata, "status": status}, sort_keys=True)
    for pattern, instead in (
        (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UID"),
        (r"web-[0-9a-z]{5,10}(-[0-9a-z]{5})?", "web-NAME"),
        (r'"pod-template-hash": "[0-9a-z]+"', '"pod-template-hash": "HASH"'),
        (r"10\.244\.\d+\.\d+", "ADDRESS"),
    ):
        text = re.sub(pattern, instead, text)
    return text


async def test_a_deployment_lives_as_under_a_real_kube_controller_manager(assets: Path, tmp_path: Path) -> None:
    if not (assets / "kube-controller-manager").exists() or not assets.name.startswith("1.36"):
        pytest.skip("there is no kube-controller-manager v1.36 (nox -s e2e builds it)")
    found = []
    for is_real in (True, False):
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(APIServer(tls=True, bootstrap=True))
            server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1"}})
            running = real(server, tmp_path, assets) if is_real else server.run_controllers(startup=0.4, shutdown=0.4)
            await stack.enter_async_context(running)
            found.append(await life(server))
    (states, objects), (own_states, own_objects) = found
    assert own_states == states
    for kind, some in objects.items():
        assert own_objects[kind] == some, kind
