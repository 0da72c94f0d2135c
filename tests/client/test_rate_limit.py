"""The limit that a client puts on its own rate."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, ConnectError, LeaderElector, ListOptions, ListWatch
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.log_records import Said, message_of, said
from tests.support.metrics_sink import MemoryMetrics


async def fine(request: web.Request) -> web.StreamResponse:
    return json_answer({"fine": True})


def now() -> float:
    return asyncio.get_running_loop().time()


async def times_of(client: Client, count: int) -> list[float]:
    """Send requests all at once, and return the seconds after which each was answered."""
    began = now()

    async def one() -> float:
        await client.request("GET", "/x", timeout=1000)
        return now() - began

    return sorted(await asyncio.gather(*(one() for _ in range(count))))


@pytest.mark.virtual_time
async def test_above_the_burst_requests_go_out_at_the_rate_in_their_order() -> None:
    async with HttpServer(fine) as server, Client.from_url(server.url, rate=2, burst=4) as client:
        assert await times_of(client, 10) == pytest.approx([0, 0, 0, 0, 0.5, 1, 1.5, 2, 2.5, 3], abs=0.2)
        await asyncio.sleep(60)
        assert await times_of(client, 5) == pytest.approx([0, 0, 0, 0, 0.5], abs=0.2)
        assert client.statistics().throttled == 7


@pytest.mark.virtual_time
async def test_without_a_rate_nothing_waits() -> None:
    async with HttpServer(fine) as server, Client.from_url(server.url) as client:
        assert await times_of(client, 200) == pytest.approx([0] * 200, abs=0.2)
        assert client.statistics().throttled == 0


@pytest.mark.virtual_time
async def test_the_burst_is_twice_the_rate_and_one_at_least() -> None:
    async with HttpServer(fine) as server:
        async with Client.from_url(server.url, rate=2.5) as client:
            assert (await times_of(client, 6))[4:] == pytest.approx([0, 0.4], abs=0.2)
        async with Client.from_url(server.url, rate=0.1) as client:
            assert await times_of(client, 2) == pytest.approx([0, 10], abs=0.2)


@pytest.mark.virtual_time
async def test_a_request_that_is_cancelled_while_it_waits_leaves_its_turn_to_the_next() -> None:
    async with HttpServer(fine) as server, Client.from_url(server.url, rate=1, burst=1) as client:
        await client.request("GET", "/x")
        waiting = [asyncio.ensure_future(client.request("GET", "/x", timeout=100)) for _ in range(20)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)
        began = now()
        await client.request("GET", "/x")
        assert now() - began == pytest.approx(1, abs=0.2)
    assert len(server.requests) == 2


@pytest.mark.virtual_time
async def test_a_request_that_gets_no_turn_within_its_timeout_says_so() -> None:
    async with HttpServer(fine) as server, Client.from_url(server.url, rate=0.01, burst=1) as client:
        await client.request("GET", "/x")
        with pytest.raises(ConnectError, match=r"GET .*/x: not sent within 30 s: .*rate limit, rate=0\.01"):
            await client.request("GET", "/x")
    assert len(server.requests) == 1


@pytest.mark.virtual_time
async def test_each_attempt_takes_a_turn() -> None:
    async def busy_twice(request: web.Request) -> web.StreamResponse:
        if len(server.requests) < 3:
            return status_answer(429, "", "", Retry_After="0")
        return json_answer({})

    async with HttpServer(busy_twice) as server, Client.from_url(server.url, rate=0.5, burst=1) as client:
        began = now()
        await client.request("GET", "/x")
        assert now() - began == pytest.approx(4, abs=0.2)


@pytest.mark.virtual_time
async def test_lists_take_turns_and_watches_do_not() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return json_answer({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})

    async with HttpServer(answer) as server, Client.from_url(server.url, rate=1, burst=1) as client:
        pods = ListWatch(client, "v1/pods")
        began = now()
        for _ in range(3):
            page: Any = (await pods.list(ListOptions())).items
            assert [one async for items in page for one in items] == []
        assert now() - began == pytest.approx(2, abs=0.2)
        for _ in range(3):
            async with pods.watch(ListOptions(resource_version="1")):
                pass
        assert now() - began == pytest.approx(2, abs=0.2)


@pytest.mark.virtual_time
async def test_a_lease_is_renewed_however_many_requests_wait_for_a_turn() -> None:
    from kinformer.testing import APIServer

    async with APIServer() as server, Client.from_url(server.url, rate=0.1, burst=1) as client:
        waiting = [asyncio.ensure_future(client.request("GET", "/version", timeout=1000)) for _ in range(20)]
        elector = LeaderElector(client, namespace="default", name="lead", identity="a")
        async with elector.leading():
            await asyncio.sleep(60)
            assert elector.is_leader
        for one in waiting:
            one.cancel()
        await asyncio.wait(waiting)


@pytest.mark.virtual_time
async def test_a_lease_has_its_own_retries_whatever_the_server_asks() -> None:
    from kinformer.testing import APIServer, faults

    async with APIServer() as server, Client.from_url(server.url) as client:
        elector = LeaderElector(client, namespace="default", name="lead", identity="a")
        handle = server.faults.add(faults.status(429, retry_after=9), resource="coordination.k8s.io/v1/leases", times=2)
        began = now()
        async with elector.leading():
            assert handle.hits == 2
            assert now() - began < 7, "it waited for the server's delay, not for its own"


@pytest.mark.virtual_time
async def test_calls_of_the_api_client_take_turns_too() -> None:
    async with HttpServer(fine) as server, Client.from_url(server.url, rate=1, burst=1) as client:
        began = now()
        for _ in range(3):
            await client.api_client.call_api("/x", "GET")
        assert now() - began == pytest.approx(2, abs=0.2)


@pytest.mark.virtual_time
async def test_long_waits_are_exported_and_a_very_long_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer.client")
    sink = MemoryMetrics()
    async with HttpServer(fine) as server, Client.from_url(server.url, rate=0.5, burst=1, metrics=sink) as client:
        for _ in range(3):
            await client.request("GET", "/x")
    host = server.url.removeprefix("http://")
    seconds = sink.values(verb="GET", host=host)["rest_client_rate_limiter_duration_seconds"]
    assert seconds == pytest.approx([0, 2, 2], abs=0.2)
    assert len(caplog.records) == 1
    assert said(caplog, "throttled") == [Said("INFO", "kinformer.client")]
    for word in (f"GET {server.url}/x ", " 2 s", "rate=0.5, burst=1"):
        assert word in message_of(caplog, "throttled")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": 0}, "invalid rate=0: expected requests per second, above 0"),
        ({"rate": -1}, "invalid rate=-1"),
        ({"rate": float("nan")}, "invalid rate=nan"),
        ({"rate": float("inf")}, "invalid rate=inf"),
        ({"rate": "20"}, "invalid rate='20'"),
        ({"rate": 5, "burst": 0}, "invalid burst=0: expected a whole number, 1 or more"),
        ({"rate": 5, "burst": 1.5}, r"invalid burst=1\.5"),
        ({"burst": 5}, "invalid burst=5: requires rate="),
    ],
)
def test_a_limit_that_cannot_work_is_refused_at_once(options: dict[str, Any], text: str) -> None:
    for make in (Client, Client.in_cluster, Client.from_kubeconfig, lambda **kw: Client.from_url("http://h", **kw)):
        with pytest.raises(ConfigError, match=text):
            make(**options)
    with pytest.raises(ConfigError, match=text):
        Client.from_api_client(object(), **options)
