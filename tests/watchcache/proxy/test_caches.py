"""A proxy answers lists, reads and watches of its resources from one cache, for every client."""

from __future__ import annotations

import asyncio
import gzip
import socket
from pathlib import Path

import aiohttp
import pytest
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import watch as kubernetes_watch

from kinformer import (
    APIError,
    Client,
    ConfigError,
    GroupVersionResource,
    NotFoundError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Proxy, WatchCache
from tests.support.apiserver_http import ask, watch
from tests.support.bare_http import connected
from tests.support.kube import config_map, pod
from tests.support.memory_source import MemorySource
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import until
from tests.watchcache.front import answering, without_ages
from tests.watchcache.proxy.conftest import proxying


def reads(server: APIServer, path: str = "/api/v1/pods") -> int:
    """The requests for a path that the server has seen, besides the proofs of a cache."""
    return sum(one.path.startswith(path) and one.params.get("limit") != "1" for one in server.requests)


@pytest.mark.virtual_time
async def test_lists_and_watches_of_many_clients_are_one_at_the_server(server: APIServer, proxy: Proxy) -> None:
    before = reads(server)
    async with Client.from_url(proxy.url) as client:
        for _ in range(3):
            async with SharedInformerFactory(client) as factory:
                pods = factory.for_resource("v1/pods")
                await pods.wait_synced()
                server.create(pod("new", namespace="default"))
                await until(lambda pods=pods: "default/new" in pods.by_key)  # type: ignore[misc]
                server.delete("v1/pods", "default", "new")
    assert reads(server) == before


async def test_the_timeout_of_a_go_client_is_no_reason_to_ask_the_server(server: APIServer, proxy: Proxy) -> None:
    before, version = reads(server), server.resource_version
    assert (await ask(proxy.url, "GET", "/api/v1/pods?resourceVersion=0&limit=500&timeout=32s")).status == 200
    query = f"allowWatchBookmarks=true&resourceVersion={version}&timeout=5m52s&timeoutSeconds=352&watch=true"
    exchange = await watch(proxy.url, f"/api/v1/pods?{query}")
    server.create(pod("web-4"))
    assert (await exchange.event())[0] == "ADDED"
    await exchange.close()
    assert reads(server) == before


async def test_kubernetes_asyncio_reads_from_the_cache(server: APIServer, proxy: Proxy) -> None:
    configuration = kubernetes.Configuration(host=proxy.url)
    async with kubernetes.ApiClient(configuration) as api_client, kubernetes_watch.Watch() as following:
        before, core = reads(server), kubernetes.CoreV1Api(api_client)
        listed = await core.list_pod_for_all_namespaces(resource_version="0")
        assert [pod.metadata.name for pod in listed.items] == ["web-1", "web-2", "web-3"]
        server.delete("v1/pods", "default", "web-1")
        version = listed.metadata.resource_version
        async for event in following.stream(core.list_pod_for_all_namespaces, resource_version=version):
            assert (event["type"], event["object"].metadata.name) == ("DELETED", "web-1")
            break
        assert reads(server) == before


async def test_a_get_finds_an_object_and_a_missing_one_is_a_404(server: APIServer, proxy: Proxy) -> None:
    before = reads(server, "/api/v1/namespaces/default/pods/")
    found = await ask(proxy.url, "GET", "/api/v1/namespaces/default/pods/web-1?resourceVersion=0")
    assert (found.status, found.json["metadata"]["name"]) == (200, "web-1")
    missing = await ask(proxy.url, "GET", "/api/v1/namespaces/default/pods/no?resourceVersion=0")
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")
    assert reads(server, "/api/v1/namespaces/default/pods/") == before


async def test_responses_have_the_header_fields_of_a_server(server: APIServer, proxy: Proxy) -> None:
    for path, status in {"pods?resourceVersion=0": 200, "pods/no?resourceVersion=0": 404, "configmaps": 200}.items():
        reply = await ask(proxy.url, "GET", f"/api/v1/namespaces/default/{path}")
        fields = (reply.headers["cache-control"], reply.headers["content-type"])
        assert (reply.status, fields) == (status, ("no-cache, private", "application/json"))
        assert "server" not in reply.headers


async def test_large_responses_are_compressed_for_clients_that_accept_it(server: APIServer, proxy: Proxy) -> None:
    for number in range(300):
        server.create(pod(f"new-{number}", annotations={"text": "x" * 500}))
    version = server.create(pod("large", annotations={"text": "x" * 200_000}))["metadata"]["resourceVersion"]
    for path, is_large in {"": True, "?labelSelector=no": False, "/large": True, "/web-1": False}.items():
        query = f"{'&' if '?' in path else '?'}resourceVersion={version}"
        plain, packed = [
            await ask(proxy.url, "GET", f"/api/v1/namespaces/default/pods{path}{query}", headers=headers)
            for headers in ({"Accept-Encoding": "gzip;q=0, identity"}, {"Accept-Encoding": "deflate, gzip"})
        ]
        assert plain.clean
        assert packed.clean
        assert "content-encoding" not in plain.headers
        if is_large:
            assert (packed.headers["content-encoding"], packed.headers["vary"]) == ("gzip", "Accept-Encoding")
            assert (gzip.decompress(packed.body), len(packed.body) < len(plain.body) / 5) == (plain.body, True)
        else:
            assert (packed.headers.get("content-encoding"), packed.body) == (None, plain.body)


class WholeMemory(MemorySource):
    """A source of all objects, whose JSON has `apiVersion` before `kind`."""

    resource = GroupVersionResource("", "v1", "configmaps")
    selects_all = True


@pytest.mark.virtual_time
async def test_items_of_built_in_lists_have_no_type_in_whatever_order_it_was_written() -> None:
    source = WholeMemory()
    source.set("a")
    informer: SharedInformer = SharedInformer(source)
    async with WatchCache(informer) as cache, answering(cache) as url:
        await informer.wait_synced()
        (item,) = (await ask(url, "GET", "/?resourceVersion=0")).json["items"]
        assert "metadata" in item
        assert not {"kind", "apiVersion"} & item.keys()
        found = (await ask(url, "GET", "/?resourceVersion=0&watch=1&timeoutSeconds=1")).lines[0]
        assert (found["object"]["kind"], found["object"]["apiVersion"]) == ("ConfigMap", "v1")


@pytest.mark.slow
@pytest.mark.virtual_time
async def test_a_reader_that_is_too_slow_has_its_watch_ended(server: APIServer, client: Client) -> None:
    metrics = MemoryMetrics()
    async with proxying(client, "v1/pods", metrics=metrics) as proxy, connected(proxy.port) as (bare,):

        def watches() -> float:
            return float(metrics.values(resource="v1/pods")["kinformer_proxy_watches"])

        bare.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bare.send(f"GET /api/v1/pods?watch=1&resourceVersion={server.resource_version} HTTP/1.1\nHost: localhost\n\n")
        await until(lambda: watches() == 1)
        bare.writer.transport.pause_reading()  # type: ignore[attr-defined]
        for number in range(2000):
            server.create(pod(f"big-{number}", annotations={"text": "x" * 10_000}))
            if number % 100 == 0:
                await asyncio.sleep(0.1)
        await until(lambda: watches() == 0, 200)
        assert (await ask(proxy.url, "GET", "/api/v1/pods?resourceVersion=0&limit=1")).status == 200


async def test_a_client_goes_to_the_server_and_back_by_resource_version(server: APIServer, proxy: Proxy) -> None:
    listed = await ask(proxy.url, "GET", "/api/v1/pods?resourceVersion=0")
    version = listed.json["metadata"]["resourceVersion"]
    server.create(pod("web-4"))
    at_server = await watch(server.url, f"/api/v1/pods?watch=1&resourceVersion={version}")
    kind, obj = await at_server.event()
    await at_server.close()
    assert (kind, obj["metadata"]["name"]) == ("ADDED", "web-4")
    server.delete("v1/pods", "default", "web-1")
    back = await watch(proxy.url, f"/api/v1/pods?watch=1&resourceVersion={obj['metadata']['resourceVersion']}")
    kind, obj = await back.event()
    await back.close()
    assert (kind, obj["metadata"]["name"]) == ("DELETED", "web-1")


@pytest.mark.virtual_time
async def test_a_read_at_a_version_that_only_the_server_has_is_answered(server: APIServer, proxy: Proxy) -> None:
    server.create(config_map("of-another-resource"))  # of which the cache hears later, or never
    version = server.resource_version
    for path in ("pods", "namespaces/default/pods", "namespaces/default/pods/web-1"):
        before = reads(server, f"/api/v1/{path}")
        assert (await ask(proxy.url, "GET", f"/api/v1/{path}?resourceVersion={version}")).status == 200
        assert reads(server, f"/api/v1/{path}") == before + 1
    server.create(pod("web-4"))
    before = reads(server)
    listed = await ask(proxy.url, "GET", f"/api/v1/pods?resourceVersion={server.resource_version}")
    assert (len(listed.json["items"]), reads(server)) == (4, before)


async def test_what_a_cache_does_not_have_comes_from_the_server(server: APIServer, proxy: Proxy) -> None:
    server.create(config_map("settings"))
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    for path, headers in {
        "/api/v1/configmaps": {},
        "/api/v1/pods": table,
        "/api/v1/pods?fieldSelector=spec.nodeName%3Da": {},
        "/api/v1/namespaces/default/pods/web-1/status": {},
        "/api/v1/pods/": {},
        "/version": {},
        "/apis": {},
    }.items():
        at_proxy = await ask(proxy.url, "GET", path, headers=headers)
        at_server = await ask(server.url, "GET", path, headers=headers)
        shown = without_ages if headers else dict
        assert (at_proxy.status, shown(at_proxy.json)) == (at_server.status, shown(at_server.json)), path


async def test_protobuf_comes_from_the_server(server: APIServer, proxy: Proxy) -> None:
    accept = {"Accept": "application/vnd.kubernetes.protobuf"}
    at_proxy = await ask(proxy.url, "GET", "/api/v1/pods", headers=accept)
    at_server = await ask(server.url, "GET", "/api/v1/pods", headers=accept)
    assert (at_proxy.status, at_proxy.body) == (at_server.status, at_server.body)


async def test_a_cache_of_one_namespace_answers_for_that_one(server: APIServer, client: Client) -> None:
    server.create(pod("other", namespace="kube-system"))
    async with proxying(client, "v1/pods", namespace="default") as proxy:
        before = reads(server)
        own = await ask(proxy.url, "GET", "/api/v1/namespaces/default/pods?resourceVersion=0")
        assert (len(own.json["items"]), reads(server)) == (3, before)
        everything = await ask(proxy.url, "GET", "/api/v1/pods?resourceVersion=0")
        assert (len(everything.json["items"]), reads(server)) == (4, before + 1)


async def test_namespaces_and_nodes_are_read_by_name(server: APIServer, client: Client) -> None:
    server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})
    async with proxying(client, "namespaces", "nodes") as proxy:
        for path, count in {"/api/v1/nodes/a": 0, "/api/v1/namespaces/default": 0, "/api/v1/namespaces/no": 0}.items():
            before = reads(server, path)
            found = await ask(proxy.url, "GET", f"{path}?resourceVersion=0")
            assert found.json["metadata"].get("name", "no") == path.rpartition("/")[2]
            assert reads(server, path) - before == count


