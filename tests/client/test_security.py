"""The promises of docs/security.md: no secret in any text, no unverified TLS, no credential elsewhere, loopback only.

That snapshots are 0600 and hold no Secrets unless asked is in test_snapshot and test_snapshot_server; each way to
configure TLS, and the secrets of kubeconfigs and plugins that fail, in test_client and test_config.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import re
import ssl
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kinformer import (
    APIError,
    Backoff,
    Client,
    ForbiddenError,
    KinformerError,
    NotSyncedError,
    SharedInformerFactory,
    UnauthorizedError,
)
from kinformer.exceptions import ConnectError
from kinformer.testing import APIServer
from tests.support.certificates import server_side
from tests.support.http_server import HttpServer, hang, json_answer
from tests.support.kube import config_map
from tests.support.ports import reserved_port
from tests.support.sockets import listening
from tests.support.waiting import until

SECRET = "s3cr3t-t0ken-that-nobody-may-see"
IMPATIENT = Backoff(initial=0.01, maximum=0.02)
CONFIG_MAPS = "v1/configmaps"


def kubeconfig(folder: Path, server: str, user: dict[str, Any], **cluster: Any) -> Path:
    path = folder / f"config-{len(list(folder.glob('config-*')))}"
    document = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


# --- no secret in any text --------------------------------------------------------------------------------------------


class Everything:
    """All texts that a program could write down, of an informer that follows a server or fails to."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.kinds: set[str] = set()

    def add(self, *things: Any) -> None:
        for thing in things:
            self.texts += [repr(thing), str(thing)]

    def heard(self, error: BaseException) -> None:
        """An error with all that led to it, as a program logs it."""
        self.kinds.add(type(error).__name__)
        self.texts += traceback.format_exception(error)
        chain: BaseException | None = error
        while chain is not None:
            self.add(chain, chain.args)
            chain = chain.__cause__ or chain.__context__

    async def of(self, client: Client, folder: Path, *, synced: bool) -> None:
        """Follow config maps with every option that writes something; `synced`: wait for that, else for an error."""
        self.add(client)
        (folder / "snapshots").mkdir(exist_ok=True)
        async with client:
            options: dict[str, Any] = {"backoff": IMPATIENT, "on_error": lambda _, error: self.heard(error)}
            async with SharedInformerFactory(client, **options, snapshot=folder / "snapshots") as factory:
                informer = factory.for_resource(CONFIG_MAPS)
                if synced:
                    await factory.wait_for_cache_sync(timeout=10)
                else:
                    await until(lambda: self.kinds)
                    with pytest.raises(NotSyncedError) as caught:
                        await factory.wait_for_cache_sync(timeout=0.05)
                    self.heard(caught.value)
                    self.add(caught.value.unsynced)
                self.add(client, client.api_client, factory, informer, informer.lister, informer.indexer)
                self.add(informer.health(), informer.statistics(), factory.health(), factory.statistics())
                self.add(*asyncio.all_tasks())
                for method in ("GET", "POST"):
                    try:
                        self.add(await client.request(method, "/api/v1/namespaces/nowhere"))
                    except KinformerError as error:
                        self.heard(error)
        self.add(client)
        self.texts += snapshots_in(folder)


def snapshots_in(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in (folder / "snapshots").iterdir()]


def forms_of(secret: str) -> list[str]:
    """A secret as it is, and as a Basic header and a Secret's data have it."""
    basic = base64.b64encode(f"u:{secret}".encode()).decode()
    return [secret, basic, base64.b64encode(secret.encode()).decode()]


@asynccontextmanager
async def a_server_where(what: str, certificates: Path) -> AsyncIterator[str]:
    """The URL of a server where something fails, or nothing."""
    if what in ("it works", "the token is unknown", "nothing is allowed"):
        users = {"another" if what == "the token is unknown" else SECRET: "alice"}
        async with APIServer(users=users, rules=[("alice", "*", "*")] if what == "it works" else []) as server:
            server.create(config_map())
            yield server.url
    elif what == "nobody listens":
        with reserved_port() as port:
            yield f"http://127.0.0.1:{port}"
    elif what == "it speaks no TLS":
        async with HttpServer(hang) as plain:
            yield plain.url.replace("http:", "https:")
    elif what == "its certificate is unknown":
        async with HttpServer(hang, ssl_context=server_side(certificates)) as strange:
            yield strange.url
    else:
        async with HttpServer(ANSWERS[what]) as odd:
            yield odd.url


async def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def _redirect(request: web.Request) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "https://login.example/"})


async def _echo(request: web.Request) -> web.StreamResponse:
    """An answer that quotes how it was asked, as debugging proxies do, but for the credential."""
    return web.Response(status=502, text=f"<html>{request.method} {request.path_qs}", content_type="text/html")


async def _nonsense(request: web.Request) -> web.StreamResponse:
    return web.Response(text='{"items": [}', content_type="application/json")


