"""The verbs for programs without an event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable

import msgspec
import pytest
from aiohttp import web

from kinformer import ConfigError, NotFoundError, StoppedError, blocking
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer
from tests.support.kube import config_map, pod


class Settings(msgspec.Struct):
    data: dict[str, str]


async def test_an_object_is_created_read_changed_and_deleted(server: APIServer) -> None:
    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            made = informers.create(config_map("a", data={"x": "1"}))
            assert informers.get("v1/configmaps", "default/a") == made
            assert informers.get("v1/configmaps", "default/a", model=Settings).model.data == {"x": "1"}
            changed = informers.patch("v1/configmaps", "default/a", {"data": {"x": "2"}})
            assert informers.replace(changed)["data"] == {"x": "2"}
            assert informers.apply(config_map("a", data={"y": "1"}), field_manager="me")["data"]["y"] == "1"
            assert informers.delete("v1/configmaps", "default/a", uid=made.uid) is None
            with pytest.raises(NotFoundError):
                informers.get("v1/configmaps", "default/a")
            with pytest.raises(ConfigError, match=r"metadata\.namespace is missing"):
                informers.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})

    await asyncio.to_thread(program)


async def test_a_list_is_a_plain_iterator_over_all_pages(server: APIServer) -> None:
    for number in range(501):
        server.create(config_map(f"a-{number:04}"))

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            assert [obj.name for obj in informers.list("v1/configmaps")] == [f"a-{n:04}" for n in range(501)]
            first = next(informers.list("v1/configmaps", namespace="default", model=Settings))
            assert first.model.data == {"v": "1"}
            with pytest.raises(ConfigError, match="invalid resource 'pods'"):
                informers.list("pods")

    await asyncio.to_thread(program)


async def test_the_lines_of_a_log(server: APIServer) -> None:
    run = {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:10Z", "exitCode": 0}
    status = {"name": "main", "ready": False, "restartCount": 0, "state": {"terminated": run}}
    server.create(pod("web-1", status={"containerStatuses": [status]}))

    def program() -> None:
        with blocking.Informers(url=server.url) as informers:
            assert len(list(informers.logs("default/web-1"))) == 11
            assert len(list(informers.logs("default/web-1", tail=3))) == 3
            with pytest.raises(ConfigError, match="has no namespace"):
                informers.logs("web-1")

    await asyncio.to_thread(program)


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    await response.prepare(request)
    while True:
        await response.write(b"a line\n")
        await asyncio.sleep(0.01)


def left_by_break(informers: blocking.Informers) -> None:
    for line in informers.logs("default/web-1", follow=True):
        assert line == "a line"
        break
    gc.collect()  # the loop held the only reference


def closed(informers: blocking.Informers) -> None:
    lines = informers.logs("default/web-1", follow=True)
    next(lines)
    lines.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("leave", [left_by_break, closed])
async def test_leaving_a_log_closes_its_connection(leave: Callable[[blocking.Informers], None]) -> None:
    async with HttpServer(endless) as server:
        was_left, is_idle = threading.Event(), threading.Event()

        def program() -> None:
            with blocking.Informers(url=server.url) as informers:
                leave(informers)
                was_left.set()
                assert is_idle.wait(10)

        running = asyncio.ensure_future(asyncio.to_thread(program))
        await asyncio.to_thread(was_left.wait, 10)
        await server.until_idle()
        is_idle.set()
        await running


async def test_exiting_the_informers_ends_a_log_that_another_thread_reads() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"one\n")
        await asyncio.Event().wait()
        return response

    errors: list[type[BaseException]] = []
    begun = threading.Event()

    def read(informers: blocking.Informers) -> None:
        try:
            for _ in informers.logs("default/web-1", follow=True):
                begun.set()
        except StoppedError as error:
            errors.append(type(error))

    def program(url: str) -> None:
        with blocking.Informers(url=url) as informers:
            thread = threading.Thread(target=read, args=(informers,))
            thread.start()
            assert begun.wait(10)
        thread.join(10)

    async with HttpServer(silent) as server:
        await asyncio.to_thread(program, server.url)
    assert errors == [StoppedError]
