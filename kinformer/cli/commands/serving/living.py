"""The cluster of `kinformer serve --living`: objects that people change, while controllers keep up."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from kinformer.cli.living_cluster import DEPLOYMENTS, JOBS, NAMESPACES
from kinformer.testing import APIServer

__all__ = ["live", "populate"]

_NODES = 3
_MOST = 8  # replicas
_PAUSE = (0.5, 2.0)  # seconds between two changes
_KEEP = 20  # seconds that a finished Job stays
_STARTUP, _RUNTIME, _SHUTDOWN = 1.0, 4.0, 1.5  # seconds

Object = dict[str, Any]


def populate(server: APIServer) -> str:
    """Create nodes, namespaces, Deployments and their Services, and return a line that says so."""
    for name in NAMESPACES:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for number in range(1, _NODES + 1):
        status = {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"}}
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}, "status": status})
    for (namespace, name), replicas in DEPLOYMENTS.items():
        server.create(_deployment(namespace, name, replicas))
        ports = [{"name": "http", "port": 80, "targetPort": "http"}]
        metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
        spec = {"selector": {"app": name}, "ports": ports}
        server.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    return f"{len(DEPLOYMENTS)} deployments with services in {len(NAMESPACES)} namespaces, on {_NODES} nodes"


async def live(server: APIServer, chance: random.Random) -> None:
    """Run the controllers, and change the Deployments and start Jobs, until cancelled."""
    controllers = server.run_controllers(startup=_STARTUP, runtime=_RUNTIME, shutdown=_SHUTDOWN)
    actions = (_scale, _scale, _roll_out, _start_job, _start_job, _lose_pod)
    async with controllers:
        number = 0
        while True:
            await asyncio.sleep(chance.uniform(*_PAUSE))
            number += 1
            chance.choice(actions)(server, chance, number)


def _deployment(namespace: str, name: str, replicas: int) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [_container(name)]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def _container(name: str) -> Object:
    ports = [{"name": "http", "containerPort": 8080}]
    return {"name": "main", "image": f"registry.example/{name}:1.0", "ports": ports}


def _chosen(server: APIServer, chance: random.Random) -> Object | None:
    """Return one of the Deployments, if the user has left it."""
    namespace, name = chance.choice(sorted(DEPLOYMENTS))
    return server.get("apps/v1/deployments", namespace, name)


def _scale(server: APIServer, chance: random.Random, number: int) -> None:
    if (deployment := _chosen(server, chance)) is not None:
        replicas = deployment["spec"].get("replicas", 1) + chance.choice((-2, -1, 1, 2))
        deployment["spec"]["replicas"] = max(1, min(_MOST, replicas))
        server.update(deployment)


def _roll_out(server: APIServer, chance: random.Random, number: int) -> None:
    if (deployment := _chosen(server, chance)) is not None:
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["image"] = f"{container['image'].rpartition(':')[0]}:1.{number}"
        server.update(deployment)


def _start_job(server: APIServer, chance: random.Random, number: int) -> None:
    name = chance.choice(JOBS)
    spec = {"restartPolicy": "Never", "containers": [_container(name)]}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    metadata = {"name": f"{name}-{number}", "namespace": "batch", "labels": {"app": name}}
    job = {"ttlSecondsAfterFinished": _KEEP, "template": template}
    if server.get("v1/namespaces", None, "batch") is not None:
        server.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job})


def _lose_pod(server: APIServer, chance: random.Random, number: int) -> None:
    pods = [pod for pod in server.list("v1/pods") if pod["metadata"]["namespace"] in NAMESPACES[1:]]
    if pods:
        pod = chance.choice(pods)["metadata"]
        server.delete("v1/pods", pod["namespace"], pod["name"])
