"""The embedded server answers what real servers answered: the same requests on the same state, recorded."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinformer.testing import APIServer
from tests.apiserver_http import Exchange, Reply, ask

WIRE = Path(__file__).parent / "wire"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/demo.kinformer.dev/v1/namespaces/ns1/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WIRE / name).read_text(encoding="utf-8").splitlines()]


def shape(value: Any, path: str = "") -> set[str]:
    """Every path of keys in a document, list positions left out."""
    if isinstance(value, dict):
        return {path}.union(*(shape(inner, f"{path}.{key}") for key, inner in value.items()))
    if isinstance(value, list):
        return {path}.union(*(shape(inner, f"{path}[]") for inner in value))
    return {path}


def same_text(text: str) -> str:
    return re.sub(r"\d+", "N", TIME.sub("T", UID.sub("U", text)))


def key_order(value: Any) -> Any:
    """The order of keys at the top, in metadata, and of what stands in an event."""
    if not isinstance(value, dict):
        return None
    # Within the spec of a built-in object the order is that of its Go struct, which the server does not know.
    return list(value), key_order(value.get("metadata")), key_order(value.get("object"))


class Replay:
    """Sends recorded requests to a server and lists what comes back different."""

    def __init__(self, server: APIServer) -> None:
        self.server = server
        self.revisions: dict[str, str] = {}  # recorded -> ours
        self.token = ""
        self.differences: list[str] = []

    def path(self, recorded_path: str) -> str:
        path = recorded_path
        if self.token and "continue=eyJ" in path:
            path = re.sub(r"continue=[\w-]+", f"continue={self.token}", path)
        match = re.search(r"resourceVersion=(\d+)", path)
        if match and match[1] in self.revisions:
            path = path.replace(match[0], f"resourceVersion={self.revisions[match[1]]}")
        return path

    async def open(self, one: dict[str, Any]) -> Exchange:
        headers = dict(one["request_headers"] or {})
        if not one.get("anonymous", False) and "user" in one:
            headers["Authorization"] = f"Bearer {one['user'] or 'nobody'}-token"
        return await Exchange.open(
            self.server.url, one["method"], self.path(one["path"]), headers=headers, body=one["request_body"]
        )

    async def send(self, one: dict[str, Any], meanwhile: Callable[[], Awaitable[None]] | None = None) -> Reply:
        exchange = await self.open(one)
        try:
            reply = await exchange.head()
            if meanwhile:
                await meanwhile()
            stops_open = one.get("chunk_sizes") and one["chunk_sizes"][-1] != 0
            if stops_open and "watch" in one["path"]:
                for _ in one["response_body"].splitlines():
                    await exchange.line()
            else:
                await exchange.rest()
        finally:
            await exchange.close()
        self.compare(one, reply)
        return reply

    def differ(self, one: dict[str, Any], what: str, real: Any, ours: Any) -> None:
        self.differences.append(f"{one['name']}: {what}\n    real {real}\n    ours {ours}")

    def compare(self, one: dict[str, Any], reply: Reply) -> None:
        head, *lines = one["response_head"].split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if int(head.split()[1]) != reply.status:
            self.differ(one, "status", head, f"{reply.status} {reply.body[:300]!r}")
            return
        for name in ("content-type", "retry-after", "warning", "content-encoding", "vary", "x-content-type-options"):
            if headers.get(name) != reply.headers.get(name):
                self.differ(one, f"header {name}", headers.get(name), reply.headers.get(name))
        # Whether a body is chunked depends on 2 KiB; sizes near that differ by the digits of numbers.
        if not 1900 < one["body_len"] < 2200 and (headers.get("transfer-encoding") == "chunked") != reply.chunked:
            self.differ(one, "chunked", headers.get("transfer-encoding"), (reply.chunked, len(reply.body)))
        if one["body_len"] > 20_000 or headers.get("content-encoding"):
            return  # recorded in part only
        self.compare_bodies(one, one["response_body"], reply.body.decode("utf-8"), headers.get("content-type", ""))

    def compare_bodies(self, one: dict[str, Any], real: str, ours: str, content_type: str) -> None:
        if "yaml" in content_type:
            self.compare_values(one, yaml.safe_load(real), yaml.safe_load(ours))
        elif not content_type.startswith("application/json"):
            if real != ours:
                self.differ(one, "text", real, ours)
        elif "watch" in one["path"] and real.startswith('{"type"'):
            real_lines, our_lines = real.splitlines(), ours.splitlines()
            if len(real_lines) != len(our_lines):
                self.differ(one, "number of lines", len(real_lines), len(our_lines))
            for left, right in zip(real_lines, our_lines, strict=False):
                self.compare_values(one, json.loads(left), json.loads(right))
        elif real:
            if real.endswith("\n") != ours.endswith("\n"):
                self.differ(one, "newline at the end", real[-5:], ours[-5:])
            self.compare_values(one, json.loads(real), json.loads(ours))
        elif ours:
            self.differ(one, "body", real, ours)

    def compare_values(self, one: dict[str, Any], real: Any, ours: Any) -> None:
        missing, extra = shape(real) - shape(ours), shape(ours) - shape(real)
        if missing or extra:
            self.differ(one, "keys", f"also {sorted(missing)}", f"also {sorted(extra)}")
        if key_order(real) != key_order(ours) and not missing | extra:
            self.differ(one, "order of keys", key_order(real), key_order(ours))
        for path in (("type",), ("kind",), ("apiVersion",), ("status",), ("reason",), ("message",), ("code",)):
            self.compare_at(one, path, real, ours)
            self.compare_at(one, ("object", *path), real, ours)
        self.compare_at(one, ("details",), real, ours)
        if isinstance(real, dict) and "items" in real:
            names = [item["metadata"]["name"] for item in real["items"]]
            if names != [item["metadata"]["name"] for item in ours["items"]]:
                self.differ(one, "items", names, [item["metadata"]["name"] for item in ours["items"]])
            self.compare_at(one, ("metadata", "remainingItemCount"), real, ours)

    def compare_at(self, one: dict[str, Any], path: tuple[str, ...], real: Any, ours: Any) -> None:
        for part in path:
            real = real.get(part) if isinstance(real, dict) else None
            ours = ours.get(part) if isinstance(ours, dict) else None
        if path == ("status",) and isinstance(real, dict):
            return
        if path[-1] in ("apiVersion", "kind", "code"):
            if real != ours:
                self.differ(one, ".".join(path), real, ours)
        elif same_text(json.dumps(real)) != same_text(json.dumps(ours)) and not (
            path[-1] == "status" and isinstance(real, dict)
        ):
            self.differ(one, ".".join(path), real, ours)


@pytest.fixture
async def core() -> AsyncIterator[APIServer]:
    users = {"admin-token": "admin", "user-token": "user"}
    async with APIServer(users=users, rules=[("admin", "*", "*")]) as server:
        yield server


# Not compared: a protobuf body and the OpenAPI documents, which this server does not have; the core discovery lists
# kinds and subresources that it does not serve, so discovery is compared entry by entry below.
NOT_COMPARED = {
    "protobuf",
    "openapi v3 root",
    "core discovery",
    "groups",
    "apps discovery",
    "aggregated groups",
    "agg",
}


@pytest.mark.virtual_time
async def test_it_answers_like_kube_apiserver_for_the_built_in_kinds(core: APIServer) -> None:
    replay = Replay(core)
    admin = {"Authorization": "Bearer admin-token"}

    async def do(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> None:
        text = None if body is None else json.dumps(body)
        reply = await ask(core.url, method, path, headers={**admin, **(headers or {})}, body=text)
        assert reply.status < 300, reply.body

    async def label(name: str, value: str) -> None:
        await do("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"app": value}}}, MERGE)

    async def while_watching_from_a_version() -> None:
        await label("p0", "y2")
        running = {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}
        await do("PATCH", f"{PODS}/p0/status", running, MERGE)
        await do("DELETE", f"{PODS}/p4")

    async def while_watching_a_selector() -> None:
        await label("p1", "moved")
        await label("p1", "x")

    meanwhile = {
        "watch pods from rv": while_watching_from_a_version,
        "watch selector transitions": while_watching_a_selector,
    }
    before = {
        "watch as PartialObjectMetadata": lambda: label("p2", "z"),
        "watch single by field": lambda: label("p2", "zz"),
        "create while terminating": lambda: do("DELETE", "/api/v1/namespaces/default/configmaps/fin"),
        "deployment table": lambda: do(
            "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", {"spec": {"replicas": 5}}, MERGE
        ),
        "node status patch": lambda: do(
            "POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": "node-1", "labels": {"zone": "a"}}}
        ),
        "crd group discovery": lambda: asyncio.sleep(0),
    }
    for one in recorded("core.jsonl"):
        name = one["name"]
        if name in NOT_COMPARED:
            continue
        if name in before:
            await before[name]()
        reply = await replay.send(one, meanwhile.get(name))
        if name in ("rv", "rv2"):
            replay.revisions[json.loads(one["response_body"])["metadata"]["resourceVersion"]] = core.resource_version
        if name == "list pods limit=2":
            replay.token = reply.json["metadata"]["continue"]
    assert not replay.differences, "\n".join(replay.differences)


def widget(name: str, app: str, color: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"app": app}}
    return {
        "apiVersion": "demo.kinformer.dev/v1",
        "kind": "Widget",
        "metadata": metadata,
        "spec": {"color": color},
    }


def widget_definition() -> dict[str, Any]:
    shape_line = next(one for one in recorded("vectors.jsonl") if one["name"] == "crd watch shape")
    crd = json.loads(shape_line["response_body"].splitlines()[0])["object"]
    return {
        "apiVersion": crd["apiVersion"],
        "kind": crd["kind"],
        "metadata": {"name": crd["metadata"]["name"]},
        "spec": {key: value for key, value in crd["spec"].items() if key != "conversion"},
    }


@pytest.mark.virtual_time
async def test_it_answers_like_the_generic_server_for_custom_resources() -> None:  # noqa: C901
    async with APIServer() as server:
        replay = Replay(server)

        async def do(method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> None:
            text = None if body is None else json.dumps(body)
            reply = await ask(server.url, method, path, headers=headers, body=text)
            assert reply.status < 300, reply.body

        async def change_and_delete() -> None:
            await do("PATCH", f"{WIDGETS}/w0", {"metadata": {"labels": {"app": "y2"}}}, MERGE)
            await do("DELETE", f"{WIDGETS}/w4")

        async def color_by_json_patch() -> None:
            patch = [{"op": "replace", "path": "/spec/color", "value": "jp"}]
            await do("PATCH", f"{WIDGETS}/w0", patch, {"Content-Type": "application/json-patch+json"})

        async def apply_as_m1() -> None:
            body = widget("ap", "", "a")
            del body["metadata"]["labels"]
            path = f"{WIDGETS}/ap?fieldManager=m1"
            await do("PATCH", path, body, {"Content-Type": "application/apply-patch+yaml"})

        async def fill_up() -> None:
            for number in range(200):
                await do("POST", WIDGETS, widget(f"many-{number:03}", "z", "x" * 800))

        async def empty_again() -> None:
            await do("DELETE", f"{WIDGETS}?labelSelector=app%3Dz")

        crd = json.dumps(widget_definition())
        await do("POST", "/api/v1/namespaces", {"metadata": {"name": "ns1"}})
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        await do("POST", crds, json.loads(crd))
        for name, app, color in (
            ("a", "x", "red"),
            ("w0", "y", "red"),
            ("w1", "x", "red"),
            ("w2", "y", "blue"),
            ("w3", "x", "blue"),
            ("w4", "y", "blue"),
        ):
            await do("POST", WIDGETS, widget(name, app, color))
            if name == "a":
                replay.revisions["5"] = server.resource_version
        replay.revisions["10"] = server.resource_version

        async def before(name: str) -> None:
            if name == "watch sendInitialEvents":
                await server.restart()
                await change_and_delete()
            elif name == "put no rv":
                await color_by_json_patch()
            elif name == "apply conflict":
                await apply_as_m1()
            elif name == "list gzip":
                await fill_up()
            elif name == "deletecollection":
                await empty_again()

        for one in recorded("vectors.jsonl"):
            name = one["name"]
            if name in NOT_COMPARED:
                continue
            if name == "big ok":
                one["request_body"] = json.dumps(widget("big", "", "") | {"spec": {"blob": "x" * 1_400_000}})
            if name == "body too large":
                one["request_body"] = json.dumps(widget("x", "", "") | {"spec": {"blob": "x" * 3_200_000}})
            if name == "groups":
                continue  # that server had no aggregator, and so no /apis
            await before(name)
            reply = await replay.send(one)
            if name == "list limit=2":
                replay.token = reply.json["metadata"]["continue"]
        assert not replay.differences, "\n".join(replay.differences)
