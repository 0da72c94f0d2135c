"""Subresources: what each of them changes of its object, and what it leaves alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.site import APPLY, JSON_PATCH, MERGE, STRATEGIC, Site
from tests.conformance.test_kinds import KINDS, SELECTOR, TEMPLATE, collection, filled

Object = dict[str, Any]

CREATED: dict[str, Object] = {
    **{
        name: KINDS[name]
        for name in (
            "v1/namespaces*",
            "v1/nodes*",
            "v1/persistentvolumeclaims",
            "v1/persistentvolumes*",
            "v1/pods",
            "v1/replicationcontrollers",
            "v1/services",
            "apps/v1/daemonsets",
            "apps/v1/deployments",
            "apps/v1/replicasets",
            "apps/v1/statefulsets",
            "autoscaling/v2/horizontalpodautoscalers",
            "autoscaling/v1/horizontalpodautoscalers",
            "batch/v1/cronjobs",
            "batch/v1/jobs",
            "networking.k8s.io/v1/ingresses",
            "policy/v1/poddisruptionbudgets",
        )
    },
    "v1/resourcequotas": {"spec": {"hard": {"pods": "9"}}},
    "storage.k8s.io/v1/volumeattachments*": {
        "spec": {"attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "admissionregistration.k8s.io/v1/validatingadmissionpolicies*": {
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": ["none.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nones"]}
                ]
            },
            "validations": [{"expression": "true"}],
        }
    },
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations*": {
        "spec": {
            "type": "Limited",
            "limited": {
                "limitResponse": {"type": "Reject"},
                "nominalConcurrencyShares": 3,
                "lendablePercent": 0,
            },
        }
    },
}
CONDITION = {
    "type": "Tested",
    "status": "True",
    "reason": "Test",
    "message": "m",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
STATUSES: dict[str, Object] = {
    "v1/pods": {"phase": "Running", "podIP": "10.1.1.1", "podIPs": [{"ip": "10.1.1.1"}]},
    "v1/namespaces*": {"phase": "Active", "conditions": [CONDITION]},
    "v1/nodes*": {"capacity": {"pods": "9"}, "nodeInfo": {"kubeletVersion": "v1"}},
    "v1/persistentvolumeclaims": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    "v1/persistentvolumes*": {"phase": "Available", "reason": "r"},
    "v1/services": {"loadBalancer": {}, "conditions": [CONDITION]},
    "v1/resourcequotas": {"hard": {"pods": "8"}, "used": {"pods": "1"}},
    "v1/replicationcontrollers": {"replicas": 1},
    "apiregistration.k8s.io/v1/apiservices*": {"conditions": []},
    "apps/v1/daemonsets": {
        **dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "numberReady"), 0),
        "desiredNumberScheduled": 1,
    },
    "autoscaling/v2/horizontalpodautoscalers": {"desiredReplicas": 2, "currentReplicas": 1},
    "autoscaling/v1/horizontalpodautoscalers": {"desiredReplicas": 2, "currentReplicas": 1},
    "batch/v1/cronjobs": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
    "batch/v1/jobs": {"active": 1, "startTime": "2026-01-01T00:00:00Z", "ready": 0, "uncountedTerminatedPods": {}},
    "networking.k8s.io/v1/ingresses": {"loadBalancer": {"ingress": [{"hostname": "a.example.com"}]}},
    "policy/v1/poddisruptionbudgets": {
        **dict.fromkeys(("disruptionsAllowed", "currentHealthy", "desiredHealthy"), 0),
        "expectedPods": 1,
    },
    "storage.k8s.io/v1/volumeattachments*": {"attached": True},
}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-2222-3333-4444-555555555555"}


def pod(**spec: Any) -> Object:
    containers = [{"name": "main", "image": "registry.invalid/main:1"}]
    return {"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {"containers": containers, **spec}}


def debugger(name: str, **more: Any) -> Object:
    return {"name": name, "image": "registry.invalid/debug:1", **more}


@asynccontextmanager
async def made(site: Site, resource: str) -> AsyncIterator[tuple[str, Object]]:
    """Create an object of a resource, and yield its path and what the server has made of it."""
    path, name = collection(site, resource), "a"
    if resource.endswith("*"):
        name = f"own-{site.namespace}"
        site.transcript.name(name, "OWN")
    body = {"metadata": {"name": name, "labels": {"app": "a"}}, **filled(CREATED[resource], site.namespace)}
    created = await site.make(path, body)
    yield f"{path}/{name}", created
    await site.ask("PATCH", f"{path}/{name}", {"metadata": {"finalizers": None}}, content_type=MERGE, kept=False)
    await site.ask("DELETE", f"{path}/{name}", kept=False)


# -- status -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", CREATED, ids=[name.rstrip("*").replace("/", "-") for name in CREATED])
async def test_a_status_is_written_without(site: Site, resource: str) -> None:
    async with made(site, resource) as (path, created):
        status = STATUSES.get(resource, {"replicas": 1} if resource.startswith("apps") else {"conditions": []})
        metadata = {
            **created["metadata"],
            "labels": {"by": "status"},
            "annotations": {"by": "status"},
            "finalizers": ["example.com/status"],
            "ownerReferences": [OWNER],
        }
        body = {**created, "metadata": metadata, "status": status}
        body.pop("spec", None)
        await site.put(f"{path}/status", body)
        await site.patch(f"{path}/status", {"spec": None, "metadata": {"annotations": {"two": "2"}}, "status": status})
        body = {**created, "status": {}}
        body["metadata"] = {name: value for name, value in created["metadata"].items() if name != "resourceVersion"}
        await site.put(path, body)


# -- pods -------------------------------------------------------------------------------------------------------------


async def test_only_ephemeral_containers_are_taken_from_a_write_of_them(site: Site) -> None:
    await site.make(site.pods, pod(nodeName="n1", terminationGracePeriodSeconds=5))
    path = f"{site.pods}/a/ephemeralcontainers"
    await site.patch(f"{site.pods}/a/status", {"status": {"phase": "Running"}})
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    await site.put(path, {**bare, "spec": {"ephemeralContainers": [debugger("one")]}})
    await site.put(path, {**bare, "spec": {"containers": None, "ephemeralContainers": [debugger("one")]}})
    current = (await site.get(path)).json
    other = {"labels": {"by": "debug"}, "annotations": {"by": "debug"}, "finalizers": ["example.com/x"]}
    changed = {
        **current,
        "metadata": {**current["metadata"], **other, "ownerReferences": [OWNER]},
        "status": {"phase": "Failed"},
    }
    changed["spec"] = {
        **current["spec"],
        "nodeName": "n2",
        "containers": [{"name": "other", "image": "registry.invalid/other:1"}],
        "ephemeralContainers": [*current["spec"]["ephemeralContainers"], debugger("two", command=["sh"], tty=True)],
    }
    await site.put(path, changed)
    await site.put(path, changed)
    await site.get(f"{site.pods}/a")


async def test_ephemeral_containers_are_patched(site: Site) -> None:
    await site.make(site.pods, pod())
    path = f"{site.pods}/a/ephemeralcontainers"
    await site.patch(path, {"spec": {"ephemeralContainers": [debugger("one")]}}, STRATEGIC)
    await site.patch(path, {"spec": {"ephemeralContainers": [debugger("two")], "hostname": "h"}}, STRATEGIC)
    await site.patch(path, [{"op": "add", "path": "/spec/ephemeralContainers/-", "value": debugger("x")}], JSON_PATCH)
    await site.patch(path, {"metadata": {"labels": {"by": "debug"}}, "status": {"phase": "Failed"}})
    await site.get(f"{site.pods}/a")


async def test_ephemeral_containers_are_neither_changed_nor_removed(site: Site) -> None:
    await site.make(site.pods, pod())
    path = f"{site.pods}/a/ephemeralcontainers"
    await site.patch(path, {"spec": {"ephemeralContainers": [debugger("one")]}}, STRATEGIC)
    for wrong in (
        [],
        [debugger("two")],
        [debugger("main")],
        [debugger("One")],
        [debugger("one"), debugger("one")],
        [debugger("one"), {"name": "two"}],
        [debugger("one"), debugger("two", targetContainerName="none")],
        [debugger("one"), debugger("two", ports=[{"containerPort": 80}])],
        [debugger("one"), debugger("two", resources={"limits": {"cpu": "1"}})],
        [debugger("one"), debugger("two", livenessProbe={"exec": {"command": ["true"]}})],
        [debugger("one"), debugger("two", lifecycle={"preStop": {"exec": {"command": ["true"]}}})],
    ):
        await site.patch(path, {"spec": {"ephemeralContainers": wrong}})
    await site.post(
        site.pods, {"metadata": {"name": "b"}, "spec": {**pod()["spec"], "ephemeralContainers": [debugger("x")]}}
    )
    await site.patch(f"{site.pods}/missing/ephemeralcontainers", {"spec": {"ephemeralContainers": []}})
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}}
    await site.put(path, bare)
    await site.put(path, {**bare, "kind": "EphemeralContainers"})
    await site.put(path, {**bare, "metadata": {"name": "a", "resourceVersion": "1"}})
    await site.put(path, {**bare, "metadata": {"name": "a", "uid": OWNER["uid"]}})
    await site.post(path, bare)
    await site.delete(path)
    await site.patch(f"{site.pods}/a", {"spec": {"ephemeralContainers": [debugger("one"), debugger("two")]}})
    await site.patch(path, {"spec": {"ephemeralContainers": [{**debugger("one"), "tty": True}]}})


def resources(**cpu: str) -> Object:
    return {kind: {"cpu": amount, "memory": "64Mi"} for kind, amount in cpu.items()}


@pytest.mark.kubernetes("1.33", "there is no resize")
async def test_only_resources_are_taken_from_a_resize(site: Site) -> None:
    node = f"own-{site.namespace}"
    site.transcript.name(node, "OWN")
    await site.make(
        "/api/v1/nodes", {"metadata": {"name": node}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}}
    )
    body = pod(nodeName=node)
    body["spec"]["containers"][0]["resources"] = resources(requests="100m", limits="200m")
    await site.make(site.pods, body)
    path = f"{site.pods}/a/resize"
    await site.get(path)
    resized = {"name": "main", "resources": resources(requests="150m", limits="300m")}
    await site.patch(path, {"spec": {"containers": [resized]}}, STRATEGIC)
    current = (await site.get(f"{site.pods}/a")).json
    container = {**current["spec"]["containers"][0], "image": "registry.invalid/other:1"}
    container["resources"] = resources(requests="160m", limits="300m")
    other = {"labels": {"by": "resize"}, "annotations": {"by": "resize"}, "finalizers": ["example.com/x"]}
    changed = {
        **current,
        "metadata": {**current["metadata"], **other},
        "spec": {**current["spec"], "nodeName": "n2", "containers": [container]},
        "status": {"phase": "Failed"},
    }
    await site.put(path, changed)
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    bare["spec"] = {"containers": [{"name": "main", "resources": resources(requests="170m", limits="300m")}]}
    await site.put(path, bare)
    await site.get(f"{site.pods}/a")
    await site.patch(path, {"spec": {"containers": [{"name": "main", "resources": resources(limits="9")}]}}, STRATEGIC)
    await site.ask("DELETE", f"/api/v1/nodes/{node}", kept=False)
    await site.patch(path, {"spec": {"containers": [resized]}}, STRATEGIC)


@pytest.mark.kubernetes("1.33", "there is no resize")
async def test_a_resize_keeps_containers_and_the_quality_of_service(site: Site) -> None:
    body = pod()
    body["spec"]["containers"][0]["resources"] = resources(requests="100m", limits="200m")
    await site.make(site.pods, body)
    path = f"{site.pods}/a/resize"
    for containers in (
        [{"name": "main", "resources": resources(requests="200m", limits="200m")}],
        [{"name": "main", "resources": resources(requests="300m", limits="200m")}],
        [{"name": "other", "resources": resources(requests="100m", limits="200m")}],
        [{"name": "main"}, {"name": "other"}],
        [],
    ):
        await site.patch(path, {"spec": {"containers": containers}})
    unlimited = {"name": "main", "resources": {"requests": {"cpu": "100m"}}}
    await site.patch(path, {"spec": {"containers": [unlimited]}})
    storage = {"requests": {"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi"}}
    await site.patch(path, {"spec": {"containers": [{"name": "main", "resources": storage}]}}, STRATEGIC)
    await site.patch(f"{site.pods}/missing/resize", {})


async def test_a_binding_sets_the_node_and_some_metadata(site: Site) -> None:
    await site.make(site.pods, pod())
    metadata = {
        "name": "a",
        "labels": {"by": "binding", "app": "b", "topology.kubernetes.io/zone": "z1"},
        "annotations": {"by": "binding"},
        "finalizers": ["example.com/x"],
        "ownerReferences": [OWNER],
    }
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
    path = f"{site.pods}/a/binding"
    for wrong in (
        {"metadata": {"name": "b"}},
        {"metadata": {"name": "a", "uid": OWNER["uid"]}},
        {"metadata": {"name": "a", "resourceVersion": "1"}},
        {"metadata": {"name": "a", "namespace": "elsewhere"}},
        {"target": {"kind": "Node"}},
        {"target": {"kind": "Pod", "name": "n1"}},
        {"target": None},
        {"kind": "Pod"},
    ):
        await site.post(f"{path}", {**binding, **wrong})
    await site.post(f"{path}?dryRun=All", binding)
    await site.get(f"{site.pods}/a")
    await site.post(path, binding)
    await site.get(f"{site.pods}/a")
    await site.get(path)


async def test_a_gated_pod_is_not_bound(site: Site) -> None:
    await site.make(site.pods, pod(schedulingGates=[{"name": "example.com/wait"}]))
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n1"}}
    await site.post(f"{site.pods}/a/binding", binding)
    await site.patch(f"{site.pods}/a", {"spec": {"schedulingGates": None}})
    await site.post(site.core("bindings"), {**binding, "metadata": {}})
    await site.post(site.core("bindings"), binding)
    await site.get(f"{site.pods}/a")


async def test_an_eviction_only_deletes(site: Site) -> None:
    await site.make(site.pods, pod(nodeName="n1", terminationGracePeriodSeconds=9))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    path = f"{site.pods}/a/eviction"
    for wrong in (
        {"metadata": {}},
        {"metadata": {"name": "b"}},
        {"kind": "Pod"},
    ):
        await site.post(path, {**eviction, **wrong})
    await site.post(f"{path}?dryRun=All", eviction)
    await site.post(path, {**eviction, "deleteOptions": {"dryRun": ["All"]}})
    await site.get(f"{site.pods}/a")
    labelled = {**eviction, "metadata": {"name": "a", "labels": {"by": "eviction"}, "annotations": {"by": "eviction"}}}
    await site.post(path, {**labelled, "deleteOptions": {"gracePeriodSeconds": 3}})
    await site.get(f"{site.pods}/a")
    await site.get(path)


async def test_requests_to_the_kubelet_of_a_pod_without_node(site: Site) -> None:
    await site.make(site.pods, pod())
    for below in ("log", "exec?command=sh", "attach", "portforward", "proxy", "log?container=none", "exec"):
        await site.get(f"{site.pods}/a/{below}")
        await site.get(f"{site.pods}/missing/{below}")
    await site.put(f"{site.pods}/a/log", {})
    await site.get(f"{site.pods}/a")


async def test_a_body_of_another_kind_is_refused(site: Site) -> None:
    await site.make(site.pods, pod())
    deployments = site.of("apps/v1", "deployments")
    for api_version, kind in (
        ("v1", "Pod"),
        ("v1", "Deployment"),
        ("apps/v1", "Deployment"),
        ("apps/v2", "Deployment"),
        ("autoscaling/v1", "Scale"),
        ("autoscaling/v2", "Scale"),
        ("policy/v1", "Eviction"),
        ("example.com/v1", "Thing"),
    ):
        body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}}
        for path in (f"{site.pods}/a/status", f"{site.pods}/a/ephemeralcontainers", f"{deployments}/a"):
            await site.put(path, body)
        await site.put(f"{deployments}/a/scale", body)
        await site.post(f"{site.pods}/a/binding", body)


# -- others -----------------------------------------------------------------------------------------------------------


async def test_the_finalizers_of_a_namespace_have_their_own_subresource(site: Site) -> None:
    name = f"own-{site.namespace}"
    site.transcript.name(name, "OWN")
    created = await site.make("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    finalizers = {"spec": {"finalizers": ["kubernetes", "example.com/x"]}}
    await site.put(path, {**created, **finalizers, "status": {"phase": "Terminating"}})
    await site.patch(f"{path}/status", finalizers)
    body = {**created, **finalizers, "status": {"phase": "Terminating"}}
    body["metadata"] = {"name": name, "labels": {"by": "finalize"}, "annotations": {"by": "finalize"}}
    await site.put(f"{path}/finalize", body)
    await site.get(path)
    await site.put(f"{path}/finalize", {**body, "spec": {"finalizers": ["none"]}})
    await site.patch(f"{path}/finalize", finalizers)
    await site.get(f"{path}/finalize")
    await site.put(f"{path}/finalize", {**body, "spec": {"finalizers": []}})
    await site.ask("DELETE", path, kept=False)


async def test_a_token_leaves_its_account_alone(site: Site) -> None:
    accounts = site.core("serviceaccounts")
    await site.make(accounts, {"metadata": {"name": "robot"}})
    path = f"{accounts}/robot/token"
    for wrong in (
        {"spec": {"expirationSeconds": 10}},
        {"spec": {"expirationSeconds": 1 << 33}},
        {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "missing"}}},
        {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}},
        {"metadata": {"name": "other"}},
        {"metadata": {"namespace": "elsewhere"}},
        {"kind": "Pod"},
    ):
        await site.post(path, {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", **wrong})
    await site.get(f"{accounts}/robot")
    await site.get(path)
    await site.put(path, {})


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets", "replicationcontrollers"])
async def test_only_replicas_are_taken_from_the_scale_of(site: Site, plural: str) -> None:
    scaled = {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}
    path = site.of("apps/v1", plural)
    if plural == "statefulsets":
        scaled["serviceName"] = "a"
    elif plural == "replicationcontrollers":
        path, scaled["selector"] = site.core(plural), {"app": "a"}
    await site.make(path, {"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": scaled})
    at = f"{path}/a/scale"
    scale = (await site.get(at)).json
    other = {"labels": {"by": "scale"}, "annotations": {"by": "scale"}, "finalizers": ["example.com/x"]}
    changed = {**scale, "metadata": {**scale["metadata"], **other, "ownerReferences": [OWNER]}, "spec": {"replicas": 3}}
    await site.put(at, {**changed, "status": {"replicas": 9, "selector": "none=1"}})
    bare = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    await site.put(at, {**bare, "spec": {"replicas": 4}})
    await site.patch(at, {"metadata": {"labels": {"by": "scale"}}, "status": {"replicas": 9}})
    await site.put(at, bare)
    for wrong in (
        {"metadata": {"name": "b"}},
        {"metadata": {"name": "a", "namespace": "elsewhere"}},
        {"metadata": {"name": "a", "uid": OWNER["uid"]}},
        {"metadata": {"name": "a", "resourceVersion": "1"}},
        {"kind": "Deployment", "apiVersion": "apps/v1"},
        {"apiVersion": "v1"},
        {"spec": {"replicas": "two"}},
        {"spec": {"replicas": -1}},
        {"spec": {"replicas": 1, "other": 2}},
    ):
        await site.put(at, {**bare, **wrong})
    await site.get(f"{path}/a")


async def test_applied_subresources_own_what_they_write(site: Site) -> None:
    await site.make(site.pods, pod())
    header = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    path = f"{site.pods}/a/ephemeralcontainers?fieldManager=debug"
    await site.patch(path, {**header, "spec": {"ephemeralContainers": [debugger("one")], "nodeName": "n2"}}, APPLY)
    status = {**header, "spec": {"nodeName": "n2"}, "status": {"phase": "Running"}}
    await site.patch(f"{site.pods}/a/status?fieldManager=kubelet", status, APPLY)
    await site.get(f"{site.pods}/a")
