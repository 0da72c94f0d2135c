"""Compressed answers: asked for as configured, and read.

Internals: the configuration itself, since a test reaches no server that is far away.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, ConfigError, ListWatch, SharedInformerFactory
from kinformer.connection.config import Compression, accepted_encoding, from_url, load_in_cluster
from kinformer.connection.kubeconfig import load_kubeconfig
from kinformer.exceptions import ConnectError, DecodeError
from kinformer.list_watcher import ListOptions, ListPage
from tests.support import kube
from tests.support.http_server import HttpServer, needs_gzip_members

FAR = "https://api.example.com:6443"
NEAR = ("http://127.0.0.1:8001", "https://localhost:6443", "https://[::1]:6443", "http://127.8.0.1")


def pod(number: int) -> dict[str, Any]:
    return kube.pod(f"pod-{number}", rv=number + 1, node="x" * 500)


async def names_in(page: ListPage) -> list[str]:
    pieces: Any = page.items
    return [item.name async for items in pieces for item in items]


async def asked(**options: Any) -> list[str]:
    """What a client asks for: with a request, a list, an initial stream and a watch."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(
            {"metadata": {"resourceVersion": "1"}, "kind": "PodList", "apiVersion": "v1", "items": []}
        )

    async with HttpServer(answer) as server, Client.from_url(server.url, **options) as client:
        pods = ListWatch(client, "v1/pods")
        await client.request("GET", "/api/v1/pods")
        page = await pods.list(ListOptions())
        assert await names_in(page) == []
        for options_ in (ListOptions(send_initial_events=True), ListOptions(resource_version="1")):
            async with pods.watch(options_):
                pass
        return [request.headers["Accept-Encoding"] for request in server.requests]


async def test_a_server_on_this_machine_is_not_asked_to_compress() -> None:
    assert await asked() == ["identity"] * 4
    assert await asked(compression="none") == ["identity"] * 4


@needs_gzip_members
async def test_with_gzip_all_but_a_watch_that_resumes_may_come_compressed() -> None:
    assert await asked(compression="gzip") == ["gzip", "gzip", "gzip", "identity"]


async def test_an_aiohttp_that_reads_one_gzip_member_alone_asks_for_no_compressed_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiohttp.__version__", "3.13.5")
    assert await asked(compression="gzip") == ["gzip", "gzip", "identity", "identity"]


@pytest.mark.parametrize("url", NEAR)
def test_auto_is_by_where_the_server_is(url: str) -> None:
    assert accepted_encoding("auto", from_url(url)) == "identity"
    assert accepted_encoding("gzip", from_url(url)) == "gzip"


@pytest.mark.parametrize(
    "url", [FAR, "https://10.0.0.1:6443", "https://localhost.example.com", "https://[fd00::1]:6443"]
)
def test_auto_asks_a_server_that_is_elsewhere(url: str) -> None:
    assert accepted_encoding("auto", from_url(url)) == "gzip"
    assert accepted_encoding("none", from_url(url)) == "identity"


def test_a_pod_asks_its_own_cluster_unless_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("c")
    connection = load_in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}, tmp_path)
    assert accepted_encoding("auto", connection) == "gzip"
    assert accepted_encoding("none", connection) == "identity"


@pytest.mark.parametrize(("flag", "expected"), [({}, "gzip"), ({"disable-compression": True}, "identity")])
def test_a_kubeconfig_may_forbid_it(flag: dict[str, bool], expected: str, tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": ""}}],
        "clusters": [{"name": "k", "cluster": {"server": FAR, **flag}}],
    }
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    assert accepted_encoding("auto", load_kubeconfig(file)) == expected


def test_any_other_word_is_refused_at_once() -> None:
    wrong: Any = "zstd"
    for make in (Client, Client.from_kubeconfig, Client.in_cluster, lambda **more: Client.from_url(FAR, **more)):
        with pytest.raises(ConfigError, match="invalid compression='zstd': expected one of 'auto', 'gzip', 'none'"):
            make(compression=wrong)


@pytest.mark.parametrize("compression", ["gzip", "none"])
async def test_a_compressed_list_is_the_same_list(compression: Compression) -> None:
    pods = [pod(number) for number in range(1000)]
    document = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1000"}, "items": pods}
    sizes = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            return response
        body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
        if request.headers["Accept-Encoding"] == "gzip":
            body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        sizes.append(len(body))
        return web.Response(body=body, headers=headers)

    async with (
        HttpServer(answer) as server,
        Client.from_url(server.url, compression=compression) as client,
        SharedInformerFactory(client, watch_list=False) as factory,
    ):
        informer = factory.for_resource("v1/pods")
        await factory.wait_for_cache_sync(timeout=10)
        assert sorted(one.name for one in informer.lister) == sorted(one["metadata"]["name"] for one in pods)
        assert informer.lister.get("pod-7", namespace="default").path("spec.nodeName") == "x" * 500  # type: ignore[union-attr]
    assert (sizes[0] < 100_000) == (compression == "gzip")


@needs_gzip_members
async def test_an_initial_stream_in_a_gzip_member_for_each_event_is_read_as_it_comes() -> None:
    """As Kubernetes 1.37 sends it: each flush ends a member (apiserver, endpoints/handlers/watch.go)."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        await response.prepare(request)
        for number in range(50):
            event = {"type": "ADDED", "object": pod(number)}
            await response.write(gzip.compress(json.dumps(event).encode() + b"\n", 1))
            if number % 10 == 9:
                await let_go.get()
        return response

    let_go: asyncio.Queue[None] = asyncio.Queue()
    async with HttpServer(answer) as server, Client.from_url(server.url, compression="gzip") as client:
        names = []
        async with ListWatch(client, "v1/pods").watch(ListOptions(send_initial_events=True)) as events:
            async for some in events:
                names += [event.object.name for event in some]
                if names and len(names) % 10 == 0:  # those that were sent are here, though the stream goes on
                    let_go.put_nowait(None)
    assert names == [f"pod-{number}" for number in range(50)]


async def test_a_compressed_list_that_breaks_off_is_no_short_list() -> None:
    document = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [pod(1), pod(2)]}
    body = gzip.compress(json.dumps(document).encode())[:-200]

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})

    async with HttpServer(answer) as server, Client.from_url(server.url, compression="gzip") as client:
        page = await ListWatch(client, "v1/pods").list(ListOptions())
        with pytest.raises((ConnectError, DecodeError)):
            await names_in(page)
