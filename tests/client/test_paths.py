"""Names in paths: a request has the segments that were meant, or is not sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kinformer import Client, ConfigError, GroupVersionResource, KubeObject, LeaderElector, SharedInformerFactory
from kinformer.controller import Applier, EventRecorder, Finalizer, write_status
from kinformer.exceptions import KeyFuncError
from kinformer.testing import APIServer
from tests.support.http_server import HttpServer, json_answer
from tests.support.kube import config_map, pod

PODS = GroupVersionResource.parse("v1/pods")
NO_SEGMENTS = [".", "..", "a/b", "a%2Fb", "../x", "%2e%2e"]

names = st.one_of(
    st.sampled_from([*NO_SEGMENTS, "...", ".a", "system:node", " ", "a b", "ä", "a?b", "a#b", "a;b"]), st.text()
)


async def answer(request: web.Request) -> web.StreamResponse:
    return json_answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})


def sent_segments(server: HttpServer) -> list[str]:
    """The segments of the last request, as a server reads them."""
    return [unquote(segment) for segment in server.requests[-1].raw_path.partition("?")[0].split("/")[1:]]


@given(namespace=names, name=names, prefix=st.sampled_from(["", "/k8s/clusters/c-1"]))
def test_whatever_the_names_the_request_that_leaves_has_exactly_these_segments(
    namespace: str, name: str, prefix: str
) -> None:
    async def ask() -> None:
        async with HttpServer(answer) as server, Client.from_url(server.url + prefix) as client:
            try:
                path = PODS.path(namespace, name)
            except ConfigError:
                assert not name or {namespace, name} & {".", ".."} or set(namespace + name) & set("/%")
                return
            await client.request("GET", path, params={"a": "b"})
            where = ["namespaces", namespace] if namespace else []
            assert sent_segments(server) == [*prefix.split("/")[1:], "api", "v1", *where, "pods", name]

    asyncio.run(ask())


@given(st.text(alphabet="./%2eEfF:a?&=ä \\;", max_size=12))
def test_a_path_is_sent_as_it_is_written_or_refused(rest: str) -> None:
    async def ask() -> None:
        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            try:
                await client.request("GET", f"/api/{rest}")
            except ConfigError:
                assert not server.requests
                return
            sent = server.requests[-1].raw_path
            assert unquote(sent).rstrip("?") == unquote(f"/api/{rest}").rstrip("?")

    asyncio.run(ask())


@pytest.mark.parametrize("name", ["", *NO_SEGMENTS])
def test_a_name_that_is_no_segment_of_a_path_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        PODS.path("default", name)


@pytest.mark.parametrize("namespace", NO_SEGMENTS)
def test_a_namespace_that_is_no_segment_of_a_path_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        PODS.path(namespace, "web-1")


@pytest.mark.parametrize("subresource", ["..", "proxy/../../web-2", "proxy/./x", ""])
def test_a_subresource_that_is_another_path_is_refused(subresource: str) -> None:
    with pytest.raises(ConfigError, match="subresource"):
        PODS.path("default", "web-1", subresource)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/tenant/pods/.",
        "/api/v1/namespaces/tenant/pods/..",
        "/api/v1/namespaces/../pods/a",
        "/api/v1/namespaces/tenant/pods/%2e%2E",
        "/api/v1/namespaces/tenant/pods/.?a=b",
        "/api/v1//namespaces/tenant/pods/a",
        "/api/v1/namespaces/tenant/pods/",
    ],
)
async def test_nothing_is_deleted_by_a_path_that_would_be_shortened(path: str) -> None:
    async with APIServer() as server, server.client() as client:
        server.create(pod("web-1", namespace="tenant"))
        before = len(server.requests)
        with pytest.raises(ConfigError, match="path"):
            await client.request("DELETE", path)
        assert len(server.requests) == before
        assert server.get("v1/pods", "tenant", "web-1")


async def test_a_path_of_another_library_is_not_shortened_either() -> None:
    from kubernetes_asyncio.client import CoreV1Api

    async with APIServer() as server, server.client() as client:
        server.create(pod("web-1", namespace="tenant"))
        core = CoreV1Api(client.api_client)
        for name in (".", ".."):
            with pytest.raises(ConfigError, match="path"):
                await core.delete_namespaced_pod(name, "tenant")
        assert (await core.read_namespaced_pod("web-1", "tenant")).metadata.name == "web-1"


async def test_an_informer_of_a_namespace_that_is_a_path_is_refused() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        for namespace in (".", ".."):
            with pytest.raises(ConfigError, match="namespace"):
                factory.for_resource("v1/pods", namespace=namespace)
            with pytest.raises(ConfigError, match="namespace"):
                factory.for_resource("v1/pods", namespaces=["default", namespace])


def named(name: str, namespace: str = "tenant") -> KubeObject:
    document: dict[str, Any] = config_map("a", namespace=namespace)
    document["metadata"] |= {"name": name, "uid": "1", "resourceVersion": "1", "finalizers": ["example.com/x"]}
    return KubeObject.from_dict(document)


WRITES: dict[str, Callable[[Client, str], Awaitable[object]]] = {
    "a finalizer": lambda client, name: Finalizer(client, "v1/configmaps", "example.com/x").remove(named(name)),
    "a status": lambda client, name: write_status(client, "v1/configmaps", named(name), {"a": 1}),
    "a namespace": lambda client, name: write_status(client, "v1/configmaps", named("a", name), {"a": 1}),
    "a wait": lambda client, name: client.wait_for("v1/configmaps", f"{name}/a", bool, timeout=5),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("name", [".", ".."])
async def test_no_write_and_no_wait_makes_a_path_of_a_name(
    write: Callable[[Client, str], Awaitable[object]], name: str
) -> None:
    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConfigError, match="name"):
            await write(client, name)
        assert [request.raw_path for request in server.requests if "configmaps" in request.raw_path] == []


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
async def test_an_election_of_such_a_name_is_refused_before_a_request(name: str) -> None:
    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConfigError, match="name"):
            LeaderElector(client, namespace="default", name=name, identity="a")
        if name:
            with pytest.raises(ConfigError, match="namespace"):
                LeaderElector(client, namespace=name, name="lock", identity="a")
        assert server.requests == []


async def test_an_applied_object_of_such_a_name_is_refused() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        maps = factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        applier = Applier(client, "v1/configmaps", maps, field_manager="test")
        for name in ("", ".", ".."):
            with pytest.raises((ConfigError, KeyFuncError), match="name"):
                await applier.apply(config_map(name, namespace="default"))
        assert not [request for request in server.requests if request.method == "PATCH"]


async def test_an_event_about_an_object_in_such_a_namespace_reaches_no_other_path(caplog: Any) -> None:
    async with APIServer() as server, server.client() as client:
        async with EventRecorder(client, controller="example.com/test") as recorder:
            recorder.record(named("a", ".."), "Tested", "text")
        assert not [request for request in server.requests if request.method == "POST"]
        assert recorder.statistics().dropped == 1
