"""The scheduler: puts each pod on the node that has the fewest, if there are nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kinformer.testing.controllers.cluster import Actor, APIClient, Object, condition_of, labels_of, set_condition
from kinformer.testing.kinds.resources import ResourceType

__all__ = ["Scheduler"]

PODS, NODES = "v1/pods", "v1/nodes"
_ACTOR = Actor("default-scheduler", "kube-scheduler")


class Scheduler:
    """Binds pods to nodes. It knows readiness, `unschedulable`, taints and `nodeSelector`, but no resources."""

    def __init__(self, cluster: APIClient) -> None:
        self._cluster = cluster

    def keys(self, resource: ResourceType, old: Object | None, new: Object | None) -> list[tuple[str, str]]:
        """Return the pods that a change concerns."""
        if resource.group or new is None:
            return []
        if resource.kind == "Pod":
            return [] if not _waits(new) else [(new["metadata"]["namespace"], new["metadata"]["name"])]
        if resource.kind == "Node":
            waiting = [pod for pod in self._cluster.all_of(PODS) if _waits(pod)]
            return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in waiting]
        return []

    def reconcile(self, namespace: str, name: str) -> None:
        """Bind a pod, or say why it cannot be bound."""
        pod, nodes = self._cluster.get(PODS, namespace, name), self._cluster.all_of(NODES)
        if pod is None or not nodes or not _waits(pod):
            return
        reasons = {node["metadata"]["name"]: _obstacle(pod, node) for node in nodes}
        fitting = [node for node, reason in reasons.items() if not reason]
        if fitting:
            pods = Counter(other["spec"].get("nodeName") for other in self._cluster.all_of(PODS))
            self._bind(pod, min(fitting, key=lambda node: (pods[node], node)))
            return
        counts = Counter(reasons.values())
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
        message = f"0/{len(nodes)} nodes are available: {why}."
        reported = condition_of(pod.get("status"), "PodScheduled")
        if reported is not None and reported.get("message") == message:
            return
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        self._report(pod, condition)
        self._cluster.event(_ACTOR, pod, "FailedScheduling", message, "Warning")

    def _bind(self, pod: Object, node: str) -> None:
        metadata = pod["metadata"]
        pod = self._cluster.bind(_ACTOR, pod, node)
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
        self._cluster.event(_ACTOR, pod, "Scheduled", message)

    def _report(self, pod: Object, condition: Object) -> None:
        def change(pod: Object) -> None:
            status = pod.setdefault("status", {})
            old = condition_of(status, "PodScheduled") or {}
            since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else None
            status["conditions"] = [other for other in status.get("conditions") or () if other is not old]
            times = {"lastProbeTime": None, "lastTransitionTime": since or self._cluster.timestamp()}
            set_condition(status, {**condition, **times})

        self._cluster.patch(_ACTOR, PODS, pod, change, subresource="status")


def _waits(pod: Object) -> bool:
    """Return True if a pod needs a node, and names no other scheduler."""
    spec, phase = pod["spec"], (pod.get("status") or {}).get("phase", "Pending")
    gated = bool(spec.get("schedulingGates")) or spec.get("schedulerName", "") not in ("", "default-scheduler")
    return not spec.get("nodeName") and not gated and phase == "Pending" and "deletionTimestamp" not in pod["metadata"]


def _obstacle(pod: Object, node: Object) -> str:
    """Return why a pod cannot run on a node, in the scheduler's words, or ""."""
    spec = node.get("spec") or {}
    ready = condition_of(node.get("status"), "Ready")
    tolerations = pod["spec"].get("tolerations") or ()
    if spec.get("unschedulable"):
        return "node(s) were unschedulable"
    if ready is not None and ready["status"] != "True":
        return "node(s) were not ready"
    for taint in spec.get("taints") or ():
        tolerated = any(_tolerates(toleration, taint) for toleration in tolerations)
        if taint.get("effect") != "PreferNoSchedule" and not tolerated:
            return f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value', '')}}}"
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels_of(node).items():
        return "node(s) didn't match Pod's node affinity/selector"
    return ""


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")
