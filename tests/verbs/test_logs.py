"""Logs of containers, line by line."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, ConnectError, NotFoundError
from kinformer.exceptions import BadRequestError
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, send_chunks
from tests.support.kube import pod
from tests.support.waiting import until

MIB = 1024 * 1024


def ended(name: str, *, restarts: int = 0, code: int = 1) -> dict[str, Any]:
    """Return a pod whose container ran for ten seconds."""
    run = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z", "exitCode": code}
    status: dict[str, Any] = {"name": "main", "ready": False, "restartCount": restarts, "state": {"terminated": run}}
    if restarts:
        status |= {"state": {"running": {}}, "lastState": {"terminated": run | {"reason": "OOMKilled"}}}
    return pod(name, phase="Running", status={"containerStatuses": [status]})


async def test_the_lines_of_a_log(server: APIServer, client: Client) -> None:
    server.create(ended("web-1", code=0))
    lines = [line async for line in client.logs("default/web-1")]
    assert len(lines) == 11
    assert "main of default/web-1 started, without a container" in lines[0]
    assert lines[-1] == "2026-01-01T00:00:10Z INFO generated line 10: exiting with code 0: Completed"
    assert all("generated line" in line and "\n" not in line for line in lines)


async def test_the_newest_lines_of_a_log(server: APIServer, client: Client) -> None:
    server.create(ended("web-1"))
    lines = [line async for line in client.logs("default/web-1", tail=2)]
    assert [line.partition(": ")[0][-1] for line in lines] == ["9", "0"]
    assert [line async for line in client.logs("default/web-1", tail=0)] == []


async def test_the_log_of_the_previous_run(server: APIServer, client: Client) -> None:
    server.create(ended("web-1", restarts=2))
    lines = [line async for line in client.logs("default/web-1", previous=True)]
    assert lines[-1].endswith("exiting with code 1: OOMKilled")
    server.create(pod("web-2"))
    with pytest.raises(BadRequestError, match='previous terminated container "main" in pod "web-2" not found'):
        await anext(client.logs("default/web-2", previous=True))


@pytest.mark.virtual_time
async def test_a_followed_log_gets_its_new_lines_until_the_container_ends(server: APIServer, client: Client) -> None:
    server.create(pod("web-1"))
    lines: list[str] = []

    async def read() -> None:
        async for line in client.logs("default/web-1", follow=True):
            lines.append(line)

    reading = asyncio.ensure_future(read())
    await until(lambda: len(lines) >= 3)
    status = {"name": "main", "ready": False, "restartCount": 0, "state": {"terminated": {"exitCode": 3}}}
    server.update(pod("web-1", status={"containerStatuses": [status]}))
    await reading
    numbers = [int(line.split("line ")[1].partition(":")[0]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + len(lines)))
    assert "exiting with code 3: Error" in lines[-1]


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    while True:
        await response.write(b"a line\n")
        await asyncio.sleep(0.01)


async def test_leaving_the_loop_closes_the_connection() -> None:
    async with HttpServer(endless) as server, Client.from_url(server.url) as client:
        async for line in client.logs("default/web-1", follow=True):
            assert line == "a line"
            break
        await server.until_idle()
        async with aclosing(client.logs("default/web-1", follow=True)) as lines:
            await anext(lines)
        await server.until_idle()


async def test_cancelling_a_reader_closes_the_connection() -> None:
    async with HttpServer(endless) as server, Client.from_url(server.url) as client:
        begun = asyncio.Event()

        async def read() -> None:
            async for _ in client.logs("default/web-1", follow=True):
                begun.set()

        reading = asyncio.ensure_future(read())
        await begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await server.until_idle()


async def read_chunks(*chunks: bytes, end: bool = True) -> list[str]:
    """Return the lines of a log that arrives in these chunks."""
    lines: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        assert request.headers["Accept-Encoding"] == "identity"
        return await send_chunks(request, list(chunks), content_type="text/plain", end=end)

    async with HttpServer(handler) as server, Client.from_url(server.url) as client:
        async for line in client.logs("default/web-1"):
            lines.append(line)
    return lines


async def test_lines_are_found_however_they_arrive() -> None:
    assert await read_chunks(b"one\ntwo\n\nthr", b"ee\r\nf", b"our") == ["one", "two", "", "three", "four"]
    assert await read_chunks("gr\u00fc".encode()[:3], "gr\u00fc".encode()[3:] + b"\n\xff") == ["gr\u00fc", "\ufffd"]
    assert await read_chunks() == []


async def test_a_line_that_is_too_long_comes_in_parts() -> None:
    long = "\u20ac" * (MIB // 3 * 3) + "end"
    for break_after in (b"\n", b""):
        parts = await read_chunks(long.encode() + break_after)
        assert "".join(parts) == long
        assert len(parts) == 4
        assert all(len(part.encode()) <= MIB for part in parts)


async def test_a_log_that_is_cut_off_is_an_error_after_its_last_whole_line() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await send_chunks(request, [b"one\ntw"], content_type="text/plain", end=False)

    async with HttpServer(handler) as server, Client.from_url(server.url) as client:
        lines = client.logs("default/web-1")
        assert await anext(lines) == "one"
        with pytest.raises(ConnectError, match="default/pods/web-1/log: the body was cut off"):
            await anext(lines)


async def test_errors_name_the_pod_and_the_container(server: APIServer, client: Client) -> None:
    containers = [{"name": name, "image": "registry.example/app:1"} for name in ("main", "side")]
    server.create(pod("web-1", spec={"containers": containers}))
    with pytest.raises(NotFoundError, match='pods "web-9" not found'):
        await anext(client.logs("default/web-9"))
    with pytest.raises(BadRequestError, match=r"must be specified for pod web-1, choose one of: \[main side\]"):
        await anext(client.logs("default/web-1"))
    with pytest.raises(BadRequestError, match="container db is not valid for pod web-1"):
        await anext(client.logs("default/web-1", container="db"))
    assert "main of default/web-1" in await anext(client.logs("default/web-1", container="main"))
    waiting = {"name": "main", "ready": False, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull"}}}
    server.create(pod("web-2", status={"containerStatuses": [waiting]}))
    with pytest.raises(BadRequestError, match='container "main" in pod "web-2" is waiting to start: ErrImagePull'):
        await anext(client.logs("default/web-2"))


async def test_a_pod_that_is_not_scheduled_has_an_empty_log(server: APIServer, client: Client) -> None:
    server.create(pod("web-1", phase=None))
    assert [line async for line in client.logs("default/web-1")] == []


def test_bad_arguments_are_refused_at_the_call() -> None:
    client = Client.from_url("http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="the key 'web-1' has no namespace"):
        client.logs("web-1")
    with pytest.raises(ConfigError, match="invalid tail=-1"):
        client.logs("default/web-1", tail=-1)
    with pytest.raises(ConfigError, match="invalid name ''"):
        client.logs("default/")
