"""The example service, as uvicorn runs it, against the embedded server."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from kinformer.testing import APIServer
from tests.support.kube import pod
from tests.support.manifests import documents
from tests.support.ports import reserved_port
from tests.support.waiting import until
from tests.support.web_server import reading

FOLDER = Path(__file__).parents[2] / "examples" / "fastapi_cluster"


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [
        pod("web-1", node="node-a", owner="web", labels={"app": "web"}),
        pod("web-2", node="node-b", owner="web", labels={"app": "web"}),
        pod("db-1", node="node-b", owner="db", labels={"app": "db"}),
    ]


@pytest_asyncio.fixture
async def service(server: APIServer) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    with reserved_port() as port:
        async with serving(server, port) as (process, client):
            yield process, client


@asynccontextmanager
async def serving(
    server: APIServer, port: int, *options: str, **variables: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "--app-dir", str(FOLDER), "--port", str(port)),
        *("--timeout-graceful-shutdown", "5", "--log-level", "warning", *options, "main:app"),
        env={**os.environ, "KUBERNETES_URL": server.url, "PYTHONPATH": str(FOLDER.parent.parent), **variables},
    )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:

            async def ready() -> int:
                try:
                    return (await client.get("/readyz")).status_code
                except httpx.ConnectError:
                    return 0

            await until(ready, 40, holds=lambda status: status == 200)
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def names(found: list[dict[str, Any]]) -> list[str]:
    return sorted(one["name"] for one in found)


@pytest.mark.process
async def test_the_service_answers_from_its_caches_and_ends_with_an_open_stream(
    server: APIServer, service: tuple[asyncio.subprocess.Process, httpx.AsyncClient]
) -> None:
    process, client = service

    async def get(path: str, **params: str) -> Any:
        answer = await client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    listed = await get("/pods", selector="app=web")
    assert sorted(item["metadata"]["name"] for item in listed["items"]) == ["web-1", "web-2"]
    for path in ("/pods", "/pods/events"):
        refused = await client.get(path, params={"selector": "app in ("})
        assert refused.status_code == 400
        assert refused.json()["detail"].startswith("label selector 'app in (': found the end, expected a value")
    assert (await get("/pods/default/db-1"))["spec"]["nodeName"] == "node-b"
    assert (await client.get("/pods/default/none")).status_code == 404
    assert names(await get("/nodes/node-b/pods")) == ["db-1", "web-2"]
    assert names(await get("/owners/ReplicaSet/web/pods")) == ["web-1", "web-2"]
    assert names(await get("/owners/ReplicaSet/web/pods", namespace="none")) == []
    counts = await get("/counts")
    assert counts["nodes"] == {"node-a": 1, "node-b": 2}
    assert counts["namespaces"] == {"default": 3}
    assert sum(counts["phases"].values()) == 3
    async with reading(str(client.base_url).rstrip("/") + "/nodes/events") as stream:
        loads = {event.data["key"]: event.data["value"]["pods"] for event in await stream.take(2)}
    assert loads == {"node-a": 1, "node-b": 2}
    assert 'kinformer_objects{resource="v1/pods"} 3.0' in (await client.get("/metrics/")).text
    assert (await client.get("/cluster/")).status_code == 200
    assert (await get("/cluster/api/counts"))["v1/pods"]["objects"] == 3
    derived = {one["name"]: one["reads"] for one in (await get("/cluster/api/report"))["derived"]}
    assert derived == {"pods by node": ["v1/pods"], "load of nodes": ["pods by node"]}
    assert 'kinformer_derived_objects{resource="load of nodes"} 2.0' in (await client.get("/metrics/")).text
    async with reading(f"{client.base_url}/pods/events".replace("//pods", "/pods"), selector="app=web") as stream:
        await stream.take(2)
        server.create(pod("web-3", node="node-a", owner="web", labels={"app": "web"}))
        assert (await stream.next()).data["metadata"]["name"] == "web-3"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), 20)
        assert time.monotonic() - began < 4, "the open stream held it up"


def watches(server: APIServer) -> Counter[str]:
    """Return how many watches of each resource the server was asked for."""
    return Counter(one.path.rpartition("/")[2] for one in server.requests if "watch" in one.params)


async def go_on(url: str, last_id: str | None, name: str) -> str:
    """Read with an id of another worker until the pod `name` is there, and until a reader has resumed.

    The others reached a worker that had no reader before: they got a RESET and all objects. The system chooses the
    worker, and a busy one may choose the same for many readers in a row. Returns the last id.
    """
    assert last_id is not None
    newest: list[str] = []

    async def reader() -> bool:
        async with reading(url, last_id=last_id) as stream:
            event = await stream.next()
            is_resumed = event.type != "RESET"
            if is_resumed:
                assert (event.type, event.data["metadata"]["name"]) == ("ADDED", name)
            else:
                while (event := await stream.next()).data["metadata"]["name"] != name:
                    assert event.type == "ADDED"
            if event.id:
                newest.append(event.id)
            return is_resumed

    async with asyncio.timeout(40):
        while not any(await asyncio.gather(*(reader() for _ in range(12)))):
            pass
    return newest[-1]


@pytest.mark.process
@pytest.mark.slow
async def test_four_workers_have_one_watch_and_a_stream_resumes_at_each(server: APIServer) -> None:
    with tempfile.TemporaryDirectory(prefix="kf") as folder, reserved_port() as port:
        socket = f"{folder}/cache.sock"
        async with serving(server, port, "--workers", "4", SOCKET=socket) as (process, client):

            async def parts() -> set[tuple[str, int | None]]:
                async with httpx.AsyncClient(base_url=client.base_url, headers={"Connection": "close"}) as fresh:
                    asked = await asyncio.gather(*(fresh.get("/statusz") for _ in range(16)), return_exceptions=True)
                answers = [one.json()["shared_cache"] for one in asked if isinstance(one, httpx.Response)]
                return {(one["role"], one["holder"]) for one in answers}

            def is_one_cache(found: set[tuple[str, int | None]]) -> bool:
                return {role for role, _ in found} == {"holder", "follower"} and len(found) == 2

            await until(parts, 40, holds=is_one_cache)
            url = f"{str(client.base_url).rstrip('/')}/pods/events"
            async with reading(url) as stream:
                await stream.take(3)
                seen = stream.last_id
            server.create(pod("web-3", node="node-a", owner="web"))
            last_id = await go_on(url, seen, "web-3")
            assert watches(server) == {"pods": 1, "nodes": 1, "deployments": 1}
            killed = (await client.get("/statusz")).json()["shared_cache"]["holder"]
            os.kill(killed, signal.SIGKILL)
            server.create(pod("web-4", node="node-b", owner="web"))
            await until(parts, 40, holds=lambda found: is_one_cache(found) and ("holder", killed) not in found)
            # at the new holder, and at the worker that took the place of the killed one
            await go_on(url, last_id, "web-4")
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), 20)


@pytest.mark.process
@pytest.mark.slow
async def test_the_rights_in_its_manifests_are_all_that_it_needs() -> None:
    account = "system:serviceaccount:cluster-api:cluster-api"
    async with APIServer(users={"t0ken": account}, rbac=True) as server:
        server.apply(FOLDER / "base" / "manifests")
        with tempfile.TemporaryDirectory(prefix="kf") as folder, reserved_port() as port:
            kubeconfig = server.kubeconfig(Path(folder) / "config", account)
            variables = {"KUBECONFIG": str(kubeconfig), "KUBERNETES_URL": "", "SOCKET": f"{folder}/cache.sock"}
            async with serving(server, port, "--workers", "2", **variables) as (process, client):
                assert (await client.get("/pods")).status_code == 200
                process.send_signal(signal.SIGTERM)
                await asyncio.wait_for(process.wait(), 20)
        refused = [request for request in server.requests if request.user == account and request.status == 403]
        assert refused == []
        watched = {request.info.plural for request in server.requests if request.info.verb == "watch"}
    (role,) = [one for one in documents(FOLDER / "base" / "manifests" / "10-rbac.yaml") if one["kind"] == "ClusterRole"]
    assert {name for rule in role["rules"] if "watch" in rule["verbs"] for name in rule["resources"]} == watched
