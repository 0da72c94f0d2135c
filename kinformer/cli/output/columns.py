"""Which columns a kind has, between its name and its age.

The choice is that of `kubectl get` (kubernetes, pkg/printers/internalversion/printers.go), computed here from the
object, so that a watch can show each change without asking the server for a table of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kinformer.cli.output.ages import age, human_duration
from kinformer.cli.output.pod_status import pod_ready, pod_restarts, pod_status

__all__ = ["Column", "columns_of"]

Object = Mapping[str, Any]
Column = tuple[str, Callable[[Object], str]]

_NODE_ROLE = "node-role.kubernetes.io/"


def columns_of(group: str, kind: str) -> Sequence[Column]:
    """The columns of a kind without NAMESPACE and NAME, in order, AGE (where there is one) last.

    A kind that is not known has a STATUS of its `status.phase`, or of its `Ready` condition.
    """
    return _KINDS.get((group, kind), _OTHER)


def _path(obj: Any, path: str, default: Any = None) -> Any:
    for part in path.split("."):
        if not isinstance(obj, Mapping):
            return default
        obj = obj.get(part)
    return default if obj is None else obj


def _at(path: str, default: Any = "<none>") -> Callable[[Object], str]:
    """The value at a path, as text."""

    def cell(obj: Object) -> str:
        value = _path(obj, path, default)
        return str(default if value == "" else value)

    return cell


def _of(part: str, whole: str, *, missing: int = 0) -> Callable[[Object], str]:
    """`2/3`."""
    return lambda obj: f"{_path(obj, part, 0)}/{_path(obj, whole, missing)}"


def _size(*paths: str) -> Callable[[Object], str]:
    return lambda obj: str(sum(len(_path(obj, path, ())) for path in paths))


def _joined(path: str) -> Callable[[Object], str]:
    return lambda obj: ",".join(map(str, _path(obj, path, ()))) or "<none>"


def _age_of(path: str = "metadata.creationTimestamp", missing: str = "<unknown>") -> Callable[[Object], str]:
    return lambda obj: age(since) if (since := _path(obj, path)) else missing


def _condition(obj: Object, kind: str) -> str | None:
    conditions = _path(obj, "status.conditions", ())
    for condition in conditions if isinstance(conditions, list) else ():  # a custom resource may put anything there
        if isinstance(condition, Mapping) and condition.get("type") == kind:
            return str(condition.get("status", ""))
    return None


def _node_status(obj: Object) -> str:
    ready = {"True": "Ready", "False": "NotReady"}.get(_condition(obj, "Ready") or "", "Unknown")
    return f"{ready},SchedulingDisabled" if _path(obj, "spec.unschedulable") else ready


def _node_roles(obj: Object) -> str:
    labels = _path(obj, "metadata.labels", {})
    return ",".join(sorted(key[len(_NODE_ROLE) :] for key in labels if key.startswith(_NODE_ROLE))) or "<none>"


def _phase(obj: Object) -> str:
    return "Terminating" if _path(obj, "metadata.deletionTimestamp") else str(_path(obj, "status.phase", ""))


def _any_status(obj: Object) -> str:
    phase = _phase(obj)
    if phase:
        return phase
    ready = _condition(obj, "Ready") or _condition(obj, "Available")
    return {"True": "Ready", "False": "NotReady"}.get(ready or "", ready or "-")


def _job_status(obj: Object) -> str:
    if _condition(obj, "Complete") == "True":
        return "Complete"
    if _condition(obj, "Failed") == "True":
        return "Failed"
    if _path(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    return "Suspended" if _condition(obj, "Suspended") == "True" else "Running"


def _job_duration(obj: Object) -> str:
    start, end = _path(obj, "status.startTime"), _path(obj, "status.completionTime")
    if not start:
        return ""
    if not end:
        return age(start)
    return human_duration((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())


def _external_ip(obj: Object) -> str:
    kind = _path(obj, "spec.type", "ClusterIP")
    if kind == "ExternalName":
        return str(_path(obj, "spec.externalName", "<none>"))
    addresses = [str(address) for address in _path(obj, "spec.externalIPs", ())]
    for ingress in _path(obj, "status.loadBalancer.ingress", ()):
        addresses.append(str(ingress.get("ip") or ingress.get("hostname") or ""))
    return ",".join(filter(None, addresses)) or ("<pending>" if kind == "LoadBalancer" else "<none>")


def _ports(obj: Object) -> str:
    texts = []
    for port in _path(obj, "spec.ports", ()):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or "<none>"


def _ingress_hosts(obj: Object) -> str:
    return ",".join(str(rule.get("host") or "*") for rule in _path(obj, "spec.rules", ())) or "*"


def _ingress_addresses(obj: Object) -> str:
    entries = _path(obj, "status.loadBalancer.ingress", ())
    return ",".join(str(one.get("ip") or one.get("hostname") or "") for one in entries)


def _event_age(obj: Object) -> str:
    for path in ("lastTimestamp", "deprecatedLastTimestamp", "eventTime", "metadata.creationTimestamp"):
        if _path(obj, path):
            return age(_path(obj, path))
    return "<unknown>"


def _event_object(obj: Object) -> str:
    about = _path(obj, "involvedObject") or _path(obj, "regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_message(obj: Object) -> str:
    return str(_path(obj, "message") or _path(obj, "note") or "").strip()


_AGE: Column = ("AGE", _age_of())
_OTHER: tuple[Column, ...] = (("STATUS", _any_status), _AGE)
_JUST_AGE: tuple[Column, ...] = (_AGE,)
_EVENT: tuple[Column, ...] = (
    ("LAST SEEN", _event_age),
    ("TYPE", _at("type", "")),
    ("REASON", _at("reason", "")),
    ("OBJECT", _event_object),
    ("MESSAGE", _event_message),
)

_KINDS: Mapping[tuple[str, str], tuple[Column, ...]] = {
    ("", "Pod"): (
        ("READY", pod_ready),
        ("STATUS", pod_status),
        ("RESTARTS", pod_restarts),
        ("NODE", _at("spec.nodeName")),
        _AGE,
    ),
    ("", "Node"): (
        ("STATUS", _node_status),
        ("ROLES", _node_roles),
        ("VERSION", _at("status.nodeInfo.kubeletVersion", "")),
        _AGE,
    ),
    ("", "Namespace"): (("STATUS", _phase), _AGE),
    ("", "Service"): (
        ("TYPE", _at("spec.type", "ClusterIP")),
        ("CLUSTER-IP", _at("spec.clusterIP")),
        ("EXTERNAL-IP", _external_ip),
        ("PORT(S)", _ports),
        _AGE,
    ),
    ("", "ConfigMap"): (("DATA", _size("data", "binaryData")), _AGE),
    ("", "Secret"): (("TYPE", _at("type", "Opaque")), ("DATA", _size("data")), _AGE),
    ("", "ServiceAccount"): _JUST_AGE,
    ("", "PersistentVolumeClaim"): (
        ("STATUS", _phase),
        ("VOLUME", _at("spec.volumeName", "")),
        ("CAPACITY", _at("status.capacity.storage", "")),
        ("STORAGECLASS", _at("spec.storageClassName", "")),
        _AGE,
    ),
    ("", "PersistentVolume"): (
        ("CAPACITY", _at("spec.capacity.storage", "")),
        ("RECLAIM POLICY", _at("spec.persistentVolumeReclaimPolicy", "")),
        ("STATUS", _phase),
        ("STORAGECLASS", _at("spec.storageClassName", "")),
        _AGE,
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "Deployment"): (
        ("READY", _of("status.readyReplicas", "spec.replicas", missing=1)),
        ("UP-TO-DATE", _at("status.updatedReplicas", 0)),
        ("AVAILABLE", _at("status.availableReplicas", 0)),
        _AGE,
    ),
    ("apps", "ReplicaSet"): (
        ("DESIRED", _at("spec.replicas", 1)),
        ("CURRENT", _at("status.replicas", 0)),
        ("READY", _at("status.readyReplicas", 0)),
        _AGE,
    ),
    ("apps", "StatefulSet"): (("READY", _of("status.readyReplicas", "spec.replicas", missing=1)), _AGE),
    ("apps", "DaemonSet"): (
        ("DESIRED", _at("status.desiredNumberScheduled", 0)),
        ("CURRENT", _at("status.currentNumberScheduled", 0)),
        ("READY", _at("status.numberReady", 0)),
        ("UP-TO-DATE", _at("status.updatedNumberScheduled", 0)),
        ("AVAILABLE", _at("status.numberAvailable", 0)),
        _AGE,
    ),
    ("batch", "Job"): (
        ("STATUS", _job_status),
        ("COMPLETIONS", _of("status.succeeded", "spec.completions", missing=1)),
        ("DURATION", _job_duration),
        _AGE,
    ),
    ("batch", "CronJob"): (
        ("SCHEDULE", _at("spec.schedule", "")),
        ("SUSPEND", _at("spec.suspend", False)),
        ("ACTIVE", _size("status.active")),
        ("LAST SCHEDULE", _age_of("status.lastScheduleTime", "<none>")),
        _AGE,
    ),
    ("networking.k8s.io", "Ingress"): (
        ("CLASS", _at("spec.ingressClassName")),
        ("HOSTS", _ingress_hosts),
        ("ADDRESS", _ingress_addresses),
        _AGE,
    ),
    ("coordination.k8s.io", "Lease"): (("HOLDER", _at("spec.holderIdentity", "")), _AGE),
    ("storage.k8s.io", "StorageClass"): (("PROVISIONER", _at("provisioner", "")), _AGE),
    ("rbac.authorization.k8s.io", "Role"): _JUST_AGE,
    ("rbac.authorization.k8s.io", "ClusterRole"): _JUST_AGE,
    ("rbac.authorization.k8s.io", "RoleBinding"): (("ROLE", _at("roleRef.name", "")), _AGE),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): (("ROLE", _at("roleRef.name", "")), _AGE),
    ("policy", "PodDisruptionBudget"): (
        ("MIN AVAILABLE", _at("spec.minAvailable", "N/A")),
        ("MAX UNAVAILABLE", _at("spec.maxUnavailable", "N/A")),
        ("ALLOWED DISRUPTIONS", _at("status.disruptionsAllowed", 0)),
        _AGE,
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        ("GROUP", _at("spec.group", "")),
        ("KIND", _at("spec.names.kind", "")),
        _AGE,
    ),
    ("discovery.k8s.io", "EndpointSlice"): (
        ("ADDRESSTYPE", _at("addressType", "")),
        ("ENDPOINTS", _size("endpoints")),
        _AGE,
    ),
    ("", "Endpoints"): (("SUBSETS", _size("subsets")), _AGE),
    ("autoscaling", "HorizontalPodAutoscaler"): (
        ("REFERENCE", lambda obj: f"{_path(obj, 'spec.scaleTargetRef.kind')}/{_path(obj, 'spec.scaleTargetRef.name')}"),
        ("MINPODS", _at("spec.minReplicas", "<unset>")),
        ("MAXPODS", _at("spec.maxReplicas", "")),
        ("REPLICAS", _at("status.currentReplicas", 0)),
        _AGE,
    ),
    ("networking.k8s.io", "NetworkPolicy"): (("TYPES", _joined("spec.policyTypes")), _AGE),
}
