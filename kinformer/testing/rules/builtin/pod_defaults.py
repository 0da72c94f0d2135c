"""Defaults of pods and pod templates (pkg/apis/core/v1/defaults.go)."""

from __future__ import annotations

from typing import Any

__all__ = ["admit_pod", "fill_pod", "fill_template", "qos_class"]

Object = dict[str, Any]

_TOLERATIONS = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_MODES = {"configMap", "secret", "downwardAPI", "projected"}


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    return "Always" if image and tag in ("", "latest") and "@" not in image else "IfNotPresent"


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


def _requests(container: Object) -> None:
    """Set the default requests of a pod's container. A template keeps its own requests (SetDefaults_Pod)."""
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
    for name in ("initContainers", "containers", "ephemeralContainers"):
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


def qos_class(spec: Object) -> str:
    """Return the QoS class of a pod."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    resources = [container.get("resources") or {} for container in containers]
    if not any(stated.get("requests") or stated.get("limits") for stated in resources):
        return "BestEffort"
    guaranteed = all(
        stated.get("limits")
        and (stated.get("requests") or stated["limits"]) == stated["limits"]
        and len(stated["limits"]) >= 2
        for stated in resources
    )
    return "Guaranteed" if guaranteed else "Burstable"


def fill_pod(obj: Object) -> None:
    """Set the defaults of a pod, in place."""
    spec = obj.setdefault("spec", {})
    _pod_spec(spec)
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        _requests(container)
    spec.setdefault("enableServiceLinks", True)


def admit_pod(obj: Object) -> None:
    """Apply the plugins DefaultTolerationSeconds and Priority."""
    spec = obj["spec"]
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
    tolerations = spec.setdefault("tolerations", [])
    for added in _TOLERATIONS:
        if not any(_tolerates(toleration, added) for toleration in tolerations):
            tolerations.append(dict(added))
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _tolerates(toleration: Object, added: Object) -> bool:
    effect, key = toleration.get("effect") or added["effect"], toleration.get("key") or added["key"]
    return bool(effect == added["effect"] and key == added["key"])


def fill_template(template: Any) -> None:
    """Set the defaults of a pod template, in place."""
    if isinstance(template, dict):
        _pod_spec(template.setdefault("spec", {}))
