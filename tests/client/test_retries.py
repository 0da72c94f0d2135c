"""Requests that are sent again, because the server asks for it or a read has lost its connection.

Internals: a fence, which is checked before each attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from kinformer import APIError, Client, ConnectError, ListWatch
from kinformer._runtime.fence import Fence
from kinformer.client import ClientStatistics
from kinformer.exceptions import LeadershipLostError, ServerError, TooManyRequestsError
from kinformer.testing import APIServer, faults
from tests.support.http_server import HttpServer, hang, json_answer, send_chunks, status_answer
from tests.support.kube import config_map
from tests.support.log_records import Said, message_of, said
from tests.support.metrics_sink import MemoryMetrics
from tests.support.ports import reserved_port

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def after(failures: int, *answers: Answer) -> Answer:
    """Answer by `answers` in turn, `failures` times, and then with success."""
    count = 0

    async def answer(request: web.Request) -> web.StreamResponse:
        nonlocal count
        count += 1
        if count <= failures:
            return await answers[(count - 1) % len(answers)](request)
        return json_answer({"tries": count, "body": (await request.read()).decode()})

    return answer


def busy(code: int = 429, seconds: str = "2") -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return status_answer(code, "", "come back later", Retry_After=seconds)

    return answer


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def break_off(request: web.Request) -> web.StreamResponse:
    return await send_chunks(request, [b'{"kind": "Conf'], end=False)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.virtual_time
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_a_request_that_the_server_asks_to_send_later_is_sent_again_after_its_delay(
    method: str, code: int
) -> None:
    async with HttpServer(after(3, busy(code))) as server, Client.from_url(server.url) as client:
        began = now()
        body = None if method == "GET" else {"a": 1}
        answer = await client.request(method, "/x", body=body)
        assert now() - began == pytest.approx(6, abs=0.5)
    assert answer == {"tries": 4, "body": "" if body is None else '{"a":1}'}
    assert [request.method for request in server.requests] == [method] * 4


@pytest.mark.virtual_time
async def test_it_is_sent_ten_times_more_at_most_and_the_last_answer_is_the_error() -> None:
    async with HttpServer(busy(seconds="1")) as server, Client.from_url(server.url) as client:
        with pytest.raises(TooManyRequestsError, match="come back later") as caught:
            await client.request("POST", "/x")
    assert len(server.requests) == 11
    assert caught.value.__notes__ == ["sent 11 times"]


@pytest.mark.parametrize("failure", [busy(429), busy(503)])
async def test_without_retries_the_first_answer_is_the_error(failure: Answer) -> None:
    async with HttpServer(failure) as server, Client.from_url(server.url) as client:
        with pytest.raises(APIError):
            await client.request("GET", "/x", retries=0)
        with pytest.raises(APIError):
            await client.text("/x", retries=0)
    assert len(server.requests) == 2


@pytest.mark.parametrize("retries", [-1, 1.5, "3", True, None])
async def test_a_number_of_retries_that_is_none_is_named(retries: Any) -> None:
    async with HttpServer(busy()) as server, Client.from_url(server.url) as client:
        with pytest.raises(ValueError, match=r"invalid retries=.*: expected a whole number, 0 or more"):
            await client.request("GET", "/x", retries=retries)
    assert not server.requests


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422])
async def test_a_refusal_is_not_sent_again_even_if_it_has_a_delay(code: int) -> None:
    async with HttpServer(busy(code)) as server, Client.from_url(server.url) as client:
        with pytest.raises(APIError):
            await client.request("GET", "/x")
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_failure_without_a_delay_is_not_sent_again(code: int) -> None:
    async def answer(request: web.Request) -> web.Response:
        return status_answer(code, "InternalError")

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(APIError):
            await client.request("GET", "/x")
    assert len(server.requests) == 1


@pytest.mark.virtual_time
async def test_a_delay_that_the_timeout_does_not_allow_is_an_error_at_once() -> None:
    async with HttpServer(busy(seconds="40")) as server, Client.from_url(server.url) as client:
        began = now()
        with pytest.raises(TooManyRequestsError):
            await client.request("GET", "/x")
        assert now() - began < 1
    assert len(server.requests) == 1


@pytest.mark.virtual_time
async def test_a_delay_of_hours_is_cut_to_a_minute() -> None:
    async with HttpServer(after(1, busy(seconds="7200"))) as server, Client.from_url(server.url) as client:
        began = now()
        await client.request("GET", "/x", timeout=100)
        assert now() - began == pytest.approx(60, abs=0.5)
    assert len(server.requests) == 2


@pytest.mark.virtual_time
async def test_all_attempts_share_the_timeout_and_the_error_tells_the_last_failure() -> None:
    async def then_silent(request: web.Request) -> web.StreamResponse:
        return await (busy(seconds="10") if len(server.requests) == 1 else hang)(request)

    async with HttpServer(then_silent) as server, Client.from_url(server.url) as client:
        began = now()
        with pytest.raises(ConnectError, match=r"/x: no response within 30 s; before: 429.*come back later"):
            await client.request("GET", "/x")
        assert now() - began == pytest.approx(30, abs=0.5)
        await server.until_idle()


@pytest.mark.virtual_time
@pytest.mark.parametrize("loss", [reset, break_off])
async def test_a_read_that_has_lost_its_connection_is_sent_again(loss: Answer) -> None:
    # A reset before the head is first sent again at once, on a fresh connection: twice a try.
    async with HttpServer(after(4, loss)) as server, Client.from_url(server.url) as client:
        answer = await client.request("GET", "/x")
        statistics = client.statistics()
    assert answer["tries"] == 5
    assert set(statistics.retries) == {"connection_lost"}


@pytest.mark.virtual_time
@pytest.mark.parametrize("loss", [reset, break_off])
async def test_a_write_that_has_lost_its_connection_is_not(loss: Answer) -> None:
    async with HttpServer(after(1, loss)) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConnectError):
            await client.request("POST", "/x", body={})
    assert len(server.requests) == 1


async def test_a_refused_connection_is_an_error_at_once() -> None:
    with reserved_port() as port:
        async with Client.from_url(f"http://127.0.0.1:{port}") as client:
            with pytest.raises(ConnectError):
                await client.request("GET", "/x")
            assert client.statistics().retries == {}


@pytest.mark.virtual_time
async def test_cancelling_while_it_waits_sends_nothing_more() -> None:
    async with HttpServer(busy(seconds="20")) as server, Client.from_url(server.url) as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await client.request("GET", "/x")
        await asyncio.sleep(60)
    assert len(server.requests) == 1


@pytest.mark.virtual_time
async def test_a_fence_is_asked_before_each_attempt() -> None:
    leads = True

    def check() -> None:
        if not leads:
            raise LeadershipLostError("lost")

    async with HttpServer(busy(seconds="3")) as server, Client.from_url(server.url) as client:
        with Fence(check):
            request = asyncio.ensure_future(client.request("POST", "/x", body={}))
        await asyncio.sleep(5)
        assert len(server.requests) == 2
        leads = False
        with pytest.raises(LeadershipLostError):
            await request
    assert len(server.requests) == 2


@pytest.mark.virtual_time
async def test_what_was_sent_again_is_counted_exported_and_logged_once_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kinformer.client")
    sink = MemoryMetrics()
    failures = after(3, busy(429, "1"), busy(503, "2"))
    async with HttpServer(failures) as server, Client.from_url(server.url, metrics=sink) as client:
        await client.request("PATCH", "/x?token=hidden", body={})
        assert client.statistics() == ClientStatistics(requests=1, retries={"429": 2, "503": 1}, throttled=0)
    assert len(caplog.records) == 1
    assert said(caplog, "request_retried") == [Said("INFO", "kinformer.client")]
    for word in (f"PATCH {server.url}/x: 429: come back later", " 1 s", "1 of 10"):
        assert word in message_of(caplog, "request_retried")
    name, host = "rest_client_request_retries_total", server.url.removeprefix("http://")
    assert sink.values(code="429", verb="PATCH", host=host) == {name: 2}
    assert sink.values(code="503", verb="PATCH", host=host) == {name: 1}


# --- callers with a pace of their own -------------------------------------------------------------------


@pytest.mark.virtual_time
async def test_the_probes_of_a_reflector_are_sent_once() -> None:
    async with HttpServer(busy(503)) as server, Client.from_url(server.url) as client:
        pods = ListWatch(client, "v1/pods")
        for probe in (pods.tip, pods.cluster, lambda: pods.read_back("default", "a")):
            began = now()
            with pytest.raises(ServerError):
                await probe()
            assert now() == began
        assert await pods.presence() is None
    assert len(server.requests) == 4


async def test_a_real_conversation_goes_on_after_a_server_was_busy(server: APIServer, client: Client) -> None:
    handle = server.faults.add(faults.status(429, retry_after=0), times=2)
    created = await client.request("POST", "/api/v1/namespaces/default/configmaps", body=config_map("a"))
    assert created["metadata"]["name"] == "a"
    assert handle.hits == 2
