"""Endless or ever-growing input is stopped by a limit that the error names.

Internals: the limit of an answer, which is patched, since a gigabyte is too much for a test.
"""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client
from kinformer.client import discover
from kinformer.exceptions import DecodeError, ServerError
from tests.support.fault_scene import HANG, Reply, event, listed, wire
from tests.support.http_server import HttpServer
from tests.support.kube import config_map, widget

pytestmark = [pytest.mark.virtual_time, pytest.mark.usefixtures("arrival")]

MEGABYTE = 1024 * 1024
GZIP = {"Content-Encoding": "gzip"}


def bomb(head: bytes, filler: bytes, megabytes: int) -> bytes:
    """So many megabytes that are some kilobytes on the wire."""
    return gzip.compress(head + filler * (megabytes * MEGABYTE // len(filler)), compresslevel=9)


@pytest.fixture
def memory() -> Iterator[Any]:
    """The most that was held since, in megabytes."""
    tracemalloc.start()
    yield lambda: tracemalloc.get_traced_memory()[1] / MEGABYTE
    tracemalloc.stop()


async def test_a_gzip_bomb_in_a_watch_is_stopped_by_the_limit_of_an_event() -> None:
    small = Reply([bomb(b'{"type":"ADDED","object":{"x":"', b"x", 100), HANG], headers=GZIP)
    options: dict[str, Any] = {"source": {"max_event_bytes": 2 * MEGABYTE}}
    async with wire(
        [listed(config_map("a", rv=3), rv=7)], [small, Reply([event("ADDED", "b", 8), HANG])], **options
    ) as w:
        await w.until(lambda: "default/b" in w.cached)
        assert w.cached.keys() == {"default/a", "default/b"}
        assert w.relists == {"decode_error": 1}
        assert f"max_event_bytes={2 * MEGABYTE}" in str(w.errors[0])


@pytest.mark.parametrize(
    ("filler", "limit"),
    [
        (b"x", f"max_item_bytes={2 * MEGABYTE}"),
        (b'"},{"metadata":{"name":"b","namespace":"default"},"x":"', f"max_list_bytes={5 * MEGABYTE}"),
    ],
    ids=["one item", "many items"],
)
async def test_a_gzip_bomb_in_a_list_is_stopped_by_a_limit(filler: bytes, limit: str) -> None:
    start = b'{"kind":"ConfigMapList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"default"},"x":"'
    body = bomb(start, filler, 100)
    options: dict[str, Any] = {"source": {"max_event_bytes": 2 * MEGABYTE, "max_list_bytes": 5 * MEGABYTE}}
    async with wire([Reply([body], headers=GZIP), listed(rv=7)], synced=False, **options) as w:
        await w.informer.wait_synced(timeout=30)
        assert w.kinds == ["DecodeError"]
        assert limit in str(w.errors[0])
        assert w.cached == {}, "nothing of it is in the cache"


async def test_a_line_without_an_end_is_stopped_by_the_limit_of_an_event(memory: Any) -> None:
    sent = 0

    class Endless(Reply):
        async def give(self, request: web.Request) -> web.StreamResponse:
            nonlocal sent
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"')
            while True:
                await response.write(b"x" * 65536)
                sent += 65536

    options: dict[str, Any] = {"source": {"max_event_bytes": MEGABYTE}}
    async with wire([listed(rv=7)], [Endless(), Reply([event("ADDED", "b", 8), HANG])], **options) as w:
        await w.until(lambda: "default/b" in w.cached)
        assert "max_event_bytes" in str(w.errors[0])
        assert MEGABYTE <= sent < 32 * MEGABYTE  # the buffers of two sockets are in it
        assert memory() < 30


async def test_a_list_without_an_end_is_stopped_by_the_limit_of_a_list() -> None:
    class Endless(Reply):
        async def give(self, request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            item = b'{"metadata":{"name":"a","namespace":"default"}}'
            await response.write(b'{"kind":"ConfigMapList","apiVersion":"v1","items":[' + item)
            while True:
                await response.write((b"," + item) * 1000)

    options: dict[str, Any] = {"source": {"max_list_bytes": MEGABYTE}}
    async with wire([Endless(), listed(config_map("b", rv=3), rv=7)], synced=False, **options) as w:
        await w.informer.wait_synced(timeout=30)
        assert w.cached.keys() == {"default/b"}
        assert f"a list is longer than max_list_bytes={MEGABYTE}" in str(w.errors[0])


@pytest.mark.parametrize("tokens", ["aa", "abab", "xabcabc"])
async def test_pages_without_an_end_are_noticed_by_their_tokens(tokens: str) -> None:
    pages = [listed(config_map("a", rv=3), rv=7, **{"continue": token}) for token in tokens]
    async with wire([*pages, listed(rv=7)], synced=False) as w:
        await w.informer.wait_synced(timeout=30)
        assert "has the continue token of an earlier page" in str(w.errors[0])


async def test_an_answer_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinformer.connection.responses._MOST", MEGABYTE)  # a gigabyte is too much for a test
    body = bomb(b'{"x":"', b"x", 100)

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/error":
            return await Reply([bomb(b"no ", b"x", 100)], status=500, headers=GZIP).give(request)
        return await Reply([body], headers=GZIP).give(request)

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(DecodeError, match=f"GET /x: the response is longer than {MEGABYTE} bytes"):
            await client.request("GET", "/x")
        with pytest.raises(ServerError) as caught:
            await client.request("GET", "/error")
        assert len(str(caught.value)) < 400


ONE = 16 * MEGABYTE
READERS: dict[str, tuple[Callable[[Client], Awaitable[object]], str, int]] = {
    "get": (lambda c: c.get("v1/pods", "a/b"), "GET /api/v1/namespaces/a/pods/b", ONE),
    "patch": (lambda c: c.patch("v1/pods", "a/b", {}), "PATCH /api/v1/namespaces/a/pods/b", ONE),
    "create": (lambda c: c.create(config_map("a")), "POST /api/v1/namespaces/default/configmaps", ONE),
    "delete": (lambda c: c.delete("v1/nodes", "a"), "DELETE /api/v1/nodes/a", ONE),
    "a status": (lambda c: c.get("v1/pods", "a/b", subresource="status"), "GET .*/pods/b/status", ONE),
    "discovery": (discover, "GET /api", ONE),
    "a group's discovery": (lambda c: c.create(widget("a")), "GET /apis/example.com/v1", ONE),
    "a namespace": (lambda c: c.request("GET", "/api/v1/namespaces/a"), "GET /api/v1/namespaces/a", ONE),
    "a probe": (lambda c: c.text("/readyz"), "GET /readyz", ONE),
    "a page of one": (lambda c: c.request("GET", "/api/v1/pods", params={"limit": "1"}), "GET /api/v1/pods", 4 * ONE),
    "a list": (lambda c: c.request("GET", "/api/v1/pods"), "GET /api/v1/pods", 5 * ONE),
    "pages": (lambda c: c.request("GET", "/api/v1/pods", params={"limit": "500"}), "GET /api/v1/pods", 5 * ONE),
    "no limit": (lambda c: c.request("GET", "/api/v1/pods", params={"limit": "0"}), "GET /api/v1/pods", 5 * ONE),
    "a program's": (lambda c: c.text("/api/v1/namespaces/a/services/b/proxy/x"), "GET .*/proxy/x", 5 * ONE),
    "what is not known": (lambda c: c.text("/metrics"), "GET /metrics", 5 * ONE),
}


@pytest.mark.parametrize(("read", "request_", "limit"), READERS.values(), ids=READERS)
async def test_an_answer_without_an_end_is_read_up_to_the_limit_of_its_kind(
    monkeypatch: pytest.MonkeyPatch,
    memory: Any,
    read: Callable[[Client], Awaitable[object]],
    request_: str,
    limit: int,
) -> None:
    monkeypatch.setattr("kinformer.connection.responses._MOST", 5 * ONE)  # a gigabyte is too much for a test

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b"x" * MEGABYTE)
        return response

    async with HttpServer(endless) as server, Client.from_url(server.url) as client:
        with pytest.raises(DecodeError, match=f"^{request_}: the response is longer than {limit} bytes"):
            await read(client)
        assert memory() < 2.5 * limit / MEGABYTE


async def test_a_watch_of_empty_lines_keeps_nothing_and_ends_at_its_time() -> None:
    blank: list[Any] = [b"\n" * 1000, 1.0] * 40
    async with wire([listed(rv=7)], [Reply([*blank, HANG]), Reply([HANG])], watch_timeout=20) as w:
        await w.until(lambda: len(w.asked("watch")) == 2, 120)
        assert (w.relists, w.errors, w.mirror.calls) == ({}, [], [])
