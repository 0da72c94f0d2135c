"""A router in front of model servers: it finds them by label, and asks each which models it has.

    uvicorn --app-dir examples/service_discovery router:app --timeout-graceful-shutdown 5

SELECTOR and NAMESPACE say which pods; see docs/recipes/service-discovery.md.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from fastapi import FastAPI, HTTPException, Request, Response

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.backends import Backend, Backends
from kinformer.contrib.fastapi import health_router, kinformer_lifespan

SELECTOR = os.environ.get("SELECTOR", "app=model-server")
NAMESPACE = os.environ.get("NAMESPACE", "default")


class Router:
    """The model servers that are ready, and the models that each has said it has."""

    def __init__(self, factory: SharedInformerFactory, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.pool = Backends(factory, selector=SELECTOR, namespace=NAMESPACE)
        self._models: dict[Backend, list[str]] = {}  # of the servers whose last answer was good
        self._turn = itertools.count()

    async def follow(self) -> None:
        """Ask each server of the pool for its models, until the pool is exited."""
        asking: dict[Backend, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            async for backends in self.pool.changes():
                for backend in asking.keys() - set(backends):
                    asking.pop(backend).cancel()
                for backend in set(backends) - asking.keys():
                    asking[backend] = group.create_task(self._ask(backend))
            for task in asking.values():
                task.cancel()

    async def _ask(self, backend: Backend) -> None:
        """Ask a server every 5 s. It gets no requests before it has answered, nor after it has failed to."""
        url, limit = f"http://{backend.key}/v1/models", aiohttp.ClientTimeout(5)
        try:
            while True:
                try:
                    async with self.session.get(url, timeout=limit, raise_for_status=True) as answer:
                        self._models[backend] = [model["id"] for model in (await answer.json())["data"]]
                except (aiohttp.ClientError, TimeoutError, LookupError, TypeError, ValueError):
                    self._models.pop(backend, None)
                await asyncio.sleep(5)
        finally:
            self._models.pop(backend, None)

    def models(self) -> set[str]:
        """Return the models that can be asked now."""
        return {model for backend in self.pool.snapshot() for model in self._models.get(backend, ())}

    def of(self, model: str) -> list[Backend]:
        """Return the servers that have a model, in the order in which they should be asked."""
        servers = [backend for backend in self.pool.snapshot() if model in self._models.get(backend, ())]
        first = next(self._turn) % len(servers) if servers else 0
        return servers[first:] + servers[:first]


@asynccontextmanager
async def setup() -> AsyncIterator[SharedInformerFactory]:
    async with Client() as client, SharedInformerFactory(client) as factory, aiohttp.ClientSession() as session:
        app.state.router = router = Router(factory, session)
        async with asyncio.TaskGroup() as group, router.pool:
            group.create_task(router.follow())
            yield factory


app = FastAPI(lifespan=kinformer_lifespan(setup))
app.include_router(health_router())  # /readyz: there is a first list, and the watch goes on


@app.get("/v1/models")
async def models() -> dict[str, Any]:
    return {"data": [{"id": model} for model in sorted(app.state.router.models())]}


@app.post("/v1/{path:path}")
async def forward(path: str, request: Request) -> Response:
    router: Router = app.state.router
    body = await request.json()
    for backend in router.of(body.get("model", "")):
        try:
            async with router.session.post(f"http://{backend.key}/v1/{path}", json=body) as answer:
                return Response(await answer.read(), answer.status, media_type=answer.content_type)
        except aiohttp.ClientConnectorError:
            continue  # it has ended a moment ago: nothing was sent, so the next one may be asked
    raise HTTPException(503, f"no server has the model {body.get('model')!r}")
