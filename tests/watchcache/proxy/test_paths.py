"""A proxy that only reads refuses what changes a cluster, however its path is written."""

from __future__ import annotations

import pytest

from kinformer import Client
from kinformer.testing import APIServer
from kinformer.watchcache import Proxy
from tests.support.bare_http import connected
from tests.watchcache.proxy.conftest import proxying

EXEC = "/api/v1/namespaces/default/pods/web-1/exec"


async def status(proxy: Proxy, line: str, fields: str = "") -> int:
    async with connected(proxy.port) as (bare,):
        bare.send(f"{line} HTTP/1.1\nHost: localhost\nContent-Length: 0\n{fields}\n")
        return await bare.status()


def passed_on(server: APIServer) -> int:
    """The number of requests of a caller, without those by which the cache learns of its cluster."""
    return sum(request.path != "/api/v1/namespaces/kube-system" for request in server.requests)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "CONNECT", "TRACE", "BREW"])
async def test_writes_are_refused(server: APIServer, proxy: Proxy, method: str) -> None:
    before = passed_on(server)
    assert await status(proxy, f"{method} /api/v1/namespaces/default/pods/web-1") in (400, 403, 405, 421)
    assert passed_on(server) == before


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
    before = passed_on(server)
    assert await status(proxy, f"GET {path}") == 403
    assert passed_on(server) == before


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
    before = passed_on(server)
    assert await status(proxy, f"GET {path}") == 400
    assert passed_on(server) == before


async def test_an_upgrade_is_refused_unless_it_reads(proxy: Proxy) -> None:
    fields = "Connection: Upgrade\nUpgrade: websocket\n"
    assert await status(proxy, "GET /apis/x.example.com/v1/things/a/shell", fields) == 403
    assert await status(proxy, "GET /any", fields) == 403


async def test_an_unknown_protocol_is_not_passed_on(server: APIServer, proxy: Proxy) -> None:
    assert await status(proxy, "GET /version", "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\n") == 200


async def test_an_escaped_path_is_answered_by_the_cache_like_a_plain_one(server: APIServer, proxy: Proxy) -> None:
    before = passed_on(server)
    assert await status(proxy, "GET /api/v1/namespaces/default/%70ods/web%2d1?resourceVersion=0") == 200
    assert passed_on(server) == before


async def test_writes_are_passed_on_if_they_are_allowed(server: APIServer, client: Client) -> None:
    async with proxying(client, "v1/pods", allow_writes=True) as proxy:
        assert await status(proxy, "DELETE /api/v1/namespaces/default/pods/web-1") == 200
        assert await status(proxy, f"GET {EXEC.replace('web-1', 'web-2')}") in (400, 404, 500)
        assert await status(proxy, "DELETE /api/v1/namespaces/default/pods/..%2fpods") == 400
