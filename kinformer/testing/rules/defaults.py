"""Defaults and first statuses of built-in kinds (pkg/apis/*/v1/defaults.go)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from kinformer.objects.accessors import value_at
from kinformer.testing.codec.typed import zero
from kinformer.testing.kinds.crds import stored_versions
from kinformer.testing.kinds.schema import SchemaNode
from kinformer.testing.rules.builtin.pod_defaults import fill_pod, fill_template, qos_class
from kinformer.testing.rules.builtin.policy_rules import fill_binding, fill_policy, fill_service, fill_webhooks

__all__ = ["TEMPLATE_GENERATION", "fill_in", "first_status"]

Object = dict[str, Any]


def _template(obj: Object) -> None:
    fill_template(obj.setdefault("spec", {}).get("template"))


def _deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _template(obj)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _replicas(obj: Object) -> None:
    obj.setdefault("spec", {}).setdefault("replicas", 1)
    _template(obj)


def _controller(obj: Object) -> None:
    _replicas(obj)
    spec = obj["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))


def _rolling(spec: Object, defaults: Object) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        for name, value in defaults.items():
            rolling.setdefault(name, value)


def _stateful_set(obj: Object) -> None:
    _replicas(obj)
    spec = obj["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    _rolling(spec, {"partition": 0})
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})
    for claim in spec.get("volumeClaimTemplates") or []:
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        _claim(claim)
        claim.setdefault("status", {}).setdefault("phase", "Pending")


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set(obj: Object) -> None:
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault(TEMPLATE_GENERATION, "0")  # admission increments it
    _template(obj)
    _rolling(obj["spec"], {"maxUnavailable": 1, "maxSurge": 0})
    obj["spec"].setdefault("revisionHistoryLimit", 10)


def _job_spec(spec: Object) -> None:
    fill_template(spec.get("template"))


def _job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _job_spec(spec)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)


def _cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _job_spec((spec.get("jobTemplate") or {}).get("spec") or {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    kind = spec.setdefault("type", "ClusterIP")
    if kind == "ExternalName":
        spec.setdefault("sessionAffinity", "None")
    else:
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port", 0)


def _namespace(obj: Object) -> None:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")
    obj.setdefault("spec", {})


def _node(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("podCIDR"):
        spec.setdefault("podCIDRs", [spec["podCIDR"]])
    status = obj.get("status") or {}
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _secret(obj: Object) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({name: base64.b64encode(value.encode()).decode() for name, value in plain.items()})
        obj["data"] = dict(sorted(data.items()))
    obj.setdefault("type", "Opaque")


def _definition(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    fill_service(value_at(spec, "conversion", "webhook", "clientConfig"))
    status = obj.get("status")
    if isinstance(status, dict) and not status.get("storedVersions"):
        status["storedVersions"] = stored_versions(obj)


def _event(obj: Object) -> None:
    if obj.get("apiVersion") != "v1":
        return  # conversion to the stored version sets the rest
    obj.setdefault("source", {})
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(name, None)
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or []:
        for port in subset.get("ports") or []:
            port.setdefault("protocol", "TCP")


def _endpoint_slice(obj: Object) -> None:
    for port in obj.get("ports") or []:
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _volume(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if "hostPath" in spec:
        spec["hostPath"].setdefault("type", "")


def _claim(obj: Object) -> None:
    obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _limit_range(obj: Object) -> None:
    for limit in (obj.get("spec") or {}).get("limits") or []:
        if limit.get("type") != "Container":
            continue
        for given, filled in (("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")):
            for name, quantity in (limit.get(given) or {}).items():
                limit.setdefault(filled, {}).setdefault(name, quantity)


def _pod_template(obj: Object) -> None:
    fill_template(obj.get("template"))


def _network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for rule in [*(spec.get("ingress") or []), *(spec.get("egress") or [])]:
        for port in rule.get("ports") or []:
            port.setdefault("protocol", "TCP")
    spec.setdefault("policyTypes", ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])


def _scaler(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if obj.get("apiVersion") == "autoscaling/v1":
        spec.setdefault("targetCPUUtilizationPercentage", 80)
    elif not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _role_binding(obj: Object) -> None:
    role = obj.setdefault("roleRef", {})
    role["apiGroup"] = role.get("apiGroup") or "rbac.authorization.k8s.io"
    for subject in obj.get("subjects") or []:
        if subject.get("kind") in ("User", "Group"):
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


_FILL: Mapping[str, Callable[[Object], None]] = {
    "Pod": fill_pod,
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "ReplicationController": _controller,
    "StatefulSet": _stateful_set,
    "DaemonSet": _daemon_set,
    "Job": _job,
    "CronJob": _cron_job,
    "Service": _service,
    "Namespace": _namespace,
    "Node": _node,
    "Secret": _secret,
    "Event": _event,
    "CustomResourceDefinition": _definition,
    "Endpoints": _endpoints,
    "EndpointSlice": _endpoint_slice,
    "PersistentVolume": _volume,
    "PersistentVolumeClaim": _claim,
    "LimitRange": _limit_range,
    "PodTemplate": _pod_template,
    "NetworkPolicy": _network_policy,
    "HorizontalPodAutoscaler": _scaler,
    "StorageClass": _storage_class,
    "RoleBinding": _role_binding,
    "ClusterRoleBinding": _role_binding,
    "PriorityClass": _priority_class,
    "ValidatingAdmissionPolicy": fill_policy,
    "ValidatingAdmissionPolicyBinding": fill_binding,
    "ValidatingWebhookConfiguration": fill_webhooks,
    "MutatingWebhookConfiguration": fill_webhooks,
}
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
_PHASES = {"Namespace": "Active", "PersistentVolume": "Pending", "PersistentVolumeClaim": "Pending"}


def fill_in(kind: str, obj: Object) -> None:
    """Fill in the defaults of a built-in kind, in place. The object's writer owns them."""
    fill = _FILL.get(kind)
    if fill is not None:
        fill(obj)


def first_status(kind: str, obj: Object, node: SchemaNode, now: str) -> Object:
    """Return the status of a new object of a built-in kind."""
    status: Object = zero(node) or {}
    if kind == "Pod":
        status.update(phase="Pending", qosClass=qos_class(obj.get("spec") or {}))
        if (obj.get("spec") or {}).get("schedulingGates"):
            status["conditions"] = [{**_GATED, "lastTransitionTime": now}]
    elif kind in _PHASES:
        status["phase"] = _PHASES[kind]
        if kind == "PersistentVolume":
            status["lastPhaseTransitionTime"] = now
    elif kind == "CustomResourceDefinition":
        status["storedVersions"] = stored_versions(obj)
    return status
