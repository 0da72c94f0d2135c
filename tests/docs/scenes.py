"""Objects that the hidden checks of pages begin with, so that a page's source has only what a reader needs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kinformer.testing import APIServer
from tests.support.waiting import until

Document = dict[str, Any]


def crashing_pod(name: str, namespace: str) -> Document:
    """A Pod whose container has ended five times."""
    old = "2026-01-05T10:00:00Z"
    end = {"terminated": {"exitCode": 1}}
    main = {"name": "main", "ready": False, "restartCount": 5, "image": "web", "imageID": "", "lastState": end}
    status: Document = {"phase": "Running"}
    status["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": old}]
    status["containerStatuses"] = [{**main, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
    spec = {"containers": [{"name": "main", "image": "web"}]}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def fill_with_nodes_pods_and_a_service(server: APIServer) -> None:
    """Create three Nodes, six ready Pods on two of them, and their Service."""
    for number in range(3):
        server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}"}})
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod"}})
    for number in range(6):
        metadata = {"name": f"web-{number}", "namespace": "prod", "labels": {"app": "web"}}
        container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}
        spec = {"nodeName": f"node-{number % 2}", "containers": [container]}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "podIP": f"10.0.0.{number}", "conditions": ready}
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "prod"}}
    server.create({**service, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})


def endpoint(address: str, pod: str, **conditions: bool) -> Document:
    """An endpoint of an EndpointSlice, for a Pod in `default`."""
    reference = {"kind": "Pod", "namespace": "default", "name": pod, "uid": f"uid-{pod}"}
    return {"addresses": [address], "targetRef": reference, "conditions": conditions}


def slice_of_web(*endpoints: Document) -> Document:
    """The EndpointSlice of the Service `default/web`."""
    labels = {"kubernetes.io/service-name": "web"}
    metadata = {"name": "web-1", "namespace": "default", "labels": labels}
    ports = [{"name": "http", "port": 8080}]
    found: Document = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    return {**found, "addressType": "IPv4", "ports": ports, "endpoints": list(endpoints)}


def web_pod_of(cluster: str) -> Document:
    """The Pod `default/web-CLUSTER`, which is pending in `west` and running elsewhere."""
    metadata = {"name": f"web-{cluster}", "namespace": "default", "labels": {"app": "web"}}
    status = {"phase": "Running" if cluster != "west" else "Pending"}
    spec = {"containers": [{"name": "main", "image": "web"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def kubeconfig_of(servers: dict[str, APIServer]) -> Document:
    """A kubeconfig with a context for each server."""
    clusters = [{"name": name, "cluster": {"server": server.url}} for name, server in servers.items()]
    contexts = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in servers]
    users: list[Document] = [{"name": "me", "user": {}}]
    return {"clusters": clusters, "users": users, "contexts": contexts, "current-context": next(iter(servers))}


def secret_of(name: str, server: APIServer) -> Document:
    """The Secret `fleet/NAME`, with a kubeconfig for the server."""
    data = base64.b64encode(json.dumps(kubeconfig_of({name: server})).encode()).decode()
    metadata = {"name": name, "namespace": "fleet", "labels": {"kind": "cluster"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"kubeconfig": data}}


@asynccontextmanager
async def clusters_of_a_hub(hub: APIServer, kubeconfig: Path) -> AsyncIterator[dict[str, APIServer]]:
    """Three clusters with a Pod each. The hub has the Secrets of the first two, and a kubeconfig their contexts."""
    async with APIServer() as east, APIServer() as west, APIServer() as north:
        servers = {"east": east, "west": west, "north": north}
        for name, server in servers.items():
            server.create(web_pod_of(name))
        hub.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}})
        first_two = {name: servers[name] for name in ("east", "west")}
        for name, server in first_two.items():
            hub.create(secret_of(name, server))
        kubeconfig.write_text(json.dumps(kubeconfig_of(first_two)), encoding="utf-8")  # noqa: ASYNC240 - a small file
        yield servers


def make_ready_later(server: APIServer, name: str) -> None:
    """Let a Pod in `default` run and be ready, after a moment."""

    def change() -> None:
        pod = server.get("v1/pods", "default", name)
        assert pod is not None
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        server.update(pod)

    asyncio.get_running_loop().call_later(0.05, change)


async def delete_once(server: APIServer, name: str, seen: Callable[[], object]) -> None:
    """Delete a Pod in `default` as soon as something has been seen."""
    await until(seen)
    server.delete("v1/pods", "default", name)


def create_namespace(server: APIServer, name: str, **labels: str) -> None:
    """Create a Namespace with these labels, or give an existing one these labels alone."""
    found = server.get("v1/namespaces", None, name)
    if found is None:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    else:
        server.update({**found, "metadata": {**found["metadata"], "labels": labels}})
