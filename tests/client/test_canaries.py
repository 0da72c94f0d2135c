"""Canary values in every place of a configuration that may hold a credential, searched for in all that is written.

`tests/cli/test_dashboard_secrets.py` does the same for the values of Secrets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from kinformer import Backoff, Client, KinformerError, SharedInformerFactory
from kinformer.cli.dashboard import cluster_app
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.testing import APIServer
from tests.client.test_client import kubeconfig, plugin
from tests.support.cli import CommandLine
from tests.support.http_server import HttpServer
from tests.support.kube import config_map
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import until
from tests.support.web_server import serving

CANARY = "c4n4ry-of-a-credential"
BACKOFF = Backoff(initial=0.01, maximum=0.05)
CONFIG_MAPS = "v1/configmaps"

PRINTS = f"""
    import json, os, sys
    print("+ TOKEN={CANARY}", "\\n+ printf %s {CANARY}", file=sys.stderr)
    print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                       "status": {{"token": "{CANARY}", "expirationTimestamp": "2020-01-01T00:00:00Z"}}}}))
    sys.exit(STATUS)
"""


def key_with_canary(certificates: Path) -> str:
    """A key that cannot be loaded, because the canary is in it."""
    key = (certificates / "local.key").read_text()
    return base64.b64encode(key.replace("\n", f"\n{CANARY}\n", 1).encode()).decode()


def configurations(folder: Path, url: str, certificates: Path) -> dict[str, Any]:
    """Kubeconfigs as mappings, by the place of the canary."""
    cert = base64.b64encode((certificates / "local.crt").read_bytes()).decode()
    (folder / "token").write_text(CANARY)
    (folder / "two-lines").write_text(f"{CANARY}\n{CANARY}\n")
    (folder / "another").mkdir()
    argument: Any = plugin(folder, "import sys; sys.exit(1)")
    argument["exec"]["args"] += [f"--client-secret={CANARY}"]
    argument["exec"]["env"] = [{"name": "CLIENT_SECRET", "value": CANARY}]
    users: dict[str, Any] = {
        "token": {"token": CANARY},
        "token of two lines": {"token": f"{CANARY}\n{CANARY}"},
        "password": {"username": "u", "password": CANARY},
        "user name": {"username": CANARY, "password": CANARY},
        "token file": {"tokenFile": str(folder / "token")},
        "token file of two lines": {"tokenFile": str(folder / "two-lines")},
        "token for its file": {"tokenFile": CANARY},
        "client key": {"client-certificate-data": cert, "client-key-data": key_with_canary(certificates)},
        "client key for its file": {"client-certificate-data": cert, "client-key": CANARY},
        "client key not in base64": {"client-certificate-data": cert, "client-key-data": f"{CANARY}!"},
        "plugin's arguments": argument,
        "plugin's output": plugin(folder / "another", f"print('{CANARY}')"),
        "exec of a wrong type": {"exec": CANARY},
        "auth-provider": {
            "auth-provider": {
                "name": "oidc",
                "config": {"id-token": CANARY, "client-secret": CANARY, "refresh-token": CANARY},
            }
        },
    }
    clusters: dict[str, Any] = {
        "query": {"server": f"{url}/?access_token={CANARY}"},
        "port": {"server": f"http://127.0.0.1:{CANARY}"},
        "user of the URL": {"server": url.replace("://", f"://{CANARY}@")},
        "proxy": {"server": "http://kubernetes.example", "proxy-url": f"http://user:{CANARY}@127.0.0.1:1"},
        "port of the proxy": {"server": "http://kubernetes.example", "proxy-url": f"http://127.0.0.1:{CANARY}"},
    }
    found = {name: {"user": user, "cluster": {"server": url}} for name, user in users.items()}
    return found | {name: {"user": {}, "cluster": cluster} for name, cluster in clusters.items()}


def mapping(user: dict[str, Any], cluster: dict[str, Any]) -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }


PLACES = [
    "token",
    "token of two lines",
    "password",
    "user name",
    "token file",
    "token file of two lines",
    "token for its file",
    "client key",
    "client key for its file",
    "client key not in base64",
    "plugin's arguments",
    "plugin's output",
    "exec of a wrong type",
    "auth-provider",
    "query",
    "port",
    "user of the URL",
    "proxy",
    "port of the proxy",
]


class Written:
    """All texts that a program could write down."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, *things: object) -> None:
        for thing in things:
            self.texts += [repr(thing), str(thing)]

    def error(self, error: BaseException) -> None:
        self.texts += traceback.format_exception(error)
        chain: BaseException | None = error
        while chain is not None:
            self.add(chain, chain.args)
            chain = chain.__cause__ or chain.__context__

    def found(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        everything = [*self.texts, caplog.text, *(repr(vars(record)) for record in caplog.records)]
        encoded = base64.b64encode(CANARY.encode()).decode()
        basic = [base64.b64encode(f"{user}:{CANARY}".encode()).decode() for user in ("u", CANARY)]
        return [text[-2000:] for text in everything for form in (CANARY, encoded, *basic) if form in text]


async def follow(client: Client, written: Written, folder: Path) -> None:
    """Enter a client and follow something, and write down all about it, whether it works or not."""
    metrics = MemoryMetrics()
    written.add(client)
    try:
        written.add(await client.connection_info())
        async with client:
            options: dict[str, Any] = {"backoff": BACKOFF, "on_error": lambda _, error: written.error(error)}
            async with SharedInformerFactory(client, metrics=metrics, snapshot=folder, **options) as factory:
                informer = factory.for_resource(CONFIG_MAPS)
                await until(lambda: informer.has_synced or informer.health().last_error is not None)
                written.add(client, client.server, client.statistics(), await client.connection_info())
                written.add(factory, informer, informer.health(), factory.statistics(), vars(metrics))
                written.add(*asyncio.all_tasks())
                await client.request("GET", "/api/v1/namespaces/nowhere")
    except KinformerError as error:
        written.error(error)
    written.add(client)


@pytest.mark.process
@pytest.mark.parametrize("answers", ["as a server", "not at all"])
@pytest.mark.parametrize("place", PLACES)
async def test_no_credential_is_in_any_text(
    place: str,
    answers: str,
    certificates: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    written = Written()
    async with APIServer(users={CANARY: "alice"}, rules=[("alice", "list", CONFIG_MAPS)]) as server:
        server.create(config_map())
        url = server.url if answers == "as a server" else "http://127.0.0.1:1"
        found = configurations(tmp_path, url, certificates)
        assert list(found) == PLACES
        document = mapping(**found[place])
        await follow(Client.from_kubeconfig(document), written, tmp_path / "snapshots")
        path = tmp_path / "config"
        path.write_text(json.dumps(document))
        for command in (("doctor", "cm", "-o", "json"), ("watch", "cm", "--once"), ("stats", "cm", "--once")):
            ended = await CommandLine(capsys)(*command, "--kubeconfig", str(path))
            written.add(*ended)
    assert written.found(caplog) == []


@pytest.mark.parametrize("url", ["/?token={}", ":{}", "://u:{}@h", "://u:{}/x@h", "://[{}", "#{}"])
async def test_no_credential_in_a_url_is_on_the_command_line(
    url: str, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    written = Written()
    given = url.format(CANARY)
    given = f"http{given}" if given.startswith("://") else f"http://127.0.0.1{given}"
    for command in (
        ("watch", "cm", "--once", "--server", given),
        ("doctor", "--server", given),
        ("stats", given, "--once"),
        ("stats", f"{given}/statusz?token={CANARY}", "--once"),
    ):
        ended = await CommandLine(capsys)(*command)
        assert ended.status != 0
        written.add(*ended)
    assert written.found(caplog) == []


async def test_no_credential_in_the_url_of_a_program_is_in_its_figures(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def odd(_: web.Request) -> web.Response:
        return web.Response(text="{}")

    async with HttpServer(odd) as program:
        ended = await CommandLine(capsys)("stats", f"{program.url}/statusz?token={CANARY}", "--once")
    written = Written()
    written.add(*ended)
    assert "/statusz does not return the status of informers" in ended.err
    assert written.found(caplog) == []


@asynccontextmanager
async def served(config: dict[str, Any] | Path, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with (
            Client.from_kubeconfig(config, **options) as client,
            SharedInformerFactory(client, backoff=BACKOFF) as factory,
        ):
            factory.for_resource(CONFIG_MAPS)
            yield factory

    async with (
        serving(cluster_app(lifespan=kinformer_lifespan(setup))) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


@pytest.mark.process
@pytest.mark.parametrize("logged", [False, True])
async def test_the_output_of_a_plugin_is_in_no_probe_page_log_or_error(
    tmp_path: Path, logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The plugin works once, with a token that has expired, then fails under `set -x`."""
    caplog.set_level(logging.DEBUG)
    written = Written()
    body = PRINTS.replace(
        "STATUS", "1 if os.path.exists(sys.argv[0] + '.ran') else open(sys.argv[0] + '.ran', 'w').close()"
    )
    user: Any = plugin(tmp_path, body)
    async with (
        APIServer(users={"another": "alice"}, rules=[]) as server,
        served(kubeconfig(tmp_path, server.url, user), log_plugin_stderr=logged) as page,
    ):
        await until(lambda: page.get("/api/report"), holds=lambda answer: "status 1" in answer.text)
        for path in ("/readyz", "/livez", "/statusz", "/api/report", "/api/resources"):
            written.add((await page.get(path)).text)
    assert any("ended with status 1" in text for text in written.texts)
    assert any(vars(record).get("reason") == "plugin_stderr" for record in caplog.records) is logged
    assert written.found(caplog) == []
