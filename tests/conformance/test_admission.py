"""Admission by other objects: priorities, runtime classes, limits, quotas, and policies with their bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.conformance.site import APPLY, Site
from tests.conformance.test_objects import configmap
from tests.support.waiting import until

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "/apis/node.k8s.io/v1/runtimeclasses"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


def pod(name: str, /, resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    container = {"name": "main", "image": "registry.invalid/main:1", **({"resources": resources} if resources else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


async def settled(site: Site, path: str, body: dict[str, Any], status: int) -> None:
    """Wait until a dry run is answered so: a real server hears of its own objects a moment later."""
    separator = "&" if "?" in path else "?"
    await until(
        lambda: site.ask("POST", f"{path}{separator}dryRun=All", body, kept=False),
        20,
        holds=lambda reply: reply.status == status,
    )


@asynccontextmanager
async def existing(site: Site, path: str, body: dict[str, Any]) -> AsyncIterator[str]:
    """An object of the cluster, which goes again; its name is one of the test's own."""
    name = f"{body['metadata']['name']}-{site.namespace}"
    body = {**body, "metadata": {**body["metadata"], "name": name}}
    await site.post(path, body)
    try:
        yield name
    finally:
        await site.ask("DELETE", f"{path}/{name}", kept=False)


# -- classes ----------------------------------------------------------------------------------------------------------


async def test_a_pod_gets_the_priority_of_its_class(site: Site) -> None:
    body = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
        "preemptionPolicy": "Never",
        "description": "for tests",
    }
    await site.post(site.pods, pod("a", priorityClassName="missing"))
    await site.post(f"{site.pods}?dryRun=All", pod("a", priority=5))
    await site.post(f"{site.pods}?dryRun=All", pod("a", preemptionPolicy="Never"))
    await site.post(f"{site.pods}?dryRun=All", pod("a", priorityClassName="system-node-critical"))
    async with existing(site, PRIORITIES, body) as name:
        await settled(site, site.pods, pod("a", priorityClassName=name), 201)
        await site.post(site.pods, pod("a", priorityClassName=name))
        await site.post(site.pods, pod("b", priorityClassName=name, priority=1000))
        await site.post(site.pods, pod("c", priorityClassName=name, priority=7))
        await site.post(site.pods, pod("d", priorityClassName=name, preemptionPolicy="PreemptLowerPriority"))
        await site.patch(f"{site.pods}/a", {"metadata": {"labels": {"x": "y"}}})


async def test_a_pod_gets_what_its_runtime_class_says(site: Site) -> None:
    body = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "sandbox"},
        "handler": "sandbox",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
        "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
    }
    await site.post(site.pods, pod("a", runtimeClassName="missing"))
    await site.post(site.pods, pod("a", overhead={"cpu": "1"}))
    async with existing(site, RUNTIMES, body) as name:
        await settled(site, site.pods, pod("a", runtimeClassName=name), 201)
        await site.post(site.pods, pod("a", runtimeClassName=name))
        await site.post(site.pods, pod("b", runtimeClassName=name, overhead={"cpu": "1"}))
        await site.post(site.pods, pod("c", runtimeClassName=name, nodeSelector={"sandbox": "no"}))
        await site.post(site.pods, pod("d", runtimeClassName=name, nodeSelector={"zone": "1"}))


# -- limits -----------------------------------------------------------------------------------------------------------


def limit_range(*limits: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "limits"}, "spec": {"limits": list(limits)}}


async def test_containers_get_the_defaults_of_their_namespace(site: Site) -> None:
    limit = {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "512Mi"},
        "defaultRequest": {"cpu": "100m"},
        "max": {"cpu": "2"},
        "min": {"cpu": "50m"},
    }
    await site.post(site.core("limitranges"), limit_range(limit))
    await settled(site, site.pods, pod("a", {"requests": {"cpu": "10m"}}), 403)
    await site.post(site.pods, pod("a"))
    await site.post(site.pods, pod("b", {"requests": {"cpu": "200m"}}))
    await site.post(site.pods, pod("c", {"limits": {"cpu": "1"}}))
    init = [{"name": "init", "image": "registry.invalid/init:1"}]
    await site.post(site.pods, pod("d", initContainers=init))


