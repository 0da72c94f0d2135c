"""A web service that knows the cluster: an API over the caches, live pages, health for probes, and metrics.

    pip install 'kinformer[dashboard,prometheus]'
    uvicorn --app-dir examples/fastapi_cluster main:app --timeout-graceful-shutdown 5

It looks at the cluster of your kubeconfig; in a pod, at its own (see deploy.yaml). Without a cluster:
``kinformer serve --objects pods=1000 --churn 20`` and ``KUBERNETES_URL=http://127.0.0.1:8001 uvicorn ...``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Response
from prometheus_client import CollectorRegistry, make_asgi_app

from kinformer import Client, KubeObject, Lister, SharedInformer, SharedInformerFactory
from kinformer.cli.dashboard import LOOPBACK_NAMES, cluster_app
from kinformer.contrib.fastapi import (
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

registry = CollectorRegistry()
metrics = PrometheusMetrics(registry)


@asynccontextmanager
async def setup() -> AsyncIterator[SharedInformerFactory]:
    """The resources of the application. It does not wait for the caches: /readyz says when they are there."""
    url = os.environ.get("KUBERNETES_URL")
    async with (
        Client.from_url(url) if url else Client() as client,
        SharedInformerFactory(client, metrics=metrics) as factory,
    ):
        factory.for_resource("v1/pods", indexers={"node": "spec.nodeName", "owner": owners})
        factory.for_resource("apps/v1/deployments")
        factory.for_resource("v1/nodes")
        yield factory


def owners(pod: KubeObject) -> list[str]:
    """For the index "owner": `ReplicaSet/web-5d8f`."""
    return [f"{owner.kind}/{owner.name}" for owner in pod.owner_references]


app = FastAPI(title="cluster", lifespan=kinformer_lifespan(setup), exception_handlers=error_handlers())
app.include_router(health_router())
app.mount("/metrics", make_asgi_app(registry))
app.mount("/cluster", cluster_app(names=[*LOOPBACK_NAMES, *os.environ.get("NAMES", "").split()]))

Pods = Annotated[Lister, Depends(lister_of("v1/pods", require_synced=True))]
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
def counts(pods: Pods) -> dict[str, dict[str, int]]:
    """Pods by phase, namespace and node."""
    everything = pods.list()
    return {
        "phases": dict(Counter(pod.path("status.phase", "Unknown") for pod in everything)),
        "namespaces": dict(Counter(pod.namespace for pod in everything)),
        "nodes": {node: len(pods.by_index("node", node)) for node in sorted(pods.index_values("node"))},
    }


def summary(pod: KubeObject) -> dict[str, Any]:
    """The part of a pod that a list needs."""
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "phase": pod.path("status.phase"),
        "node": pod.path("spec.nodeName"),
    }
