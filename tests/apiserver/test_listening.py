"""The embedded server against peers that send nothing, or name other hosts."""

from __future__ import annotations

import asyncio
import json

import pytest

from kinformer import APIError, Client, ConfigError
from kinformer.testing import APIServer
from tests.support.apiserver_http import ask as asked
from tests.support.bare_http import ask, connected


def port_of(server: APIServer) -> int:
    return int(server.url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("10.0.0.7:6443", 200),
        ("localhost", 200),
        ("kube.example:6443", 200),
        ("", 200),
        ("evil.example", 421),
        ("kubernetes.default.svc", 421),
    ],
)
async def test_a_server_with_allowed_hosts_answers_them_and_addresses(host: str, status: int) -> None:
    async with APIServer(allowed_hosts=["kube.example"]) as server:
        for path in ("/version", "/api/v1/pods", "/readyz", "/nothing"):
            answer = await ask(port_of(server), f"GET {path} HTTP/1.1\nHost: {host}")
            assert answer == (404 if (path, status) == ("/nothing", 200) else status)
        assert server.requests[0].status == status


async def test_a_misdirected_request_gets_a_status_and_changes_nothing() -> None:
    async with APIServer(allowed_hosts=[]) as server:
        body = json.dumps({"metadata": {"name": "a"}})
        path = "/api/v1/namespaces/default/configmaps"
        reply = await asked(server.url, "POST", path, headers={"Host": "evil.example"}, body=body)
        assert (reply.json["kind"], reply.json["code"]) == ("Status", 421)
        assert server.list("v1/configmaps") == []


async def test_two_hosts_are_refused() -> None:
    async with APIServer(allowed_hosts=[]) as server:
        port = port_of(server)
        assert await ask(port, "GET /version HTTP/1.1\nHost: localhost\nHost: localhost") == 400
        assert await ask(port, "GET /version HTTP/1.1\nHost: localhost\nOrigin: http://a\nOrigin: http://a") == 400
        assert await ask(port, "GET /version HTTP/1.0") == 200


async def test_a_server_in_a_test_answers_to_any_name(server: APIServer) -> None:
    assert await ask(port_of(server), "GET /version HTTP/1.1\nHost: kubernetes.default.svc") == 200


async def test_the_servers_own_name_is_allowed() -> None:
    async with APIServer(host="localhost", allowed_hosts=[]) as server, server.client() as client:
        assert (await client.request("GET", "/version"))["gitVersion"]


def test_a_name_that_no_host_header_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="invalid allowed host"):
        APIServer(allowed_hosts=["https://kube.example"])


@pytest.mark.virtual_time
@pytest.mark.parametrize("begun", ["", "GET /version HT"])
async def test_a_connection_without_a_whole_head_ends_after_32_seconds(server: APIServer, begun: str) -> None:
    async with connected(port_of(server)) as [one]:
        one.send(begun)
        assert await one.ended_after() == pytest.approx(32, abs=0.1)


@pytest.mark.virtual_time
async def test_a_body_that_does_not_come_ends_after_a_minute(server: APIServer) -> None:
    async with connected(port_of(server)) as [one]:
        one.send("POST /api/v1/namespaces HTTP/1.1\nHost: localhost\nContent-Length: 5\n\n{")
        began = asyncio.get_running_loop().time()
        assert await one.status() == 504
        assert asyncio.get_running_loop().time() - began == pytest.approx(60, abs=0.1)
        await one.ended_after()


async def test_a_body_that_no_one_reads_does_not_count_as_a_head(client: Client) -> None:
    for _ in range(3):
        with pytest.raises(APIError) as raised:
            await client.request("POST", "/apis/nothing.example/v1/things", body={"data": "x" * 900_000})
        assert raised.value.status == 404