async def test_a_pod_outside_the_limits_of_its_namespace_is_refused(site: Site) -> None:
    container = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "50m"}, "maxLimitRequestRatio": {"cpu": "4"}}
    whole = {"type": "Pod", "max": {"cpu": "3"}}
    claim = {"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}, "min": {"storage": "1Gi"}}
    await site.post(site.core("limitranges"), limit_range(container, whole, claim))
    await settled(site, site.pods, pod("a", {"requests": {"cpu": "10m"}, "limits": {"cpu": "20m"}}), 403)
    for requests, limits in (("10m", "40m"), ("1", "3"), ("100m", "1"), ("1", "2"), ("500m", "2500m")):
        resources = {"requests": {"cpu": requests}, "limits": {"cpu": limits}}
        await site.post(f"{site.pods}?dryRun=All", pod("a", resources))
    second = {"name": "second", "image": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}
    both = pod("a", {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
    both["spec"]["containers"].append(second)
    await site.post(f"{site.pods}?dryRun=All", both)
    for size in ("500Mi", "1500Mi", "3Gi"):
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": spec}
        await site.post(f"{site.core('persistentvolumeclaims')}?dryRun=All", body)


# -- quotas -----------------------------------------------------------------------------------------------------------


async def quota(site: Site, hard: dict[str, str], name: str = "quota", /, **spec: Any) -> str:
    """A quota whose status says, as the controller manager's would, that nothing is used."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }
    quotas = site.core("resourcequotas")
    await site.post(quotas, body)
    used = dict.fromkeys(hard, "0")
    await site.patch(f"{quotas}/{name}/status", {"status": {"hard": hard, "used": used}})
    return f"{quotas}/{name}"


async def test_a_quota_without_a_status_counts_nothing(site: Site) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota"},
        "spec": {"hard": {"pods": "0"}},
    }
    await site.post(site.core("resourcequotas"), body)
    await site.post(site.pods, pod("a"))


async def test_a_quota_lets_nothing_in_beyond_what_it_says(site: Site) -> None:
    path = await quota(site, {"count/configmaps": "2", "secrets": "1", "services": "2", "services.nodeports": "1"})
    await settled(site, site.core("secrets"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, 201)
    for name in "abc":
        await site.post(site.configmaps, configmap(name))
    await site.patch(f"{site.configmaps}/a", {"data": {"x": "y"}})
    await site.patch(f"{site.configmaps}/d", configmap("d"), APPLY)
    await site.post(site.core("secrets"), {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}})
    await site.get(path)
    port = {"name": "http", "port": 80}
    for name, kind in (("one", "ClusterIP"), ("two", "NodePort"), ("three", "ClusterIP")):
        body = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name},
            "spec": {"type": kind, "ports": [port], "selector": {"a": "b"}},
        }
        found = await site.ask("POST", site.core("services"), body, kept=False)
        assert found.status == (201 if name != "three" else 403)
    await site.get(path)


async def test_a_quota_of_compute_needs_each_container_to_say_what_it_takes(site: Site) -> None:
    hard = {"pods": "3", "requests.cpu": "1", "limits.memory": "1Gi", "requests.example.com/dongle": "1"}
    path = await quota(site, hard)
    await settled(site, site.pods, pod("a"), 403)
    await site.post(site.pods, pod("a"))
    small = {"requests": {"cpu": "400m", "memory": "10Mi"}, "limits": {"memory": "300Mi"}}
    large = {"requests": {"cpu": "700m", "memory": "10Mi"}, "limits": {"memory": "800Mi"}}
    await site.post(site.pods, pod("a", small))
    await site.post(site.pods, pod("b", large))
    await site.post(site.pods, pod("c", {**small, "limits": {"memory": "724Mi"}}))
    await site.post(f"{site.pods}?dryRun=All", pod("d", small))
    await site.get(path)
    dongles = {
        "requests": {"cpu": "10m", "example.com/dongle": "2"},
        "limits": {"memory": "0", "example.com/dongle": "2"},
    }
    await site.post(site.pods, pod("d", dongles))


async def test_a_quota_may_be_about_some_pods_alone(site: Site) -> None:
    await quota(site, {"pods": "1"}, "terminating", scopes=["Terminating"])
    await quota(site, {"pods": "0"}, "best-effort", scopes=["BestEffort"])
    only = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}]}
    await quota(site, {"pods": "0"}, "priority", scopeSelector=only)
    await settled(site, site.pods, pod("a"), 403)
    resources = {"requests": {"cpu": "10m"}}
    await site.post(site.pods, pod("a"))
    await site.post(site.pods, pod("b", resources))
    await site.post(site.pods, pod("c", resources, activeDeadlineSeconds=60))
    await site.post(site.pods, pod("d", resources, activeDeadlineSeconds=60))
    await site.post(site.pods, pod("e", resources, priorityClassName="system-node-critical"))


@pytest.mark.kubernetes("1.34", "it has no resource.k8s.io/v1")
async def test_a_quota_counts_what_claims_ask_for(site: Site) -> None:
    storage = "gold.storageclass.storage.k8s.io/requests.storage"
    devices = "gold.deviceclass.resource.k8s.io/devices"
    path = await quota(site, {storage: "3Gi", "persistentvolumeclaims": "2", devices: "2"})
    await quota(
        site,
        {"persistentvolumeclaims": "0"},
        "attributes",
        scopeSelector={
            "matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["fast"]}]
        },
    )

    def claim(name: str, size: str, kind: str, **spec: Any) -> dict[str, Any]:
        resources = {"requests": {"storage": size}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, "storageClassName": kind, **spec}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}

    claims = site.core("persistentvolumeclaims")
    await settled(site, claims, claim("a", "4Gi", "gold"), 403)
    for body in (
        claim("a", "4Gi", "gold"),
        claim("a", "2Gi", "gold"),
        claim("b", "2Gi", "gold"),
        claim("c", "1Gi", "silver", volumeAttributesClassName="fast"),
        claim("d", "9Gi", "silver"),
        claim("e", "1Gi", "silver"),
    ):
        reply = await site.ask("POST", claims, body, kept=False)
        site.transcript.answer(site.transcript.request("POST", claims, {}, body), reply.status, {}, _text(reply.json))
    of_devices = site.of("resource.k8s.io/v1", "resourceclaims")
    for count in (3, 2):
        exactly = {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": count}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "a"},
            "spec": {"devices": {"requests": [{"name": "one", "exactly": exactly}]}},
        }
        reply = await site.ask("POST", of_devices, body, kept=False)
        site.transcript.answer(
            site.transcript.request("POST", of_devices, {}, body), reply.status, {}, _text(reply.json)
        )
    await site.get(path)


def _text(document: dict[str, Any]) -> str:
    """What a refusal says; "" for an object, whose defaults are not the matter."""
    return str(document.get("message", ""))


# -- policies ---------------------------------------------------------------------------------------------------------


def policy(site: Site, /, **spec: Any) -> dict[str, Any]:
    """A policy about config maps of the site's namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    constraints = {"resourceRules": [rule], "namespaceSelector": selector}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "policy"},
        "spec": {"matchConstraints": constraints, **spec},
    }


def binding(name: str, /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "binding"},
        "spec": {"policyName": name, "validationActions": ["Deny"], **spec},
    }


def refused(site: Site) -> dict[str, Any]:
    """A config map that every policy here denies."""
    return {**configmap("a"), "data": {"level": "bad", "key": site.namespace}}


async def test_a_policy_that_cannot_be_compiled_is_refused(site: Site) -> None:
    for spec in (
        {"validations": []},
        {"validations": [{"expression": ""}]},
        {"validations": [{"expression": "object.x +"}]},
        {"validations": [{"expression": "object.x"}]},
        {"validations": [{"expression": "1"}]},
        {"validations": [{"expression": "params.x == 1"}]},
        {"validations": [{"expression": "nothing == 1"}]},
        {"validations": [{"expression": "request.nothing == 1"}]},
        {"validations": [{"expression": "namespaceObject.metadata.uid == ''"}]},
        {"validations": [{"expression": "variables.x == 1"}]},
        {"validations": [{"expression": "true", "messageExpression": "1"}]},
        {"validations": [{"expression": "true", "messageExpression": " "}]},
        {"validations": [{"expression": "true", "message": "a\nb"}]},
        {"validations": [{"expression": "true", "reason": "Because"}]},
        {"validations": [{"expression": "true"}], "variables": [{"name": "a-b", "expression": "1"}]},
        {"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "nothing"}]},
        {"validations": [{"expression": "variables.a == ''"}], "variables": [{"name": "a", "expression": "1"}]},
        {"validations": [{"expression": "true"}], "matchConditions": [{"name": "a", "expression": "1"}]},
        {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": []}},
        {"validations": [{"expression": "true"}], "failurePolicy": "Perhaps"},
    ):
        await site.post(f"{POLICIES}?dryRun=All", policy(site, **spec))
    for spec in ({"validationActions": []}, {"validationActions": ["Deny", "Warn"]}, {"policyName": ""}):
        await site.post(f"{BINDINGS}?dryRun=All", binding("x", **spec))


async def test_a_policy_denies_what_its_binding_says(site: Site) -> None:
    validations = [
        {"expression": "object.data.level != 'bad'", "message": "not that"},
        {"expression": "object.data.level != 'worse'", "messageExpression": "'no ' + object.data.level"},
        {"expression": "object.data.level != 'worst'", "reason": "Forbidden"},
        {"expression": "oldObject == null || oldObject.data.level != 'fixed' || object.data.level == 'fixed'"},
        {"expression": "request.operation in ['CREATE', 'UPDATE'] && request.resource.resource == 'configmaps'"},
        {"expression": "namespaceObject.metadata.name == request.namespace && request.kind.kind == 'ConfigMap'"},
    ]
    async with existing(site, POLICIES, policy(site, validations=validations)) as name:
        await site.post(site.configmaps, refused(site))
        await site.ask("DELETE", f"{site.configmaps}/a", kept=False)
        async with existing(site, BINDINGS, binding(name)):
            await settled(site, site.configmaps, refused(site), 422)
            await site.post(site.configmaps, refused(site))
            for level in ("worse", "worst", "fixed"):
                await site.post(site.configmaps, {**configmap("a"), "data": {"level": level}})
            await site.patch(f"{site.configmaps}/a", {"data": {"level": "open"}})
            await site.patch(f"{site.configmaps}/a", {"data": {"level": "bad"}})
            await site.patch(f"{site.configmaps}/a", {"data": {"more": "x"}})
            await site.post(site.configmaps, {**configmap("b"), "data": {}})
            await site.delete(f"{site.configmaps}/a")


async def test_variables_and_conditions_of_a_policy(site: Site) -> None:
    spec = {
        "variables": [
            {"name": "level", "expression": "object.data.?level.orValue('none')"},
            {"name": "isBad", "expression": "variables.level == 'bad'"},
        ],
        "matchConditions": [
            {
                "name": "not-exempt",
                "expression": "!has(object.metadata.labels) || !('exempt' in object.metadata.labels)",
            },
            {"name": "has-data", "expression": "has(object.data)"},
        ],
        "validations": [{"expression": "!variables.isBad", "messageExpression": "'level is ' + variables.level"}],
    }
    async with existing(site, POLICIES, policy(site, **spec)) as name, existing(site, BINDINGS, binding(name)):
        await settled(site, site.configmaps, refused(site), 422)
        await site.post(site.configmaps, refused(site))
        exempt = {**refused(site), "metadata": {"name": "b", "labels": {"exempt": ""}}}
        await site.post(site.configmaps, exempt)
        await site.post(site.configmaps, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
        await site.post(site.configmaps, {**configmap("d"), "data": {"other": "x"}})


async def test_a_binding_may_warn_and_an_error_may_be_ignored(site: Site) -> None:
    validations = [{"expression": "object.data.level != 'bad'"}, {"expression": "object.data.nothing == 'x'"}]
    lenient = policy(site, validations=validations, failurePolicy="Ignore")
    warned = binding("", validationActions=["Warn"])
    async with existing(site, POLICIES, lenient) as name:
        warned["spec"]["policyName"] = name
        async with existing(site, BINDINGS, warned):
            await until(
                lambda: site.ask("POST", f"{site.configmaps}?dryRun=All", refused(site), kept=False),
                20,
                holds=lambda reply: "warning" in reply.headers,
            )
            await site.post(site.configmaps, refused(site))
            await site.post(site.configmaps, {**configmap("b"), "data": {"level": "good"}})


async def test_a_policy_compares_with_its_parameters(site: Site) -> None:
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "validations": [{"expression": "object.data.level != 'bad' || params.metadata.name == 'allowed'"}],
    }
    secrets = site.core("secrets")
    await site.make(secrets, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "params"}})
    async with existing(site, POLICIES, policy(site, **spec)) as name:
        reference = {"name": "params", "namespace": site.namespace, "parameterNotFoundAction": "Deny"}
        async with existing(site, BINDINGS, binding(name, paramRef=reference)):
            await settled(site, site.configmaps, refused(site), 422)
            await site.post(site.configmaps, refused(site))
            await site.post(site.configmaps, {**configmap("b"), "data": {"level": "good"}})
        reference = {"name": "missing", "namespace": site.namespace, "parameterNotFoundAction": "Deny"}
        good = {**configmap("c"), "data": {"level": "good"}}
        async with existing(site, BINDINGS, binding(name, paramRef=reference)):
            await settled(site, site.configmaps, good, 422)
            await site.post(site.configmaps, good)
        reference = {"name": "missing", "namespace": site.namespace, "parameterNotFoundAction": "Allow"}
        async with existing(site, BINDINGS, binding(name, paramRef=reference)):
            await settled(site, site.configmaps, good, 201)
            await site.post(site.configmaps, good)


async def test_a_policy_may_be_about_deletions_and_subresources(site: Site) -> None:
    rules = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]},
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]},
    ]
    selector = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    validations = [{"expression": "request.operation != 'DELETE' && request.subResource != 'status'"}]
    body = policy(
        site, validations=validations, matchConstraints={"resourceRules": rules, "namespaceSelector": selector}
    )
    await site.make(site.configmaps, configmap("a"))
    await site.make(site.pods, pod("a"))
    async with existing(site, POLICIES, body) as name, existing(site, BINDINGS, binding(name)):
        await until(
            lambda: site.ask("DELETE", f"{site.configmaps}/a?dryRun=All", kept=False),
            20,
            holds=lambda reply: reply.status == 422,
        )
        await site.delete(f"{site.configmaps}/a")
        await site.patch(f"{site.configmaps}/a", {"data": {"x": "y"}})
        await site.patch(f"{site.pods}/a/status", {"status": {"message": "x"}})
        await site.patch(f"{site.pods}/a", {"metadata": {"labels": {"x": "y"}}})