ANSWERS = {"it hangs up": _cut, "it redirects": _redirect, "it quotes the request": _echo, "it babbles": _nonsense}
FAILURES = {
    "it works": set[str](),
    "the token is unknown": {"UnauthorizedError"},
    "nothing is allowed": {"ForbiddenError"},
    "nobody listens": {"ConnectError"},
    "it speaks no TLS": {"ConnectError"},
    "its certificate is unknown": {"ConnectError"},
    "it hangs up": {"ConnectError"},
    "it redirects": {"APIError"},
    "it quotes the request": {"ServerError"},
    "it babbles": {"DecodeError"},
}


@pytest.mark.parametrize("what", list(FAILURES))
async def test_a_token_is_in_no_log_repr_error_statistic_or_snapshot_when(
    what: str, certificates: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    everything = Everything()
    async with a_server_where(what, certificates) as url:
        await everything.of(Client.from_url(url, token=SECRET), tmp_path, synced=what == "it works")
    assert FAILURES[what] <= everything.kinds
    everything.texts += [repr(vars(record)) for record in caplog.records]
    everything.texts.append(caplog.text)
    assert caplog.records
    assert bool(snapshots_in(tmp_path)) is (what == "it works")
    found = [text for text in everything.texts for form in forms_of(SECRET) if form in text]
    assert found == []


@pytest.mark.parametrize("user", ["token", "password", "key"])
async def test_what_a_kubeconfig_holds_is_in_no_log_repr_or_error(
    user: str, certificates: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = (certificates / "local.key").read_bytes()
    users: dict[str, dict[str, Any]] = {
        "token": {"token": SECRET},
        "password": {"username": "u", "password": SECRET},
        "key": {
            "client-certificate-data": base64.b64encode((certificates / "local.crt").read_bytes()).decode(),
            "client-key-data": base64.b64encode(key).decode(),
        },
    }
    everything = Everything()
    async with HttpServer(_echo, ssl_context=server_side(certificates)) as server:
        cluster = {"certificate-authority": str(certificates / "local.crt")}
        config = kubeconfig(tmp_path, server.url, users[user], **cluster)
        await everything.of(Client.from_kubeconfig(config), tmp_path, synced=False)
        await everything.of(
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, users[user])), tmp_path, synced=False
        )
    assert {"ServerError", "ConnectError"} <= everything.kinds
    everything.texts += [repr(vars(record)) for record in caplog.records]
    body = key.decode().splitlines()[1]
    secrets = [*forms_of(SECRET), body, base64.b64encode(key).decode()]
    assert [text for text in everything.texts for secret in secrets if secret in text] == []


# --- TLS --------------------------------------------------------------------------------------------------------------


async def test_without_a_word_nothing_is_sent_to_a_server_whose_certificate_is_unknown(
    certificates: Path, tmp_path: Path
) -> None:
    from aiohttp import ClientConnectorCertificateError
    from kubernetes_asyncio.client import CoreV1Api

    async with HttpServer(hang, ssl_context=server_side(certificates)) as server:
        for client in (
            Client.from_url(server.url, token=SECRET),
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {"token": SECRET})),
        ):
            async with client, SharedInformerFactory(client, backoff=IMPATIENT) as factory:
                factory.for_resource(CONFIG_MAPS)
                with pytest.raises(NotSyncedError, match="certificate verify failed"):
                    await factory.wait_for_cache_sync(timeout=2)
                with pytest.raises(ConnectError, match="certificate verify failed"):
                    await client.request("DELETE", "/x")
                with pytest.raises(ClientConnectorCertificateError):
                    await CoreV1Api(client.api_client).list_namespace()
        assert server.requests == []


async def test_verification_is_off_only_where_the_user_says_so(certificates: Path, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return json_answer({"fine": True})

    async with HttpServer(answer, ssl_context=server_side(certificates)) as server:
        skip = {"insecure-skip-tls-verify": True}
        authority = {"certificate-authority": str(certificates / "local.crt")}
        context = ssl.create_default_context(cafile=certificates / "local.crt")
        for client in (
            Client.from_url(server.url, ssl=False),
            Client.from_url(server.url, ssl=context),
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **skip)),
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **authority)),
        ):
            async with client:
                assert await client.request("GET", "/x") == {"fine": True}


