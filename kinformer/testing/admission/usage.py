"""The quota usage of an object (pkg/quota/v1/evaluator/core)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinformer.testing.admission.pod_resources import Amount, Amounts, as_amounts, containers_of, pod_resources
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.builtin.pod_defaults import qos_class

__all__ = ["counted_resources", "matches_scopes", "missing_requests", "usage_of"]

Object = Mapping[str, Any]

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
# A quota for one of these requires it in every container.
_REQUIRED = ("cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory")
# Kinds that may be counted by their plain name.
_BARE = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "secrets", "services")
_DEVICES = ".deviceclass.resource.k8s.io/devices"
_MOST_DEVICES = 32  # what a request for all devices counts as
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"


def _count_name(resource: ResourceType) -> str:
    return f"count/{resource.plural}.{resource.group}" if resource.group else f"count/{resource.plural}"


def _one() -> Amount:
    return Amount("1")


def _is_claim_of_devices(resource: ResourceType) -> bool:
    return resource.builtin and resource.group == "resource.k8s.io" and resource.plural == "resourceclaims"


def counted_resources(resource: ResourceType, hard: Iterable[str]) -> list[str]:
    """Return the resources of a quota that count objects of a kind."""
    return sorted(name for name in hard if _counts(resource, name))


def _counts(resource: ResourceType, name: str) -> bool:
    if name == _count_name(resource):
        return True
    if _is_claim_of_devices(resource):
        return name.endswith(_DEVICES)
    if resource.group or not resource.builtin:
        return False
    if resource.plural == "pods":
        rest = name.removeprefix("requests.")
        extended = name.startswith("requests.") and ("/" in rest or rest.startswith("hugepages-"))
        plain = name.partition(".")[2] if name.startswith(("requests.", "limits.")) else name
        return name == "pods" or plain in _COMPUTE or name.startswith("hugepages-") or extended
    if name == resource.plural:
        return name in _BARE
    if resource.plural == "services":
        return name in ("services.loadbalancers", "services.nodeports")
    if resource.plural == "persistentvolumeclaims":
        return name == "requests.storage" or _STORAGE_CLASS in name
    return False


# -- usage ------------------------------------------------------------------------------------------------------------


def usage_of(resource: ResourceType, obj: Object) -> Amounts:
    """Return the usage of every resource that could count the object."""
    usage: Amounts = {_count_name(resource): _one()}
    if _is_claim_of_devices(resource):
        return usage | _device_usage(obj.get("spec") or {})
    if resource.group or not resource.builtin:
        return usage
    if resource.plural == "pods":
        return usage | _pod_usage(obj)
    if resource.plural in _BARE:
        usage[resource.plural] = _one()
    if resource.plural == "services":
        usage |= _service_usage(obj.get("spec") or {})
    elif resource.plural == "persistentvolumeclaims":
        usage |= _claim_usage(obj)
    return usage


def _compute(requests: Amounts, limits: Amounts) -> Amounts:
    usage = {"pods": _one()}
    for name in _COMPUTE:
        if name in requests:
            usage[name] = usage[f"requests.{name}"] = requests[name]
        if name in limits:
            usage[f"limits.{name}"] = limits[name]
    for name, amount in requests.items():
        if name.startswith("hugepages-"):
            usage[name] = amount
        if name.startswith("hugepages-") or "/" in name:
            usage[f"requests.{name}"] = amount
    return usage


def _pod_usage(obj: Object) -> Amounts:
    if (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return {}
    spec = obj.get("spec") or {}
    return _compute(pod_resources(spec, "requests", overhead=True), pod_resources(spec, "limits", overhead=True))


def _service_usage(spec: Object) -> Amounts:
    kind, ports = spec.get("type", "ClusterIP"), len(spec.get("ports") or [])
    allocated = spec.get("allocateLoadBalancerNodePorts", True)
    if kind == "LoadBalancer" and not allocated:
        ports = sum(1 for port in spec.get("ports") or [] if port.get("nodePort"))
    return {
        "services.loadbalancers": Amount("1" if kind == "LoadBalancer" else "0"),
        "services.nodeports": Amount(str(ports) if kind in ("NodePort", "LoadBalancer") else "0"),
    }


def _device_usage(spec: Object) -> Amounts:
    """Return the number of devices of each class. Among alternatives, the highest counts."""
    total: dict[str, int] = {}
    for request in (spec.get("devices") or {}).get("requests") or []:
        most: dict[str, int] = {}
        for choice in request.get("firstAvailable") or [request.get("exactly") or {}]:
            kind, mode = choice.get("deviceClassName"), choice.get("allocationMode") or "ExactCount"
            count = int(choice.get("count") or 1) if mode == "ExactCount" else _MOST_DEVICES
            if kind:
                most[kind] = max(count, most.get(kind, 0))
        for kind, count in most.items():
            total[kind] = total.get(kind, 0) + count
    return {f"{kind}{_DEVICES}": Amount(str(count)) for kind, count in total.items()}


def _claim_usage(obj: Object) -> Amounts:
    spec = obj.get("spec") or {}
    usage: Amounts = {}
    size = as_amounts((spec.get("resources") or {}).get("requests")).get("storage")
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    kind = annotations.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if kind:
        usage[f"{kind}{_STORAGE_CLASS}persistentvolumeclaims"] = _one()
    if size is not None:
        usage["requests.storage"] = size
        if kind:
            usage[f"{kind}{_STORAGE_CLASS}requests.storage"] = size
    return usage


def missing_requests(obj: Object, counted: Iterable[str]) -> str:
    """Return the resources that a quota counts but that containers of a pod do not set, or ""."""
    spec = obj.get("spec") or {}
    if (spec.get("resources") or {}).get("requests") or (spec.get("resources") or {}).get("limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in containers_of(spec):
        resources = container.get("resources") or {}
        stated = _compute(as_amounts(resources.get("requests")), as_amounts(resources.get("limits")))
        for name in counted:
            if name in _REQUIRED and name not in stated:
                missing.setdefault(name, set()).add(container.get("name", ""))
    if not missing:
        return ""
    return "must specify " + "; ".join(f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing))


# -- scopes -----------------------------------------------------------------------------------------------------------


def matches_scopes(resource: ResourceType, obj: Object, spec: Object) -> bool:
    """Return True if a quota with these scopes applies to an object."""
    selectors = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or []]
    selectors += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    if not selectors:
        return True
    if resource.group or not resource.builtin:
        return False
    if resource.plural == "persistentvolumeclaims":
        return all(_in_claim_scope(obj, scope) for scope in selectors)
    return resource.plural == "pods" and all(_in_scope(obj.get("spec") or {}, scope) for scope in selectors)


def _in_claim_scope(obj: Object, selector: Object) -> bool:
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    status = obj.get("status") or {}
    named = {
        (obj.get("spec") or {}).get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    }
    names = [name for name in named if name]
    return any(_selects(name, selector) for name in names or [""])


def _in_scope(spec: Object, selector: Object) -> bool:
    name = selector.get("scopeName")
    if name in ("Terminating", "NotTerminating"):
        return ((spec.get("activeDeadlineSeconds") or -1) >= 0) is (name == "Terminating")
    if name in ("BestEffort", "NotBestEffort"):
        return (qos_class(dict(spec)) == "BestEffort") is (name == "BestEffort")
    if name == "PriorityClass":
        return _selects(spec.get("priorityClassName") or "", selector)
    if name == "CrossNamespacePodAffinity":
        return _crosses_namespaces(spec.get("affinity") or {})
    return False


def _selects(name: str, selector: Object) -> bool:
    operator, values = selector.get("operator"), selector.get("values") or []
    if operator == "Exists":
        return bool(name)
    if operator == "DoesNotExist":
        return not name
    return (bool(name) and name in values) if operator == "In" else name not in values


def _crosses_namespaces(affinity: Object) -> bool:
    terms: list[Object] = []
    for name in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(name) or {}
        terms += part.get("requiredDuringSchedulingIgnoredDuringExecution") or []
        preferred = part.get("preferredDuringSchedulingIgnoredDuringExecution") or []
        terms += [term.get("podAffinityTerm") or {} for term in preferred]
    return any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms)
