"""TLS: the server's own certificate, the tokens that clients send over it, and the certificates of clients."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, ConnectError, ForbiddenError, UnauthorizedError
from kinformer.testing import APIServer

REVIEW = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}


async def who_am_i(client: Client) -> dict[str, Any]:
    answer = await client.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=REVIEW)
    found: dict[str, Any] = answer["status"]["userInfo"]
    return found


def with_certificate(server: APIServer, folder: Path, user: str, *groups: str) -> Client:
    file = folder / f"{user}.pem"
    file.write_bytes(b"".join(server.client_certificate(user, groups)))
    context = ssl.create_default_context(cafile=server.ca_file)
    context.load_cert_chain(file)
    return Client.from_url(server.url, ssl=context)


async def test_a_client_trusts_the_server_by_its_authority_alone() -> None:
    async with APIServer(tls=True) as server:
        assert server.url.startswith("https://127.0.0.1:")
        async with server.client() as client:
            assert (await client.request("GET", "/api/v1/pods"))["items"] == []
        async with Client.from_url(server.url) as stranger:
            with pytest.raises(ConnectError, match="certificate"):
                await stranger.request("GET", "/api/v1/pods")


async def test_a_watch_goes_on_over_tls_and_a_restart_keeps_the_certificate() -> None:
    pod = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    async with APIServer(tls=True) as server, server.client() as client:
        context = ssl.create_default_context(cafile=server.ca_file)
        await server.restart()
        server.create(pod)
        assert (await client.request("GET", "/api/v1/namespaces/default/configmaps/a"))["metadata"]["name"] == "a"
        async with Client.from_url(server.url, ssl=context) as other:
            assert (await other.request("GET", "/version"))["gitVersion"]


async def test_a_kubeconfig_has_the_authority_and_a_token(tmp_path: Path) -> None:
    async with APIServer(tls=True, users=["alice"]) as server:
        for user, name in ((None, "kubernetes-admin"), ("alice", "alice")):
            file = await asyncio.to_thread(server.kubeconfig, tmp_path / name, user)
            async with Client.from_kubeconfig(file) as client:
                assert (await who_am_i(client))["username"] == name


async def test_clients_say_who_they_are_even_if_all_is_allowed() -> None:
    async with APIServer(tls=True) as server, server.client() as client:
        assert (await who_am_i(client))["groups"] == ["system:masters", "system:authenticated"]
        async with Client.from_url(server.url, token="made up", ssl=server_context(server)) as stranger:
            assert (await who_am_i(stranger))["username"] == "system:anonymous"


def server_context(server: APIServer) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=server.ca_file)


async def test_a_client_certificate_names_the_user_and_the_groups(tmp_path: Path) -> None:
    async with APIServer(tls=True, rules=[("carl", "list", "v1/pods")]) as server:
        async with with_certificate(server, tmp_path, "carl", "dev", "ops") as carl:
            info = await who_am_i(carl)
            assert (info["username"], info["groups"]) == ("carl", ["dev", "ops", "system:authenticated"])
            assert (await carl.request("GET", "/api/v1/pods"))["items"] == []
            with pytest.raises(ForbiddenError, match='User "carl" cannot list resource "secrets"'):
                await carl.request("GET", "/api/v1/secrets")
        async with with_certificate(server, tmp_path, "root", "system:masters") as root:
            assert (await root.request("GET", "/api/v1/secrets"))["items"] == []
        async with Client.from_url(server.url, token="made up", ssl=server_context(server)) as stranger:
            with pytest.raises(UnauthorizedError):
                await stranger.request("GET", "/api/v1/pods")


@pytest.mark.slow
async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async with APIServer(tls=True) as server, APIServer(tls=True) as other:
        file = tmp_path / "carl.pem"
        await asyncio.to_thread(file.write_bytes, b"".join(other.client_certificate("carl")))
        context = server_context(server)
        context.load_cert_chain(file)
        async with Client.from_url(server.url, ssl=context) as client:
            with pytest.raises(ConnectError):
                await client.request("GET", "/api/v1/pods")


async def test_the_files_go_when_the_server_is_left() -> None:
    async with APIServer(tls=True) as server:
        file = server.ca_file
        assert file is not None
        assert await asyncio.to_thread(file.exists)
    assert not await asyncio.to_thread(file.exists)
    with pytest.raises(RuntimeError, match="tls=True"):
        server.client_certificate("carl")


async def test_no_certificate_is_given_without_tls() -> None:
    async with APIServer() as server:
        assert server.ca_file is None
        with pytest.raises(RuntimeError, match="tls=True"):
            server.client_certificate("carl")