async def test_a_session_is_resumed_at_the_same_server_and_another_in_its_place_is_verified(
    certificates: Path, tmp_path: Path
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        response = json_answer({"resumed": request.transport.get_extra_info("ssl_object").session_reused})
        if request.path == "/last":
            response.force_close()
        return response

    authority = {"certificate-authority": str(certificates / "local.crt")}
    with reserved_port() as port:
        path = kubeconfig(tmp_path, f"https://127.0.0.1:{port}", {}, **authority)
        async with Client.from_kubeconfig(path) as client:
            async with HttpServer(answer, port=port, ssl_context=server_side(certificates)):
                assert await client.request("GET", "/first") == {"resumed": False}
                assert await client.request("GET", "/last") == {"resumed": False}
                assert await client.request("GET", "/last") == {"resumed": True}
            async with HttpServer(answer, port=port, ssl_context=server_side(certificates, "server")) as other:
                with pytest.raises(ConnectError, match="certificate verify failed"):
                    await client.request("GET", "/first", retries=0)
                assert other.requests == []


# --- redirects --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_another_host_is_followed_by_nobody_and_carries_nothing(status: int) -> None:
    from aiohttp import ClientError
    from kubernetes_asyncio.client import ApiException, CoreV1Api

    async def gather(request: web.Request) -> web.StreamResponse:
        return json_answer({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {}, "items": []})

    async with HttpServer(gather) as elsewhere:

        async def send_away(request: web.Request) -> web.StreamResponse:
            return web.Response(status=status, headers={"Location": f"{elsewhere.url}{request.path}"})

        async with HttpServer(send_away) as server, Client.from_url(server.url, token=SECRET) as client:
            async with SharedInformerFactory(client, backoff=IMPATIENT) as factory:
                factory.for_resource(CONFIG_MAPS)
                with pytest.raises(NotSyncedError, match=f"{elsewhere.port}"):
                    await factory.wait_for_cache_sync(timeout=2)
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                with pytest.raises(APIError, match=f"{elsewhere.port}"):
                    await client.request(method, "/api/v1/namespaces", body={} if method != "GET" else None)
            with pytest.raises((ClientError, ApiException)):
                await CoreV1Api(client.api_client).list_namespace()
            with pytest.raises((ClientError, ApiException)):
                await CoreV1Api(client.api_client).create_namespace({})
        assert server.requests
        assert elsewhere.requests == []


# --- what listens -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the sockets as Linux shows them")
async def test_the_embedded_server_listens_on_loopback_alone_unless_told() -> None:
    before = listening()
    async with APIServer() as server:
        assert listening() - before == {("127.0.0.1", int(server.url.rpartition(":")[2]))}
    assert listening() == before
    async with APIServer(host="0.0.0.0"):
        assert {address for address, _ in listening() - before} == {"0.0.0.0"}


# --- the rights that an informer needs --------------------------------------------------------------------------------


def manifests() -> Iterator[dict[str, Any]]:
    """What docs/security.md gives to apply."""
    text = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        yield from yaml.safe_load_all(block)


def rules_for(user: str) -> list[tuple[str, str, str]]:
    """The roles of the documentation as rules of the embedded server, which knows no names and no namespaces."""
    return [
        (user, verb, f"{group}/v1/{resource}".lstrip("/"))
        for manifest in manifests()
        if manifest["kind"] in ("Role", "ClusterRole")
        for rule in manifest["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


async def test_the_documented_rights_are_all_that_a_read_only_informer_asks_for(tmp_path: Path) -> None:
    """Whatever it does: stream, list, resume, verify the tip, read a snapshot back, wait for a version."""
    async with APIServer(users={SECRET: "reader"}, rules=rules_for("reader")) as server:
        for number in range(3):
            server.create(config_map(f"m{number}"))
        for _ in range(2):  # the second start goes on from the snapshot
            async with server.client("reader") as client:
                await everything_that_reads(server, client, tmp_path)
        refused = [request for request in server.requests if request.status in (401, 403)]
        asked = {(request.user, request.method) for request in server.requests}
    assert refused == []
    assert asked == {("reader", "GET")}


async def everything_that_reads(server: APIServer, client: Client, folder: Path) -> None:
    async with SharedInformerFactory(client, backoff=IMPATIENT) as factory:
        followed = factory.for_resource(CONFIG_MAPS, snapshot=folder / "snapshot")
        one = factory.for_resource(CONFIG_MAPS, namespace="default", metadata_only=True)
        paged = factory.for_resource(CONFIG_MAPS, label_selector="!no", watch_list=False, page_size=2)
        factory.for_resource("apps/v1/deployments")
        await factory.wait_for_cache_sync(timeout=10)
        await server.compact()
        await server.restart()
        made = server.update(config_map("m0", data={"n": str(len(server.requests))}))
        for informer in (followed, one, paged):
            await informer.wait_for_resource_version(made["metadata"]["resourceVersion"], timeout=20)
        await until(lambda: all(informer.health().live for informer in factory.informers))


async def test_without_the_right_to_watch_nothing_is_green() -> None:
    """The test above could not fail if the server did not look."""
    rules = [rule for rule in rules_for("reader") if rule[1] != "watch"]
    async with APIServer(users={SECRET: "reader"}, rules=rules) as server, server.client("reader") as client:
        async with SharedInformerFactory(client, backoff=IMPATIENT) as factory:
            informer = factory.for_resource(CONFIG_MAPS)
            await until(lambda: informer.health().state == "forbidden")
            assert isinstance(informer.health().last_error, ForbiddenError)
            assert not informer.health().live
        async with Client.from_url(server.url, token="made up") as stranger:
            with pytest.raises(UnauthorizedError):
                await stranger.request("GET", "/api/v1/configmaps")
