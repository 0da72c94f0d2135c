"""A watch cache behind endpoints of FastAPI answers as the API server does, to callers that the endpoints allow."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.responses import PlainTextResponse

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.fastapi import cache_response
from kinformer.testing import APIServer
from kinformer.watchcache import WatchCache
from tests.support.apiserver_http import ask, watch
from tests.support.kube import pod
from tests.support.waiting import until
from tests.support.web_server import serving

PODS = "/api/v1/namespaces/default/pods"
LOGIN = {"Authorization": "Bearer of-ann"}


def user_of(login: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    if login.credentials != "of-ann":
        raise HTTPException(403)
    return "ann"


def app_of(cache: WatchCache, **options: Any) -> FastAPI:
    app = FastAPI(dependencies=[Depends(user_of)])

    @app.get("/api/v1/namespaces/{namespace}/pods")
    async def pods(namespace: str) -> Response:
        return cache_response(cache, namespace=namespace, **options)

    @app.get("/api/v1/namespaces/{namespace}/pods/{name}")
    async def one_pod(namespace: str, name: str) -> Response:
        return cache_response(cache, namespace=namespace, name=name)

    return app


@asynccontextmanager
async def cached(client: Client) -> AsyncIterator[WatchCache]:
    async with SharedInformerFactory(client) as factory:
        informer = factory.for_resource("v1/pods", keep_managed_fields=True)
        async with WatchCache(informer, client=client) as cache:
            await informer.wait_synced()
            yield cache


@pytest.fixture
def initial_objects() -> list[Mapping[str, Any]]:
    return [pod(f"web-{number}", annotations={"text": "x" * 1000}) for number in range(300)]


def watchers(cache: WatchCache) -> int:
    return len(cache.storage.collection("objects").watchers)


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}?resourceVersion=0",
        f"{PODS}?resourceVersion=0&labelSelector=no",
        f"{PODS}?limit=x",
        f"{PODS}/web-1?resourceVersion=0",
        f"{PODS}/no?resourceVersion=0",
        f"{PODS}?watch=1&resourceVersion=x",
        f"{PODS}/web-1?resourceVersion=0&pretty=1",
    ],
)
async def test_an_endpoint_answers_as_the_server(server: APIServer, client: Client, path: str) -> None:
    async with cached(client) as cache, serving(app_of(cache)) as url:
        before = len(server.requests)
        own = await ask(server.url, "GET", path)
        found = await ask(url, "GET", path, headers=LOGIN)
        assert found.clean
        assert (found.status, found.body) == (own.status, own.body)
        for name in ("content-type", "cache-control"):
            assert found.headers.get(name) == own.headers.get(name), name
        assert sum(one.path.startswith(PODS) for one in server.requests[before:]) == 1


async def test_a_large_list_is_compressed_for_clients_that_accept_it(client: Client) -> None:
    async with cached(client) as cache, serving(app_of(cache)) as url:
        plain = await ask(url, "GET", f"{PODS}?resourceVersion=0", headers=LOGIN)
        packed = await ask(url, "GET", f"{PODS}?resourceVersion=0", headers={**LOGIN, "Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body


async def test_callers_are_those_of_the_endpoint(client: Client) -> None:
    async with cached(client) as cache, serving(app_of(cache)) as url:
        for headers in ({}, {"Authorization": "Bearer of-bob"}):
            assert (await ask(url, "GET", PODS, headers=headers)).status in (401, 403)


async def test_a_watch_has_each_event_and_ends_with_its_reader(server: APIServer, client: Client) -> None:
    async with cached(client) as cache, serving(app_of(cache)) as url:
        path = f"{PODS}?watch=1&resourceVersion={server.resource_version}"
        exchange = await watch(url, path, headers=LOGIN)
        for number in range(3):
            server.create(pod(f"new-{number}"))
            kind, obj = await exchange.event()
            assert (kind, obj["metadata"]["name"]) == ("ADDED", f"new-{number}")
        assert watchers(cache) == 1
        await exchange.close()
        await until(lambda: watchers(cache) == 0)


async def test_a_watch_ends_by_its_timeout(server: APIServer, client: Client) -> None:
    async with cached(client) as cache, serving(app_of(cache)) as url:
        path = f"{PODS}?watch=1&resourceVersion={server.resource_version}&timeoutSeconds=1"
        exchange = await watch(url, path, headers=LOGIN)
        assert await asyncio.wait_for(exchange.line(), 10) == b""
        assert exchange.reply.clean
        await exchange.close()


async def test_what_only_a_server_can_answer_is_a_406_or_goes_elsewhere(client: Client) -> None:
    async with cached(client) as cache:
        for options, status in (({}, 406), ({"otherwise": PlainTextResponse("elsewhere")}, 200)):
            async with serving(app_of(cache, **options)) as url:
                for path in (f"{PODS}?fieldSelector=spec.priority%3D1", f"{PODS}?watch=1&unknown=1"):
                    reply = await ask(url, "GET", path, headers=LOGIN)
                    assert (reply.status, reply.clean) == (status, True)
                    assert b"only the API server" in reply.body or reply.body == b"elsewhere"


async def test_an_informer_follows_an_endpoint(server: APIServer, client: Client) -> None:
    async with (
        cached(client) as cache,
        serving(app_of(cache)) as url,
        Client.from_url(url, token="of-ann") as through,
        SharedInformerFactory(through, namespace="default") as factory,
    ):
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        server.delete("v1/pods", "default", "web-1")
        await until(lambda: "default/web-1" not in pods.by_key)
        assert len(pods.by_key) == 299
