"""Recorded requests sent again, on the same state, and the differences from what real servers answered."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from ssl import SSLContext
from ssl import create_default_context as trusting
from typing import Any

import yaml

from kinformer.testing import ClusterServer
from tests.support.apiserver_http import Exchange, Reply, ask
from tests.support.waiting import until

WIRE = Path(__file__).parents[1] / "wire" / "recorded"
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WIDGETS = "/apis/demo.kinformer.dev/v1/namespaces/ns1/widgets"
MERGE = {"Content-Type": "application/merge-patch+json"}


def recorded(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (WIRE / name).read_text(encoding="utf-8").splitlines()]


def shape(value: Any, path: str = "") -> set[str]:
    """Return every path of keys in a document, without list positions."""
    if isinstance(value, dict):
        return {path}.union(*(shape(inner, f"{path}.{key}") for key, inner in value.items()))
    if isinstance(value, list):
        return {path}.union(*(shape(inner, f"{path}[]") for inner in value))
    return {path}


def same_text(text: str) -> str:
    return re.sub(r"\d+", "N", TIME.sub("T", UID.sub("U", text)))


def key_order(value: Any) -> Any:
    """Return the order of the keys at the top, in metadata, and in the object of an event."""
    if not isinstance(value, dict):
        return None
    # Within the spec of a built-in object the order is that of its Go struct, which the server does not know.
    return list(value), key_order(value.get("metadata")), key_order(value.get("object"))


def trust(server: ClusterServer) -> SSLContext | None:
    return trusting(cafile=server.ca_file) if server.ca_file else None


class Replay:
    """Sends recorded requests to a server and lists what comes back different."""

    def __init__(self, server: ClusterServer) -> None:
        self.server = server
        self.ssl = trust(server)
        self.revisions: dict[str, str] = {}  # recorded -> ours
        self.token = ""
        token = server.token()
        self.admin = {"Authorization": f"Bearer {token}"} if token else {}
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
        if one.get("user", "admin") == "admin" and not one.get("anonymous"):
            headers.update(self.admin)
        elif not one["anonymous"]:
            headers["Authorization"] = f"Bearer {one['user'] or 'nobody'}-token"
        return await Exchange.open(
            self.server.url,
            one["method"],
            self.path(one["path"]),
            headers=headers,
            body=one["request_body"],
            ssl=self.ssl,
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

    async def do(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        """Send a request between the recorded ones, as an administrator; it must succeed."""
        text = None if body is None else json.dumps(body)
        headers = {**self.admin, **(headers or {})}
        reply = await ask(self.server.url, method, path, headers=headers, body=text, ssl=self.ssl)
        assert reply.status < 300, reply.body
        return reply

    async def revision(self, collection: str = "/api/v1/namespaces") -> str:
        """The newest resourceVersion, by a list of a collection."""
        listed = await self.do("GET", f"{collection}?limit=1")
        return str(listed.json["metadata"]["resourceVersion"])

    async def until_watched(self, collection: str) -> None:
        """The watch cache of a real server begins after a restart, with whatever there is then."""
        async with asyncio.timeout(20):
            while True:
                query = f"watch=1&timeoutSeconds=1&resourceVersion={await self.revision(collection)}"
                reply = await ask(self.server.url, "GET", f"{collection}?{query}", headers=self.admin, ssl=self.ssl)
                if reply.status == 200 and '"ERROR"' not in str(reply.body):
                    return

    async def until_served(self, path: str) -> None:
        """A real server takes a moment from the creation of a definition to its discovery."""
        await until(
            lambda: ask(self.server.url, "GET", path, headers=self.admin, ssl=self.ssl),
            holds=lambda reply: reply.status == 200,
        )

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
        if "protobuf" in headers.get("content-type", ""):
            if not reply.body.startswith(b"k8s\0"):  # apimachinery, pkg/runtime/serializer/protobuf: its magic number
                self.differ(one, "protobuf", "k8s\\0", reply.body[:20])
            return
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


class CoreReplay(Replay):
    """core.jsonl: the built-in kinds, asked for by `admin`, who may do everything, and `user`, who may do nothing."""

    def __init__(self, server: ClusterServer) -> None:
        super().__init__(server)
        self.meanwhile = {
            "watch pods from rv": self.while_watching_from_a_version,
            "watch selector transitions": self.while_watching_a_selector,
        }
        scale = f"{DEPLOYMENTS}/d/scale"
        node = {"kind": "Node", "metadata": {"name": "node-1", "labels": {"zone": "a"}}}
        self.before: dict[str, Callable[[], Awaitable[Any]]] = {
            "watch as PartialObjectMetadata": lambda: self.label("p2", "z"),
            "watch single by field": lambda: self.label("p2", "zz"),
            "create while terminating": lambda: self.do("DELETE", "/api/v1/namespaces/default/configmaps/fin"),
            "deployment table": lambda: self.do("PATCH", scale, {"spec": {"replicas": 5}}, MERGE),
            "node status patch": lambda: self.do("POST", "/api/v1/nodes", node),
            "crd group discovery": lambda: self.until_served("/apis/demo.kinformer.dev/v1"),
        }

    async def run(self, *, left_out: frozenset[str] = frozenset()) -> list[str]:
        """Replay everything; return the differences, in words."""
        for one in recorded("core.jsonl"):
            name = one["name"]
            if name in left_out:
                continue
            if name in self.before:
                await self.before[name]()
            reply = await self.send(one, self.meanwhile.get(name))
            if name in ("rv", "rv2"):
                self.revisions[json.loads(one["response_body"])["metadata"]["resourceVersion"]] = await self.revision()
            if name == "list pods limit=2":
                self.token = reply.json["metadata"]["continue"]
        return self.differences

    async def label(self, name: str, value: str) -> None:
        await self.do("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"app": value}}}, MERGE)

    async def while_watching_from_a_version(self) -> None:
        await self.label("p0", "y2")
        running = {"status": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]}}
        await self.do("PATCH", f"{PODS}/p0/status", running, MERGE)
        await self.do("DELETE", f"{PODS}/p4")

    async def while_watching_a_selector(self) -> None:
        await self.label("p1", "moved")
        await self.label("p1", "x")


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


class CustomReplay(Replay):
    """vectors.jsonl: a custom resource and its definition, on a server without users."""

    def __init__(self, server: ClusterServer) -> None:
        super().__init__(server)
        self.before: dict[str, Callable[[], Awaitable[Any]]] = {
            "watch sendInitialEvents": self.change_and_delete_behind_its_history,
            "put no rv": self.color_by_json_patch,
            "apply conflict": self.apply_as_m1,
            "list gzip": self.fill_up,
            "deletecollection": lambda: self.do("DELETE", f"{WIDGETS}?labelSelector=app%3Dz"),
        }

    async def run(self, *, left_out: frozenset[str] = frozenset()) -> list[str]:
        """Replay everything; return the differences, in words."""
        await self.prepare()
        for one in recorded("vectors.jsonl"):
            name = one["name"]
            if name in left_out:
                continue
            if name == "big ok":
                one["request_body"] = json.dumps(widget("big", "", "") | {"spec": {"blob": "x" * 1_400_000}})
            if name == "body too large":
                one["request_body"] = json.dumps(widget("x", "", "") | {"spec": {"blob": "x" * 3_200_000}})
            if name in self.before:
                await self.before[name]()
            reply = await self.send(one)
            if name == "list limit=2":
                self.token = reply.json["metadata"]["continue"]
        return self.differences

    async def prepare(self) -> None:
        await self.do("POST", "/api/v1/namespaces", {"metadata": {"name": "ns1"}})
        await self.server.install_crds(widget_definition())
        for name, app, color in (
            ("a", "x", "red"),
            ("w0", "y", "red"),
            ("w1", "x", "red"),
            ("w2", "y", "blue"),
            ("w3", "x", "blue"),
            ("w4", "y", "blue"),
        ):
            await self.do("POST", WIDGETS, widget(name, app, color))
            if name == "a":
                self.revisions["5"] = await self.revision()
        self.revisions["10"] = await self.revision()

    async def change_and_delete_behind_its_history(self) -> None:
        await self.server.restart()
        await self.until_watched(WIDGETS)
        self.revisions["10"] = await self.revision(WIDGETS)
        await self.do("PATCH", f"{WIDGETS}/w0", {"metadata": {"labels": {"app": "y2"}}}, MERGE)
        await self.do("DELETE", f"{WIDGETS}/w4")

    async def color_by_json_patch(self) -> None:
        patch = [{"op": "replace", "path": "/spec/color", "value": "jp"}]
        await self.do("PATCH", f"{WIDGETS}/w0", patch, {"Content-Type": "application/json-patch+json"})

    async def apply_as_m1(self) -> None:
        body = widget("ap", "", "a")
        del body["metadata"]["labels"]
        await self.do("PATCH", f"{WIDGETS}/ap?fieldManager=m1", body, {"Content-Type": "application/apply-patch+yaml"})

    async def fill_up(self) -> None:
        for number in range(200):
            await self.do("POST", WIDGETS, widget(f"many-{number:03}", "z", "x" * 800))
