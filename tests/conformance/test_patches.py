"""The four kinds of patches, and who owns which field afterwards."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import APPLY, JSON_PATCH, STRATEGIC, Site
from tests.conformance.test_objects import configmap, deployment, pod


async def test_a_merge_patch_adds_replaces_and_removes(site: Site) -> None:
    await site.post(site.configmaps, configmap("a", keep="1", change="1", drop="1"))
    await site.patch(f"{site.configmaps}/a", {"data": {"change": "2", "drop": None, "new": "3"}})
    await site.patch(f"{site.configmaps}/a", {"data": None})
    await site.patch(f"{site.configmaps}/a", {"data": {"n": 1}})
    await site.patch(f"{site.configmaps}/a", [])
    await site.patch(f"{site.configmaps}/a", "{")
    await site.patch(f"{site.configmaps}/a", {})
    await site.patch(f"{site.configmaps}/missing", {"data": {}})
    await site.patch(f"{site.configmaps}/a", {"data": {}}, "application/json")


async def test_a_merge_patch_may_insist_on_a_version(site: Site) -> None:
    made = (await site.post(site.configmaps, configmap("a", n="0"))).json
    version = made["metadata"]["resourceVersion"]
    await site.patch(f"{site.configmaps}/a", {"metadata": {"resourceVersion": version}, "data": {"n": "1"}})
    await site.patch(f"{site.configmaps}/a", {"metadata": {"resourceVersion": version}, "data": {"n": "2"}})


async def test_a_json_patch_works_step_by_step_or_not_at_all(site: Site) -> None:
    await site.post(site.configmaps, configmap("a", n="1"))
    path = f"{site.configmaps}/a"
    await site.patch(path, [{"op": "add", "path": "/data/m", "value": "2"}], JSON_PATCH)
    await site.patch(path, [{"op": "test", "path": "/data/n", "value": "9"}], JSON_PATCH)
    steps = [{"op": "test", "path": "/data/n", "value": "1"}, {"op": "replace", "path": "/data/n", "value": "3"}]
    await site.patch(path, steps, JSON_PATCH)
    await site.patch(path, [{"op": "remove", "path": "/data/nothing"}], JSON_PATCH)
    await site.patch(path, [{"op": "replace", "path": "/data/nothing", "value": "1"}], JSON_PATCH)
    await site.patch(path, [{"op": "copy", "from": "/data/n", "path": "/data/copy"}], JSON_PATCH)
    await site.patch(path, [{"op": "move", "from": "/data/copy", "path": "/data/moved"}], JSON_PATCH)
    await site.patch(path, [{"op": "add", "path": "/metadata/labels/x", "value": "1"}], JSON_PATCH)
    await site.patch(path, [{"op": "add", "path": "/metadata/labels", "value": {"a~b": "1"}}], JSON_PATCH)
    await site.patch(path, [{"op": "add", "path": "/metadata/labels", "value": {"a.b/c": "1"}}], JSON_PATCH)
    await site.patch(path, [{"op": "replace", "path": "/metadata/labels/a.b~1c", "value": "2"}], JSON_PATCH)
    await site.patch(path, [{"op": "dance", "path": "/data"}], JSON_PATCH)
    await site.patch(path, {"op": "remove", "path": "/data"}, JSON_PATCH)
    await site.patch(path, [], JSON_PATCH)


async def test_a_json_patch_reaches_into_lists(site: Site) -> None:
    await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "finalizers": ["x.io/a", "x.io/b"]}})
    path = f"{site.configmaps}/a"
    await site.patch(path, [{"op": "add", "path": "/metadata/finalizers/1", "value": "x.io/c"}], JSON_PATCH)
    await site.patch(path, [{"op": "add", "path": "/metadata/finalizers/-", "value": "x.io/d"}], JSON_PATCH)
    await site.patch(path, [{"op": "remove", "path": "/metadata/finalizers/9"}], JSON_PATCH)
    await site.patch(path, [{"op": "remove", "path": "/metadata/finalizers"}], JSON_PATCH)


async def test_a_strategic_patch_merges_lists_by_their_keys(site: Site) -> None:
    body = deployment("a", 1)
    container = body["spec"]["template"]["spec"]["containers"][0]
    container |= {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "ports": [{"containerPort": 80}]}
    deployments = site.of("apps/v1", "deployments")
    await site.post(deployments, body)

    async def patch(spec: dict[str, Any]) -> None:
        await site.patch(f"{deployments}/a", {"spec": {"template": {"spec": spec}}}, STRATEGIC)

    await patch({"containers": [{"name": "main", "image": "registry.invalid/main:2"}]})
    await patch({"containers": [{"name": "side", "image": "registry.invalid/side:1"}]})
    await patch({"containers": [{"name": "main", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]})
    await patch({"containers": [{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]})
    await patch({"containers": [{"name": "main", "ports": [{"containerPort": 443, "name": "https"}]}]})
    await patch({"tolerations": [{"key": "a", "operator": "Exists"}]})
    await patch({"tolerations": [{"key": "b", "operator": "Exists"}]})
    await patch({"volumes": [{"name": "tmp", "emptyDir": {}}]})
    await patch({"volumes": [{"name": "more", "emptyDir": {}}]})
    await patch({"containers": [{"$patch": "replace"}, {"name": "only", "image": "registry.invalid/only:1"}]})
    await patch(
        {"$setElementOrder/containers": [{"name": "z"}, {"name": "only"}], "containers": [{"name": "z", "image": "z"}]}
    )
    await patch({"$retainKeys": ["containers"], "containers": [{"name": "only"}]})
    await site.patch(f"{deployments}/a", {"metadata": {"labels": {"x": "1", "$patch": "replace"}}}, STRATEGIC)


async def test_conditions_are_merged_by_type(site: Site) -> None:
    await site.post(site.pods, pod("a"))
    path = f"{site.pods}/a/status"
    for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        await site.patch(path, {"status": {"conditions": [{"type": kind, "status": value}]}}, STRATEGIC)
    await site.patch(path, {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}, STRATEGIC)


async def test_finalizers_are_merged_as_a_set(site: Site) -> None:
    await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "finalizers": ["x.io/a"]}})
    await site.patch(f"{site.configmaps}/a", {"metadata": {"finalizers": ["x.io/b"]}}, STRATEGIC)
    await site.patch(
        f"{site.configmaps}/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a"]}}, STRATEGIC
    )
    await site.patch(f"{site.configmaps}/a", {"metadata": {"finalizers": None}}, STRATEGIC)


async def test_a_patch_in_no_known_form_is_refused(site: Site) -> None:
    await site.post(site.configmaps, configmap("a"))
    await site.patch(f"{site.configmaps}/a", {}, "application/xml")
    await site.ask("PATCH", f"{site.configmaps}/a", {}, content_type="")


async def apply(site: Site, path: str, body: dict[str, Any], manager: str, **params: str) -> None:
    query = "&".join([f"fieldManager={manager}", *(f"{name}={value}" for name, value in params.items())])
    await site.patch(f"{path}?{query}", body, APPLY)


async def test_apply_makes_an_object_and_owns_what_it_set(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await apply(site, path, configmap("a", one="1", two="2"), "first")
    await apply(site, path, configmap("a", one="1", two="2"), "first")
    await apply(site, path, configmap("a", one="1"), "first")
    await apply(site, path, configmap("a", three="3"), "second")
    await site.get(path)


async def test_apply_conflicts_over_what_another_manager_owns_unless_forced(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await apply(site, path, configmap("a", one="1", two="2"), "first")
    await apply(site, path, configmap("a", one="other", two="other"), "second")
    await apply(site, path, configmap("a", one="1"), "second")
    await apply(site, path, configmap("a", one="other"), "second", force="true")
    await apply(site, path, configmap("a", one="1", two="2"), "first")
    await site.patch(path, {"data": {"two": "by hand"}})
    await apply(site, path, configmap("a", two="2"), "first")


async def test_apply_asks_for_what_it_needs(site: Site) -> None:
    path = f"{site.configmaps}/a"
    await site.patch(path, configmap("a"), APPLY)
    await apply(site, path, {"data": {"x": "1"}}, "first")
    await apply(site, path, configmap("other"), "first")
    await apply(site, path, configmap("a"), "x" * 129)
    await apply(site, path, {**configmap("a"), "metadata": {"name": "a", "managedFields": []}}, "first")
    await apply(site, path, {**configmap("a"), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}, "first")
    await apply(site, path, {**configmap("a"), "extra": 1}, "first")
    await site.patch(f"{path}?fieldManager=first&force=maybe", configmap("a"), APPLY)
    await site.patch(f"{path}?force=true", {"data": {"x": "1"}})


async def test_apply_takes_yaml(site: Site) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: '1'\n"
    await site.patch(f"{site.configmaps}/a?fieldManager=yaml", text, APPLY)
    await site.patch(f"{site.configmaps}/a?fieldManager=yaml", "{not: [yaml", APPLY)


async def test_apply_owns_list_items_by_their_keys(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    body = deployment("a", 1)
    await apply(site, f"{deployments}/a", body, "first")
    side = {"containers": [{"name": "side", "image": "registry.invalid/side:1"}]}
    spec = {
        "selector": body["spec"]["selector"],
        "template": {"metadata": body["spec"]["template"]["metadata"], "spec": side},
    }
    second = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    await apply(site, f"{deployments}/a", second, "second")
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.invalid/main:2"
    await apply(site, f"{deployments}/a", body, "first")
    await site.patch(f"{deployments}/a/scale", {"spec": {"replicas": 4}})
    await apply(site, f"{deployments}/a", body, "first")


async def test_apply_to_status_is_a_manager_of_its_own(site: Site) -> None:
    await site.post(site.pods, pod("a"))
    status = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": "Running"}}
    await apply(site, f"{site.pods}/a/status", status, "kubelet")
    await site.get(f"{site.pods}/a")


async def test_managed_fields_can_be_reset(site: Site) -> None:
    await site.post(site.configmaps, configmap("a", x="1"))
    await site.patch(f"{site.configmaps}/a", {"metadata": {"managedFields": [{}]}})
    await site.patch(f"{site.configmaps}/a?fieldManager=named", {"data": {"y": "1"}})
    await site.patch(f"{site.configmaps}/a?fieldManager=named", {"data": {"y": None}})
