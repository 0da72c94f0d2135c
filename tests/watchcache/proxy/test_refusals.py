"""A proxy refuses what is more than a read with its own rights, however it is written."""

from __future__ import annotations

import asyncio

import pytest

from kinformer import Client, SharedInformerFactory
from kinformer.testing import APIServer
from kinformer.watchcache import Proxy
from tests.support.apiserver_http import ask
from tests.support.bare_http import connected

EXEC = "/api/v1/namespaces/default/pods/web-1/exec"


def asked(server: APIServer) -> int:
    """The requests that the server has seen, besides those of the cache."""
    return sum(one.path not in ("/api/v1/pods", "/api/v1/namespaces/kube-system") for one in server.requests)


async def status(proxy: Proxy, line: str, fields: str = "") -> int:
    async with connected(proxy.port) as (bare,):
        bare.send(f"{line} HTTP/1.1\nHost: localhost\nContent-Length: 0\n{fields}\n")
        return await bare.status()


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "BREW"])
async def test_what_is_no_get_or_head_is_refused(server: APIServer, proxy: Proxy, method: str) -> None:
    before = asked(server)
    assert await status(proxy, f"{method} /api/v1/namespaces/default/pods/web-1") in (400, 405, 421)
    assert asked(server) == before


async def test_another_method_is_a_405_with_a_status(proxy: Proxy) -> None:
    reply = await ask(proxy.url, "DELETE", "/api/v1/namespaces/default/pods/web-1")
    assert (reply.status, reply.json["reason"], reply.json["code"]) == (405, "MethodNotAllowed", 405)
    assert reply.headers["allow"] == "GET, HEAD"
    assert "only reads" in reply.json["message"]


async def test_a_head_is_passed_on(server: APIServer, proxy: Proxy) -> None:
    before = len(server.requests)
    for path, expected in {"/version": 405, "/livez": 200}.items():
        async with connected(proxy.port) as (bare,):
            bare.send(f"HEAD {path} HTTP/1.1\nHost: localhost\nConnection: close\n\n")
            head, _, body = (await bare.reader.read()).partition(b"\r\n\r\n")
        assert (int(head.split()[1]), body) == (expected, b"")
    assert [one.path for one in server.requests[before:] if one.method == "HEAD"] == ["/version", "/livez"]


@pytest.mark.parametrize(
    "name", ["Authorization", "authorization", "Impersonate-User", "impersonate-group", "Impersonate-Extra-Scopes"]
)
@pytest.mark.parametrize("path", ["/api/v1/pods?resourceVersion=0", "/version", EXEC])
async def test_credentials_of_the_caller_are_refused_with_the_reason(
    server: APIServer, proxy: Proxy, name: str, path: str
) -> None:
    before = asked(server)
    reply = await ask(proxy.url, "GET", path, headers={name: "Bearer of-the-caller"})
    assert (reply.status, reply.json["reason"]) == (403, "Forbidden")  # a 401 would make plugins renew and ask again
    assert name.lower() in reply.json["message"].lower()
    assert "its own credentials" in reply.json["message"]
    assert asked(server) == before


