"""A web service that knows the cluster: an API over the caches, live pages, health for probes, and metrics.

    pip install 'kinformer[dashboard,prometheus]'
    uvicorn --app-dir examples/fastapi_cluster main:app --timeout-graceful-shutdown 5

With ``SOCKET=/run/app/kinformer.sock`` and ``--workers 4``, the workers share one cache and its watches.

It looks at the cluster of your kubeconfig; in a pod, at its own (see base). Without a cluster:
``kinformer serve --objects pods=1000 --churn 20`` and ``KUBERNETES_URL=http://127.0.0.1:8001 uvicorn ...``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Response
from prometheus_client import CollectorRegistry, make_asgi_app

from kinformer import Client, Collection, KubeObject, Lister, SharedInformer, SharedInformerFactory, group_by
from kinformer.cli.dashboard import LOOPBACK_NAMES, cluster_app
from kinformer.contrib.fastapi import (
    collection_of,
    error_handlers,
    health_router,
    informer_of,
    kinformer_lifespan,
    list_response,
    lister_of,
    object_response,
    sse_response,
)
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.derived import mapped
from kinformer.watchcache import Share

registry = CollectorRegistry()
metrics = PrometheusMetrics(registry)


@asynccontextmanager
async def setup() -> AsyncIterator[SharedInformerFactory]:
    """The resources of the application. It does not wait for the caches: /readyz says when they are there."""
    url, socket = os.environ.get("KUBERNETES_URL"), os.environ.get("SOCKET")
    async with (
        Client.from_url(url) if url else Client() as client,
        SharedInformerFactory(client, metrics=metrics, share=Share(socket) if socket else None) as factory,
    ):
        pods = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName", "owner": owners})
        factory.for_resource("apps/v1/deployments")
        factory.for_resource("v1/nodes")
        by_node = factory.add(group_by(pods, node_of, name="pods by node"))
        factory.add(mapped(by_node, load_of, name="load of nodes"))
        yield factory


@dataclass(frozen=True)
class Load:
    """The pods of a node, counted."""

    pods: int
    phases: Mapping[str, int]
    namespaces: Mapping[str, int]


def node_of(pod: KubeObject) -> str:
    """The node of a pod; "-" before it has one."""
    return str(pod.path("spec.nodeName") or "-")


def load_of(pods: tuple[KubeObject, ...]) -> Load:
    """Count the pods of one node. It is called again when one of them changes, and for no other node."""
    phases = Counter(str(pod.path("status.phase", "Unknown")) for pod in pods)
    return Load(len(pods), dict(phases), dict(Counter(pod.namespace for pod in pods)))


def owners(pod: KubeObject) -> list[str]:
    """For the index "owner": `ReplicaSet/web-5d8f`."""
    return [f"{owner.kind}/{owner.name}" for owner in pod.owner_references]


app = FastAPI(title="cluster", lifespan=kinformer_lifespan(setup), exception_handlers=error_handlers())
app.include_router(health_router())
app.mount("/metrics", make_asgi_app(registry))
app.mount("/cluster", cluster_app(names=[*LOOPBACK_NAMES, *os.environ.get("NAMES", "").split()]))

Pods = Annotated[Lister, Depends(lister_of("v1/pods", require_synced=True))]
Loads = Annotated[Collection[Load], Depends(collection_of("load of nodes", require_synced=True))]
PodInformer = Annotated[SharedInformer, Depends(informer_of("v1/pods"))]
Selector = Annotated[str | None, Query(description="labels, as kubectl takes them: app=web,tier!=cache")]


@app.get("/pods", response_class=Response)
async def pods(pods: Pods, namespace: str | None = None, selector: Selector = None) -> Response:
    """Pods as they are, by namespace and labels; their bytes are passed on without being decoded."""
    return list_response(pods.list(selector, namespace=namespace))


@app.get("/pods/events", response_class=Response)
async def pod_events(informer: PodInformer, selector: Selector = None) -> Response:
    """Pods, then every change of them: ``new EventSource("/pods/events?selector=app=web")``."""
    return sse_response(informer, label_selector=selector)


@app.get("/pods/{namespace}/{name}", response_class=Response)
async def one_pod(pods: Pods, namespace: str, name: str) -> Response:
    """One pod."""
    found = pods.get(name, namespace=namespace)
    if found is None:
        raise HTTPException(404, f"there is no pod {namespace}/{name}")
    return object_response(found)


@app.get("/nodes/{node}/pods")
def on_node(pods: Pods, node: str) -> list[dict[str, Any]]:
    """List the pods on a node. A `def` endpoint runs in a thread; listers may be read from there."""
    return [summary(pod) for pod in pods.by_index("node", node)]


@app.get("/owners/{kind}/{name}/pods")
def of_owner(pods: Pods, kind: str, name: str, namespace: str | None = None) -> list[dict[str, Any]]:
    """The pods of a ReplicaSet, a Job, a StatefulSet."""
    found = pods.by_index("owner", f"{kind}/{name}")
    return [summary(pod) for pod in found if namespace is None or pod.namespace == namespace]


@app.get("/counts")
def counts(loads: Loads) -> dict[str, dict[str, int]]:
    """Pods by phase, namespace and node: sums over nodes, not over pods."""
    by_node = dict(loads.by_key)
    phases: Counter[str] = Counter()
    namespaces: Counter[str] = Counter()
    for load in by_node.values():
        phases.update(load.phases)
        namespaces.update(load.namespaces)
    nodes = {node: load.pods for node, load in sorted(by_node.items()) if node != "-"}
    return {"phases": dict(phases), "namespaces": dict(namespaces), "nodes": nodes}


@app.get("/nodes/events", response_class=Response)
async def node_events(loads: Loads) -> Response:
    """The load of each node, then every change of one: `{"key": "node-1", "value": {"pods": 12, ...}}`."""
    return sse_response(loads)


def summary(pod: KubeObject) -> dict[str, Any]:
    """The part of a pod that a list needs."""
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "phase": pod.path("status.phase"),
        "node": pod.path("spec.nodeName"),
    }
