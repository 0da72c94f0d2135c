"""What the server fills in: defaults and admission, as far as a client sees them (pkg/apis/*/v1/defaults.go)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from kinformer.testing.schema import Node
from kinformer.testing.typed import zero

__all__ = ["admit", "fill_in", "first_status"]

Object = dict[str, Any]

_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODES = {"configMap", "secret", "downwardAPI", "projected"}


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"


def _container(container: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")
    for probe in _PROBES:
        if probe in container:
            _probe(container[probe])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _handler(hook)
    for variable in container.get("env") or []:
        field = (variable.get("valueFrom") or {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    resources = container["resources"]
    for name, quantity in (resources.get("limits") or {}).items():
        resources.setdefault("requests", {}).setdefault(name, quantity)


def _handler(handler: Object) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")
    if "grpc" in handler:
        handler["grpc"].setdefault("service", "")


def _probe(probe: Object) -> None:
    _handler(probe)
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)


def _volume(volume: Object) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for name in _MODES & volume.keys():
        volume[name].setdefault("defaultMode", 420)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    items = (volume.get("downwardAPI") or {}).get("items") or []
    for source in (volume.get("projected") or {}).get("sources") or []:
        items = [*items, *((source.get("downwardAPI") or {}).get("items") or [])]
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for item in items:
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _pod_spec(spec: Object) -> None:
    for name in ("initContainers", "containers"):
        for container in spec.get(name) or []:
            _container(container)
    for volume in spec.get("volumes") or []:
        _volume(volume)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    if spec.get("hostNetwork"):
        for container in spec.get("containers") or []:
            for port in container.get("ports") or []:
                port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")


def _quality(spec: Object) -> str:
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    resources = [one.get("resources") or {} for one in containers]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    guaranteed = all(
        one.get("limits") and (one.get("requests") or one["limits"]) == one["limits"] and len(one["limits"]) >= 2
        for one in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _pod(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)


def _admit_pod(obj: Object) -> None:
    """The plugins DefaultTolerationSeconds and Priority."""
    spec = obj["spec"]
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("tolerations", [dict(one) for one in _TOLERATIONS])
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _template(obj: Object) -> None:
    template = obj.setdefault("spec", {}).get("template")
    if isinstance(template, dict):
        _pod_spec(template.setdefault("spec", {}))


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


def _stateful_set(obj: Object) -> None:
    _replicas(obj)
    spec = obj["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"})


def _daemon_set(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    rolling = {"maxUnavailable": 1, "maxSurge": 0}
    spec.setdefault("updateStrategy", {"type": "RollingUpdate", "rollingUpdate": rolling})
    spec.setdefault("revisionHistoryLimit", 10)


def _job(obj: Object) -> None:
    _template(obj)
    spec = obj["spec"]
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)


def _cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("internalTrafficPolicy", "Cluster")
    for port in spec.get("ports") or []:
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _namespace(obj: Object) -> None:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"]["name"]
    obj.setdefault("spec", {})


def _node(obj: Object) -> None:
    obj.setdefault("spec", {})


def _secret(obj: Object) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        data = obj.setdefault("data", {})
        data.update({name: base64.b64encode(text.encode()).decode() for name, text in plain.items()})
    obj.setdefault("type", "Opaque")


def _definition(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.get("names")
    if isinstance(names, dict) and names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")


def _event(obj: Object) -> None:
    if obj.get("apiVersion") != "v1":
        return  # conversion to the stored version fills in the rest
    obj.setdefault("source", {})
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        obj.setdefault(name, None)
    obj.setdefault("reportingComponent", "")
    obj.setdefault("reportingInstance", "")


_FILL: Mapping[str, Callable[[Object], None]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
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
}
_PHASES = {"Namespace": "Active", "PersistentVolume": "Pending", "PersistentVolumeClaim": "Pending"}
_NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def fill_in(kind: str, obj: Object) -> None:
    """Fills in the defaults of a built-in kind, in place: they belong to whoever writes the object."""
    fill = _FILL.get(kind)
    if fill is not None:
        fill(obj)


def admit(kind: str, obj: Object, *, creating: bool, taint: bool = True) -> None:
    """What admission and the strategies add, in place; nobody owns it. `taint` False leaves nodes untainted."""
    if kind == "Pod":
        _admit_pod(obj)
    elif kind == "Namespace" and creating:
        obj["spec"].setdefault("finalizers", ["kubernetes"])
    elif kind == "Node" and creating and taint:  # plugin/pkg/admission/nodetaint
        taints = obj["spec"].setdefault("taints", [])
        if not any(one.get("key") == _NOT_READY["key"] for one in taints):
            taints.append(dict(_NOT_READY))


def first_status(kind: str, obj: Object, node: Node) -> Object:
    """The status of a new object of a built-in kind."""
    status: Object = zero(node) or {}
    if kind == "Pod":
        status.update(phase="Pending", qosClass=_quality(obj.get("spec") or {}))
    elif kind in _PHASES:
        status["phase"] = _PHASES[kind]
    elif kind == "CustomResourceDefinition":
        status["storedVersions"] = [one["name"] for one in obj["spec"].get("versions") or [] if one.get("storage")]
    return status
