"""The dashboard's server: its answers, its guards, its secrets, and its end.

Internals: the rows, since no page shows how they are shared.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import yaml
from fastapi import FastAPI

from kinformer import Backoff, ForbiddenError, KubeObject, SharedInformer, SharedInformerFactory
from kinformer.cli.dashboard import cluster_app, hide
from kinformer.cli.dashboard.view.rows import Rows, column_names, row_of
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.objects.packed import with_json
from kinformer.testing import APIServer, faults
from tests.support.bare_http import ask, connected
from tests.support.cli import CommandLine
from tests.support.kube import pod
from tests.support.memory_source import MemorySource
from tests.support.waiting import until
from tests.support.web_server import EventReader, reading, serving

SECRET_VALUE = "hunter2-and-more"
RESOURCES = ("v1/pods", "v1/nodes", "v1/secrets", "v1/configmaps")


def secret(**more: str) -> dict[str, Any]:
    data = {"password": base64.b64encode(SECRET_VALUE.encode()).decode(), **more}
    applied = json.dumps({"kind": "Secret", "stringData": {"password": SECRET_VALUE}})
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": applied, "other": "stays"}
    metadata = {"name": "db", "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}},
        pod("web-1", node="node-a", owner="web", labels={"app": "web"}),
        pod("web-2", namespace="shop", node="node-b", owner="web", labels={"app": "web"}),
        pod("db-1", labels={"app": "db"}),
        secret(),
    ]


@asynccontextmanager
async def dashboard(server: APIServer, *, secrets: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[str]:
    """The URL of a dashboard on `server`, its informers synced, that of Secrets with options of its own."""
    synced = asyncio.Event()

    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        backoff = Backoff(initial=0.01, maximum=0.05)
        async with server.client() as client, SharedInformerFactory(client, backoff=backoff) as factory:
            for resource in RESOURCES:
                factory.for_resource(resource, **((secrets or {}) if resource == "v1/secrets" else {}))
            await factory.wait_for_cache_sync(timeout=10)
            synced.set()
            yield factory

    async with serving(cluster_app(lifespan=kinformer_lifespan(setup), **options)) as url:
        await synced.wait()
        yield url


@asynccontextmanager
async def asking(server: APIServer, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with dashboard(server, **options) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        yield client


async def following(stream: EventReader, kind: str, holds: Callable[[Any], bool] = lambda _: True) -> Any:
    """The data of the next event of a type that holds."""
    while (event := await stream.next()).type != kind or not holds(event.data):
        pass
    return event.data


def names(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return sorted(item["metadata"]["name"] for item in answer.json()["items"])


# --- the API over the caches -------------------------------------------------------------------------------------


async def test_objects_are_found_by_namespace_labels_node_and_owner(server: APIServer) -> None:
    async with asking(server) as client:

        async def ask(**params: str) -> list[str]:
            return names(await client.get("/api/objects", params={"resource": "v1/pods", **params}))

        assert await ask() == ["db-1", "web-1", "web-2"]
        assert await ask(namespace="shop") == ["web-2"]
        assert await ask(selector="app in (web)") == ["web-1", "web-2"]
        assert await ask(node="node-a") == ["web-1"]
        assert await ask(owner="uid-web") == ["web-1", "web-2"]
        assert await ask(owner="shop/ReplicaSet/web") == ["web-2"]
        assert await ask(owner="uid-web", namespace="default", selector="app=web") == ["web-1"]
        assert await ask(node="node-z") == []


async def test_what_cannot_be_asked_is_told(server: APIServer) -> None:
    async with asking(server) as client:
        answer = await client.get("/api/objects", params={"resource": "v1/pods", "selector": "app in ("})
        assert answer.status_code == 400
        answer = await client.get("/api/objects", params={"resource": "v1/things"})
        assert answer.status_code == 404
        assert "v1/pods" in answer.json()["detail"]
        answer = await client.get("/api/objects", params={"resource": "v1/nodes", "node": "node-a"})
        assert answer.status_code == 400
        answer = await client.get("/api/object", params={"resource": "v1/pods", "key": "default/none"})
        assert answer.status_code == 404
        answer = await client.get(
            "/api/object", params={"resource": "v1/pods", "key": "default/web-1", "format": "xml"}
        )
        assert answer.status_code == 422


async def test_one_object_is_json_or_yaml(server: APIServer) -> None:
    async with asking(server) as client:
        params = {"resource": "v1/pods", "key": "default/web-1"}
        as_json = await client.get("/api/object", params=params)
        assert as_json.headers["content-type"] == "application/json"
        as_yaml = await client.get("/api/object", params={**params, "format": "yaml"})
        assert as_yaml.headers["content-type"].startswith("text/plain")
        assert yaml.safe_load(as_yaml.text) == as_json.json()
        assert as_json.json()["metadata"]["name"] == "web-1"


def large(number: int, name: str = "large") -> dict[str, Any]:
    """Return a config map of a megabyte whose values all depend on `number`."""
    data = {f"key-{place}": f"{number}-{place}" for place in range(40_000)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


async def pulse(share: list[float]) -> None:
    """Append how long the loop was held, again and again."""
    while True:
        before = time.thread_time()  # of CPU, which other processes and threads do not change
        await asyncio.sleep(0.001)
        share.append(time.thread_time() - before)


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["v1/configmaps", "v1/secrets"])
async def test_requests_for_a_large_object_hold_no_loop(server: APIServer, resource: str) -> None:
    def put(number: int) -> dict[str, Any]:
        document = large(number)
        if resource == "v1/configmaps":
            return document
        data = {key: base64.b64encode(value.encode()).decode() for key, value in document["data"].items()}
        return {**document, "kind": "Secret", "data": data}

    async def ask(client: httpx.AsyncClient, path: str, params: dict[str, str]) -> None:
        shares: list[float] = []
        pulsing = asyncio.create_task(pulse(shares))
        answer = await client.get(path, params=params)
        pulsing.cancel()
        assert answer.status_code == 200
        assert max(shares) < 0.5, f"seconds of CPU in one turn of the loop, for {path} with {params}"

    server.create(put(0))
    async with asking(server) as client:
        key = {"resource": resource, "key": "default/large"}
        await client.get("/api/report")
        for number in range(1, 9):
            newest = server.update(put(number))["metadata"]["resourceVersion"]
            await asyncio.sleep(0.05)
        await until(lambda: client.get("/api/object", params=key), holds=lambda answer: newest in answer.text)
        await asyncio.sleep(0.1)  # the history hears of it after the cache
        await ask(client, "/api/object", {**key, "format": "yaml"})
        await ask(client, "/api/object", key)
        await ask(client, "/api/changes", key)
        await ask(client, "/api/objects", {"resource": resource})


@pytest.mark.parametrize(("size", "is_json"), [(1_000, False), (60_000, False), (70_000, True)])
async def test_an_object_above_64_kb_is_indented_json_instead_of_yaml(
    server: APIServer, size: int, *, is_json: bool
) -> None:
    metadata = {"name": "large", "namespace": "default"}
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "x" * size}})
    async with asking(server) as client:
        params = {"resource": "v1/configmaps", "key": "default/large"}
        as_json = (await client.get("/api/object", params=params)).json()
        answer = await client.get("/api/object", params={**params, "format": "yaml"})
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text.startswith('{\n  "' if is_json else "kind: ConfigMap\n")
        assert yaml.safe_load(answer.text) == as_json


async def test_counts_are_by_resource_and_namespace(server: APIServer) -> None:
    async with asking(server) as client:
        counts = (await client.get("/api/counts")).json()
        assert counts["v1/pods"] == {"objects": 3, "namespaces": {"default": 2, "shop": 1}}
        assert counts["v1/nodes"] == {"objects": 1, "namespaces": {}}


async def test_changes_of_an_object_are_kept_as_differences(server: APIServer) -> None:
    async with asking(server) as client:
        params = {"resource": "v1/pods", "key": "default/db-1"}
        assert (await client.get("/api/changes", params=params)).json() == []
        changed = pod("db-1", labels={"app": "db"})
        changed["status"]["phase"] = "Failed"
        changed["status"]["containerStatuses"][0]["ready"] = False
        server.update(changed)
        server.delete("v1/pods", "default", "db-1")

        async def changes() -> list[Any]:
            found: list[Any] = (await client.get("/api/changes", params=params)).json()
            return found

        found = await until(changes, holds=lambda found: len(found) == 2)
        assert [change["type"] for change in found] == ["DELETED", "UPDATED"]
        assert {"path": "status.phase", "old": '"Running"', "new": '"Failed"'} in found[1]["differences"]
        paths = [difference["path"] for difference in found[1]["differences"]]
        assert "status.containerStatuses[main].ready" in paths
        assert not any("resourceVersion" in path for path in paths)


async def test_the_page_gets_rows_changes_and_reports(server: APIServer) -> None:
    async with dashboard(server) as url, reading(f"{url}/api/events", view="table", resource="v1/pods") as stream:
        report = await following(stream, "HEALTH")
        table = await following(stream, "TABLE")
        assert (table["shown"], table["total"]) == (3, 3)
        assert table["keys"] == ["default/db-1", "default/web-1", "shop/web-2"]
        shown = next(row for row in table["rows"] if row["k"] == "default/web-1")
        assert shown["c"] == ["1/1", "Running", "0", "node-a"]
        assert shown["h"] == "good"
        assert shown["t"] > 1_600_000_000
        by_name = {one["name"]: one for one in report["resources"]}
        assert by_name["v1/pods"]["columns"] == ["READY", "STATUS", "RESTARTS", "NODE"]
        assert by_name["v1/pods"]["live"] is True
        assert by_name["v1/nodes"]["namespaced"] is False
        assert report["memory"] > 10_000_000
        assert report["namespaces"] == ["default", "shop"]
        server.delete("v1/pods", "shop", "web-2")
        assert await following(stream, "TABLE") == {
            "shown": 2,
            "total": 2,
            "rows": [],
            "keys": ["default/db-1", "default/web-1"],
            "gone": ["shop/web-2"],
        }
        counted = await following(stream, "HEALTH", lambda report: report["resources"][0]["objects"] == 2)
        assert counted["resources"][0]["levels"] == {"good": 2}


async def test_a_report_says_why_an_informer_is_not_live(server: APIServer) -> None:
    async with asking(server) as client:
        await client.get("/api/report")
        server.faults.add(faults.status(403), resource="v1/pods")
        await server.restart()

        async def pods() -> Any:
            return (await client.get("/api/report")).json()["resources"][0]

        one = await until(pods, holds=lambda one: one["state"] == "forbidden")
        assert one["live"] is False
        assert "403" in one["error"]
        assert (await client.get("/readyz")).status_code == 503


async def test_an_informer_that_crashed_before_the_page_was_opened_is_reported_and_the_others_are_shown(
    server: APIServer,
) -> None:
    crashed = asyncio.Event()

    def on_error(informer: Any, error: BaseException) -> None:
        raise error

    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with server.client() as client:
            factory = SharedInformerFactory(client)
            with contextlib.suppress(ForbiddenError):  # what an informer crashed of is raised by its factory
                async with factory:
                    await factory.for_resource("v1/pods").wait_synced(10)
                    server.faults.add(faults.status(403), resource="v1/nodes")
                    nodes = factory.for_resource("v1/nodes", on_error=on_error)
                    await until(lambda: nodes.health().state == "stopped")
                    crashed.set()
                    yield factory

    async with (
        serving(cluster_app(lifespan=kinformer_lifespan(setup))) as url,
        httpx.AsyncClient(base_url=url, timeout=60) as client,
    ):
        await crashed.wait()
        report = (await client.get("/api/report")).json()
        assert [(one["name"], one["state"]) for one in report["resources"]] == [
            ("v1/pods", "watching"),
            ("v1/nodes", "stopped"),
        ]
        assert "403" in report["resources"][1]["error"]
        assert len(names(await client.get("/api/objects", params={"resource": "v1/pods", "node": "node-a"}))) == 1
        assert names(await client.get("/api/objects", params={"resource": "v1/nodes"})) == []
        async with reading(f"{url}/api/events", view="table", resource="v1/pods") as stream:
            assert len((await following(stream, "TABLE"))["keys"]) == 3
            server.delete("v1/pods", "default", "web-1")
            assert len((await following(stream, "TABLE"))["keys"]) == 2


async def test_the_first_requests_wait_for_one_another_and_one_that_fails_leaves_nothing_half_built(
    server: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = SharedInformer.build_indexers
    failures = [OSError("no luck")]

    async def slow(informer: Any, indexers: Any) -> None:
        await asyncio.sleep(0.01)
        if failures:
            raise failures.pop()
        await build(informer, indexers)

    monkeypatch.setattr(SharedInformer, "build_indexers", slow)
    async with asking(server) as client:
        params = {"resource": "v1/pods", "node": "node-a"}
        with contextlib.suppress(httpx.HTTPError):
            assert (await client.get("/api/objects", params=params)).status_code == 500
        answers = await asyncio.gather(*(client.get("/api/objects", params=params) for _ in range(3)))
        assert [names(answer) for answer in answers] == [["web-1"]] * 3


def nested(depth: int, leaf: str) -> Any:
    return json.loads('{"n":' * depth + json.dumps(leaf) + "}" * depth)


async def test_one_object_that_is_nested_too_deeply_is_named_as_unreadable_and_breaks_nothing(
    server: APIServer,
) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "deep", "namespace": "default"}}

    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with server.client() as client, SharedInformerFactory(client) as factory:
            await factory.for_resource("example.com/v1/widgets").wait_synced(10)
            yield factory

    server.register("example.com/v1", "Widget", "widgets", namespaced=True)
    server.create({**widget, "spec": nested(350, "a")})
    app = cluster_app(lifespan=kinformer_lifespan(setup))
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        params = {"resource": "example.com/v1/widgets", "key": "default/deep"}
        answer = await client.get("/api/object", params={**params, "format": "yaml"})
        assert answer.status_code == 200
        assert json.loads(answer.text)["spec"] == nested(350, "a")


def test_a_row_of_what_is_nested_too_deeply_has_its_name() -> None:
    obj = KubeObject.from_dict({"kind": "Widget", "metadata": {"name": "deep"}})
    levels = 1_000_000  # more than a stack holds, for Python 3.14 and later
    raw = '{"kind":"Widget","metadata":{"name":"deep"},"spec":' + '{"n":' * levels + "1" + "}" * (levels + 1)
    row = json.loads(row_of(with_json(obj, raw.encode())).shown())
    assert (row["k"], set(row["c"])) == ("deep", {"<unreadable>"})


# --- what stays hidden -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"metadata_only": True}, {"fields": ["data", "metadata.annotations"]}, {"compact": True}]
)
async def test_nothing_of_a_secret_is_in_any_answer(server: APIServer, options: dict[str, Any]) -> None:
    encoded = base64.b64encode(SECRET_VALUE.encode()).decode()
    async with asking(server, secrets=options) as client:
        key = {"resource": "v1/secrets", "key": "default/db"}
        await client.get("/api/report")
        server.update(secret(another=encoded))
        await until(lambda: client.get("/api/changes", params=key), holds=lambda answer: answer.json())
        texts = []
        for path, params in (
            ("/api/object", key),
            ("/api/object", {**key, "format": "yaml"}),
            ("/api/objects", {"resource": "v1/secrets"}),
            ("/api/changes", key),
            ("/api/report", {}),
            ("/statusz", {}),
        ):
            answer = await client.get(path, params=params)
            assert answer.status_code == 200
            texts.append(answer.text)
        async with client.stream("GET", "/api/events", params={"view": "table", "resource": "v1/secrets"}) as answer:
            async for piece in answer.aiter_text():
                texts.append(piece)
                if "TABLE" in piece:
                    break
        for text in texts:
            assert SECRET_VALUE not in text
            assert encoded not in text
        shown = (await client.get("/api/object", params=key)).json()
        if "metadata_only" not in options:
            assert shown["data"] == {"password": "(hidden)", "another": "(hidden)"}
        assert shown["metadata"]["annotations"]["other"] == "(hidden)"


def test_hiding_leaves_what_has_nothing_to_hide() -> None:
    assert hide({"metadata": {"name": "a"}, "type": "Opaque"}) == {"metadata": {"name": "a"}, "type": "Opaque"}
    assert hide({"metadata": {}, "stringData": {"a": "b"}})["stringData"] == {"a": "(hidden)"}


# --- who may ask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8080", 200),
        ("localhost:1", 200),
        ("LOCALHOST", 200),
        ("[::1]:8080", 200),
        ("10.0.0.7:8080", 200),
        ("", 200),
        ("evil.example", 421),
        ("evil.example:8080", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 421),
        ("[::1", 421),
    ],
)
async def test_only_its_own_names_are_answered(server: APIServer, host: str, status: int) -> None:
    async with asking(server) as client:
        for path in ("/", "/api/counts", "/readyz", "/page/main.js"):
            assert (await client.get(path, headers={"Host": host})).status_code == status


async def test_pages_of_other_origins_are_not_answered(server: APIServer) -> None:
    async with asking(server) as client:
        own = {"Host": "localhost:8080", "Origin": "http://localhost:8080"}
        assert (await client.get("/api/counts", headers=own)).status_code == 200
        for origin in ("http://evil.example", "http://localhost:3000", "null", "file://", "http://[::1"):
            answer = await client.get("/api/counts", headers={**own, "Origin": origin})
            assert answer.status_code == 403, origin


@pytest.mark.parametrize(
    ("site", "mode", "to", "status"),
    [
        ("same-origin", "cors", "empty", 200),
        ("none", "navigate", "document", 200),
        ("cross-site", "navigate", "document", 200),
        ("cross-site", "navigate", "iframe", 403),
        ("cross-site", "no-cors", "image", 403),
        ("same-site", "no-cors", "script", 403),
    ],
)
async def test_of_pages_elsewhere_only_links_are_followed(
    server: APIServer, site: str, mode: str, to: str, status: int
) -> None:
    async with asking(server) as client:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": to}
        for path in ("/", "/api/counts"):
            assert (await client.get(path, headers=headers)).status_code == status


async def test_a_name_can_be_allowed(server: APIServer) -> None:
    async with asking(server, names=["ops.example.com"]) as client:
        assert (await client.get("/", headers={"Host": "ops.example.com"})).status_code == 200
        assert (await client.get("/", headers={"Host": "localhost"})).status_code == 200
        assert (await client.get("/", headers={"Host": "example.com"})).status_code == 421


@pytest.mark.parametrize("name", ["Host", "Origin"])
async def test_a_host_or_origin_that_is_there_twice_is_refused(server: APIServer, name: str) -> None:
    head = "GET /api/counts HTTP/1.1\nHost: localhost:8080\nOrigin: http://localhost:8080"
    [again] = [line for line in head.splitlines() if line.startswith(name)]
    async with dashboard(server) as url:
        port = int(url.rpartition(":")[2])
        assert await ask(port, head) == 200
        assert await ask(port, f"{head}\n{again}") == 400


async def test_a_probe_of_http_1_0_needs_no_host(server: APIServer) -> None:
    async with dashboard(server) as url:
        assert await ask(int(url.rpartition(":")[2]), "GET /livez HTTP/1.0") == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_it_only_shows(server: APIServer, method: str) -> None:
    async with asking(server) as client:
        assert (await client.request(method, "/api/counts")).status_code == 405


async def test_every_answer_carries_the_headers_that_keep_a_page_to_itself(server: APIServer) -> None:
    async with asking(server) as client:
        for path in ("/", "/page/style.css", "/api/counts", "/none", "/readyz"):
            headers = (await client.get(path)).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
        assert (await client.get("/", headers={"Host": "evil.example"})).headers["x-content-type-options"] == "nosniff"


async def test_the_page_needs_nothing_from_elsewhere_and_is_cached_by_tag(server: APIServer) -> None:
    async with asking(server) as client:
        page = await client.get("/")
        assert page.headers["content-type"].startswith("text/html")
        for word in ("http://", "https://", "onclick", "<style", "style="):
            assert word not in page.text, word
        for name in ("main.js", "table.js", "style.css", "icon.svg"):
            first = await client.get(f"/page/{name}")
            assert first.status_code == 200
            assert "innerHTML" not in first.text
            again = await client.get(f"/page/{name}", headers={"If-None-Match": first.headers["etag"]})
            assert again.status_code == 304


async def test_it_can_be_mounted_in_an_application_of_ones_own(server: APIServer) -> None:
    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        async with server.client() as client, SharedInformerFactory(client) as factory:
            factory.for_resource("v1/pods")
            await factory.wait_for_cache_sync(timeout=10)
            yield factory

    app = FastAPI(lifespan=kinformer_lifespan(setup))
    app.mount("/cluster", cluster_app())
    async with serving(app) as url, httpx.AsyncClient(base_url=url, timeout=60) as client:
        assert (await client.get("/cluster/")).text.startswith("<!doctype html>")
        assert (await client.get("/cluster/page/main.js")).status_code == 200
        assert (await client.get("/cluster/api/counts")).json()["v1/pods"]["objects"] == 3
        async with reading(f"{url}/cluster/api/events") as stream:
            assert (await stream.next()).type == "HEALTH"


# --- parts ---------------------------------------------------------------------------------------------------------


async def test_a_row_is_made_once_a_version_and_forgotten_with_its_object() -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        rows = Rows(informer)
        await informer.wait_synced(10)
        first = rows.get("default/a")
        assert rows.get("default/a") is first
        source.set("a", data={"more": "1"})
        await until(lambda: rows.get("default/a") is not first)
        source.delete("a")
        await until(lambda: rows.get("default/a") is None)
    assert column_names("", "Pod") == ["READY", "STATUS", "RESTARTS", "NODE"]


# --- the command ---------------------------------------------------------------------------------------------------


async def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = await CommandLine(capsys)("dashboard", "--demo", "--port", str(taken.getsockname()[1]))
    assert ended.status == 1
    assert ended.err.count("\n") == 1
    assert "cannot listen on 127.0.0.1 port" in ended.err


async def test_a_resource_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = await CommandLine(capsys)("dashboard", "things", "--demo", "--port", "0")
    assert ended.status == 1
    assert "things" in ended.err


async def test_a_missing_extra_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kinformer.cli.dashboard.command", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    ended = await CommandLine(capsys)("dashboard", "--demo")
    assert ended.status == 1
    assert ended.err == "kinformer: uvicorn is not installed; pip install 'kinformer[dashboard]'\n"


@pytest.mark.process
async def test_silent_connections_leave_the_page_its_descriptors() -> None:
    command = f"ulimit -n 100; exec {sys.executable} -m kinformer.cli dashboard --demo --port 0"
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            url = (await process.stdout.readline()).decode().split()[0].rstrip("/")
            port = int(url.rpartition(":")[2])
            async with connected(port, 150):
                for path in ("/", "/api/counts", "/readyz"):
                    assert await ask(port, f"GET {path} HTTP/1.1\nHost: localhost") == 200
                assert await ask(port, "GET / HTTP/1.1\nHost: evil.example") == 421
                async with connected(port) as [one]:
                    one.send("GET / HTTP/1.1\n" + f"X-Large: {'x' * 8000}\n" * 20)
                    assert await one.status() in (400, 431)
                async with reading(f"{url}/api/events") as events:
                    await events.take(3)
            process.send_signal(signal.SIGTERM)
            _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    assert b"out of system resource" not in errors


@pytest.mark.process
async def test_ctrl_c_with_ten_open_pages_ends_it_within_three_seconds() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "kinformer.cli", "dashboard", "--demo", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            url = (await process.stdout.readline()).decode().split()[0].rstrip("/")
        async with httpx.AsyncClient(timeout=httpx.Timeout(20, read=None), limits=httpx.Limits()) as client:

            async def page() -> None:
                async with client.stream("GET", f"{url}/api/events") as answer:
                    async for _ in answer.aiter_bytes():
                        opened.release()

            opened = asyncio.Semaphore(0)
            pages = [asyncio.create_task(page()) for _ in range(10)]
            for _ in range(50):
                await opened.acquire()
            began = time.monotonic()
            process.send_signal(signal.SIGINT)
            output, errors = await asyncio.wait_for(process.communicate(), 20)
            took = time.monotonic() - began
            await asyncio.gather(*pages, return_exceptions=True)
        assert took < 3, f"{took:.1f} s"
        assert process.returncode == 130
        assert b"Traceback" not in errors, errors.decode()
        assert output == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
