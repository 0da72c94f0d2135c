"""A proxy that authenticates answers each caller by its own rights, and passes on its own credentials."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, ConfigError, ConnectError, ForbiddenError, SharedInformerFactory
from kinformer.testing import APIServer, faults
from kinformer.watchcache import Proxy
from tests.support.apiserver_http import Reply, ask, watch
from tests.support.kube import config_map, pod
from tests.support.waiting import until
from tests.watchcache.proxy.conftest import proxying

READ = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
REVIEWS = ("tokenreviews", "subjectaccessreviews")


class Scene:
    """A server with RBAC, a proxy before it, and users: ann may read pods of team-a, bob may read nothing."""

    def __init__(self, server: APIServer, proxy: Proxy, trusted: ssl.SSLContext, folder: Path) -> None:
        self.server, self.proxy, self.trusted, self.folder = server, proxy, trusted, folder

    def reviews(self) -> int:
        return sum(one.path.endswith(REVIEWS) for one in self.server.requests)

    def reads(self) -> int:
        return sum("/pods" in one.path and one.params.get("limit") != "1" for one in self.server.requests)

    async def ask(self, user: str | None, path: str, method: str = "GET", **headers: str) -> Reply:
        if user is not None:
            headers["Authorization"] = f"Bearer {self.server.token(user)}"
        return await ask(self.proxy.url, method, path, headers=headers, ssl=self.trusted)

    def client(self, user: str | None = None, *, cert: tuple[bytes, bytes] | None = None) -> Client:
        """A client of the proxy with the token of a user, or with a client certificate."""
        credentials: dict[str, Any] = {} if user is None else {"token": self.server.token(user)}
        if cert is not None:
            for name, data in zip(("client-certificate", "client-key"), cert, strict=True):
                file = self.folder / name
                file.write_bytes(data)
                credentials[name] = str(file)
        authority = str(self.folder / "local.crt")
        return Client.from_kubeconfig(
            {
                "clusters": [{"name": "c", "cluster": {"server": self.proxy.url, "certificate-authority": authority}}],
                "users": [{"name": "u", "user": credentials}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )


def grant(server: APIServer, user: str, namespace: str, rule: dict[str, Any] = READ) -> None:
    group = "rbac.authorization.k8s.io"
    metadata = {"name": user, "namespace": namespace}
    server.create({"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]})
    server.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
            "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        }
    )


@asynccontextmanager
async def authenticating(certificates: Path, folder: Path, *resources: str, **options: Any) -> AsyncIterator[Scene]:
    for name in ("local.crt", "local.key"):
        (folder / name).write_bytes((certificates / name).read_bytes())
    async with APIServer(users=["ann", "bob"], rbac=True, tls=True) as server:
        for namespace in ("team-a", "team-b"):
            server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            server.create(pod("web-1", namespace=namespace))
        grant(server, "ann", "team-a")
        assert server.ca_file is not None
        async with (
            Client.from_kubeconfig(server.kubeconfig(folder / "kubeconfig")) as client,
            proxying(
                client,
                *(resources or ("v1/pods",)),
                authenticate=True,
                tls_cert=folder / "local.crt",
                tls_key=folder / "local.key",
                client_ca=server.ca_file,
                **options,
            ) as proxy,
        ):
            yield Scene(server, proxy, ssl.create_default_context(cafile=folder / "local.crt"), folder)


@pytest.fixture
async def scene(certificates: Path, tmp_path: Path) -> AsyncIterator[Scene]:
    async with authenticating(certificates, tmp_path) as running:
        yield running


async def test_a_caller_reads_what_it_may_from_the_cache(scene: Scene) -> None:
    before = scene.reads()
    listed = await scene.ask("ann", "/api/v1/namespaces/team-a/pods?resourceVersion=0")
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["web-1"]
    found = await scene.ask("ann", "/api/v1/namespaces/team-a/pods/web-1?resourceVersion=0")
    assert found.json["metadata"]["name"] == "web-1"
    assert scene.reads() == before


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods",
        "/api/v1/pods?watch=1",
        "/api/v1/pods?fieldSelector=metadata.namespace%3Dteam-a",
        "/api/v1/namespaces/team-b/pods",
        "/api/v1/namespaces/team-b/pods?watch=true&resourceVersion=0",
        "/api/v1/namespaces/team-b/pods?labelSelector=app%3Dweb",
        "/api/v1/namespaces/team-b/pods/web-1",
        "/api/v1/namespaces/team-b/pods?fieldSelector=metadata.name%3Dweb-1",
        "/api/v1/namespaces/team-b/pods/web-1?watch=1",
    ],
)
async def test_a_refusal_is_the_one_of_the_server(scene: Scene, path: str) -> None:
    headers = {"Authorization": f"Bearer {scene.server.token('ann')}"}
    trusted = ssl.create_default_context(cafile=scene.server.ca_file)
    own = await ask(scene.server.url, "GET", path, headers=headers, ssl=trusted)
    at_proxy = await scene.ask("ann", path)
    assert at_proxy.status == 403
    assert (at_proxy.status, at_proxy.json) == (own.status, own.json)


async def test_a_request_without_valid_credentials_is_a_401(scene: Scene) -> None:
    for path in ("/api/v1/namespaces/team-a/pods", "/api/v1/configmaps", "/version"):
        assert (await scene.ask(None, path)).json["reason"] == "Unauthorized"
        for word in ("Bearer wrong", "Bearer", "Basic YTpi", "bearer "):
            assert (await scene.ask(None, path, Authorization=word)).status == 401, word


async def test_answers_are_remembered_by_identity(scene: Scene) -> None:
    path = "/api/v1/namespaces/team-a/pods?resourceVersion=0"
    before = scene.reviews()
    replies = await asyncio.gather(*[scene.ask("ann", path) for _ in range(20)])
    assert {reply.status for reply in replies} == {200}
    assert scene.reviews() - before == 2
    assert (await scene.ask("bob", path)).status == 403
    assert scene.reviews() - before == 4


async def test_what_is_passed_on_has_the_credentials_of_the_caller(scene: Scene) -> None:
    scene.server.create(config_map("settings", namespace="team-a"))
    refused = await scene.ask("ann", "/api/v1/namespaces/team-a/configmaps")
    assert (refused.status, refused.json["details"]["kind"]) == (403, "configmaps")
    assert 'User "ann"' in refused.json["message"]
    scene.server.delete("rbac.authorization.k8s.io/v1/rolebindings", "team-a", "ann")
    scene.server.delete("rbac.authorization.k8s.io/v1/roles", "team-a", "ann")
    grant(scene.server, "ann", "team-a", {**READ, "resources": ["configmaps"]})
    assert len((await scene.ask("ann", "/api/v1/namespaces/team-a/configmaps")).json["items"]) == 1


async def test_a_caller_does_not_impersonate_by_the_rights_of_the_proxy(scene: Scene) -> None:
    before = scene.reads()
    await scene.ask("ann", "/api/v1/namespaces/team-a/pods?resourceVersion=0", **{"Impersonate-User": "bob"})
    assert scene.reads() == before + 1  # the server decides


async def test_an_informer_follows_through_the_proxy_with_its_own_token(scene: Scene) -> None:
    async with scene.client("ann") as client, SharedInformerFactory(client, namespace="team-a") as factory:
        pods = factory.for_resource("v1/pods")
        await pods.wait_synced()
        before = scene.reads()
        scene.server.create(pod("web-2", namespace="team-a"))
        await until(lambda: len(pods.by_key) == 2)
        assert scene.reads() == before


async def test_a_client_certificate_reads_from_the_cache_and_is_not_passed_on(scene: Scene) -> None:
    cert = scene.server.client_certificate("ann")
    async with scene.client(cert=cert) as client:
        found = await client.get("v1/pods", "team-a/web-1")
        assert found.name == "web-1"
        with pytest.raises(ForbiddenError, match='User "ann" cannot get resource "pods"'):
            await client.get("v1/pods", "team-b/web-1")
        with pytest.raises(ForbiddenError, match="use a token"):
            await client.get("v1/configmaps", "team-a/settings")


async def test_the_groups_of_a_certificate_count(scene: Scene) -> None:
    async with scene.client(cert=scene.server.client_certificate("root", ["system:masters"])) as client:
        listed = await client.request("GET", "/api/v1/pods", params={"resourceVersion": "0"})
        assert isinstance(listed, dict)
        assert len(listed["items"]) == 2


async def test_a_certificate_of_another_authority_is_refused(scene: Scene, certificates: Path) -> None:
    pair = tuple((certificates / f"client.{kind}").read_bytes() for kind in ("crt", "key"))
    async with scene.client(cert=(pair[0], pair[1])) as client:
        with pytest.raises(ConnectError):
            await client.request("GET", "/api/v1/namespaces/team-a/pods/web-1", retries=0)


async def test_a_token_counts_more_than_a_certificate(scene: Scene) -> None:
    async with scene.client("bob", cert=scene.server.client_certificate("ann")) as client:
        with pytest.raises(ForbiddenError, match='User "bob"'):
            await client.get("v1/pods", "team-a/web-1")


@pytest.mark.virtual_time
async def test_a_watch_ends_when_its_right_is_gone(certificates: Path, tmp_path: Path) -> None:
    async with authenticating(certificates, tmp_path, recheck=5.0) as scene:
        headers = {"Authorization": f"Bearer {scene.server.token('ann')}"}
        path = "/api/v1/namespaces/team-a/pods?watch=1&resourceVersion=0"
        exchange = await watch(scene.proxy.url, path, headers=headers, ssl=scene.trusted)
        assert (await exchange.event())[0] == "ADDED"
        scene.server.delete("rbac.authorization.k8s.io/v1/rolebindings", "team-a", "ann")
        assert await asyncio.wait_for(exchange.line(), 60) == b""
        assert exchange.reply.clean
        await exchange.close()
        again = await scene.ask("ann", path)
        assert again.json["reason"] == "Forbidden"


@pytest.mark.virtual_time
async def test_a_replaced_certificate_is_served_to_new_connections(certificates: Path, tmp_path: Path) -> None:
    async with authenticating(certificates, tmp_path) as scene:

        async def name() -> str:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            _, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port, ssl=context)
            shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            writer.close()
            await writer.wait_closed()
            return ssl.DER_cert_to_PEM_cert(shown)

        before = await name()
        for kind in ("crt", "key"):
            (tmp_path / f"local.{kind}").write_bytes((certificates / f"server.{kind}").read_bytes())
        await asyncio.sleep(31)
        assert await name() != before
        (tmp_path / "local.key").write_text("broken")
        await asyncio.sleep(31)
        assert await name() != before


async def test_a_server_that_answers_no_reviews_is_a_503(scene: Scene) -> None:
    scene.server.faults.add(faults.status(500), verb="create")
    reply = await scene.ask("bob", "/api/v1/namespaces/team-a/pods?resourceVersion=0")
    assert (reply.status, reply.json["reason"]) == (503, "ServiceUnavailable")


async def test_a_client_with_a_context_of_its_own_cannot_pass_on_credentials(
    certificates: Path, tmp_path: Path
) -> None:
    async with APIServer(tls=True) as server, server.client() as client:
        with pytest.raises(ConfigError, match="SSLContext"):
            async with proxying(
                client,
                authenticate=True,
                tls_cert=certificates / "local.crt",
                tls_key=certificates / "local.key",
            ):
                pass


async def test_authenticating_needs_tls_and_tls_a_certificate(client: Client, tmp_path: Path) -> None:
    async with SharedInformerFactory(client) as factory:
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"authenticate": True}, "needs TLS"),
            ({"tls_cert": tmp_path / "x"}, "certificate and its key"),
            ({"tls_cert": tmp_path / "x", "tls_key": tmp_path / "y"}, "not encrypted"),
            ({"client_ca": tmp_path / "x"}, "need TLS"),
            ({"recheck": 0.0}, "invalid recheck"),
            ({"socket": tmp_path / "x"}, "either listen= or socket="),
        ]
        for options, message in wrong:
            with pytest.raises(ConfigError, match=message):
                Proxy(client, factory, ["v1/pods"], listen="127.0.0.1:0", **options)
