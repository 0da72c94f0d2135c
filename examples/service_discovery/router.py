"""A router in front of model servers: it finds them by label, and asks each which models it has.

    uvicorn --app-dir examples/service_discovery router:app --timeout-graceful-shutdown 5

SELECTOR and NAMESPACE say which pods; see docs/recipes/service-discovery.md.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from fastapi import FastAPI, HTTPException, Request, Response

from kinformer import Client, Controller, KubeObject, Result, SharedInformer, SharedInformerFactory
from kinformer import Request as Change
from kinformer.conditions import is_pod_serving
from kinformer.contrib.fastapi import health_router, kinformer_lifespan

SELECTOR = os.environ.get("SELECTOR", "app=model-server")
NAMESPACE = os.environ.get("NAMESPACE", "default")
READ = ["metadata.deletionTimestamp", "spec.containers[*].ports", "status.podIP", "status.conditions"]


def url_of(pod: KubeObject) -> str:
    """Return the address of a pod: its IP, and the first port of its first container."""
    return f"http://{pod.path('status.podIP')}:{pod.path('spec.containers[0].ports[0].containerPort')}"


class Backends:
    """The pods that are ready, and the models that each has said it has."""

    def __init__(self, pods: SharedInformer, session: aiohttp.ClientSession) -> None:
        self.session = session
        self._pods = pods
        self._models: dict[str, tuple[str, list[str]]] = {}  # by the pod's key, with its uid
        self._turn = 0

    async def probe(self, change: Change) -> Result | None:
        """Ask a pod for its models, whenever it has changed and every 30 s; if it does not answer, again and again."""
        pod = self._pods.by_key.get(change.key)
        if pod is None or not is_pod_serving(pod):
            self._models.pop(change.key, None)
            return None
        try:
            async with self.session.get(f"{url_of(pod)}/v1/models", timeout=aiohttp.ClientTimeout(5)) as answer:
                answer.raise_for_status()
                found = await answer.json()
        except Exception:
            self._models.pop(change.key, None)
            raise  # tried again after a growing time
        self._models[change.key] = (pod.uid, [one["id"] for one in found["data"]])
        return Result(requeue_after=30)

    def models(self) -> set[str]:
        """Return the models that can be asked now."""
        return {model for pod in self._serving() for model in self._models_of(pod)}

    def of(self, model: str) -> list[KubeObject]:
        """Return the pods that have a model, in the order in which they should be asked."""
        found = sorted((pod for pod in self._serving() if model in self._models_of(pod)), key=lambda pod: pod.key)
        self._turn += 1
        first = self._turn % len(found) if found else 0
        return found[first:] + found[:first]

    def _serving(self) -> list[KubeObject]:
        return [pod for pod in self._pods.lister.list() if is_pod_serving(pod)]

    def _models_of(self, pod: KubeObject) -> list[str]:
        uid, models = self._models.get(pod.key, ("", []))
        return models if uid == pod.uid else []  # another pod had this name


@asynccontextmanager
async def setup() -> AsyncIterator[SharedInformerFactory]:
    async with (
        Client() as client,
        SharedInformerFactory(client, namespace=NAMESPACE, label_selector=SELECTOR, fields=READ) as factory,
        aiohttp.ClientSession() as session,
    ):
        pods = factory.for_resource("v1/pods")
        app.state.backends = backends = Backends(pods, session)
        probing = asyncio.create_task(Controller(backends.probe, name="probes", workers=8).for_(pods).run())
        try:
            yield factory
        finally:
            probing.cancel()
            await asyncio.wait([probing])


app = FastAPI(lifespan=kinformer_lifespan(setup))
app.include_router(health_router())  # /readyz: there is a first list, and the watch goes on


@app.get("/v1/models")
async def models() -> dict[str, Any]:
    return {"data": [{"id": model} for model in sorted(app.state.backends.models())]}


@app.post("/v1/{path:path}")
async def forward(path: str, request: Request) -> Response:
    backends: Backends = app.state.backends
    body = await request.json()
    for pod in backends.of(body.get("model", "")):
        try:
            async with backends.session.post(f"{url_of(pod)}/v1/{path}", json=body) as answer:
                return Response(await answer.read(), answer.status, media_type=answer.content_type)
        except aiohttp.ClientConnectorError:
            continue  # it has ended a moment ago: nothing was sent, so the next one may be asked
    raise HTTPException(503, f"no pod has the model {body.get('model')!r}")