async def test_managed_fields_are_kept_if_wanted(server: APIServer, client: Client) -> None:
    path = "/api/v1/namespaces/default/configmaps/settings"
    async with proxying(client, "configmaps", keep_managed_fields=True) as proxy:
        await client.create(config_map("settings"))
        version = server.resource_version
        found = await ask(proxy.url, "GET", f"{path}?resourceVersion={version}")
        assert found.json["metadata"]["managedFields"]
    async with proxying(client, "configmaps") as proxy:
        found = await ask(proxy.url, "GET", f"{path}?resourceVersion={version}")
        assert "managedFields" not in found.json["metadata"]


async def test_requests_before_the_first_list_is_complete_are_passed_on(server: APIServer, client: Client) -> None:
    server.faults.add(faults.status(503), verb="watch", resource="v1/pods")
    server.faults.add(faults.status(503), verb="list", resource="v1/pods", times=1)
    async with proxying(client, "v1/pods", synced=False) as proxy:
        listed = await ask(proxy.url, "GET", "/api/v1/namespaces/default/pods/web-1?resourceVersion=0")
        assert listed.json["metadata"]["name"] == "web-1"


async def test_a_unix_socket_is_for_its_user_and_is_removed_at_the_end(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    async with proxying(client, socket=path) as proxy:
        assert proxy.url == f"unix:{path}"
        assert path.stat().st_mode & 0o777 == 0o600
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
            session.get("http://any-name/api/v1/pods") as response,
        ):
            assert len((await response.json())["items"]) == 3
        with pytest.raises(OSError, match="cannot listen on"):
            async with proxying(client, socket=path):
                pass
        assert path.exists()
    assert not path.exists()


