"""The values of a Secret, searched for in everything that is written about it: page, terminal, log, errors, figures."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from kinformer import Backoff, Client, KinformerError, KubeObject, SharedInformerFactory, Snapshot
from kinformer.cli.dashboard import cluster_app, hide
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.testing import APIServer, faults
from tests.support.cli import CommandLine
from tests.support.http_server import HttpServer
from tests.support.kube import config_map
from tests.support.metrics_sink import MemoryMetrics
from tests.support.waiting import until
from tests.support.web_server import serving

CANARY = "c4n4ry-in-a-Secret"
VISIBLE = "v1s1ble-in-a-ConfigMap"
SECRETS, CONFIG_MAPS = "v1/secrets", "v1/configmaps"
COPIES = (
    "kapp.k14s.io/original",
    "objectset.rio.cattle.io/applied",
    "kubectl.kubernetes.io/last-applied-configuration",
    "example.com/copy",
)


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(version: int = 0, **more: Any) -> dict[str, Any]:
    value = {"password": f"{CANARY}{version}"}
    annotations = {name: json.dumps({"kind": "Secret", "stringData": value}) for name in COPIES}
    metadata = {"name": "db", "namespace": "default", "labels": {"app": "db"}, "annotations": annotations}
    data = {"password": encoded(value["password"]), f"key{version}": encoded(CANARY)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data, **more}


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [secret(), config_map("open", data={"key": VISIBLE})]


def found_in(texts: Iterator[str] | list[str]) -> list[str]:
    """The texts with a value of the Secret, whichever form it has."""
    forms = [CANARY, *(encoded(f"{CANARY}{end}")[:20] for end in ("", "0", "1"))]
    return [text[:2000] for text in texts if any(form in text for form in forms)]


async def page(url: str, *paths: str) -> list[str]:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        answers = [await client.get(path) for path in paths]
        assert {answer.status_code for answer in answers} <= {200, 503}
        async with client.stream("GET", f"/api/events?view=table&resource={SECRETS}") as stream:
            events = ""
            async for piece in stream.aiter_text():
                events += piece
                if "TABLE" in events:
                    break
        return [*(answer.text for answer in answers), events]


@asynccontextmanager
async def served(server: APIServer, **options: Any) -> AsyncIterator[tuple[str, SharedInformerFactory]]:
    ready: asyncio.Future[SharedInformerFactory] = asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        backoff = Backoff(initial=0.01, maximum=0.05)
        async with server.client() as client, SharedInformerFactory(client, backoff=backoff, **options) as factory:
            factory.for_resource(SECRETS)
            factory.for_resource(CONFIG_MAPS)
            await factory.wait_for_cache_sync(timeout=10)
            ready.set_result(factory)
            yield factory

    async with serving(cluster_app(lifespan=kinformer_lifespan(setup))) as url:
        yield url, await ready


OF_SECRET = f"resource={SECRETS}&key=default/db"
OF_CONFIG_MAP = f"resource={CONFIG_MAPS}&key=default/open"
PAGES = (
    f"/api/object?{OF_SECRET}",
    f"/api/object?{OF_SECRET}&format=yaml",
    f"/api/objects?resource={SECRETS}",
    f"/api/changes?{OF_SECRET}",
    f"/api/relations?{OF_SECRET}",
    "/api/timeline?noise=true",
    "/api/change?number=1",
    "/api/change?number=2",
    "/api/report",
    "/api/counts",
    "/statusz",
    "/readyz",
)


@pytest.mark.parametrize(
    "options", [{}, {"compact": True}, {"metadata_only": True}, {"keep_managed_fields": True}], ids=str
)
async def test_no_value_of_a_secret_is_on_the_page_in_the_log_or_in_the_figures(
    server: APIServer, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    metrics = MemoryMetrics()
    async with served(server, metrics=metrics, **options) as (url, factory):
        await page(url, "/api/report")  # the history begins
        server.update(secret(1))
        server.update(config_map("open", data={"key": f"{VISIBLE}-2"}))
        secrets, _ = factory.informers
        await until(lambda: secrets.statistics().events.get("UPDATED"))
        texts = await page(url, *PAGES)
        texts += [repr(thing) for thing in (factory, secrets, secrets.lister, *secrets.lister, factory.health())]
        texts += [repr(factory.statistics()), repr(vars(metrics)), caplog.text]
        texts += [repr(vars(record)) for record in caplog.records]
        shown = json.loads(texts[0])
        changes = json.loads(texts[3])
        open_texts = await page(url, f"/api/object?{OF_CONFIG_MAP}", f"/api/changes?{OF_CONFIG_MAP}")
    assert found_in(texts) == []
    assert shown["metadata"]["annotations"] == dict.fromkeys(COPIES, "(hidden)")
    if "metadata_only" not in options:
        assert shown["data"] == {"password": "(hidden)", "key1": "(hidden)"}
        paths = {one["path"]: (one["old"], one["new"]) for one in changes[0]["differences"]}
        assert paths["data.password"] == ('"(hidden)"', '"(hidden)"'), "a change is shown, without its values"
        assert paths["data.key1"] == (None, '"(hidden)"')
        assert VISIBLE in open_texts[0]
        assert VISIBLE in open_texts[1]


@pytest.mark.slow
async def test_no_value_of_a_secret_is_on_the_command_line(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    kinformer = CommandLine(capsys, server.url)
    texts = []
    for form in ("table", "wide", "name", "json", "jsonl", "yaml"):
        for more in ((), ("--all-fields",), ("--show-labels",)):
            ended = await kinformer("watch", "secrets", "--once", "-o", form, *more)
            assert ended.status == 0, ended.err
            texts += [ended.out, ended.err]
        ended = await kinformer("watch", "secrets/db", "--duration", "0.3", "-o", form)
        texts += [ended.out, ended.err]
    for command in (
        ("stats", "secrets", "--once", "-o", "json"),
        ("doctor", "secrets", "-o", "json"),
        ("wait", "secret/db", "--for", "jsonpath={.data.password}", "--timeout", "5"),
        ("wait", "secret/db", "--for", "jsonpath={.data.password}=x", "--timeout", "0"),
        ("watch", "secrets", "--once", "--sort-by", ".data.password"),
    ):
        ended = await kinformer(*command)
        texts += [ended.out, ended.err]
    assert found_in(texts) == []
    assert "(hidden)" in "".join(texts)
    assert VISIBLE in (await kinformer("watch", "cm", "--once", "-o", "yaml")).out


async def test_the_values_of_secrets_are_printed_on_request(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    kinformer = CommandLine(capsys, server.url)
    for form in ("json", "jsonl", "yaml"):
        assert (
            encoded(f"{CANARY}0") in (await kinformer("watch", "secrets", "--once", "-o", form, "--show-secrets")).out
        )
    ended = await kinformer("watch", "secrets", "--once", "--show-secrets")
    assert ended.status == 2
    assert "--show-secrets cannot be combined with -o table" in ended.err


@pytest.mark.parametrize(
    "fault", [faults.garble(), faults.close_mid_line(), faults.duplicate_event(), faults.html_502()], ids=str
)
async def test_no_value_of_a_secret_is_in_an_error_or_the_log_of_a_failing_stream(
    server: APIServer, fault: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []

    def failed(_: object, error: BaseException) -> None:
        texts.extend([*traceback.format_exception(error), repr(error), str(error)])

    server.faults.add(fault, resource=SECRETS, times=3)
    backoff = Backoff(initial=0.01, maximum=0.05)
    async with server.client() as client, SharedInformerFactory(client, backoff=backoff, on_error=failed) as factory:
        informer = factory.for_resource(SECRETS)
        await factory.wait_for_cache_sync(timeout=30)
        for version in range(4):
            made = server.update(secret(version))
            await informer.wait_for_resource_version(made["metadata"]["resourceVersion"], timeout=30)
            texts.append(repr(informer.health()))
    texts += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert found_in(texts) == []


@pytest.mark.parametrize("cut", [40, 60, 100, 200])
async def test_no_value_of_a_secret_is_in_the_error_about_a_body_that_is_cut_off_or_shifted(
    cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    document = json.dumps({"data": secret()["data"], **secret()})
    bodies = [
        f'{{"kind":"SecretList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{document[:cut]}]}}',
        document[:cut],
        document[cut - 20 :],
        f'{{"type":"ADDED","object":{document[:cut]}}}\n',
        f'{{"type":"ODD","object":{document}}}\n',
    ]
    texts: list[str] = []
    for body in bodies:

        async def answer(_: web.Request, body: str = body) -> web.Response:
            return web.Response(text=body, content_type="application/json")

        async with HttpServer(answer) as odd, Client.from_url(odd.url) as client:
            for method in ("GET", "POST"):
                with contextlib.suppress(KinformerError):
                    texts.append(repr(await client.request(method, "/api/v1/namespaces/default/secrets/db")))
            backoff = Backoff(initial=0.01, maximum=0.05)
            async with SharedInformerFactory(client, backoff=backoff) as factory:
                informer = factory.for_resource(SECRETS)
                await until(lambda informer=informer: informer.health().last_error is not None)
                error = informer.health().last_error
                assert error is not None
                texts += [*traceback.format_exception(error), repr(informer.health())]
    texts += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert len(texts) > 10
    assert found_in([text for text in texts if not text.startswith("{'")]) == []


async def test_no_value_of_a_secret_is_in_the_errors_of_a_snapshot(
    server: APIServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "secrets.snapshot"
    option = Snapshot(path, secrets=True)
    texts = []
    for change in (bytes, lambda data: data[:-40], lambda data: data.replace(encoded(CANARY).encode(), b"x" * 24)):
        if path.exists():
            path.write_bytes(change(path.read_bytes()))
        async with server.client() as client, SharedInformerFactory(client) as factory:
            informer = factory.for_resource(SECRETS, snapshot=option)
            await factory.wait_for_cache_sync(timeout=10)
            texts += [repr(informer.health()), repr(informer.statistics()), repr(option)]
    texts += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert informer.statistics().snapshots["torn"] == 1
    assert found_in(texts) == []


def test_a_transform_that_hides_keeps_nothing() -> None:
    document = secret()
    assert hide(document) is document
    assert found_in([json.dumps(document)]) == []
    assert found_in([KubeObject.from_dict(document).raw.decode()]) == []
