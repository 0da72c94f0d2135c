"""The problems of nodes and volumes, and deletions that hang."""

from __future__ import annotations

from kinformer.kinds.health.diagnosis import Diagnosis
from kinformer.objects.accessors import moment_at, string_at, strings_at, table_at, tables_at
from kinformer.objects.conditions import condition_of
from kinformer.objects.types import Object

__all__ = ["hangs", "is_lost", "is_node_down", "is_under_pressure", "waits_for_volume"]

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


def is_node_down(node: Object) -> Diagnosis | None:
    """Find a node that is not ready."""
    ready = condition_of(node, "Ready") or {}
    if ready.get("status") not in ("False", "Unknown"):
        return None
    return Diagnosis(
        reason=string_at(ready, "reason") or "NotReady",
        message=string_at(ready, "message") or "the node is not ready",
        since=moment_at(ready, "lastTransitionTime"),
    )


def is_under_pressure(node: Object) -> Diagnosis | None:
    """Find a node that is short of something, or broken in part."""
    for kind in _PRESSURES:
        pressure = condition_of(node, kind) or {}
        if pressure.get("status") == "True":
            since = moment_at(pressure, "lastTransitionTime")
            return Diagnosis(reason=kind, message=string_at(pressure, "message") or kind, since=since, events=False)
    return None


def is_lost(volume: Object) -> Diagnosis | None:
    """Find a volume that has failed, or a claim that has lost its volume."""
    phase = string_at(volume, "status", "phase")
    if phase not in ("Lost", "Failed"):
        return None
    message = (
        string_at(volume, "status", "message") or f"the {'claim' if phase == 'Lost' else 'volume'} is {phase.lower()}"
    )
    since = moment_at(volume, "status", "lastPhaseTransitionTime")
    return Diagnosis(reason=string_at(volume, "status", "reason") or phase, message=message, since=since)


def waits_for_volume(claim: Object) -> Diagnosis | None:
    """Find a claim without a volume. One that waits for its first pod is left out by its storage class."""
    if string_at(claim, "status", "phase") != "Pending":
        return None
    name = string_at(claim, "spec", "storageClassName")
    what = f"no volume of class {name}" if name else "no volume, and no storage class"
    return Diagnosis(
        reason="Pending",
        message=what,
        since=moment_at(claim, "metadata", "creationTimestamp"),
        needs_others=bool(name) and not _is_claimed(claim),  # its class may say that it waits for a pod
    )


def _is_claimed(claim: Object) -> bool:
    """Return True if a volume is being made for a claim, so that it does not wait for its first pod."""
    annotations = table_at(claim, "metadata", "annotations")
    return any(string_at(annotations, name) for name in (_NODE, *_PROVISIONERS))


def hangs(obj: Object) -> Diagnosis | None:
    """Find an object that should be gone."""
    since = moment_at(obj, "metadata", "deletionTimestamp")
    if since is None:
        return None
    finalizers, kind = strings_at(obj, "metadata", "finalizers"), string_at(obj, "kind")
    if kind == "Namespace":
        conditions = tables_at(obj, "status", "conditions")
        reasons = [reason for reason in conditions if reason.get("status") == "True" and reason.get("message")]
        message = "; ".join(string_at(reason, "message") for reason in reasons) or "its contents are being deleted"
    elif finalizers:
        message = f"waits for {', '.join(finalizers)}"
    else:
        message = "it has not ended" if kind == "Pod" else "it has not been deleted"
    return Diagnosis(reason="Terminating", message=message, since=since)
