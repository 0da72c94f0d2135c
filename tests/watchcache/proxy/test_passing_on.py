"""A proxy passes requests and responses on as they are, with its own credentials and no others."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from kinformer import Client
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Proxy
from tests.support.apiserver_http import Exchange, ask, watch
from tests.support.bare_http import connected
from tests.support.http_server import Handler, HttpServer, hang
from tests.support.kube import config_map
from tests.support.ports import reserved_port
from tests.watchcache.proxy.conftest import proxying


@asynccontextmanager
async def before(handler: Handler, *, token: str | None = "of-the-proxy", **options: Any) -> AsyncIterator[Proxy]:
    """Run a proxy without caches in front of a server that answers as `handler` does."""
    async with (
        HttpServer(handler) as server,
        Client.from_url(server.url, token=token) as client,
        proxying(client, **options) as proxy,
    ):
        yield proxy


async def told(request: web.Request) -> web.StreamResponse:
    """Answer what was received."""
    fields = [[name.decode(), value.decode()] for name, value in request.raw_headers]
    return web.json_response({"method": request.method, "target": request.raw_path, "fields": fields})


def kubeconfig_of(url: str, user: dict[str, str]) -> dict[str, Any]:
    return {
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


def values(reply: Any, name: str) -> list[str]:
    return [value for field, value in reply.json["fields"] if field.lower() == name]


async def test_a_request_has_the_credentials_of_the_proxy_and_no_others() -> None:
    async with before(told) as proxy:
        headers = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters", "Proxy-Authorization": "Basic x"}
        reply = await ask(proxy.url, "GET", "/version", headers=headers)
    assert values(reply, "authorization") == ["Bearer of-the-proxy"]
    assert not values(reply, "x-remote-user") + values(reply, "x-remote-group") + values(reply, "proxy-authorization")


async def test_a_request_to_a_server_without_credentials_has_none() -> None:
    async with before(told, token=None) as proxy:
        assert not values(await ask(proxy.url, "GET", "/version"), "authorization")


async def test_the_identity_that_a_kubeconfig_takes_on_is_passed_on() -> None:
    async with HttpServer(told) as server:
        kubeconfig = kubeconfig_of(server.url, {"as": "viewer"})
        async with Client.from_kubeconfig(kubeconfig) as client, proxying(client) as proxy:
            assert values(await ask(proxy.url, "GET", "/x"), "impersonate-user") == ["viewer"]


async def test_header_fields_are_passed_on_except_those_of_one_connection() -> None:
    async with before(told) as proxy:
        reply = await ask(
            proxy.url,
            "GET",
            "/apis/x/v1/y?a=%2F&b=c+d&a=",
            headers={
                "User-Agent": "kubectl/v1",
                "Accept": "application/json;as=Table",
                "Connection": "keep-alive, X-Hop",
                "X-Hop": "1",
                "Keep-Alive": "3",
                "TE": "trailers",
                "Proxy-Authorization": "Basic x",
                "X-Forwarded-For": "10.1.1.1",
                "Audit-Id": "abc",
            },
        )
    fields = {name.lower(): value for name, value in reply.json["fields"]}
    assert fields == {
        "host": fields["host"],
        "user-agent": "kubectl/v1",
        "accept": "application/json;as=Table",
        "x-forwarded-for": "10.1.1.1, 127.0.0.1",
        "audit-id": "abc",
        "authorization": "Bearer of-the-proxy",
    }
    assert reply.json["target"] == "/apis/x/v1/y?a=%2F&b=c+d&a="


async def test_a_response_is_passed_back_with_its_header_fields() -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        response = web.Response(status=202, body=gzip.compress(b"{}"), content_type="application/json")
        response.headers["Content-Encoding"] = "gzip"
        response.headers["Audit-Id"] = "abc"
        response.headers["Keep-Alive"] = "timeout=5"
        response.headers.add("Warning", '299 - "one"')
        response.headers.add("Warning", '299 - "two"')
        return response

    async with (
        before(answer) as proxy,
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.get(f"{proxy.url}/x") as response,
    ):
        assert (response.status, gzip.decompress(await response.read())) == (202, b"{}")
        assert response.headers.getall("Warning") == ['299 - "one"', '299 - "two"']
        assert (response.headers["Audit-Id"], response.headers["Content-Encoding"]) == ("abc", "gzip")
        assert "Keep-Alive" not in response.headers
        assert response.content_length is not None


async def test_a_head_has_the_length_and_no_body() -> None:
    async with before(told) as proxy:
        exchange = await Exchange.open(proxy.url, "HEAD", "/version", headers={"Connection": "close"})
        reply = await exchange.head()
        assert (reply.status, int(reply.headers["content-length"]) > 0, await exchange.line()) == (200, True, b"")
        await exchange.close()


async def test_header_fields_that_are_not_utf_8_are_passed_on_as_far_as_they_can_be() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        assert (b"X-Odd", b"a?b") in request.raw_headers
        request.transport.write(b"HTTP/1.1 200 OK\r\nWarning: a\xffb\r\nContent-Length: 0\r\n\r\n")
        await is_read.wait()  # what is answered after it would be another response
        return web.Response()

    is_read = asyncio.Event()
    async with before(answer) as proxy, connected(proxy.port) as (bare,):
        bare.send("GET /x HTTP/1.1\nHost: localhost\nX-Odd: a\xffb\n\n")
        assert b"Warning: a?b" in await bare.reader.readuntil(b"\r\n\r\n")
        is_read.set()


async def test_redirects_and_errors_are_passed_back() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/old":
            return web.Response(status=301, headers={"Location": "/new"})
        return web.Response(status=409, text="no")

    async with before(answer) as proxy:
        moved = await ask(proxy.url, "GET", "/old")
        assert (moved.status, moved.headers["location"]) == (301, "/new")
        assert (await ask(proxy.url, "GET", "/new")).body == b"no"


async def test_chunks_are_passed_back_as_they_arrive_and_a_cut_is_a_cut() -> None:
    go_on = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await go_on.wait()
        assert request.transport is not None
        request.transport.close()
        return response

    async with before(answer) as proxy:
        exchange = await watch(proxy.url, "/x")
        assert await exchange.line() == b"one"
        go_on.set()
        assert await exchange.line() == b""
        assert not exchange.reply.clean
        await exchange.close()


async def test_a_request_ends_at_the_server_when_its_client_goes() -> None:
    async with HttpServer(hang) as server, Client.from_url(server.url) as client, proxying(client) as proxy:
        exchange = await watch(proxy.url, "/api/v1/pods?watch=1")
        await server.until_asked()
        await exchange.close()
        async with asyncio.timeout(30):
            await server.until_idle()


async def test_an_unreachable_server_is_a_503_with_a_status() -> None:
    with reserved_port() as port:
        async with Client.from_url(f"http://127.0.0.1:{port}") as client, proxying(client) as proxy:
            reply = await ask(proxy.url, "GET", "/api/v1/pods")
    assert (reply.status, reply.json["reason"], reply.json["code"]) == (503, "ServiceUnavailable", 503)
    assert "connection refused" in reply.json["message"]


async def test_reads_are_sent_again_on_a_connection_that_the_server_closed(server: APIServer, proxy: Proxy) -> None:
    assert (await ask(proxy.url, "GET", "/api/v1/configmaps")).status == 200
    await server.restart()
    assert (await ask(proxy.url, "GET", "/api/v1/configmaps")).status == 200


async def test_a_401_renews_the_credentials_and_sends_the_request_again(tmp_path: Any) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    tokens: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        tokens.append(request.headers["Authorization"])
        if tokens[-1] == "Bearer old":
            token.write_text("new")
            return web.Response(status=401)
        return web.json_response({})

    async with HttpServer(answer) as server:
        kubeconfig = kubeconfig_of(server.url, {"tokenFile": str(token)})
        async with Client.from_kubeconfig(kubeconfig) as client, proxying(client) as proxy:
            reply = await ask(proxy.url, "GET", "/x")
    assert (reply.json, tokens) == ({}, ["Bearer old", "Bearer new"])


async def test_web_pages_of_other_sites_are_refused(proxy: Proxy) -> None:
    for headers, status in [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": proxy.url}, 200),
    ]:
        reply = await ask(proxy.url, "GET", "/api/v1/pods", headers=headers)
        assert (reply.status, reply.json["kind"]) == (status, "PodList" if status == 200 else "Status"), headers


async def test_faults_of_the_server_reach_the_client(server: APIServer, proxy: Proxy) -> None:
    server.create(config_map("settings"))
    server.faults.add(faults.status(429, retry_after=3), resource="v1/configmaps", times=1)
    reply = await ask(proxy.url, "GET", "/api/v1/configmaps")
    assert (reply.status, reply.headers["retry-after"]) == (429, "3")
    server.faults.add(faults.html_502(), resource="v1/configmaps", times=1)
    assert (await ask(proxy.url, "GET", "/api/v1/configmaps")).status == 502
    server.faults.add(faults.reset(), resource="v1/configmaps")
    reply = await ask(proxy.url, "GET", "/api/v1/configmaps")
    assert (reply.status, reply.json["reason"]) == (503, "ServiceUnavailable")


async def test_connections_are_used_again(server: APIServer, proxy: Proxy) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.get(f"{proxy.url}/api/v1/configmaps") as response:
                assert response.status == 200
