"""Tokens that are revoked and replaced while a server runs."""

from __future__ import annotations

import pytest

from kinformer import Client, UnauthorizedError
from kinformer.exceptions import ConfigError
from kinformer.testing import APIServer
from tests.support.apiserver_http import ask, send, watch
from tests.support.kube import config_map

PODS, MAPS = "/api/v1/pods", "/api/v1/configmaps"


def bearer(token: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def status(server: APIServer, token: str | None) -> int:
    return (await ask(server.url, "GET", PODS, headers=bearer(token))).status


async def test_a_revoked_token_is_refused_and_the_others_are_not() -> None:
    async with APIServer(users=["ann", "bob"]) as server, server.client("ann") as client:
        await client.get("v1/namespaces", "default")
        token = server.token("ann")
        assert token is not None
        server.revoke(token)
        server.revoke(token)
        assert await status(server, token) == 401
        assert [await status(server, other) for other in (server.token("bob"), server.token())] == [200, 200]
        with pytest.raises(UnauthorizedError):
            await client.get("v1/namespaces", "default")
        async with server.client("ann") as another:
            with pytest.raises(UnauthorizedError):
                await another.get("v1/namespaces", "default")
        with pytest.raises(ConfigError, match="no user of this server has it"):
            server.revoke("unknown")


async def test_an_open_watch_outlives_its_token() -> None:
    async with APIServer(users=["ann"]) as server:
        token = server.token("ann")
        assert token is not None
        stream = await watch(server.url, f"{MAPS}?watch=1", headers=bearer(token))
        server.revoke(token)
        server.create(config_map("a"))
        assert (await stream.event())[1]["metadata"]["name"] == "a"
        await stream.close()
        assert (await ask(server.url, "GET", f"{MAPS}?watch=1", headers=bearer(token))).status == 401


async def test_a_new_token_takes_the_place_of_all_earlier_ones() -> None:
    async with APIServer(users={"t1": "ann", "t2": "ann", "t3": "bob"}) as server:
        assert server.set_token("ann", "t4") == server.token("ann") == "t4"
        assert [await status(server, token) for token in ("t1", "t2", "t3", "t4")] == [401, 401, 200, 200]
        made = server.set_token("ann")
        assert made not in ("t1", "t2", "t3", "t4")
        assert [await status(server, token) for token in ("t4", made)] == [401, 200]
        server.revoke(made)
        server.set_token("ann", made)
        assert await status(server, made) == 200
        with pytest.raises(ConfigError, match="known: ann, bob"):
            server.set_token("eve", "t9")
        with pytest.raises(ConfigError, match="belongs to 'bob'"):
            server.set_token("ann", "t3")


@pytest.mark.parametrize("options", [{"users": ["ann"]}, {"rbac": True}])
async def test_the_token_with_all_rights_is_replaced_too(options: dict) -> None:
    async with APIServer(**options) as server:
        old = server.token()
        new = server.set_token()
        assert (server.token(), await status(server, old), await status(server, new)) == (new, 401, 200)


async def test_a_server_that_checks_no_tokens_says_so() -> None:
    async with APIServer() as server:
        with pytest.raises(ConfigError, match="tokens are not checked"):
            server.set_token(None, "t")
        with pytest.raises(ConfigError, match="no user of this server has it"):
            server.revoke("t")


async def test_the_token_of_a_service_account_can_be_revoked() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": "default"}}
    async with APIServer() as server:
        server.create(account)
        path = "/api/v1/namespaces/default/serviceaccounts/app/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await send(server, "POST", path, body)).json["status"]["token"]
        assert await status(server, token) == 200
        server.revoke(token)
        assert await status(server, token) == 401
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await send(server, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
        assert not answer.json["status"].get("authenticated")


async def test_a_client_goes_on_with_the_new_token_of_its_kubeconfig(tmp_path) -> None:
    async with APIServer(users=["ann"], tls=True) as server:
        file = server.kubeconfig(tmp_path / "config", "ann")
        async with Client.from_kubeconfig(file) as client:
            await client.get("v1/namespaces", "default")
            server.set_token("ann")
            with pytest.raises(UnauthorizedError):
                await client.get("v1/namespaces", "default")
        server.kubeconfig(file, "ann")
        async with Client.from_kubeconfig(file) as client:
            await client.get("v1/namespaces", "default")
