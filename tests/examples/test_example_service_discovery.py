"""The router in examples/service_discovery: pods that are ready, by label, and have answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from fastapi import FastAPI, HTTPException

from kinformer.testing import APIServer
from tests.examples.example_program import imported
from tests.support.kube import pod
from tests.support.waiting import until
from tests.support.web_server import serving


class ModelServer:
    """A model server on a port of its own, and what it answers.

    Attributes:
        asked: How many completions it was asked for.
        status: Of the answer to the question for its models.
    """

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.asked = 0
        self.status = 200

    def pod(self, *, ready: bool = True, **metadata: Any) -> dict[str, Any]:
        container = {"name": "main", "image": "i", "ports": [{"containerPort": urlsplit(self.url).port}]}
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"podIP": "127.0.0.1", "conditions": conditions}
        metadata = {"labels": {"app": "model-server"}} | metadata
        return pod(self.name, spec={"containers": [container]}, status=status, **metadata)


@pytest_asyncio.fixture
async def router(
    server: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    module = imported("service_discovery/router.py", monkeypatch)
    async with serving(module.app) as url, httpx.AsyncClient(base_url=url, timeout=60) as service:
        yield service


@asynccontextmanager
async def model_servers(*names: str, model: str = "small") -> AsyncIterator[list[ModelServer]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(_model_server(name, model)) for name in names]


@asynccontextmanager
async def _model_server(name: str, model: str) -> AsyncIterator[ModelServer]:
    app = FastAPI()

    @app.get("/v1/models")
    def models() -> Any:
        if this.status != 200:
            raise HTTPException(this.status)
        return {"data": [{"id": model}]}

    @app.post("/v1/completions")
    def completions() -> Any:
        this.asked += 1
        return {"by": name}

    async with serving(app) as url:
        this = ModelServer(name, url)
        yield this


async def models(router: httpx.AsyncClient) -> list[str]:
    return [one["id"] for one in (await router.get("/v1/models")).json()["data"]]


async def asked(router: httpx.AsyncClient, times: int = 6) -> set[str]:
    """Who answers, when the router is asked so often; the number of the status, if it is an error."""
    answers = [await router.post("/v1/completions", json={"model": "small"}) for _ in range(times)]
    return {answer.json()["by"] if answer.status_code == 200 else str(answer.status_code) for answer in answers}


@pytest.mark.slow
async def test_requests_go_to_the_pods_that_are_ready_one_after_the_other(
    server: APIServer, router: httpx.AsyncClient
) -> None:
    async with model_servers("a", "b", "c", "d") as (a, b, c, d):
        assert await asked(router, 1) == {"503"}
        server.create(a.pod())
        server.create(b.pod())
        server.create(c.pod(ready=False))
        server.create(d.pod(labels={"app": "other"}))
        await until(lambda: asked(router), holds=lambda found: found == {"a", "b"})
        assert (await router.get("/readyz")).status_code == 200
        a.asked = b.asked = 0
        await asked(router, 10)
        assert a.asked == b.asked == 5

        server.update(c.pod())
        await until(lambda: asked(router), holds=lambda found: found == {"a", "b", "c"})
        server.update(a.pod(ready=False))
        await until(lambda: asked(router), holds=lambda found: found == {"b", "c"})
        assert d.asked == 0


async def test_a_pod_that_is_being_deleted_gets_no_more_requests(server: APIServer, router: httpx.AsyncClient) -> None:
    async with model_servers("a", "b") as (a, b):
        server.create(a.pod(finalizers=["example.com/drain"]))
        server.create(b.pod())
        await until(lambda: asked(router), holds=lambda found: found == {"a", "b"})
        server.delete("v1/pods", "default", "a")
        await until(lambda: asked(router), holds=lambda found: found == {"b"})


@pytest.mark.slow
async def test_no_dead_backend_is_left_after_a_gap(server: APIServer, router: httpx.AsyncClient) -> None:
    async with model_servers("a", "b", "c") as (a, b, c):
        server.create(a.pod())
        server.create(b.pod())
        await until(lambda: asked(router), holds=lambda found: found == {"a", "b"})
        away = asyncio.create_task(server.restart(0.5))
        await asyncio.sleep(0.1)
        server.delete("v1/pods", "default", "a")  # its port still answers
        server.create(c.pod())
        await server.compact()
        assert await asked(router) == {"a", "b"}  # the last state that is known
        await away
        await until(lambda: asked(router), 20, holds=lambda found: found == {"b", "c"})


async def test_a_pod_that_does_not_say_its_models_is_asked_nothing_until_it_does(
    server: APIServer, router: httpx.AsyncClient
) -> None:
    async with model_servers("a", "b") as (a, b):
        a.status = 500
        server.create(a.pod())
        server.create(b.pod())
        await until(lambda: asked(router), holds=lambda found: found == {"b"})
        a.status = 200
        await until(lambda: asked(router), holds=lambda found: found == {"a", "b"})


async def test_a_backend_that_has_just_ended_costs_no_request(server: APIServer, router: httpx.AsyncClient) -> None:
    async with model_servers("b") as (b,):
        async with model_servers("a") as (a,):
            server.create(a.pod())
            server.create(b.pod())
            await until(lambda: asked(router), holds=lambda found: found == {"a", "b"})
        assert await asked(router) == {"b"}


async def test_a_model_that_no_pod_has_is_an_answer_at_once(server: APIServer, router: httpx.AsyncClient) -> None:
    async with model_servers("a") as (a,):
        server.create(a.pod())
        await until(lambda: models(router), holds=lambda found: found == ["small"])
        answer = await router.post("/v1/completions", json={"model": "large"})
        assert (answer.status_code, answer.json()) == (503, {"detail": "no server has the model 'large'"})