@pytest.mark.virtual_time
@pytest.mark.parametrize("fields", ["Content-Length: 3", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("head", ["GET /version", "GET /api/v1/pods?resourceVersion=0", "HEAD /version"])
async def test_a_body_is_refused_before_it_comes(server: APIServer, proxy: Proxy, head: str, fields: str) -> None:
    before = asked(server)
    async with connected(proxy.port) as (bare,):
        bare.send(f"{head} HTTP/1.1\nHost: localhost\n{fields}\n\n")
        assert b" 400 " in await bare.reader.readuntil(b"\r\n")
        async with asyncio.timeout(30):
            await bare.ended_after()
    assert asked(server) == before


async def test_a_body_behind_an_upgrade_does_not_become_a_request(server: APIServer, proxy: Proxy) -> None:
    smuggled = "DELETE /api/v1/namespaces/default/pods/web-1 HTTP/1.1\nHost: localhost\n\n"
    for protocol in ("websocket", "SPDY/3.1", "h2c"):
        async with connected(proxy.port) as (bare,):
            fields = f"Connection: Upgrade\nUpgrade: {protocol}\nContent-Length: {len(smuggled)}"
            bare.send(f"GET /version HTTP/1.1\nHost: localhost\n{fields}\n\n{smuggled}")
            assert int((await bare.reader.readuntil(b"\r\n")).split()[1]) in (400, 403)
            await bare.ended_after()
    assert {one.method for one in server.requests} == {"GET"}


async def test_a_client_that_waits_for_100_is_refused_without_it(proxy: Proxy) -> None:
    async with connected(proxy.port) as (bare,):
        bare.send("POST /x HTTP/1.1\nHost: localhost\nContent-Length: 3\nExpect: 100-continue\n\n")
        assert await bare.status() == 405


@pytest.mark.parametrize(
    "path",
    [
        EXEC,
        f"{EXEC}/",
        f"{EXEC}?command=sh",
        EXEC.replace("exec", "%65xec"),
        EXEC.replace("exec", "attach"),
        EXEC.replace("exec", "portforward"),
        EXEC.replace("exec", "proxy/metrics"),
        "/api/v1/nodes/a/proxy/exec/x",
        "/api/v1/namespaces/default/services/https:web:443/proxy/",
        "/api/v1/proxy/namespaces/default/services/web",
        "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/vm/vnc",
    ],
)
async def test_connections_into_programs_are_refused(server: APIServer, proxy: Proxy, path: str) -> None:
    before = asked(server)
    assert await status(proxy, f"GET {path}") == 403
    assert asked(server) == before


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/pods",
        "/api//v1/pods",
        "/api/v1/pods//",
        "/api/v1/./pods",
        "/api/v1/x/../pods",
        "/api/v1/%2e%2e/pods",
        "/api/v1/namespaces/default/pods%2Fweb-1",
        "/api/v1/namespaces/default/pods%2fweb-1%2Fexec",
        "/api/v1/namespaces/default%5Cpods",
        "/api/v1/pods%00",
        "/api/v1/pods%0a",
        "/api/v1/pods%zz",
        "/api/v1/pods%ff",
        "/api/v1/pods%e2%80%ae",
        "/api/v1/pods#x",
        "http://127.0.0.1/api/v1/pods",
        "*",
        "api/v1/pods",
    ],
)
async def test_a_path_that_programs_read_differently_is_refused(server: APIServer, proxy: Proxy, path: str) -> None:
    before = asked(server)
    assert await status(proxy, f"GET {path}") == 400
    assert asked(server) == before


async def test_an_upgrade_is_refused(proxy: Proxy) -> None:
    for protocol in ("websocket", "SPDY/3.1"):
        fields = f"Connection: keep-alive, Upgrade\nUpgrade: {protocol}\n"
        for path in ("/any", "/api/v1/pods?watch=1", "/api/v1/namespaces/default/pods/web-1/log"):
            assert await status(proxy, f"GET {path}", fields) == 403


async def test_an_unknown_protocol_is_not_passed_on(server: APIServer, proxy: Proxy) -> None:
    assert await status(proxy, "GET /version", "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\n") == 200


async def test_an_escaped_path_is_answered_by_the_cache_like_a_plain_one(server: APIServer, proxy: Proxy) -> None:
    before = asked(server)
    assert await status(proxy, "GET /api/v1/namespaces/default/%70ods/web%2d1?resourceVersion=0") == 200
    assert asked(server) == before


@pytest.mark.parametrize("option", ["allow_writes", "authenticate", "recheck", "tls_cert", "tls_key", "client_ca"])
async def test_options_of_a_server_for_others_are_unknown(client: Client, option: str) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(TypeError, match=option):
            Proxy(client, factory, ["v1/pods"], listen="127.0.0.1:0", **{option: True})
