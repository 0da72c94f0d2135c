"""Objects of the embedded server: written over HTTP and directly, owned, finalized, defined, forbidden."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kinformer import AlreadyExistsError, Client, ConfigError, NotFoundError
from kinformer.exceptions import BadRequestError
from kinformer.testing import APIServer
from tests.support.apiserver_http import Reply, ask, send, watch
from tests.support.kube import config_map, pod, widget, widget_definition

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


def deployment(name: str = "d") -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "d"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def definition(**version: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"color": {"type": "string"}, "size": {"type": "integer"}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return widget_definition(schema, names={"shortNames": ["wd"]}, **{"subresources": {"status": {}}, **version})


def message(reply: Reply) -> str:
    return str(reply.json["message"])


# -- direct calls -----------------------------------------------------------------------------------------------------


async def test_a_direct_create_keeps_the_status_and_makes_the_namespace(server: APIServer) -> None:
    made = server.create(pod() | {"status": {"phase": "Running"}, "metadata": {"name": "p", "namespace": "team-a"}})
    assert made["status"] == {"phase": "Running"}
    assert made["metadata"]["resourceVersion"] == server.resource_version
    assert (await send(server, "GET", "/api/v1/namespaces/team-a/pods/p")).json == made
    assert server.get("v1/namespaces", None, "team-a") is not None


async def test_direct_calls_raise_what_a_client_would_get(server: APIServer) -> None:
    server.create(config_map())
    with pytest.raises(AlreadyExistsError):
        server.create(config_map())
    with pytest.raises(NotFoundError, match='configmaps "none" not found'):
        server.update(config_map("none"))
    with pytest.raises(NotFoundError):
        server.delete("v1/configmaps", "default", "none")
    with pytest.raises(BadRequestError, match='no matches for kind "Widget"'):
        server.create(widget())
    with pytest.raises(LookupError, match="v1/nones"):
        server.list("v1/nones")


async def test_what_a_caller_does_to_what_it_gave_or_got_changes_nothing(server: APIServer) -> None:
    given = config_map()
    got = server.create(given)
    given["data"]["k"] = got["data"]["k"] = "changed"
    stored = server.get("v1/configmaps", "default", "a")
    assert stored is not None
    assert stored["data"] == {"v": "1"}


async def test_a_direct_update_without_a_status_keeps_it(server: APIServer) -> None:
    server.create(pod() | {"status": {"phase": "Running"}})
    server.update(pod(node="n1"))
    assert server.list("v1/pods")[0]["status"]["phase"] == "Running"


# -- create, update, patch --------------------------------------------------------------------------------------------


async def test_the_server_names_counts_and_dates_what_is_created(server: APIServer) -> None:
    body = {"metadata": {"generateName": "gen-", "uid": "mine"}}
    one, two = [(await send(server, "POST", MAPS, body)).json["metadata"] for _ in range(2)]
    assert one["name"] != two["name"]
    assert one["name"].startswith("gen-")
    assert len(one["name"]) == 9
    assert one["uid"] not in ("mine", two["uid"])
    assert "generation" not in one, "configmaps have none"
    assert one["creationTimestamp"].endswith("Z")
    assert int(two["resourceVersion"]) == int(one["resourceVersion"]) + 1


async def test_a_write_that_changes_nothing_makes_no_revision(server: APIServer) -> None:
    made = server.create(config_map())
    reply = await send(server, "PUT", f"{MAPS}/a", config_map())
    assert reply.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"] == server.resource_version


async def test_a_stale_version_or_a_wrong_uid_is_a_conflict(server: APIServer) -> None:
    old = server.create(config_map())
    server.update(config_map(labels={"a": "1"}))
    stale = await send(server, "PUT", f"{MAPS}/a", old)
    assert (stale.status, "please apply your changes to the latest version" in message(stale)) == (409, True)
    other = await send(server, "PUT", f"{MAPS}/a", config_map(uid="zzz"))
    assert (other.status, "Precondition failed: UID in precondition: zzz" in message(other)) == (409, True)


async def test_the_generation_grows_with_the_spec_alone(server: APIServer) -> None:
    await send(server, "POST", DEPLOYMENTS, deployment())
    path = f"{DEPLOYMENTS}/d"
    labelled = await send(server, "PATCH", path, {"metadata": {"labels": {"x": "y"}}}, MERGE)
    status = await send(server, "PATCH", f"{path}/status", {"status": {"replicas": 2}, "spec": {"replicas": 9}}, MERGE)
    scaled = await send(server, "PATCH", path, {"spec": {"replicas": 3}, "status": {"replicas": 9}}, MERGE)
    generations = [one.json["metadata"]["generation"] for one in (labelled, status, scaled)]
    assert generations == [1, 1, 2]
    assert (status.json["spec"]["replicas"], scaled.json["status"]["replicas"]) == (2, 2)


async def test_a_dry_run_answers_and_leaves_no_trace(server: APIServer) -> None:
    before = server.resource_version
    made = await send(server, "POST", f"{MAPS}?dryRun=All", config_map())
    assert (made.status, made.json["data"]) == (201, {"v": "1"})
    assert (await send(server, "GET", f"{MAPS}/a")).status == 404
    server.create(config_map())
    assert (await send(server, "DELETE", f"{MAPS}/a?dryRun=All")).status == 200
    assert (await send(server, "GET", f"{MAPS}/a")).status == 200
    assert int(server.resource_version) == int(before) + 1


async def test_json_merge_and_strategic_patches_each_do_it_their_way(server: APIServer) -> None:
    await send(server, "POST", PODS, pod(spec={"tolerations": [{"key": "mine", "operator": "Exists"}]}))
    path = f"{PODS}/a"
    patch = [{"op": "test", "path": "/spec/containers/0/name", "value": "main"}]
    patch += [{"op": "add", "path": "/metadata/labels", "value": {"a/b": "1"}}]
    patched = await send(server, "PATCH", path, patch, JSON_PATCH)
    assert patched.json["metadata"]["labels"] == {"a/b": "1"}
    patched = await send(server, "PATCH", path, [{"op": "remove", "path": "/metadata/labels/a~1b"}], JSON_PATCH)
    assert "labels" not in patched.json["metadata"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "nginx:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await send(server, "POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec})

    async def containers(containers: list[dict[str, Any]], headers: dict[str, str]) -> list[str]:
        body = {"spec": {"template": {"spec": {"containers": containers}}}}
        reply = await send(server, "PATCH", f"{DEPLOYMENTS}/d", body, headers)
        return [one["name"] for one in reply.json["spec"]["template"]["spec"]["containers"]]

    # What the patch names comes first where nothing else tells the order.
    assert await containers([{"name": "side", "image": "busybox:1"}], STRATEGIC) == ["side", "c"], "merged by name"
    assert await containers([{"name": "c", "$patch": "delete"}], STRATEGIC) == ["side"]
    assert await containers([{"name": "x", "image": "y:1"}], MERGE) == ["x"], "a list is replaced"


async def test_apply_owns_fields_shares_equal_ones_and_takes_back_what_is_left_out(server: APIServer) -> None:
    def wanted(**data: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data}

    def apply(manager: str, body: Any, more: str = "") -> Any:
        return send(server, "PATCH", f"{MAPS}/a?fieldManager={manager}{more}", body, APPLY)

    assert (await apply("m1", wanted(a="1", b="1"))).status == 201
    shared = await apply("m2", wanted(a="1", c="2"))
    assert (shared.status, shared.json["data"]) == (200, {"a": "1", "b": "1", "c": "2"})
    refused = await apply("m2", wanted(a="2"))
    assert message(refused) == 'Apply failed with 1 conflict: conflict with "m1": .data.a'
    left = await apply("m2", wanted(c="2"))
    assert left.json["data"] == {"a": "1", "b": "1", "c": "2"}, "m1 still has a"
    less = await apply("m1", wanted(b="1"))
    assert less.json["data"] == {"b": "1", "c": "2"}
    forced = await apply("m2", wanted(b="9"), "&force=true")
    assert forced.json["data"] == {"b": "9"}
    owners = {one["manager"]: one["fieldsV1"] for one in forced.json["metadata"]["managedFields"]}
    assert owners == {"m2": {"f:data": {"f:b": {}}}}, "each manager has one entry, and m1 owns nothing any more"


async def test_an_update_takes_what_it_changes_from_who_applied_it(server: APIServer) -> None:
    body = config_map() | {"data": {"a": "1", "b": "1"}}
    await send(server, "PATCH", f"{MAPS}/a?fieldManager=m1", body, APPLY)
    changed = await send(server, "PATCH", f"{MAPS}/a?fieldManager=ed", {"data": {"b": "2"}}, MERGE)
    owners = {one["manager"]: one["fieldsV1"] for one in changed.json["metadata"]["managedFields"]}
    assert owners == {"m1": {"f:data": {"f:a": {}}}, "ed": {"f:data": {"f:b": {}}}}
    refused = await send(server, "PATCH", f"{MAPS}/a?fieldManager=m1", body, APPLY)
    assert refused.json["details"]["causes"][0]["field"] == ".data.b"
    assert refused.json["details"]["causes"][0]["message"] == 'conflict with "ed" using v1'


async def test_scale_reads_and_writes_the_replicas_of_a_deployment(server: APIServer) -> None:
    server.create(deployment())
    scale = (await send(server, "GET", f"{DEPLOYMENTS}/d/scale")).json
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=d")
    scale["spec"]["replicas"] = 5
    assert (await send(server, "PUT", f"{DEPLOYMENTS}/d/scale", scale)).json["spec"] == {"replicas": 5}
    assert server.list("apps/v1/deployments")[0]["spec"]["replicas"] == 5
    assert (await send(server, "PUT", f"{DEPLOYMENTS}/d/scale", scale)).status == 409, "its version is stale now"


async def test_a_write_names_its_namespace_and_keeps_within_what_etcd_takes(server: APIServer) -> None:
    assert (await send(server, "POST", "/api/v1/configmaps", config_map())).status == 405
    large = config_map() | {"data": {"k": "x" * 1_600_000}}
    refused = await send(server, "POST", MAPS, large)
    assert (refused.status, message(refused)) == (500, "etcdserver: request is too large")
    assert len(server.create(large)["data"]["k"]) == 1_600_000, "a direct call may"


# -- deletion ---------------------------------------------------------------------------------------------------------


async def test_finalizers_hold_an_object_until_the_last_is_removed(server: APIServer) -> None:
    made = server.create(config_map(finalizers=["x.io/a", "x.io/b"]))
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={made['metadata']['resourceVersion']}")
    marked = await send(server, "DELETE", f"{MAPS}/a")
    assert (marked.status, marked.json["metadata"]["deletionGracePeriodSeconds"]) == (200, 0)
    again = await send(server, "DELETE", f"{MAPS}/a")
    assert again.json["metadata"]["resourceVersion"] == marked.json["metadata"]["resourceVersion"]
    more = await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["x.io/a", "x.io/c"]}}, MERGE)
    assert (more.status, "no new finalizers can be added" in message(more)) == (422, True)
    await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["x.io/b"]}}, MERGE)
    last = await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, MERGE)
    assert last.status == 200
    assert (await send(server, "GET", f"{MAPS}/a")).status == 404
    events = [await stream.event() for _ in range(3)]
    assert [kind for kind, _ in events] == ["MODIFIED", "MODIFIED", "DELETED"]
    shown, gone = (int(one["metadata"]["resourceVersion"]) for one in (last.json, events[-1][1]))
    assert gone == shown + 1, "the answer has the version before, the event that of the deletion"
    await stream.close()


async def test_a_pod_on_a_node_is_given_time_and_force_takes_it(server: APIServer) -> None:
    server.create(pod(node="n1"))
    graceful = (await send(server, "DELETE", f"{PODS}/a")).json["metadata"]
    assert (graceful["deletionGracePeriodSeconds"], graceful["generation"]) == (30, 2)
    assert (await send(server, "GET", f"{PODS}/a")).status == 200
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    assert (await send(server, "DELETE", f"{PODS}/a", body)).json["kind"] == "Pod"
    assert (await send(server, "GET", f"{PODS}/a")).status == 404
    server.create(pod("direct", node="n1"))
    server.delete("v1/pods", "default", "direct")
    assert server.list("v1/pods") == [], "a direct call waits for nothing"


async def test_preconditions_guard_a_deletion(server: APIServer) -> None:
    uid = server.create(config_map())["metadata"]["uid"]
    refused = await send(server, "DELETE", f"{MAPS}/a", {"preconditions": {"resourceVersion": "1"}})
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    done = await send(server, "DELETE", f"{MAPS}/a", {"preconditions": {"uid": uid}})
    assert done.json["details"] == {"name": "a", "kind": "configmaps", "uid": uid}


async def test_a_namespace_takes_its_objects_with_it_and_waits_for_finalizers(server: APIServer) -> None:
    server.create(config_map(namespace="team"))
    server.create(config_map("held", namespace="team", finalizers=["x.io/f"]))
    assert (await send(server, "DELETE", "/api/v1/namespaces/team")).json["status"]["phase"] == "Terminating"
    left = await send(server, "GET", "/api/v1/namespaces/team/configmaps")
    assert [item["metadata"]["name"] for item in left.json["items"]] == ["held"]
    refused = await send(server, "POST", "/api/v1/namespaces/team/configmaps", config_map("new", namespace="team"))
    assert (refused.status, refused.json["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")
    await send(server, "PATCH", "/api/v1/namespaces/team/configmaps/held", {"metadata": {"finalizers": []}}, MERGE)
    assert (await send(server, "GET", "/api/v1/namespaces/team")).status == 404


async def test_a_collection_is_deleted_by_selector_and_told_event_by_event(server: APIServer) -> None:
    for name, app in (("a", "x"), ("b", "y"), ("c", "x")):
        server.create(config_map(name, labels={"app": app}))
    stream = await watch(server.url, f"{MAPS}?watch=1&resourceVersion={server.resource_version}")
    gone = await send(server, "DELETE", f"{MAPS}?labelSelector=app%3Dx")
    assert [item["metadata"]["name"] for item in gone.json["items"]] == ["a", "c"]
    assert [(await stream.event())[0] for _ in range(2)] == ["DELETED", "DELETED"]
    assert [one["metadata"]["name"] for one in server.list("v1/configmaps")] == ["b"]
    await stream.close()


# -- custom resources -------------------------------------------------------------------------------------------------


async def test_a_definition_is_established_and_its_kind_served_at_once(server: APIServer) -> None:
    made = server.register_crd(definition())
    assert {one["type"]: one["status"] for one in made["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    server.create(widget(color="red"))
    listed = (await send(server, "GET", "/apis/example.com/v1/widgets")).json
    assert list(listed) == ["apiVersion", "items", "kind", "metadata"]
    assert listed["items"][0]["kind"] == "Widget"
    found = (await send(server, "GET", "/apis/example.com/v1")).json["resources"]
    assert [(one["name"], one.get("shortNames")) for one in found] == [("widgets", ["wd"]), ("widgets/status", None)]


async def test_what_a_schema_does_not_know_is_pruned_warned_of_or_refused(server: APIServer) -> None:
    server.register_crd(definition())
    path = "/apis/example.com/v1/namespaces/default/widgets"
    warned = await send(server, "POST", path, widget(color="red", zzz=1))
    assert warned.json["spec"] == {"color": "red"}
    assert warned.headers["warning"] == '299 - "unknown field \\"spec.zzz\\""'
    strict = await send(server, "POST", f"{path}?fieldValidation=Strict", widget("w2", zzz=1))
    assert (strict.status, 'strict decoding error: unknown field "spec.zzz"' in message(strict)) == (400, True)


async def test_deleting_a_definition_deletes_its_objects_ends_its_watches_and_the_path(server: APIServer) -> None:
    server.register_crd(definition())
    server.create(widget())
    path = "/apis/example.com/v1/widgets"
    stream = await watch(server.url, f"{path}?watch=1&resourceVersion={server.resource_version}")
    server.delete("apiextensions.k8s.io/v1/customresourcedefinitions", None, "widgets.example.com")
    assert (await stream.event())[0] == "DELETED"
    assert await stream.line() == b""
    assert stream.reply.clean
    gone = await send(server, "GET", path)
    assert (gone.status, gone.body, gone.headers["content-type"]) == (
        404,
        b"404 page not found\n",
        "text/plain; charset=utf-8",
    )
    server.register_crd(definition())
    assert (await send(server, "GET", path)).json["items"] == []
    await stream.close()


async def test_a_deleted_definition_waits_for_the_finalizers_of_its_objects(server: APIServer) -> None:
    server.register_crd(definition())
    held = widget("held")
    held["metadata"]["finalizers"] = ["example.com/f"]
    server.create(held)
    server.create(widget("free"))
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    path = "/apis/example.com/v1/namespaces/default/widgets"
    for _ in range(2):
        answer = (await send(server, "DELETE", crd)).json
        assert answer["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
        assert answer["status"]["conditions"][-1]["type"] == "Terminating"
    [left] = (await send(server, "GET", path)).json["items"]
    assert (left["metadata"]["name"], "deletionTimestamp" in left["metadata"]) == ("held", True)
    for method, suffix, kind in (("POST", "", "application/json"), ("PATCH", "/late?fieldManager=m", APPLY)):
        refusal = await send(server, method, path + suffix, widget("late"), kind)
        text = "create not allowed while custom resource definition is terminating"
        assert (refusal.status, message(refusal)) == (403, f'widgets.example.com "late" is forbidden: {text}')
    freed = await send(server, "PATCH", f"{path}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert freed.status == 200
    assert [(await send(server, "GET", one)).status for one in (crd, path)] == [404, 404]


async def test_an_edited_definition_ends_the_watches_of_its_kind_cleanly(server: APIServer) -> None:
    server.register_crd(definition())
    stream = await watch(server.url, f"/apis/example.com/v1/widgets?watch=1&resourceVersion={server.resource_version}")
    server.register_crd(definition(selectableFields=[{"jsonPath": ".spec.color"}]))
    assert await stream.line() == b""
    assert stream.reply.clean
    server.create(widget("a", color="red"))
    server.create(widget("b", color="blue"))
    red = await send(server, "GET", "/apis/example.com/v1/widgets?fieldSelector=spec.color%3Dred")
    assert [item["metadata"]["name"] for item in red.json["items"]] == ["a"]
    await stream.close()


async def test_definitions_are_installed_from_folders_and_kinds_registered_without_one(
    server: APIServer, tmp_path: Path
) -> None:
    (tmp_path / "crd.yaml").write_text(json.dumps(definition()))
    await server.install_crds(tmp_path)
    server.create(widget())
    server.register("lab.io/v1alpha1", "Probe", "probes", namespaced=False)
    server.create({"apiVersion": "lab.io/v1alpha1", "kind": "Probe", "metadata": {"name": "x"}, "any": {"thing": 1}})
    assert (await send(server, "GET", "/apis/lab.io/v1alpha1/probes/x")).json["any"] == {"thing": 1}
    with pytest.raises(ConfigError):
        await server.install_crds(tmp_path / "none")


# -- who may what -----------------------------------------------------------------------------------------------------


async def test_users_and_rules_decide_by_verb_and_resource(tmp_path: Path) -> None:
    rules = [("ann", "list", "v1/pods"), ("bob", "*", "*")]
    async with APIServer(users={"t1": "ann", "t2": "bob"}, rules=rules) as server:

        async def status(token: str, path: str) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return (await ask(server.url, "GET", path, headers=headers)).status

        assert await status("t1", "/api/v1/pods") == 200
        assert await status("t1", "/api/v1/pods?watch=1") == 403
        assert await status("t1", "/api/v1/configmaps") == 403
        assert await status("t2", "/api/v1/configmaps") == 200
        assert await status("wrong", "/healthz") == 401
        assert await status("", "/api/v1/pods") == 403
        assert await status("", "/healthz") == 200
        assert await status("t1", "/apis") == 200
        assert (server.requests[0].user, server.requests[-2].user) == ("ann", "system:anonymous")
        with pytest.raises(ConfigError, match="ann, bob"):
            server.kubeconfig(tmp_path / "none", user="eve")
        config = json.loads(server.kubeconfig(tmp_path / "config", user="ann").read_text())
        assert config["users"][0]["user"] == {"token": "t1"}
        async with server.client() as client:
            assert (await client.request("GET", "/api/v1/configmaps"))["items"] == []


# -- discovery --------------------------------------------------------------------------------------------------------


async def test_discovery_says_of_each_kind_what_a_real_server_says_of_it(server: APIServer) -> None:
    wire = Path(__file__).parents[1] / "wire" / "recorded" / "core.jsonl"
    recorded = {one["name"]: one for one in map(json.loads, wire.read_text(encoding="utf-8").splitlines())}
    for name in ("core discovery", "apps discovery"):
        real = {one["name"]: one for one in json.loads(recorded[name]["response_body"])["resources"]}
        ours = (await send(server, "GET", recorded[name]["path"])).json
        assert list(ours) == list(json.loads(recorded[name]["response_body"]))
        assert len(ours["resources"]) > 5
        for one in ours["resources"]:
            assert one == real[one["name"]]
    one = recorded["aggregated groups"]
    reply = await ask(server.url, "GET", "/apis", headers=one["request_headers"])
    assert reply.headers["content-type"] == one["request_headers"]["Accept"]
    real_groups = {item["metadata"]["name"]: item for item in json.loads(one["response_body"])["items"]}
    for item in reply.json["items"]:
        versions = {version["version"]: version for version in real_groups[item["metadata"]["name"]]["versions"]}
        for version in item["versions"]:
            known = {entry["resource"]: entry for entry in versions[version["version"]]["resources"]}
            for entry in version["resources"]:
                assert entry == known[entry["resource"]]
    tag = {**one["request_headers"], "If-None-Match": reply.headers["etag"]}
    unchanged = await ask(server.url, "GET", "/apis", headers=tag)
    assert (unchanged.status, unchanged.body) == (304, b"")
    server.register("lab.io/v1", "Probe", "probes")
    assert (await ask(server.url, "GET", "/apis", headers=tag)).status == 200


async def test_head_is_a_read_without_a_body_where_it_is_allowed_at_all(server: APIServer) -> None:
    server.register_crd(definition())
    server.create(config_map())
    server.create(widget())
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    allowed = ["/healthz", "/openapi/v3", widgets, f"{widgets}/{widget()['metadata']['name']}"]
    async with aiohttp.ClientSession() as session:  # on one connection, where a body would be the next answer
        for path in [*allowed, "/version", "/api", "/apis/apps/v1", MAPS, f"{MAPS}/a", f"{MAPS}/none", "/api/v1/nope"]:
            async with session.head(server.url + path) as reply:
                wanted = 200 if path in allowed else 404 if path.endswith("nope") else 405
                assert (path, reply.status, await reply.read()) == (path, wanted, b"")


async def test_the_pods_of_a_deleted_namespace_go_before_everything_else(server: APIServer, client: Client) -> None:
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    held = pod("held", namespace="shop")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    server.create(held)
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}})
    await client.request("DELETE", "/api/v1/namespaces/shop")
    assert server.get("v1/configmaps", "shop", "a") is not None
    stored = server.get("v1/pods", "shop", "held")
    assert stored is not None
    assert "deletionTimestamp" in stored["metadata"]
    path = "/api/v1/namespaces/shop/pods/held"
    await client.request("PATCH", path, body={"metadata": {"finalizers": None}})
    assert server.get("v1/namespaces", None, "shop") is None
    assert server.list("v1/configmaps", "shop") == []
