"""Validation of built-in kinds, for the few fields that are often wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kinformer.apiserver.status import Causes, cause
from kinformer.testing.rules.builtin.pod_rules import (
    duplicate,
    pod_causes,
    pod_update_causes,
    required,
    template_causes,
    unsupported,
)
from kinformer.testing.rules.builtin.policy_rules import binding_causes, policy_causes
from kinformer.testing.rules.builtin.workload_rules import at_least, cron_job_causes, job_causes, workload_causes
from kinformer.testing.rules.crd_rules import definition_causes
from kinformer.testing.rules.metadata_rules import invalid_value

__all__ = ["kind_causes"]

Object = Mapping[str, Any]

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CONFIG_KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or"
    " 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_FIXED = "Forbidden: field is immutable when `immutable` is set"


def _spec(obj: Object | None) -> Object:
    return (obj or {}).get("spec") or {}


def _pod(obj: Object, old: Object | None) -> Causes:
    if old is not None:
        changed = pod_update_causes(_spec(obj), _spec(old))
        return changed + pod_causes(_spec(obj), "spec")
    causes = pod_causes(_spec(obj), "spec")
    if _spec(obj).get("ephemeralContainers"):
        causes.append(cause("FieldValueForbidden", "Forbidden: cannot be set on create", "spec.ephemeralContainers"))
    return causes


def _workload(kind: str) -> Callable[[Object, Object | None], Causes]:
    return lambda obj, old: workload_causes(kind, _spec(obj), _spec(old) if old is not None else None)


def _controller(obj: Object, old: Object | None) -> Causes:
    spec = _spec(obj)
    causes = at_least("spec.replicas", spec.get("replicas"), 0)
    if not spec.get("selector"):
        causes.append(required("spec.selector"))
    if spec.get("template") is None:
        causes.append(required("spec.template"))
        return causes
    return causes + template_causes(spec["template"], "spec.template")


def _config_keys(obj: Object, *names: str) -> Causes:
    causes: Causes = []
    for name in names:
        for key in obj.get(name) or {}:
            if not _CONFIG_KEY.fullmatch(key):
                causes.append(invalid_value(f"{name}[{key}]", key, _CONFIG_KEY_TEXT))
    return causes


def _frozen(obj: Object, old: Object | None, *names: str) -> Causes:
    if old is None or not old.get("immutable"):
        return []
    changed = [name for name in names if (obj.get(name) or {}) != (old.get(name) or {})]
    if not obj.get("immutable"):
        changed.insert(0, "immutable")
    return [cause("FieldValueForbidden", _FIXED, name) for name in changed]


def _config_map(obj: Object, old: Object | None) -> Causes:
    causes = _config_keys(obj, "data")
    for key in sorted((obj.get("data") or {}).keys() & (obj.get("binaryData") or {}).keys()):
        causes.append(invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData"))
    return _frozen(obj, old, "data", "binaryData") + causes + _config_keys(obj, "binaryData")


def _secret(obj: Object, old: Object | None) -> Causes:
    causes: Causes = []
    if old is not None and obj.get("type") != old.get("type"):
        causes.append(invalid_value("type", obj.get("type"), "field is immutable"))
    causes += _frozen(obj, old, "data")
    causes += _config_keys(obj, "data")
    for key in _SECRET_KEYS.get(obj.get("type", ""), ()):
        if key not in (obj.get("data") or {}):
            causes.append(required(f"data[{key}]"))
    return causes


def _service(obj: Object, old: Object | None) -> Causes:
    spec = _spec(obj)
    causes: Causes = []
    kind, ports = spec.get("type", "ClusterIP"), spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and kind != "ExternalName":
        causes.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        causes.append(required("spec.externalName"))
    seen: set[tuple[Any, Any]] = set()
    names: set[str] = set()
    for index, port in enumerate(ports):
        at = f"spec.ports[{index}]"
        if len(ports) > 1 and not port.get("name"):
            causes.append(required(f"{at}.name"))
        elif port.get("name") in names:
            causes.append(duplicate(f"{at}.name", port["name"]))
        names |= {port["name"]} if port.get("name") else set()
        for field in ("port", "targetPort"):
            number = port.get(field, 0)
            if isinstance(number, int) and not 0 < number < 65536:
                causes.append(invalid_value(f"{at}.{field}", number, "must be between 1 and 65535, inclusive"))
        key = (port.get("port"), port.get("protocol"))
        if key in seen:
            causes.append(duplicate(at, {"port": key[0], "protocol": key[1]}))
        seen.add(key)
    if kind not in _SERVICE_TYPES:
        causes.append(unsupported("spec.type", kind, _SERVICE_TYPES))
    before = _spec(old).get("clusterIP")
    if before and kind != "ExternalName" and spec.get("clusterIP") != before:
        addresses = spec.get("clusterIPs") or [spec.get("clusterIP")]
        causes.append(invalid_value("spec.clusterIPs[0]", addresses, "may not change once set"))
    return causes


def _lease(obj: Object, old: Object | None) -> Causes:
    causes: Causes = []
    spec = _spec(obj)
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    return causes + at_least("spec.leaseTransitions", transitions, 0)


def _event(obj: Object, old: Object | None) -> Causes:
    namespace = (obj.get("involvedObject") or obj.get("regarding") or {}).get("namespace", "")
    if namespace and namespace != obj["metadata"].get("namespace"):
        return [invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]
    causes: Causes = []
    if obj["apiVersion"] == "events.k8s.io/v1" and old is None:
        if not obj.get("eventTime"):
            causes.append(required("eventTime"))
        elif not obj.get("reportingController"):
            causes.append(required("reportingController"))
        if obj.get("type") not in ("Normal", "Warning"):
            causes.append(invalid_value("type", obj.get("type", ""), f"has invalid value: {obj.get('type', '')}"))
    return causes


def _claim(obj: Object, old: Object | None) -> Causes:
    spec, causes = _spec(obj), []
    if not spec.get("accessModes"):
        causes.append(required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        causes.append(required("spec.resources[storage]"))
    return causes


def _ingress(obj: Object, old: Object | None) -> Causes:
    spec = _spec(obj)
    if not spec.get("rules") and not spec.get("defaultBackend"):
        message = "either `defaultBackend` or `rules` must be specified"
        return [cause("FieldValueInvalid", f"Invalid value: null: {message}", "spec")]
    return []


def _storage_class(obj: Object, old: Object | None) -> Causes:
    return [] if obj.get("provisioner") else [required("provisioner")]


def _role(obj: Object, old: Object | None) -> Causes:
    causes: Causes = []
    for index, rule in enumerate(obj.get("rules") or []):
        at = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(required(f"{at}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            continue
        if not rule.get("apiGroups"):
            causes.append(required(f"{at}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(required(f"{at}.resources", "resource rules must supply at least one resource"))
    return causes


def _role_binding(obj: Object, old: Object | None) -> Causes:
    causes: Causes = []
    role = obj.get("roleRef") or {}
    kinds = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if role.get("kind") not in kinds:
        causes.append(unsupported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        causes.append(required("roleRef.name"))
    for index, subject in enumerate(obj.get("subjects") or []):
        if not subject.get("name"):
            causes.append(required(f"subjects[{index}].name"))
    if old is not None and role != (old.get("roleRef") or {}):
        shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
        causes.append(invalid_value("roleRef", shown, "cannot change roleRef"))
    return causes


def _scaler(obj: Object, old: Object | None) -> Causes:
    spec, causes = _spec(obj), []
    target, most = spec.get("scaleTargetRef") or {}, spec.get("maxReplicas", 0)
    if most < 1:
        causes.append(required("spec.maxReplicas", "must be set and greater than 0"))
    if most < spec.get("minReplicas", 1):
        causes.append(invalid_value("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    for name in ("kind", "name"):
        if not target.get(name):
            causes.append(required(f"spec.scaleTargetRef.{name}"))
    if "/" not in target.get("apiVersion", "") and target.get("apiVersion") != "v1":
        message = "apiVersion must specify API group"
        causes.append(invalid_value("spec.scaleTargetRef.apiVersion", target.get("apiVersion", ""), message))
    return causes


def _node(obj: Object, old: Object | None) -> Causes:
    before = _spec(old).get("podCIDR")
    if before and _spec(obj).get("podCIDR") != before:
        message = 'Forbidden: node updates may not change podCIDR except from "" to valid'
        return [cause("FieldValueForbidden", message, "spec.podCIDRs")]
    return []


def _definition(obj: Object, old: Object | None) -> Causes:
    return definition_causes(obj, old)


_RULES: Mapping[tuple[str, str], Callable[[Object, Object | None], Causes]] = {
    ("", "Pod"): _pod,
    **{("apps", kind): _workload(kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")},
    ("", "ReplicationController"): _controller,
    ("batch", "Job"): lambda obj, old: job_causes(_spec(obj), _spec(old) if old is not None else None),
    ("batch", "CronJob"): lambda obj, old: cron_job_causes(_spec(obj)),
    ("", "ConfigMap"): _config_map,
    ("", "Secret"): _secret,
    ("", "Service"): _service,
    ("", "Event"): _event,
    ("events.k8s.io", "Event"): _event,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Node"): _node,
    ("coordination.k8s.io", "Lease"): _lease,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("rbac.authorization.k8s.io", "Role"): _role,
    ("rbac.authorization.k8s.io", "ClusterRole"): _role,
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding,
    ("autoscaling", "HorizontalPodAutoscaler"): _scaler,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): policy_causes,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): binding_causes,
}


def kind_causes(group: str, kind: str, obj: Object, old: Object | None) -> Causes:
    """Return the errors of a built-in object except for its metadata. `old` is the object before an update."""
    rule = _RULES.get((group, kind))
    return [] if rule is None else rule(obj, old)
