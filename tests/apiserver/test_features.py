"""The embedded server's switches, and its answers to clients other than ours.

Internals: the encoder of events, whose calls are counted.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import zlib
from collections.abc import Mapping
from typing import Any

import pytest

from kinformer.apiserver import views
from kinformer.testing import APIServer, Features
from tests.support.apiserver_http import ask, send, watch
from tests.support.kube import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CORE = "/api/v1/namespaces/default"
MERGE = "application/merge-patch+json"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
STREAMED = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


# -- bodies in protobuf -----------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: bytes | str | int) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def unknown(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\0" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


async def test_a_body_in_protobuf_is_read(server: APIServer) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    metadata = field(1, "p") + field(11, field(1, "app") + field(2, "web"))
    port = field(3, 80) + field(4, "TCP")
    quantity = field(1, "cpu") + field(2, field(1, "1000m"))
    container = field(1, "c") + field(2, "nginx:1") + field(6, port) + field(8, field(1, quantity))
    volume = field(1, "v") + field(2, field(19, field(1, field(1, "cm"))))  # of an inlined VolumeSource
    spec = field(1, volume) + field(2, container) + field(4, 5) + field(11, 1)
    body = unknown("v1", "Pod", field(1, metadata) + field(2, spec))
    reply = await ask(server.url, "POST", PODS, body=body, headers=headers)
    assert reply.status == 201
    made = reply.json
    assert made["metadata"]["labels"] == {"app": "web"}
    assert made["spec"]["containers"][0]["ports"] == [{"hostPort": 80, "containerPort": 80, "protocol": "TCP"}]
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1"}
    assert made["spec"]["volumes"] == [{"name": "v", "configMap": {"name": "cm", "defaultMode": 420}}]
    assert (made["spec"]["terminationGracePeriodSeconds"], made["spec"]["hostNetwork"]) == (5, True)


async def test_a_body_that_is_no_protobuf_is_refused(server: APIServer) -> None:
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    reply = await ask(server.url, "POST", MAPS, body=json.dumps(config_map()), headers=headers)
    assert reply.status == 400
    assert "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]" in str(reply.json)
    cut = unknown("v1", "ConfigMap", field(1, field(1, "a")))[:-2]
    assert (await ask(server.url, "POST", MAPS, body=cut, headers=headers)).status == 400
    custom = unknown("example.com/v1", "Widget", b"")
    assert (await ask(server.url, "POST", MAPS, body=custom, headers=headers)).status == 415


# -- OpenAPI, tokens, reviews, evictions ------------------------------------------------------------------------------


async def test_openapi_tells_the_types_of_what_is_served(server: APIServer) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    root = (await send(server, "GET", "/openapi/v3")).json["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.com/v1"} <= root.keys()
    apps = (await send(server, "GET", root["apis/apps/v1"]["serverRelativeURL"])).json
    schemas = apps["components"]["schemas"]
    spec = schemas["io.k8s.api.apps.v1.DeploymentSpec"]
    assert set(spec["required"]) == {"selector", "template"}
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["items"]["allOf"][0]["$ref"] in {f"#/components/schemas/{name}" for name in schemas}
    patch = apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {one["name"] for one in patch["parameters"]}
    custom = (await send(server, "GET", root["apis/example.com/v1"]["serverRelativeURL"])).json
    assert "com.example.v1.Widget" in custom["components"]["schemas"]
    old = (await send(server, "GET", "/openapi/v2")).json
    assert old["swagger"] == "2.0"
    assert {"io.k8s.api.core.v1.Pod", "com.example.v1.Widget"} <= old["definitions"].keys()


async def test_a_service_account_is_given_tokens_that_log_it_in() -> None:
    name = "system:serviceaccount:default:me"
    async with APIServer(users={"t": "u"}, rules=[(name, "list", "v1/configmaps")]) as server:
        server.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "me"}})
        admin = {"Authorization": f"Bearer {server.token()}", "Content-Type": "application/json"}
        path = f"{CORE}/serviceaccounts/me/token"
        body = json.dumps({"spec": {"expirationSeconds": 600, "audiences": ["a"]}})
        reply = await ask(server.url, "POST", path, body=body, headers=admin)
        assert (reply.status, reply.json["kind"], reply.json["spec"]["audiences"]) == (201, "TokenRequest", ["a"])
        token = reply.json["status"]["token"]
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        assert (claims["sub"], claims["aud"], claims["exp"] - claims["iat"]) == (name, ["a"], 600)
        own = {"Authorization": f"Bearer {token}"}
        assert (await ask(server.url, "GET", MAPS, headers=own)).status == 200
        refused = await ask(server.url, "GET", PODS, headers=own)
        assert f'User "{name}" cannot list resource "pods"' in refused.json["message"]
        short = await ask(server.url, "POST", path, body='{"spec":{"expirationSeconds":5}}', headers=admin)
        assert "may not specify a duration less than 10 minutes" in short.json["message"]
        missing = await ask(server.url, "POST", f"{CORE}/serviceaccounts/no/token", body="{}", headers=admin)
        assert missing.status == 404


async def test_reviews_say_who_one_is_and_what_one_may() -> None:
    async with APIServer(users={"t": "u"}, rules=[("u", "get", "v1/pods")]) as server:
        own = {"Authorization": "Bearer t", "Content-Type": "application/json"}

        async def review(group: str, kind: str, spec: Mapping[str, Any]) -> Any:
            path = f"/apis/{group}.k8s.io/v1/{kind}"
            reply = await ask(server.url, "POST", path, body=json.dumps({"spec": spec}), headers=own)
            assert reply.status == 201
            return reply.json["status"]

        assert (await review("authentication", "selfsubjectreviews", {}))["userInfo"]["username"] == "u"
        for verb, allowed in (("get", True), ("delete", False)):
            spec = {"resourceAttributes": {"verb": verb, "resource": "pods", "namespace": "default"}}
            assert (await review("authorization", "selfsubjectaccessreviews", spec))["allowed"] is allowed
        rules = await review("authorization", "selfsubjectrulesreviews", {"namespace": "default"})
        assert rules["resourceRules"] == [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        refused = await ask(server.url, "POST", path, body="{}", headers=own)
        assert refused.status == 403, "only what is about oneself is for everybody"


async def test_a_disruption_budget_holds_back_an_eviction(server: APIServer) -> None:
    pod = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await send(server, "POST", PODS, pod)
    await send(server, "PATCH", f"{PODS}/p/status", {"status": {"phase": "Running"}}, MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await send(server, "POST", budgets, {"metadata": {"name": "b"}, "spec": spec})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    held = await send(server, "POST", f"{PODS}/p/eviction", eviction)
    assert (held.status, held.headers["retry-after"]) == (429, "10")
    assert held.json["details"]["causes"][0]["message"] == (
        "The disruption budget b is still being processed by the server."
    )
    status = {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1}
    await send(server, "PATCH", f"{budgets}/b/status", {"status": status}, MERGE)
    other = {**eviction, "metadata": {"name": "other"}}
    wrong = await send(server, "POST", f"{PODS}/p/eviction", other)
    assert wrong.json["message"] == "name in URL does not match name in Eviction object"
    assert (await send(server, "POST", f"{PODS}/p/eviction", eviction)).status == 201
    assert (await send(server, "GET", f"{PODS}/p")).status == 404
    left = (await send(server, "GET", f"{budgets}/b")).json["status"]
    assert (left["disruptionsAllowed"], list(left["disruptedPods"])) == (0, ["p"])


# -- kinds ------------------------------------------------------------------------------------------------------------


async def test_an_autoscaler_has_two_versions(server: APIServer) -> None:
    v1, v2 = (f"/apis/autoscaling/{one}/namespaces/default/horizontalpodautoscalers" for one in ("v1", "v2"))
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    old = {"scaleTargetRef": target, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60}
    assert (await send(server, "POST", v1, {"metadata": {"name": "a"}, "spec": old})).status == 201
    new = (await send(server, "GET", f"{v2}/a")).json
    assert (new["apiVersion"], new["spec"]["metrics"][0]["resource"]["target"]) == (
        "autoscaling/v2",
        {"type": "Utilization", "averageUtilization": 60},
    )
    memory = {"type": "Resource", "resource": {"name": "memory", "target": {"type": "Value", "averageValue": "1Gi"}}}
    await send(server, "PATCH", f"{v2}/a", {"spec": {"metrics": [memory]}}, MERGE)
    back = (await send(server, "GET", f"{v1}/a")).json
    assert "targetCPUUtilizationPercentage" not in back["spec"]
    assert "memory" in back["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"]
    table = (await ask(server.url, "GET", v2, headers=TABLE)).json
    assert table["rows"][0]["cells"][:3] == ["a", "Deployment/d", "memory: <unknown>/1Gi"]


async def test_an_event_has_two_faces(server: APIServer) -> None:
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    body = {"metadata": {"name": "e"}, "note": "hello", "regarding": about, "reason": "Why", "type": "Normal"}
    body |= {"eventTime": "2026-11-20T08:00:00.000000Z", "reportingController": "kinformer.dev/test"}
    path = "/namespaces/default/events"
    assert (await send(server, "POST", f"/apis/events.k8s.io/v1{path}", body)).status == 201
    core = (await send(server, "GET", f"/api/v1{path}/e")).json
    assert (core["apiVersion"], core["message"], core["involvedObject"]["name"]) == ("v1", "hello", "p")
    new = (await send(server, "GET", f"/apis/events.k8s.io/v1{path}/e")).json
    assert (new["apiVersion"], new["note"]) == ("events.k8s.io/v1", "hello")


async def test_a_service_is_given_addresses_and_ports_and_keeps_them(server: APIServer) -> None:
    path = f"{CORE}/services"
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"a": "b"}}
    made = (await send(server, "POST", path, {"metadata": {"name": "s"}, "spec": spec})).json["spec"]
    assert made["clusterIPs"] == [made["clusterIP"]]
    assert 30_000 <= made["ports"][0]["nodePort"] < 32_768
    assert (made["ports"][0]["targetPort"], made["ipFamilies"]) == (80, ["IPv4"])
    replaced = (await send(server, "PUT", f"{path}/s", {"metadata": {"name": "s"}, "spec": spec})).json["spec"]
    assert (replaced["clusterIP"], replaced["ports"]) == (made["clusterIP"], made["ports"])
    moved = await send(server, "PATCH", f"{path}/s", {"spec": {"clusterIP": "10.0.0.99"}}, MERGE)
    assert "may not change once set" in moved.json["message"]
    headless = {"clusterIP": "None", "ports": [{"port": 80}]}
    made = (await send(server, "POST", path, {"metadata": {"name": "h"}, "spec": headless})).json["spec"]
    assert (made["clusterIP"], made["clusterIPs"]) == ("None", ["None"])


async def test_a_claim_is_protected_until_it_is_deleted_and_goes_with_its_namespace(server: APIServer) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("a", "b"):
        await send(server, "POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
    made = await send(server, "DELETE", f"{CORE}/persistentvolumeclaims/a")
    assert made.json["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    left = await send(server, "GET", f"{CORE}/persistentvolumeclaims")
    assert [one["metadata"]["name"] for one in left.json["items"]] == ["b"]
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
    path = "/api/v1/namespaces/n/persistentvolumeclaims"
    await send(server, "POST", path, {"metadata": {"name": "c"}, "spec": spec})
    await send(server, "DELETE", "/api/v1/namespaces/n")
    assert (await send(server, "GET", "/api/v1/namespaces/n")).status == 404


async def test_lists_stay_in_order_whatever_came_and_went_between_them(server: APIServer) -> None:
    for turn, (add, drop) in enumerate((("dbf", ""), ("ac", "b"), ("be", "ad"), ("a", "ce"))):
        for name in add:
            server.create(config_map(name))
        for name in drop:
            server.delete("v1/configmaps", "default", name)
        names = [one["metadata"]["name"] for one in server.list("v1/configmaps")]
        assert names == sorted(names), turn
    server.delete("v1/configmaps", "default", "a")
    server.create(config_map("a"))
    assert [one["metadata"]["name"] for one in server.list("v1/configmaps")] == ["a", "b", "f"]


async def test_quantities_are_written_in_their_shortest_form(server: APIServer) -> None:
    given = ["1000m", "0.5", "1024Mi", "1.5Gi", "100000", "1e3", "0.1Gi", "5G", "1000Ki", "0"]
    body = {"metadata": {"name": "q"}, "spec": {"hard": {f"x.io/{index}": one for index, one in enumerate(given)}}}
    hard = (await send(server, "POST", f"{CORE}/resourcequotas", body)).json["spec"]["hard"]
    wanted = ["1", "500m", "1Gi", "1536Mi", "100k", "1e3", "107374182400m", "5G", "1000Ki", "0"]
    assert [hard[f"x.io/{index}"] for index in range(len(given))] == wanted


async def test_a_pods_row_says_how_it_is(server: APIServer) -> None:
    def state(name: str, restarts: int = 0, *, ready: bool = False, **state: Any) -> dict[str, Any]:
        return {"name": name, "restartCount": restarts, "ready": ready, "state": state, "image": "i", "imageID": ""}

    crashed = {"reason": "CrashLoopBackOff"}
    cases: list[tuple[dict[str, Any], list[Any]]] = [
        ({"phase": "Pending"}, ["0/1", "Pending", "0"]),
        ({"phase": "Running", "containerStatuses": [state("c", 3, waiting=crashed)]}, ["0/1", "CrashLoopBackOff", "3"]),
        ({"phase": "Running", "containerStatuses": [state("c", ready=True, running={})]}, ["1/1", "Running", "0"]),
        (
            {"phase": "Pending", "initContainerStatuses": [state("i", 1, terminated={"exitCode": 2})]},
            ["0/1", "Init:ExitCode:2", "1"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [state("c", terminated={"exitCode": 1, "reason": "Error"})]},
            ["0/1", "Error", "0"],
        ),
    ]
    for index, (status, _) in enumerate(cases):
        spec = {"containers": [{"name": "c", "image": "i"}]}
        metadata = {"name": f"p{index}", "namespace": "default"}
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    rows = (await ask(server.url, "GET", PODS, headers=TABLE)).json["rows"]
    assert [row["cells"][1:4] for row in rows] == [cells for _, cells in cases]
    assert rows[4]["conditions"][0]["reason"] == "Failed"


async def test_who_sends_managed_fields_has_them_taken_and_an_empty_entry_forgets_them(server: APIServer) -> None:
    made = (await send(server, "POST", MAPS, config_map())).json
    entries = made["metadata"]["managedFields"]
    renamed = [{**entries[0], "manager": "other"}]
    reply = await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"managedFields": renamed}}, MERGE)
    assert [one["manager"] for one in reply.json["metadata"]["managedFields"]] == ["other"]
    reply = await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"managedFields": [{}]}}, MERGE)
    assert "managedFields" not in reply.json["metadata"]
    reply = await send(server, "PATCH", f"{MAPS}/a", {"data": {"x": "y"}}, MERGE)
    assert "managedFields" not in reply.json["metadata"], "who owned nothing is not followed"


async def test_a_get_by_name_is_no_watch_and_the_old_path_of_one_object_is(server: APIServer) -> None:
    server.create(config_map("a"))
    server.create(config_map("b"))
    assert (await send(server, "GET", f"{MAPS}/a?watch=1")).json["kind"] == "ConfigMap"
    old = await watch(server.url, "/api/v1/watch/namespaces/default/configmaps/b?resourceVersion=0")
    kind, obj = await old.event()
    assert (kind, obj["metadata"]["name"]) == ("ADDED", "b")
    await old.close()


async def test_the_log_has_every_request_with_its_parameters(server: APIServer) -> None:
    await send(server, "GET", "/api/v1/pods?limit=1&labelSelector=a%3Db")
    await send(server, "GET", "/nothing/here")
    first, second = server.requests
    assert (first.method, first.path, first.params) == ("GET", "/api/v1/pods", {"limit": "1", "labelSelector": "a=b"})
    assert [first.status, second.status] == [200, 404]


# -- switches ---------------------------------------------------------------------------------------------------------


async def test_without_the_gate_there_are_no_streaming_lists_and_no_bookmark_at_their_end() -> None:
    async with APIServer(features=Features(watch_list=False)) as server:
        server.create(config_map())
        reply = await send(server, "GET", f"{MAPS}?{STREAMED}")
        text = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        assert (reply.status, text in reply.json["message"]) == (422, True)
        legacy = await watch(server.url, f"{MAPS}?watch=1&allowWatchBookmarks=true")
        assert (await legacy.event())[0] == "ADDED"
        server.create(config_map("b"))
        assert (await legacy.event())[0] == "ADDED", "no bookmark came in between"
        await legacy.close()


@pytest.mark.parametrize("query", [STREAMED, "watch=1&allowWatchBookmarks=true"])
async def test_a_streaming_list_may_come_in_gzip_members(query: str) -> None:
    async with APIServer(features=Features(compress_watches=True)) as server:
        server.create(config_map())
        gzip = {"Accept-Encoding": "gzip"}
        stream = await watch(server.url, f"{MAPS}?{query}&timeoutSeconds=60", headers=gzip)
        assert stream.reply.headers["content-encoding"] == "gzip"
        members = [await stream.chunk()]
        server.create(config_map("b"))
        members.append(await stream.chunk())
        await stream.close()
        texts = [zlib.decompress(member, wbits=31).decode() for member in members]  # each a whole member
        assert [json.loads(line)["type"] for line in texts[0].splitlines()] == ["ADDED", "BOOKMARK"]
        assert json.loads(texts[1])["object"]["metadata"]["name"] == "b"
        plain = await watch(server.url, f"{MAPS}?{query}")
        assert "content-encoding" not in plain.reply.headers
        await plain.close()
        other = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}", headers=gzip)
        assert "content-encoding" not in other.reply.headers, "only what begins with a list is compressed"
        await other.close()


HALVES = ("0x0000000000000000", "0x8000000000000000", "0x10000000000000000")


def shard(start: str, end: str) -> str:
    return f"shardSelector=shardRange(object.metadata.uid,'{start}','{end}')"


async def test_shards_divide_a_list_and_its_watch() -> None:
    async with APIServer(features=Features(sharding=True)) as server:
        for index in range(40):
            server.create(config_map(f"m{index}"))
        parts = []
        for start, end in itertools.pairwise(HALVES):
            reply = await send(server, "GET", f"{MAPS}?{shard(start, end)}")
            selector = reply.json["metadata"]["shardInfo"]["selector"]
            assert selector == f"shardRange(object.metadata.uid, '{start}', '{end}')"
            parts.append({one["metadata"]["name"] for one in reply.json["items"]})
        assert len(parts[0] | parts[1]) == 40
        assert not parts[0] & parts[1]
        assert min(map(len, parts)) > 5
        both = "%7C%7C".join(shard(*pair).removeprefix("shardSelector=") for pair in (HALVES[:2], HALVES[1:]))
        assert len((await send(server, "GET", f"{MAPS}?shardSelector={both}")).json["items"]) == 40
        version = server.resource_version
        stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={version}&{shard(*HALVES[:2])}")
        for index in range(40):
            server.delete("v1/configmaps", "default", f"m{index}")
        seen = [await stream.event() for _ in parts[0]]
        assert {obj["metadata"]["name"] for _, obj in seen} == parts[0]
        await stream.close()
        wrong = await send(server, "GET", f"{MAPS}?shardSelector=foo(1)")
        text = 'invalid shard selector: unsupported function "foo"; only shardRange() and || are allowed'
        assert (wrong.status, wrong.json["message"]) == (500, text)


async def test_a_shard_selector_is_ignored_without_the_gate(server: APIServer) -> None:
    for index in range(10):
        server.create(config_map(f"m{index}"))
    reply = await send(server, "GET", f"{MAPS}?{shard(*HALVES[:2])}")
    assert len(reply.json["items"]) == 10
    assert "shardInfo" not in reply.json["metadata"]


@pytest.mark.virtual_time
async def test_an_edited_definition_may_make_its_kind_wait() -> None:
    async with APIServer(features=Features(initializing=0.5)) as server:
        names = {"plural": "widgets", "kind": "Widget"}
        spec = {"group": "x.io", "scope": "Cluster", "names": names, "versions": [{"name": "v1", "storage": True}]}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        server.register_crd(crd | {"metadata": {"name": "widgets.x.io"}})
        assert (await send(server, "GET", "/apis/x.io/v1/widgets")).status == 200
        names["shortNames"] = ["wd"]  # type: ignore[assignment]
        server.register_crd(crd | {"metadata": {"name": "widgets.x.io"}})
        waits = await send(server, "GET", "/apis/x.io/v1/widgets")
        assert (waits.status, waits.headers["retry-after"]) == (429, "1")
        assert waits.json["message"] == "storage is (re)initializing"
        await asyncio.sleep(0.5)
        assert (await send(server, "GET", "/apis/x.io/v1/widgets")).status == 200


async def test_a_graceful_restart_ends_watches_cleanly_and_an_abrupt_one_does_not(server: APIServer) -> None:
    for graceful in (True, False):
        stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
        await server.restart(graceful=graceful)
        assert await stream.chunk() == b""
        assert stream.reply.clean is graceful
        await stream.close()


async def test_an_event_is_encoded_once_however_many_watch(server: APIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[str] = []
    real = views.FormView.event

    def counted(view: views.FormView, kind: str, stored: Any, *, first: bool = False) -> bytes:
        encoded.append(stored.name)
        return real(view, kind, stored, first=first)

    version = server.resource_version
    streams = [await watch(server.url, f"{MAPS}?watch=1&resourceVersion={version}") for _ in range(10)]
    monkeypatch.setattr(views.FormView, "event", counted)  # the bytes do not tell how often they were made
    for name in ("a", "b", "c"):
        server.create(config_map(name))
    lines = [[await stream.line() for _ in range(3)] for stream in streams]
    assert all(one == lines[0] for one in lines)
    assert encoded == ["a", "b", "c"]
    for stream in streams:
        await stream.close()
