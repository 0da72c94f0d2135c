"""Objects: made, read, replaced and deleted, and what is refused."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import Site


def configmap(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "image": "registry.invalid/main:1"}]},
    }


async def test_an_object_lives_from_its_creation_to_its_deletion(site: Site) -> None:
    await site.post(site.configmaps, configmap("a", key="1"))
    await site.get(f"{site.configmaps}/a")
    current = (await site.get(f"{site.configmaps}/a")).json
    await site.put(f"{site.configmaps}/a", {**current, "data": {"key": "2"}})
    await site.delete(f"{site.configmaps}/a")
    await site.get(f"{site.configmaps}/a")
    await site.delete(f"{site.configmaps}/a")


async def test_a_name_can_be_generated_and_is_needed(site: Site) -> None:
    reply = await site.ask("POST", site.configmaps, {"metadata": {"generateName": "x-"}}, kept=False)
    name = reply.json["metadata"]["name"]
    assert name.startswith("x-")
    assert len(name) == 7
    assert reply.json["metadata"]["generateName"] == "x-"
    await site.post(site.configmaps, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}})
    await site.post(site.configmaps, {"kind": "ConfigMap", "apiVersion": "v1"})


async def test_a_name_has_to_be_a_dns_name(site: Site) -> None:
    for name in ("Upper", "under_score", "-a", "a-", "a..b", "x" * 254, "a/b", "a b"):
        await site.post(site.configmaps, configmap(name))
        await site.post(site.core("services"), {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}})


async def test_what_exists_is_not_made_again(site: Site) -> None:
    await site.post(site.configmaps, configmap("a"))
    await site.post(site.configmaps, configmap("a"))
    await site.post("/api/v1/namespaces", {"metadata": {"name": site.namespace}})


async def test_kind_version_and_namespace_of_the_body_have_to_fit_the_path(site: Site) -> None:
    await site.post(site.configmaps, {**configmap("a"), "kind": "Secret"})
    await site.post(site.configmaps, {**configmap("a"), "apiVersion": "v2"})
    await site.post(site.configmaps, {**configmap("a"), "apiVersion": "apps/v1"})
    await site.post(site.configmaps, {"metadata": {"name": "a", "namespace": "elsewhere"}})
    await site.post(site.configmaps, {"metadata": {"name": "b"}})
    await site.put(f"{site.configmaps}/b", configmap("c"))
    await site.put(f"{site.configmaps}/b", {"metadata": {"name": "b", "namespace": "elsewhere"}})
    await site.post(f"{site.configmaps}/b", configmap("b"))


async def test_a_body_has_to_be_an_object_in_a_known_form(site: Site) -> None:
    await site.post(site.configmaps, "", content_type="application/json")
    await site.post(site.configmaps, "{", content_type="application/json")
    await site.post(site.configmaps, "[]", content_type="application/json")
    await site.post(site.configmaps, '"text"', content_type="application/json")
    await site.post(site.configmaps, configmap("a"), content_type="text/plain")
    await site.post(site.configmaps, "metadata:\n  name: from-yaml\n", content_type="application/yaml")
    await site.post(site.configmaps, '{"metadata": {"name": 5}}', content_type="application/json")
    await site.post(site.configmaps, '{"metadata": {"name": "a"}, "data": {"n": 1}}')
    await site.post(site.configmaps, '{"metadata": {"name": "a"}, "data": []}')


async def test_a_replacement_has_to_know_the_present_version(site: Site) -> None:
    made = (await site.post(site.configmaps, configmap("a"))).json
    stale = {**made, "data": {"n": "1"}}
    await site.put(f"{site.configmaps}/a", stale)
    await site.put(f"{site.configmaps}/a", stale)
    await site.put(f"{site.configmaps}/a", configmap("a", without="version"))
    await site.put(f"{site.configmaps}/a", {**made, "metadata": {**made["metadata"], "resourceVersion": "words"}})
    await site.put(f"{site.configmaps}/missing", configmap("missing"))
    await site.put(
        f"{site.configmaps}/missing", {**configmap("missing"), "metadata": {**made["metadata"], "name": "missing"}}
    )
    await site.post(site.configmaps, {**configmap("b"), "metadata": {"name": "b", "resourceVersion": "1"}})


async def test_what_the_server_owns_is_not_for_clients_to_set(site: Site) -> None:
    owned = {
        "uid": "11111111-2222-3333-4444-555555555555",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "generation": 7,
        "selfLink": "/somewhere",
    }
    made = (await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", **owned}})).json
    await site.put(f"{site.configmaps}/a", {**made, "metadata": {**made["metadata"], **owned}})
    kept = {**made, "metadata": {**made["metadata"], "creationTimestamp": None, "generation": 9}, "data": {"x": "1"}}
    await site.put(f"{site.configmaps}/a", kept)


async def test_a_write_that_changes_nothing_keeps_the_version(site: Site) -> None:
    made = (await site.post(site.configmaps, configmap("a", key="1"))).json
    version = made["metadata"]["resourceVersion"]
    assert (await site.put(f"{site.configmaps}/a", made)).json["metadata"]["resourceVersion"] == version
    same = await site.patch(f"{site.configmaps}/a", {"data": {"key": "1"}})
    assert same.json["metadata"]["resourceVersion"] == version
    other = await site.patch(f"{site.configmaps}/a", {"data": {"key": "2"}})
    assert int(other.json["metadata"]["resourceVersion"]) > int(version)


async def test_a_dry_run_answers_and_stores_nothing(site: Site) -> None:
    await site.post(f"{site.configmaps}?dryRun=All", configmap("a"))
    await site.get(f"{site.configmaps}/a")
    await site.post(site.configmaps, configmap("a", key="1"))
    await site.patch(f"{site.configmaps}/a?dryRun=All", {"data": {"key": "2"}})
    await site.delete(f"{site.configmaps}/a?dryRun=All")
    await site.get(f"{site.configmaps}/a")
    await site.post(f"{site.configmaps}?dryRun=Some", configmap("b"))


async def test_unknown_fields_are_dropped_warned_of_or_refused(site: Site) -> None:
    body = {**pod("a"), "extra": 1}
    body["spec"]["surprise"] = {"x": 1}
    await site.post(f"{site.pods}?fieldValidation=Ignore", body)
    await site.post(f"{site.pods}?fieldValidation=Warn", {**body, "metadata": {"name": "b"}})
    await site.post(f"{site.pods}?fieldValidation=Strict", {**body, "metadata": {"name": "c"}})
    await site.post(f"{site.pods}?fieldValidation=Perhaps", {**body, "metadata": {"name": "d"}})
    await site.post(site.pods, {**body, "metadata": {"name": "e"}})


async def test_duplicate_fields_are_found_on_request(site: Site) -> None:
    body = '{"metadata": {"name": "a"}, "data": {"x": "1"}, "data": {"x": "2"}}'
    await site.post(f"{site.configmaps}?fieldValidation=Strict", body)
    await site.post(f"{site.configmaps}?fieldValidation=Warn", body)


async def test_labels_and_annotations_have_a_syntax(site: Site) -> None:
    for labels in (
        {"a b": "1"},
        {"a": "x y"},
        {"a": "x" * 64},
        {"x/y/z": "1"},
        {"UPPER.example.com/a": "1"},
        {"": "1"},
    ):
        await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "labels": labels}})
    await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "annotations": {"a b": "1"}}})
    await site.post(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "labels": {"n": 1}}})


async def test_finalizers_keep_an_object_until_they_are_gone(site: Site) -> None:
    metadata = {"name": "a", "finalizers": ["example.com/hold"]}
    made = (await site.post(site.configmaps, {**configmap("a"), "metadata": metadata})).json
    await site.delete(f"{site.configmaps}/a")
    await site.get(f"{site.configmaps}/a")
    await site.delete(f"{site.configmaps}/a")
    await site.patch(f"{site.configmaps}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    await site.patch(f"{site.configmaps}/a", {"metadata": {"labels": {"still": "here"}}})
    await site.post(site.configmaps, configmap("a"))
    await site.patch(f"{site.configmaps}/a", {"metadata": {"finalizers": None}})
    await site.get(f"{site.configmaps}/a")
    again = (await site.post(site.configmaps, configmap("a"))).json
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    await site.post(site.configmaps, {**configmap("b"), "metadata": {"name": "b", "finalizers": ["unqualified"]}})


async def test_a_delete_may_have_preconditions(site: Site) -> None:
    made = (await site.post(site.configmaps, configmap("a"))).json
    options = {"kind": "DeleteOptions", "apiVersion": "v1"}
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    wrong = "11111111-2222-3333-4444-555555555555"
    await site.delete(f"{site.configmaps}/a", {**options, "preconditions": {"uid": wrong}})
    await site.patch(f"{site.configmaps}/a", {"data": {"x": "1"}})
    await site.delete(f"{site.configmaps}/a", {**options, "preconditions": {"resourceVersion": version}})
    await site.delete(f"{site.configmaps}/a", {**options, "preconditions": {"uid": uid}})


async def test_a_put_of_a_lease_that_is_gone_creates_it_unless_the_put_has_a_uid(site: Site) -> None:
    leases = site.of("coordination.k8s.io/v1", "leases")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}}
    made = (await site.post(leases, {**lease, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}})).json
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    await site.delete(f"{leases}/a")
    for metadata in ({"uid": uid, "resourceVersion": version}, {"uid": uid}, {"resourceVersion": version}):
        await site.put(f"{leases}/a", {**made, "metadata": {"name": "a", **metadata}})


async def test_a_delete_may_say_what_becomes_of_dependents(site: Site) -> None:
    for name, policy in (("a", "Foreground"), ("b", "Orphan"), ("c", "Background"), ("d", "Sometimes")):
        await site.post(site.configmaps, configmap(name))
        await site.delete(f"{site.configmaps}/{name}?propagationPolicy={policy}")
        await site.get(f"{site.configmaps}/{name}")


async def test_a_pod_that_was_never_scheduled_goes_at_once(site: Site) -> None:
    await site.post(site.pods, pod("a"))
    await site.delete(f"{site.pods}/a")
    await site.get(f"{site.pods}/a")


async def test_a_pod_on_a_node_is_given_its_grace_period(site: Site) -> None:
    body = pod("a")
    body["spec"]["nodeName"] = "node-1"
    await site.post(site.pods, body)
    await site.delete(f"{site.pods}/a")
    await site.get(f"{site.pods}/a")
    await site.delete(f"{site.pods}/a?gracePeriodSeconds=5")
    await site.delete(f"{site.pods}/a?gracePeriodSeconds=60")
    await site.delete(f"{site.pods}/a?gracePeriodSeconds=0")
    await site.get(f"{site.pods}/a")
    await site.post(site.pods, {**body, "metadata": {"name": "b"}})
    await site.delete(f"{site.pods}/b?gracePeriodSeconds=-1")
    await site.delete(f"{site.pods}/b", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


async def test_a_collection_is_deleted_by_selector_or_whole(site: Site) -> None:
    for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
        await site.post(site.configmaps, {**configmap(name), "metadata": {"name": name, "labels": {"tier": tier}}})
    await site.delete(f"{site.configmaps}?labelSelector=tier%3Ddb&dryRun=All")
    await site.delete(f"{site.configmaps}?labelSelector=tier%3Ddb")
    await site.get(site.configmaps)
    await site.delete(f"{site.configmaps}?fieldSelector=metadata.name%3Dc")
    await site.delete(site.configmaps)
    await site.get(site.configmaps)
    await site.delete(f"{site.configmaps}?labelSelector=%21%21")


async def test_there_is_no_namespace_where_nobody_made_one(site: Site) -> None:
    missing = "/api/v1/namespaces/nowhere/configmaps"
    await site.get(missing)
    await site.post(missing, configmap("a"))
    await site.get(f"{missing}/a")
    await site.get("/api/v1/namespaces/nowhere")


async def test_a_namespace_that_is_being_deleted_takes_nothing_new(site: Site) -> None:
    metadata = {"name": "hold", "finalizers": ["example.com/hold"]}
    await site.post(site.configmaps, {**configmap("hold"), "metadata": metadata})
    await site.delete(f"/api/v1/namespaces/{site.namespace}")
    await site.post(site.configmaps, configmap("late"))
    await site.patch(f"{site.configmaps}/hold", {"data": {"still": "changeable"}})


async def test_a_path_that_nobody_serves_is_not_found(site: Site) -> None:
    for path in (
        "/api/v1/nothings",
        "/apis/nowhere.io/v1/things",
        "/nowhere",
        "/api/v9/pods",
        "/apis/apps/v9",
        "/api/v1/namespaces/x/nodes",
    ):
        await site.get(path)
    await site.ask("PUT", site.configmaps, configmap("a"))
    await site.ask("PATCH", site.configmaps, {}, content_type="application/merge-patch+json")
    await site.ask("POST", "/api/v1/configmaps", configmap("a"))
    await site.get(f"{site.pods}/missing/nothing")


async def test_status_is_a_door_of_its_own(site: Site) -> None:
    await site.post(site.pods, {**pod("a"), "status": {"phase": "Running"}})
    await site.patch(
        f"{site.pods}/a/status", {"status": {"phase": "Running"}, "metadata": {"labels": {"by": "status"}}}
    )
    await site.patch(f"{site.pods}/a", {"status": {"phase": "Failed"}, "metadata": {"labels": {"by": "main"}}})
    await site.get(f"{site.pods}/a/status")
    current = (
        await site.get(
            f"{site.pods}/a",
        )
    ).json
    await site.put(f"{site.pods}/a/status", {**current, "spec": {}, "status": {"phase": "Succeeded"}})
    await site.get(f"{site.configmaps}/a/status")


async def test_generation_counts_changes_of_the_spec(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    await site.post(deployments, deployment("a", replicas=1))
    await site.patch(f"{deployments}/a", {"metadata": {"labels": {"x": "1"}}})
    await site.patch(f"{deployments}/a", {"spec": {"replicas": 2}})
    await site.patch(f"{deployments}/a/status", {"status": {"observedGeneration": 2, "replicas": 2}})
    await site.patch(f"{deployments}/a/status", {"spec": {"replicas": 9}})


def deployment(name: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.invalid/main:1"}]},
            },
        },
    }


async def test_a_deployment_is_scaled_through_its_subresource(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    await site.post(deployments, deployment("a", replicas=1))
    await site.get(f"{deployments}/a/scale")
    scale = (await site.get(f"{deployments}/a/scale")).json
    await site.put(f"{deployments}/a/scale", {**scale, "spec": {"replicas": 3}})
    await site.put(f"{deployments}/a/scale", {**scale, "spec": {"replicas": 4}})
    await site.patch(f"{deployments}/a/scale", {"spec": {"replicas": 5}})
    await site.patch(f"{deployments}/a/scale", {"spec": {"replicas": -1}})
    await site.get(f"{deployments}/missing/scale")
    await site.get(f"{deployments}/a")


async def test_a_pod_is_bound_to_a_node_once(site: Site) -> None:
    await site.post(site.pods, pod("a"))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "a"},
        "target": {"kind": "Node", "name": "n1"},
    }
    await site.post(f"{site.pods}/a/binding", binding)
    await site.post(f"{site.pods}/a/binding", binding)
    await site.get(f"{site.pods}/a")
    await site.post(f"{site.pods}/missing/binding", {**binding, "metadata": {"name": "missing"}})


async def test_a_pod_is_evicted(site: Site) -> None:
    await site.post(site.pods, pod("a"))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    await site.post(f"{site.pods}/a/eviction", eviction)
    await site.get(f"{site.pods}/a")
    await site.post(f"{site.pods}/missing/eviction", {**eviction, "metadata": {"name": "missing"}})


async def test_what_cannot_be_changed_says_so(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    await site.post(deployments, deployment("a", replicas=1))
    other = {"selector": {"matchLabels": {"app": "b"}}, "template": {"metadata": {"labels": {"app": "b"}}}}
    await site.patch(f"{deployments}/a", {"spec": other})
    await site.post(site.pods, pod("a"))
    await site.patch(f"{site.pods}/a", {"spec": {"nodeName": "elsewhere"}})
    await site.patch(f"{site.pods}/a", {"metadata": {"name": "b"}})
    await site.patch(f"{site.pods}/a", {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})
    await site.post(site.configmaps, {**configmap("fixed"), "immutable": True})
    await site.patch(f"{site.configmaps}/fixed", {"data": {"x": "1"}})


async def test_what_a_workload_cannot_do_without_is_asked_for(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    await site.post(site.pods, {"metadata": {"name": "a"}, "spec": {"containers": []}})
    await site.post(site.pods, {"metadata": {"name": "a"}, "spec": {}})
    await site.post(site.pods, {"metadata": {"name": "a"}})
    await site.post(site.pods, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main"}]}})
    await site.post(site.pods, {"metadata": {"name": "a"}, "spec": {"containers": [{"image": "x"}]}})
    await site.post(deployments, {"metadata": {"name": "a"}, "spec": {}})
    body = deployment("a", 1)
    body["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    await site.post(deployments, body)
