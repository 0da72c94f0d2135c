"""Clients of an `ApiClient` that a program has: of kubernetes, of kubernetes.aio, and of kubernetes_asyncio."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConnectError, SharedInformerFactory, UnauthorizedError, blocking
from kinformer.exceptions import CredentialError
from kinformer.testing import APIServer
from tests.support.certificates import server_side
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.kube import config_map
from tests.support.waiting import until

LIBRARIES = ["kubernetes", "kubernetes.aio", "kubernetes_asyncio"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    """The module `client` of a library, which is in the group `dev`."""
    name: str = request.param
    pytest.importorskip(name, reason=f"{name} is in the group `dev`")
    return import_module(f"{name}.client")


@asynccontextmanager
async def open_api_client(library: Any, **settings: Any) -> AsyncIterator[Any]:
    """An ApiClient, closed as its library wants it."""
    configuration = library.Configuration(host=settings.pop("host"))
    token = settings.pop("token", None)
    if token:
        configuration.api_key["BearerToken"] = f"Bearer {token}"
    for name, value in settings.items():
        assert hasattr(configuration, name), name
        setattr(configuration, name, value)
    api_client = library.ApiClient(configuration)
    try:
        yield api_client
    finally:
        closed = api_client.close()
        if inspect.isawaitable(closed):
            await closed


async def test_informers_follow_with_its_server_and_token(library: Any) -> None:
    rules = [("reader", verb, "v1/configmaps") for verb in ("list", "watch")]
    async with APIServer(users={"t": "reader"}, rules=rules) as server:
        server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")})
        async with (
            open_api_client(library, host=server.url, token="t") as api_client,
            Client.from_api_client(api_client) as client,
            SharedInformerFactory(client) as factory,
        ):
            assert client.api_client is api_client
            assert (await client.connection_info()).source == "ApiClient"
            maps = factory.for_resource("v1/configmaps", namespace="default")
            await factory.wait_for_cache_sync(10)
            assert list(maps.by_key) == ["default/a"]
        assert {request.user for request in server.requests} == {"reader"}


async def test_a_new_token_is_used_at_once_and_headers_are_kept(library: Any) -> None:
    seen: list[tuple[str | None, str | None]] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append((request.headers.get("Authorization"), request.headers.get("Impersonate-User")))
        if request.headers.get("Authorization") == "Bearer none":
            return status_answer(401, "Unauthorized")
        return json_answer({"fine": True})

    async with (
        HttpServer(answer) as server,
        open_api_client(library, host=server.url, token="one") as api_client,
    ):
        api_client.set_default_header("Impersonate-User", "alice")
        async with Client.from_api_client(api_client) as client:
            await client.request("GET", "/x")
            api_client.configuration.api_key["BearerToken"] = "Bearer two"
            await client.request("GET", "/x")
            api_client.configuration.api_key["BearerToken"] = "Bearer none"
            with pytest.raises(UnauthorizedError):
                await client.request("GET", "/x")
    assert seen[:2] == [("Bearer one", "alice"), ("Bearer two", "alice")]


async def test_its_hook_renews_the_token_and_holds_up_no_loop(library: Any) -> None:
    seen: list[str | None] = []
    threads: set[int] = set()

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers.get("Authorization"))
        return json_answer({"fine": True})

    def set_token(configuration: Any) -> None:
        configuration.api_key["BearerToken"] = f"Bearer {len(seen)}"

    def blocks(configuration: Any) -> None:
        threads.add(threading.get_ident())
        time.sleep(0.1)
        set_token(configuration)

    async def waits(configuration: Any) -> None:
        await asyncio.sleep(0)
        set_token(configuration)

    is_blocking = library.__name__ == "kubernetes.client"
    async with (
        HttpServer(answer) as server,
        open_api_client(
            library, host=server.url, token="old", refresh_api_key_hook=blocks if is_blocking else waits
        ) as api_client,
        Client.from_api_client(api_client) as client,
    ):
        for _ in range(2):
            await client.request("GET", "/x")
    assert seen == ["Bearer 0", "Bearer 1"]
    assert threading.get_ident() not in threads
    assert bool(threads) == is_blocking


@pytest.mark.slow
async def test_a_hook_that_fails_is_no_end_of_an_informer(library: Any, server: APIServer) -> None:
    is_broken = False

    def blocks(configuration: Any) -> None:
        if is_broken:
            raise RuntimeError("a-secret")
        configuration.api_key["BearerToken"] = "t"

    async def waits(configuration: Any) -> None:
        blocks(configuration)

    hook = blocks if library.__name__ == "kubernetes.client" else waits
    async with (
        open_api_client(library, host=server.url, token="t", refresh_api_key_hook=hook) as api_client,
        Client.from_api_client(api_client) as client,
        SharedInformerFactory(client, watch_timeout=1) as factory,
    ):
        maps = factory.for_resource("v1/configmaps")
        await maps.wait_synced(10)
        is_broken = True
        await until(lambda: not maps.health().live)
        health = maps.health()
        assert (health.state, type(health.last_error)) == ("unauthorized", CredentialError)
        assert str(health.last_error) == "ApiClient.configuration: no credential: RuntimeError"
        is_broken = False
        await until(lambda: maps.health().live)


@pytest.mark.parametrize("form", ["file", "text", "der", "unverified"])
async def test_its_authorities_verify_the_server(library: Any, certificates: Path, form: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return json_answer({"fine": True})

    pem = (certificates / "local.crt").read_text()
    settings: dict[str, Any] = {
        "file": {"ssl_ca_cert": str(certificates / "local.crt")},
        "text": {"ca_cert_data": pem},
        "der": {"ca_cert_data": ssl.PEM_cert_to_DER_cert(pem)},
        "unverified": {"verify_ssl": False},
    }[form]
    if not hasattr(library.Configuration(), next(iter(settings))):
        pytest.skip("this release of the library has no such setting")
    async with HttpServer(answer, ssl_context=server_side(certificates)) as server:
        async with (
            open_api_client(library, host=server.url, **settings) as api_client,
            Client.from_api_client(api_client) as client,
        ):
            assert await client.request("GET", "/x") == {"fine": True}
        async with (
            open_api_client(library, host=server.url) as api_client,
            Client.from_api_client(api_client) as client,
        ):
            with pytest.raises(ConnectError, match="certificate"):
                await client.request("GET", "/x")


async def test_its_no_proxy_exempts_the_server() -> None:
    kubernetes = pytest.importorskip("kubernetes.client", reason="kubernetes is in the group `dev`")
    for exempt, proxied in (("10.0.0.0/8", False), ("other.example", True)):
        configuration = kubernetes.Configuration(
            host="https://10.1.2.3:6443", proxy="http://proxy.example:3128", no_proxy=exempt
        )
        info = await Client.from_api_client(kubernetes.ApiClient(configuration)).connection_info()
        assert info.proxied is proxied


async def test_blocking_programs_take_it_too(library: Any, server: APIServer) -> None:
    server.create({"apiVersion": "v1", "kind": "ConfigMap", **config_map("a")})
    async with open_api_client(library, host=server.url) as api_client:

        def program() -> list[str]:
            with blocking.Informers(api_client=api_client) as informers:
                maps = informers.for_resource("v1/configmaps", namespace="default")
                maps.wait_synced(10)
                return list(maps.by_key)

        assert await asyncio.to_thread(program) == ["default/a"]
