"""A web service that knows the cluster: a factory in the lifespan of a FastAPI application.

Reads are served from memory, from `async def` and `def` endpoints alike (FastAPI runs the latter in threads).
Startup does not wait for the first list, so that the process is alive at once: `/readyz` says when it is ready,
and says so again when an informer no longer follows the server.

    pip install 'kinformer[fastapi]' uvicorn
    python examples/fastapi_app.py --context staging        then: curl localhost:8000/pods?selector=app=web
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from playground import pod, run

from kinformer import Client, KubeObject, Lister, SelectorError, SharedInformerFactory
from kinformer.testing import APIServer

PORT = int(os.environ.get("PORT", "8000"))


def application(client: Client) -> FastAPI:
    """The service, reading through a client that has been entered."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with SharedInformerFactory(client) as factory:
            app.state.factory = factory
            app.state.pods = factory.for_resource("v1/pods", indexers={"node": "spec.nodeName"}).lister
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/pods")
    def pods_by_selector(pods: Pods, selector: str = "") -> list[dict[str, Any]]:
        try:
            return summaries(pods.list(selector or None))
        except SelectorError as error:
            raise HTTPException(400, str(error)) from error

    @app.get("/nodes/{node}/pods")
    def pods_by_node(pods: Pods, node: str) -> list[dict[str, Any]]:
        return summaries(pods.by_index("node", node))

    @app.get("/pods/{namespace}/{name}")
    async def one_pod(pods: Pods, namespace: str, name: str) -> dict[str, Any]:
        found = pods.get(name, namespace=namespace)
        if found is None:
            raise HTTPException(404, f"no pod {namespace}/{name}")
        return found.to_dict()

    @app.get("/readyz")
    async def readyz(request: Request, response: Response) -> dict[str, str]:
        health = request.app.state.factory.health()
        if not all(informer.synced and informer.live for informer in health.values()):
            response.status_code = 503
        return {resource: informer.state for resource, informer in health.items()}

    return app


def lister_of_pods(request: Request) -> Lister:
    return request.app.state.pods  # type: ignore[no-any-return]


Pods = Annotated[Lister, Depends(lister_of_pods)]


def summaries(pods: list[KubeObject]) -> list[dict[str, Any]]:
    """The entry of a pod in a list; sorted by name, because the cache keeps no order."""
    return [
        {"name": pod.key, "phase": pod.path("status.phase"), "node": pod.path("spec.nodeName")}
        for pod in sorted(pods, key=lambda pod: pod.key)
    ]


async def main(client: Client) -> None:
    server = uvicorn.Server(uvicorn.Config(application(client), port=PORT, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True  # the lifespan is left, and with it the factory
        await serving


# --- what happens on the embedded server ------------------------------------------------------------------


async def fill(server: APIServer) -> None:
    server.create(pod("web-1", phase="Running", node="node-a", app="web"))
    server.create(pod("web-2", phase="Running", node="node-b", app="web"))
    server.create(pod("db-1", phase="Running", node="node-b", app="db"))


async def happens(server: APIServer) -> None:
    await until_ready()
    for path in ("/readyz", "/pods?selector=app%3Dweb", "/nodes/node-b/pods"):
        print("GET", path, await get(path))
    server.create(pod("web-3", app="web"))
    await asyncio.sleep(0.2)
    print("-- and with a new pod web-3")
    print("GET /pods?selector=app%3Dweb", await get("/pods?selector=app%3Dweb"))


async def until_ready() -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await get("/readyz")
            except OSError:  # not listening yet, or 503
                await asyncio.sleep(0.05)
            else:
                return


async def get(path: str) -> Any:
    def fetch() -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", timeout=5) as answer:
            return json.load(answer)

    return await asyncio.to_thread(fetch)


if __name__ == "__main__":
    run(main, fill=fill, happens=happens)