async def test_a_socket_that_no_process_listens_on_is_replaced(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    server = await asyncio.start_unix_server(lambda *_: None, path)
    server.close()
    await server.wait_closed()
    if not path.exists():
        pytest.skip("this Python removes the socket")
    async with proxying(client, socket=path):
        assert path.exists()


async def test_a_file_that_is_no_socket_is_kept(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"
    path.write_text("mine")
    with pytest.raises(OSError, match="cannot listen on"):
        async with proxying(client, socket=path):
            pass
    assert path.read_text() == "mine"


@pytest.mark.parametrize("address", [":8001", "0.0.0.0:8001", "[::]:8001", "example.com:8001"])
async def test_an_address_that_other_machines_reach_is_refused(client: Client, address: str) -> None:
    async with SharedInformerFactory(client) as factory:
        with pytest.raises(ConfigError, match="other machines"):
            Proxy(client, factory, ["v1/pods"], listen=address)


async def test_an_address_needs_a_port(client: Client) -> None:
    async with SharedInformerFactory(client) as factory:
        for address in ("", "127.0.0.1", "8001"):
            with pytest.raises(ConfigError, match="expected an address"):
                Proxy(client, factory, ["v1/pods"], listen=address)


async def test_it_listens_at_one_place(client: Client, tmp_path: Path) -> None:
    async with SharedInformerFactory(client) as factory:
        for options in ({}, {"listen": "127.0.0.1:0", "socket": tmp_path / "x"}):
            with pytest.raises(ConfigError, match="either listen= or socket="):
                Proxy(client, factory, ["v1/pods"], **options)


async def test_a_resource_that_does_not_exist_is_an_error(client: Client) -> None:
    with pytest.raises(ConfigError, match="no resource 'podz'"):
        async with proxying(client, "podz"):
            pass


async def test_the_reading_verbs_of_a_client_work_through_a_proxy(server: APIServer, proxy: Proxy) -> None:
    server.create(config_map("settings", data={"a": "b"}))
    async with Client.from_url(proxy.url) as through:
        assert (await through.get("v1/configmaps", "default/settings")).to_dict()["data"]["a"] == "b"
        assert [pod.name async for pod in through.list("v1/pods")] == ["web-1", "web-2", "web-3"]
        with pytest.raises(NotFoundError):
            await through.get("v1/pods", "default/no")
        with pytest.raises(APIError) as refused:
            await through.delete("v1/pods", "default/web-1")
    assert (refused.value.status, refused.value.reason) == (405, "MethodNotAllowed")


async def test_open_watches_end_in_order_when_the_proxy_stops(server: APIServer, client: Client) -> None:
    async with proxying(client, "v1/pods") as proxy:
        version = server.resource_version
        old = await watch(proxy.url, f"/api/v1/watch/configmaps?resourceVersion={version}")
        cached = await watch(proxy.url, f"/api/v1/pods?watch=1&resourceVersion={version}")
        passed = await watch(proxy.url, f"/api/v1/configmaps?watch=1&resourceVersion={version}")
        server.create(pod("web-4"))
        server.create(config_map("settings"))
        assert (await cached.event())[1]["metadata"]["name"] == "web-4"
        for passed_on in (passed, old):
            assert (await passed_on.event())[1]["metadata"]["name"] == "settings"
    for stream in (cached, passed, old):
        assert await stream.line() == b""
        assert stream.reply.clean
        await stream.close()
