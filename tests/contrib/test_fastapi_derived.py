"""Derived collections in a web service: as dependencies, and as event streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Request, Response

from kinformer import Collection, SharedInformer, SharedInformerFactory, derive, group_by, join, union
from kinformer.contrib.fastapi import collection_of, kinformer_lifespan, sse_response
from kinformer.derived import filtered, mapped
from kinformer.manager import readiness
from kinformer.testing import APIServer
from tests.support.kube import pod
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.support.web_server import reading, serving


@dataclass(frozen=True)
class Load:
    node: str
    pods: int
    labels: dict[str, str]


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [pod("web-1", node="node-a", labels={"app": "web"}), pod("db-1", node="node-b", labels={"app": "db"})]


@asynccontextmanager
async def service(server: APIServer) -> AsyncIterator[str]:
    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with server.client() as client, SharedInformerFactory(client) as factory:
            pods = factory.for_resource("v1/pods")
            by_node = factory.add(group_by(pods, "spec.nodeName", name="by node"))
            factory.add(
                mapped(by_node, lambda members: Load(members[0]["spec"]["nodeName"], len(members), {}), name="load")
            )
            ratio = {"web": float("inf"), "db": 0.5}
            factory.add(mapped(pods, lambda one: {"ratio": ratio[one.labels["app"]]}, name="ratios"))
            factory.add(filtered(pods, lambda one: one.labels["app"] == "web", name="web"))
            factory.add(join(pods, pods, on=lambda one: one.key, name="pairs"))
            factory.add(union({"here": pods}, name="clusters"))
            yield factory

    app = FastAPI(lifespan=kinformer_lifespan(setup))

    @app.get("/pods/{node}")
    def pods_of(node: str, by_node: Annotated[Collection[Any], Depends(collection_of("by node"))]) -> list[str]:
        return [one.name for one in by_node.by_key.get(node) or ()]

    @app.get("/none")
    async def none(_: Annotated[Collection[Any], Depends(collection_of("none"))]) -> None: ...

    @app.get("/events/{name}", response_class=Response)
    async def stream(name: str, request: Request, selector: str | None = None) -> Response:
        return sse_response(collection_of(name)(request), selector)

    async with serving(app) as url:
        yield url


async def test_a_derived_collection_is_a_dependency(server: APIServer) -> None:
    async with service(server) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def on_node() -> Any:
            return (await client.get("/pods/node-a")).json()

        assert await until(on_node, holds=bool) == ["web-1"]
        server.create(pod("web-2", node="node-a", labels={"app": "web"}))
        assert await until(on_node, holds=lambda found: len(found) == 2) == ["web-1", "web-2"]
        with pytest.raises(httpx.HTTPStatusError, match="500"):
            (await client.get("/none")).raise_for_status()


async def test_values_are_streamed_with_their_keys(server: APIServer) -> None:
    async with service(server) as url, reading(f"{url}/events/load") as stream:
        first = await stream.take(2)
        assert sorted((event.type, event.data["key"], event.data["value"]["pods"]) for event in first) == [
            ("ADDED", "node-a", 1),
            ("ADDED", "node-b", 1),
        ]
        server.create(pod("web-2", node="node-a", labels={"app": "web"}))
        event = await stream.next()
        load = {"node": "node-a", "pods": 2, "labels": {}}
        assert (event.type, event.data) == ("UPDATED", {"key": "node-a", "value": load})
        server.delete("v1/pods", "default", "db-1")
        event = await stream.next()
        assert (event.type, event.data["key"]) == ("DELETED", "node-b")


async def test_a_number_that_json_does_not_have_is_sent_as_text(server: APIServer) -> None:
    async with service(server) as url, reading(f"{url}/events/ratios") as stream:
        ratios = {event.data["key"]: event.data["value"]["ratio"] for event in await stream.take(2)}
        assert ratios == {"default/web-1": "inf", "default/db-1": 0.5}


async def test_objects_of_a_filter_are_streamed_as_those_of_an_informer(server: APIServer) -> None:
    async with service(server) as url, reading(f"{url}/events/web") as stream:
        assert (await stream.next()).data["metadata"]["name"] == "web-1"


async def test_objects_within_values_are_sent_as_they_are_and_selected_by_their_labels(server: APIServer) -> None:
    async with service(server) as url:
        async with reading(f"{url}/events/clusters", selector="app=db") as stream:
            data = (await stream.next()).data
            assert (data["key"], data["value"]["metadata"]["name"]) == ("here/default/db-1", "db-1")
        async with reading(f"{url}/events/pairs") as stream:
            pair = (await stream.next()).data["value"]
            assert pair["left"]["metadata"]["name"] == pair["right"]["metadata"]["name"]


async def test_a_factory_is_ready_when_what_it_derives_is_complete(server: APIServer) -> None:
    late = SharedInformer(MemorySource(), name="late")
    async with server.client() as client, SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        factory.add(derive(pods, lambda one, fetch: (one.name, len(fetch(late))), name="with late"))
        await pods.wait_synced(30)
        ready, parts = readiness(factory)
        assert not ready
        assert parts["v1/pods"]["ready"]
        assert parts["with late"].get("reason") == "its values have not been computed yet"
        async with late:
            await until(lambda: readiness(factory)[0])
            assert parts.keys() == {"v1/pods", "with late"}
