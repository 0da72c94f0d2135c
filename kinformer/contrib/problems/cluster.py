"""The problems of nodes, volumes, namespaces and informers, and deletions that hang."""

from __future__ import annotations

from kinformer import KubeObject
from kinformer.contrib.problems.fields import moment, number, tables, text, value
from kinformer.contrib.problems.problem import Found
from kinformer.objects import condition_of

__all__ = ["does_not_follow", "hangs", "is_claimed", "is_lost", "is_node_down", "is_under_pressure", "waits_for_volume"]

# Conditions that are true while a node is in trouble: of the kubelet, and of the node problem detector.
_PRESSURES = (
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "NetworkUnavailable",
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "CorruptDockerOverlay2",
    "FrequentKubeletRestart",
    "FrequentContainerdRestart",
)
_NODE = "volume.kubernetes.io/selected-node"  # set by the scheduler when a pod waits for the volume
_PROVISIONERS = (
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
)


def is_node_down(node: KubeObject) -> Found | None:
    """Find a node that is not ready."""
    ready = condition_of(node, "Ready") or {}
    if ready.get("status") not in ("False", "Unknown"):
        return None
    return Found(
        reason=text(ready, "reason") or "NotReady",
        message=text(ready, "message") or "the node is not ready",
        since=moment(ready, "lastTransitionTime"),
    )


def is_under_pressure(node: KubeObject) -> Found | None:
    """Find a node that is short of something, or broken in part."""
    for kind in _PRESSURES:
        pressure = condition_of(node, kind) or {}
        if pressure.get("status") == "True":
            since = moment(pressure, "lastTransitionTime")
            return Found(reason=kind, message=text(pressure, "message") or kind, since=since, events=False)
    return None


def is_lost(volume: KubeObject) -> Found | None:
    """Find a volume that has failed, or a claim that has lost its volume."""
    phase = text(volume, "status", "phase")
    if phase not in ("Lost", "Failed"):
        return None
    message = text(volume, "status", "message") or f"the {'claim' if phase == 'Lost' else 'volume'} is {phase.lower()}"
    since = moment(volume, "status", "lastPhaseTransitionTime")
    return Found(reason=text(volume, "status", "reason") or phase, message=message, since=since)


def waits_for_volume(claim: KubeObject) -> Found | None:
    """Find a claim without a volume. One that waits for its first pod is left out by its storage class."""
    if text(claim, "status", "phase") != "Pending":
        return None
    name = text(claim, "spec", "storageClassName")
    what = f"no volume of class {name}" if name else "no volume, and no storage class"
    return Found(reason="Pending", message=what, since=moment(claim, "metadata", "creationTimestamp"))


def is_claimed(claim: KubeObject) -> bool:
    """Return True if a volume is being made for a claim, so that it does not wait for its first pod."""
    annotations = value(claim, "metadata", "annotations") or {}
    return any(text(annotations, name) for name in (_NODE, *_PROVISIONERS))


def hangs(obj: KubeObject) -> Found | None:
    """Find an object that should be gone."""
    since = moment(obj, "metadata", "deletionTimestamp")
    if since is None:
        return None
    finalizers = [str(one) for one in value(obj, "metadata", "finalizers") or ()]
    if obj.kind == "Namespace":
        reasons = [
            one for one in tables(obj, "status", "conditions") if one.get("status") == "True" and one.get("message")
        ]
        message = "; ".join(text(one, "message") for one in reasons) or "its contents are being deleted"
    elif finalizers:
        message = f"waits for {', '.join(finalizers)}"
    else:
        message = "it has not ended" if obj.kind == "Pod" else "it has not been deleted"
    return Found(reason="Terminating", message=message, since=since)


def does_not_follow(informer: KubeObject) -> Found | None:
    """Find an informer that does not follow its server."""
    return Found(
        reason=text(informer, "status", "state"),
        message=text(informer, "status", "error"),
        since=float(number(informer, "status", "since")) or None,
        events=False,
    )
